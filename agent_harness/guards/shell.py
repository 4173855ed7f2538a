"""The commands that a shell line would run, for policies that should not have to read shell text themselves."""

from __future__ import annotations

from dataclasses import dataclass

from agent_harness.world import World


@dataclass(frozen=True, slots=True)
class Redirect:
    """One redirection of a command.

    Attributes:
        operator: `<`, `>`, `>>`, `2>`, `<<` (a heredoc or here-string), ... a leading descriptor included.
        target: the file, or the text of a heredoc; None when it cannot be known before the command runs.
    """

    operator: str
    target: str | None


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command in command position, as far as it is known before anything runs.

    Attributes:
        argv: its words after expansion; None for a word that cannot be known. Globs stay as written.
        cwd: absolute folder that it would run in, None when unknown.
        redirects: in order.
        decidable: every word and the folder are known.
    """

    argv: tuple[str | None, ...]
    cwd: str | None
    redirects: tuple[Redirect, ...] = ()
    decidable: bool = True


def parse_commands(command: str, world: World) -> list[ParsedCommand]:
    """Every command that the line would run, in the order met: wrappers, nested shells and what both run included.

    A command that may run in several folders or with several values is listed once for each. What a line that cannot be read
    would run is one undecidable command whose only word is unknown, behind those that were met before. Never raises.
    """
    from agent_harness.guards.evaluate import Evaluator
    from agent_harness.guards.machine import Invocation, Unanalysed
    from agent_harness.guards.marks import plain_list, show, unknown

    found: dict[ParsedCommand, None] = {}

    def word(text: str) -> str | None:
        return None if unknown(text) else show(text)

    def note(machine: Evaluator, inv: Invocation) -> None:
        redirects: list[Redirect] = []
        for each in inv.redirects:
            document = machine.document(each.target)
            if document is None:
                redirects.append(Redirect(each.descriptor + each.operator, word(each.target)))
            else:
                redirects.append(Redirect(each.descriptor + "<<", None if unknown(document.text) else document.text))
        argv = tuple(word(each) for each in plain_list(inv.argv))
        known = None not in argv and inv.state.cwd is not None and all(each.target is not None for each in redirects)
        found[ParsedCommand(argv, inv.state.cwd, tuple(redirects), known)] = None

    try:
        evaluator = Evaluator(world, rules=(note,))
        evaluator.run_line(command)
    except (Unanalysed, RecursionError, Exception):  # noqa: BLE001 - a policy is told that the line could not be read
        found[ParsedCommand((None,), None, (), decidable=False)] = None
    else:
        if evaluator.undecidable:
            found.setdefault(ParsedCommand((None,), None, (), decidable=False), None)
    return list(found)
