"""The command line: arguments in, exit code out. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn, cast

from agent_harness import __version__, examples
from agent_harness.errors import ConfigError, HarnessError

# Options and commands of the next versions: said to be missing, rather than accepted and ignored.
OPTIONS_TO_COME = (
    *("--verify", "--setup", "--allow-host", "--allow-read", "--hooks"),
    "--tui",
)
COMMANDS_TO_COME = ("ask", "resume", "guards", "hooks", "mcp")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of after a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Raise the message as a `ConfigError`."""
        raise ConfigError(f"{message}; see `{self.prog} --help`")

    def actions(self) -> Sequence[argparse.Action]:
        """Its options and positional arguments, for completion."""
        return tuple(self._actions)

    def commands(self) -> Mapping[str, Parser]:
        """Its commands by their names."""
        for action in self._actions:
            if isinstance(action.choices, Mapping):
                return cast("Mapping[str, Parser]", action.choices)
        return {}


class NotYet(argparse.Action):
    """An option of a later version."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        """Refuse it."""
        raise ConfigError(f"{option} is not available yet; leave it out")


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Everything that a person can act on is one line on stderr."""
    try:
        return _run(arguments)
    except HarnessError as error:
        complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        return 0  # whoever read the output has seen enough
    except KeyboardInterrupt:  # a running session takes signals itself
        from agent_harness.events import EXIT_CODES

        complain("cancelled")
        return EXIT_CODES["cancelled"]


def complain(message: str) -> None:
    """One line on stderr, no control characters in it."""
    from agent_harness.sinks.plain_text import one_line

    sys.stderr.write(f"agent-harness: {one_line(message)}\n")


def _run(arguments: Sequence[str]) -> int:
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command in COMMANDS_TO_COME and arguments[0] == command:
        raise ConfigError(f"{command!r} is not available yet; see `agent-harness --help` for those that are")
    if len(arguments) > 2 and arguments[0] == "completion" and arguments[2] == "--":
        return _complete(arguments[1], arguments[3:])
    parser = command_line()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise ConfigError(_not_understood(unknown, options.command, parser))
    if options.command is None:
        raise ConfigError(
            "no command is given, and the terminal UI is not available yet; try `agent-harness demo` or `agent-harness --help`"
        )
    if options.command == "demo":
        from agent_harness.demo.command import run_demo

        return run_demo(options.seed)
    if options.command == "completion":
        from agent_harness.completion import script

        sys.stdout.write(script(options.shell))
        return 0
    if options.command in ("sessions", "show", "doctor"):
        return _look(options)
    if options.command == "publish":
        return _publish(options)
    if options.command == "restore":
        from agent_harness.restore import restore_session
        from agent_harness.settings_load import state_home

        return restore_session(state_home(os.environ), options.session, undo=options.undo)
    if options.command == "inspect":
        import anyio

        from agent_harness.inspection.look import run_inspect

        return anyio.run(partial(run_inspect, options.repo, Path.cwd(), os.environ, as_json=options.json))
    from agent_harness.settings_load import Flags, load

    given = {key: value for key, value in vars(options).items() if value is not None}
    for key in ("command", "repo", "text", "base", "hooks_fail_open", "confine", "json", "plain"):
        given.pop(key, None)
    flags = Flags(options.repo, options.text, options.base, options.hooks_fail_open, options.confine, given)
    settings = load(flags, os.environ, Path.cwd())
    from agent_harness.headless import Output, run_session  # after the cheap checks: it imports all that a session needs

    return run_session(settings, Output.JSON if options.json else Output.PLAIN)


def _not_understood(words: Sequence[str], command: str | None, parser: Parser) -> str:
    """What to do about words that the parser has no place for, by the first of them."""
    import difflib

    first, page = words[0].partition("=")[0], "agent-harness" if command is None else f"agent-harness {command}"
    if not first.startswith("-"):
        advice = 'put the whole task into quotes: agent-harness run REPO "what to do"' if command == "run" else "leave it out"
        return f"{first!r} is one word too many for `{page}`; {advice}"
    mine = parser if command is None else parser.commands()[command]
    near = difflib.get_close_matches(first, [name for each in mine.actions() if each.help for name in each.option_strings], 1)
    hint = f"did you mean {near[0]!r}?" if near and near[0] not in OPTIONS_TO_COME else f"see `{page} --help`"
    return f"{first!r} is no option of `{page}`; {hint}"


def _complete(shell: str, words: Sequence[str]) -> int:
    """What a shell's script asks at each press of Tab."""
    from agent_harness.completion import candidates
    from agent_harness.places import state_home

    for line in candidates(command_line(), words, shell, state_home(os.environ)):
        sys.stdout.write(f"{line}\n")
    return 0


