"""Fires Notification hooks for what a person away from the screen would want to know; a reader of the trace like any other."""

from __future__ import annotations

import anyio

from agent_harness.events import JsonValue
from agent_harness.hooks import Hooks
from agent_harness.trace import Delta, Record, Trace


class Notifier:
    """Reads the trace and fires the hooks, in the background and in order; it never slows the loop."""

    def __init__(self, trace: Trace, hooks: Hooks) -> None:
        self._reader = trace.subscribe(after=trace.last_seq)
        self._trace = trace
        self._hooks = hooks
        self._done = 0
        self._moved = anyio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async for item in self._reader:
            if isinstance(item, Delta):
                continue
            notification = _notification(item)
            if notification is not None:
                await self._hooks.fire("Notification", notification)
            seq = item["seq"]
            assert isinstance(seq, int)
            self._done = seq
            self._moved.set()
            self._moved = anyio.Event()

    async def catch_up(self) -> None:
        """Wait until everything recorded so far has been looked at."""
        goal = self._trace.last_seq
        while self._done < goal:
            await self._moved.wait()


def _notification(record: Record) -> dict[str, JsonValue] | None:
    match record["type"], record.get("kind"), record.get("step"):
        case "question", _, _:
            kind, message = "question", record["text"]
        case "notice", "ceiling_near" | "needs_human" as kind, _:
            message = record["detail"]
        case "publish_step", _, "pull_request":
            kind, message = "pull_request", record["detail"]
        case _:
            return None
    return {"notification_type": kind, "message": message, "title": "agent-harness"}
