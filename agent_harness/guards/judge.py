"""The guards that the dispatcher asks: each evaluates a call with its own rule and turns what it finds into a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_harness.guards.machine import Blocked, Finding, Invocation, Machine, Unanalysed
from agent_harness.guards.marks import show
from agent_harness.messages import ToolCall
from agent_harness.verdict import ALLOW, Decision, Verdict
from agent_harness.world import World

if TYPE_CHECKING:
    from agent_harness.guards.evaluate import Evaluator

Check = Callable[[Machine, Invocation], None]


class ShellGuard:
    """Judges the shell tool's command lines and the git tool's arguments by one rule; every other tool passes.

    Args:
        kind: `rm` or `push`.
        check: the rule, asked about every command that the call would run.
    """

    def __init__(self, kind: str, check: Check) -> None:
        self.name = f"guard:{kind}"
        self._kind = kind
        self._check = check

    def judge(self, call: ToolCall, world: World) -> Verdict:
        """The verdict on a call; never raises. What cannot be analysed is refused."""
        arguments = call.arguments
        if call.name not in ("run_shell", "git") or isinstance(arguments, str):
            return ALLOW
        command = arguments.get("command")
        if command is None:
            return ALLOW
        try:
            if not isinstance(command, str):
                raise Unanalysed("its command is no text", "send the command as a string")
            evaluator = self._evaluator(world)
            if call.name == "run_shell":
                evaluator.run_line(command)
            else:
                evaluator.run_argv(["git", command, *_words(arguments.get("args"))])
        except Blocked as blocked:
            return self._deny(blocked.finding)
        except Unanalysed as problem:
            return self._deny(Finding("unanalysed", f"could not analyse this command: {problem.reason}", problem.instead))
        except (RecursionError, Exception) as error:  # noqa: BLE001 - a guard that breaks must refuse, not crash
            reason = f"could not analyse this command ({type(error).__name__})"
            return self._deny(Finding("unanalysed", reason, "split it into several plain commands"))
        return ALLOW

    def _evaluator(self, world: World) -> Evaluator:
        from agent_harness.guards.evaluate import Evaluator

        return Evaluator(world, self._kind, (self._check,))

    def _deny(self, finding: Finding) -> Verdict:
        rule = finding.rule if "." in finding.rule else f"{self._kind}.{finding.rule}"
        words = tuple(_shown(word) for word in finding.words[:20])
        reason, advice = _shown(finding.reason, 600), _shown(finding.instead, 600)
        return Verdict(Decision.DENY, self.name, reason, advice, rule, words, _shown(finding.target))


def _shown(text: str, most: int = 200) -> str:
    text = show(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _words(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):  # pyright: ignore[reportUnknownVariableType]
        raise Unanalysed("its arguments are no list of texts", "send `args` as a list of strings")
    return [word for word in value if isinstance(word, str)]  # pyright: ignore[reportUnknownVariableType]
