"""The commands that a shell line would run, for policies that should not have to read shell text themselves."""

from __future__ import annotations

from dataclasses import dataclass

from agent_harness.world import World


@dataclass(frozen=True, slots=True)
class Redirect:
    """One redirection of a command.

    Attributes:
        operator: `<`, `>`, `>>`, `<<<`, `2>`, ... as written, a leading descriptor included.
        target: the file or text, None when it cannot be known before the command runs.
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
    """Every command that the line would run, wrappers and nested shells included, in the order met.

    A line that cannot be read gives one undecidable command whose only word is unknown.
    """
    _ = command
    return [ParsedCommand((None,), world.cwd, decidable=False)]
