"""What a guard is: a pure function of a call and the world it would run in."""

from __future__ import annotations

from typing import Protocol

from agent_harness.messages import ToolCall
from agent_harness.verdict import Verdict
from agent_harness.world import World


class Guard(Protocol):
    """Judges a call before it runs. Cannot be turned off: no flag, variable, hook answer or argument reaches it."""

    name: str

    def judge(self, call: ToolCall, world: World) -> Verdict:
        """The verdict on a call whose arguments are a readable object.

        Must not raise; the dispatcher still treats an exception as DENY "could not analyse".
        """
        ...
