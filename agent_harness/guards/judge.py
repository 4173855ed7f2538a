"""The guards that the dispatcher asks."""

from __future__ import annotations

from agent_harness.messages import ToolCall
from agent_harness.verdict import ALLOW, Decision, Verdict
from agent_harness.world import World


class ShellGuard:
    """Judges the shell and git tools; every other tool passes."""

    def __init__(self, name: str) -> None:
        self.name = f"guard:{name}"

    def judge(self, call: ToolCall, world: World) -> Verdict:
        """The verdict on a call; never raises."""
        _ = world
        if call.name not in ("run_shell", "git"):
            return ALLOW
        return Verdict(Decision.DENY, self.name, "could not analyse", rule="unanalysed")