def _look(options: argparse.Namespace) -> int:
    """Commands that only look."""
    from agent_harness.settings_load import state_home

    home = state_home(os.environ)
    if options.command == "doctor":
        from agent_harness.doctor import run_doctor

        return run_doctor(os.environ, home, as_json=options.json)
    from agent_harness.history import list_sessions, show_session

    if options.command == "sessions":
        return list_sessions(home, as_json=options.json)
    return show_session(home, options.session, as_json=options.json)


def _publish(options: argparse.Namespace) -> int:
    import anyio

    from agent_harness.headless import watch_progress
    from agent_harness.republish import publish_session
    from agent_harness.settings_load import state_home
    from agent_harness.settings_values import Values, labels, reviewers
    from agent_harness.task import Permits, Wishes
    from agent_harness.tasks import task_group

    given = {key: getattr(options, key) for key in ("label", "reviewer") if getattr(options, key) is not None}
    values = Values(given, {}, Path(), {})
    more = Wishes(options.draft, values.get("label", labels, ()), values.get("reviewer", reviewers, ()))
    permits = Permits(
        tuple(options.scope or ()),
        bool(options.allow_workflows),
        bool(options.allow_submodules),
        tuple(options.allow_secrets or ()),
    )

    async def publish() -> int:
        async with task_group() as tasks:
            watch_progress(tasks)
            ended = await publish_session(state_home(os.environ), options.session, os.environ, more, permits)
            tasks.cancel_scope.cancel()
        if ended.pull_request is None:
            sys.stdout.write("nothing differs from the base, so there is nothing to propose\n")
        else:
            sys.stdout.write(f"branch       {ended.pull_request['branch']}\npull request {ended.pull_request['url']}\n")
        sys.stdout.write(f"trace        {ended.trace_path}\n")
        return ended.exit_code

    return anyio.run(publish)


