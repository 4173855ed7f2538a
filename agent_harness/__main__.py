"""The console script. `--version` is answered before anything else is imported."""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from agent_harness import __version__

        sys.stdout.write(f"agent-harness {__version__}\n")
        return 0
    from agent_harness.cli import run_command_line

    return run_command_line(arguments)


if __name__ == "__main__":
    # `python -m` puts the current directory first on the path, and that may be the repository that is worked on:
    # a file `openai.py` in it must never be imported.
    del sys.path[0]
    sys.exit(main())
