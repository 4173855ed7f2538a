"""The console script. `--version` is answered before anything else is imported."""

import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    arguments = sys.argv[1:]
    open_standard_streams()
    if arguments in (["--version"], ["-V"]):
        from agent_harness import __version__

        sys.stdout.write(f"agent-harness {__version__}\n")
        sys.exit(0)
    try:
        from agent_harness.cli import run_command_line

        code = run_command_line(arguments)
    except KeyboardInterrupt:  # before anything that could be cancelled had begun
        code = 130
    leave(code)


def open_standard_streams() -> None:
    """Where a standard stream was closed by whoever started us, nothing takes its place: the trace must never become stdout."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor, for the process's life
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above


def leave(code: int) -> None:
    """End the process at once.

    Everything of ours is closed by now, and the trace is on disk; taking the interpreter and the SDK's 800 modules apart would
    keep the person's prompt for another 0.2 s.
    """
    from contextlib import suppress

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # perhaps nobody reads it any more; the exit code is what counts now
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    # `python -m` puts the current directory first on the path, and that may be the repository that is worked on:
    # a file `openai.py` in it must never be imported.
    if not sys.flags.safe_path:
        del sys.path[0]
    main()