def command_line() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="agent-harness",
        description="Delegate a task on a git repository to a coding agent, and get a pull request back.",
        epilog=examples.ALL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", "-V", action="version", version=f"agent-harness {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _run_options(
        commands.add_parser(
            "run",
            help="one session: a task in, a pull request out",
            description="One session: in your own checkout (a path), or on a clone in a sandbox that ends in a pull request.",
            allow_abbrev=False,
        )
    )
    demo = commands.add_parser(
        "demo",
        help="see the whole job on a small repository made for it: no key, no account, no network",
        description="Runs a session on a small repository made for it, with a scripted model: no LLM is involved.",
        allow_abbrev=False,
    )
    demo.add_argument("--seed", type=int, default=1, help="another number makes another repository with another bug (default 1)")
    sessions = commands.add_parser(
        "sessions",
        help="list the sessions on this machine, newest first",
        description="Lists the sessions on this machine, newest first: id, state, cost, repository, task.",
        allow_abbrev=False,
    )
    show = commands.add_parser(
        "show",
        help="read one session's trace as text",
        description="Prints one session's trace as text, after checking that nobody changed it.",
        allow_abbrev=False,
    )
    show.add_argument("session", metavar="SESSION", help="its id, the start of it, or 'last'")
    publish = commands.add_parser(
        "publish",
        help="push what a session kept and open its pull request; does nothing twice",
        description="Pushes agent/<id> and opens the pull request of a session that kept its work, or finds both.",
        allow_abbrev=False,
    )
    publish.add_argument("session", metavar="SESSION", help="its id, the start of it, or 'last'")
    publish.add_argument("--draft", action="store_true", default=False, help="open the pull request as a draft")
    _add_permits(publish)
    _add_garnish(publish)
    restore = commands.add_parser(
        "restore",
        help="give your checkout back as a session found it; can be undone",
        description="Gives every byte and mode back that a session in your own checkout changed, and removes what it added.",
        allow_abbrev=False,
    )
    restore.add_argument("session", metavar="SESSION", help="its id, the start of it, or 'last'")
    restore.add_argument("--undo", action="store_true", default=False, help="put back what the last restore found")
    look = commands.add_parser(
        "inspect",
        help="what a repository would have run on a machine where somebody works in it; runs none of it",
        description="Lists hooks, configuration, drivers, editor tasks and install scripts, and what sets them off.",
        allow_abbrev=False,
    )
    look.add_argument("repo", metavar="REPO", help="a path or a git URL (of a URL: the files of its default branch)")
    doctor = commands.add_parser(
        "doctor",
        help="what is installed, configured and reachable, and what to do about what is not",
        description="Says what is installed, configured and reachable, and what to do about what is not.",
        allow_abbrev=False,
    )
    completion = commands.add_parser(
        "completion",
        help="print what makes a shell complete commands, options and session ids",
        description="Prints a script for your shell, which asks agent-harness itself at each press of Tab.",
        allow_abbrev=False,
    )
    completion.add_argument("shell", metavar="bash|zsh|fish", choices=("bash", "zsh", "fish"), help="whose script")
    for command in (sessions, show, doctor, look):
        command.add_argument("--json", action="store_true", default=False, help="for machines: JSON on stdout")
    for name, each in commands.choices.items():
        each.epilog, each.formatter_class = examples.OF[name], argparse.RawDescriptionHelpFormatter
    return parser


def _run_options(run: Parser) -> None:
    run.add_argument("repo", metavar="REPO", help="a path, a git URL, or an issue on GitHub as owner/name#N")
    run.add_argument("text", metavar="TASK", nargs="?", default="", help="what to do, in your words (optional with an issue)")
    run.add_argument("--model", help="model name; else AGENT_MODEL, OPENAI_MODEL")
    run.add_argument(
        "--surface",
        metavar="auto|host|local",
        help="where to work; host: in your own checkout, in place; local: a clone in a bubblewrap sandbox on this machine "
        "(default: host for a path, local for a URL)",
    )
    run.add_argument(
        "--no-confine", dest="confine", action="store_false", default=True, help="host: run commands with your own rights"
    )
    run.add_argument(
        "--base", metavar="BRANCH", help="branch to start from and to propose to (default: the repository's default branch)"
    )
    proposal = run.add_mutually_exclusive_group()
    proposal.add_argument(
        "--pr", action="store_const", const=True, help="push the branch and open a pull request (default: not on host)"
    )
    proposal.add_argument("--no-pr", dest="pr", action="store_const", const=False, help="open none")
    run.add_argument("--draft", action="store_const", const=True, help="open the pull request as a draft")
    _add_garnish(run)
    run.add_argument(
        "--co-author", metavar="'NAME <MAIL>'", action="append", help="named in a trailer of the session's commits; repeatable"
    )
    run.add_argument("--deny", metavar="GLOB", action="append", help="files that no tool may read or write; repeatable")
    run.add_argument(
        "--instructions",
        metavar="FILE",
        help="what you want of every task, added to it in your name (UTF-8 text of at most 32 KiB)",
    )
    _add_permits(run)
    run.add_argument("--hooks-fail-open", action="store_true", default=False, help="a broken hook lets the call go on")
    _add_ceilings(run)
    output = run.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", default=False, help="one event a line on stdout, and nothing else there")
    output.add_argument("--plain", action="store_true", default=False, help="text for people (the default)")
    for name in OPTIONS_TO_COME:
        run.add_argument(name, action=NotYet, nargs="?", help=argparse.SUPPRESS)


def _add_garnish(parser: Parser) -> None:
    parser.add_argument("--label", metavar="NAME", action="append", help="label of the pull request; repeatable")
    parser.add_argument(
        "--reviewer", metavar="LOGIN", action="append", help="who is asked to review it; OWNER/TEAM for a team; repeatable"
    )


def _add_permits(command: Parser) -> None:
    command.add_argument(
        "--scope", metavar="GLOB", action="append", help="the only files that may be changed (default: all); repeatable"
    )
    command.add_argument(
        "--allow-workflows",
        action="store_const",
        const=True,
        help="let files be changed that the forge runs as soon as they are pushed (.github/workflows/ and the like)",
    )
    command.add_argument("--allow-submodules", action="store_const", const=True, help="let submodules be changed")
    command.add_argument(
        "--allow-secrets",
        metavar="GLOB",
        action="append",
        help="files in which what looks like a credential is only reported, such as test data; repeatable",
    )


def _add_ceilings(run: Parser) -> None:
    limits = run.add_argument_group("ceilings (the session never goes over one)")
    limits.add_argument("--max-turns", metavar="N", help="replies of the model (default 50)")
    limits.add_argument("--max-tokens", metavar="N", help="input and output tokens over all requests (default 200000)")
    limits.add_argument("--max-cost", metavar="USD", help="US dollars over all requests, or 'none' (default 5.00)")
    limits.add_argument("--max-completion-tokens", metavar="N", help="output tokens of one reply (default 4000)")
    limits.add_argument("--max-seconds", metavar="S", help="wall time of the session (default: none)")
    limits.add_argument(
        "--compact-at",
        metavar="N",
        help="tokens after which the history would be compacted; for now the session stops there (default 150000)",
    )
    limits.add_argument("--price-in", metavar="USD", help="price of a million input tokens, when the model's is unknown")
    limits.add_argument("--price-out", metavar="USD", help="price of a million output tokens")
