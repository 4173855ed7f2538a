"""Runs tools as the dispatcher does: arguments checked, a context of their own for each call."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from anyio.abc import TaskGroup

from agent_harness.errors import ToolFailed
from agent_harness.events import Event, JsonValue
from agent_harness.jobs import JobTable
from agent_harness.surfaces.base import Surface
from agent_harness.tools.base import Output, ToolContext
from agent_harness.tools.registry import TOOLS, read_call

BY_NAME = {tool.name: tool for tool in TOOLS}


class NoJobs:
    """For tests that start none."""

    def start(self, job: str, body: Callable[[], Awaitable[None]]) -> None:
        raise AssertionError(job)

    async def stop(self, job: str) -> bool:
        return False

    def running(self) -> tuple[str, ...]:
        return ()


class Bench:
    """One session's tools over a surface. `checked` holds what the guards were asked; `refuse` makes them say no."""

    def __init__(self, surface: Surface, outputs: Path, tasks: TaskGroup | None = None, deny: tuple[str, ...] = ()) -> None:
        outputs.mkdir(exist_ok=True)
        self.events: list[Event] = []
        self.checked: list[tuple[str, Mapping[str, object]]] = []
        self.refuse = ""
        self.pushes = 0
        self.calls = 0
        self.jobs = NoJobs() if tasks is None else JobTable(tasks)
        self.context = ToolContext(
            surface=surface,
            outputs=outputs,
            emit=self.events.append,
            check=self._check,
            jobs=self.jobs,
            branch="agent/test",
            deny=deny,
            push=self._push,
        )

    async def _push(self) -> str:
        self.pushes += 1
        return "Pushed."

    def _check(self, name: str, arguments: Mapping[str, object]) -> None:
        self.checked.append((name, arguments))
        if self.refuse:
            raise ToolFailed(self.refuse)

    async def run(self, name: str, **arguments: JsonValue) -> Output:
        tool = BY_NAME[name]
        self.calls += 1
        call = dataclasses.replace(self.context, call_id=f"call-{self.calls}")
        return await tool.body(read_call(tool, arguments), call)

    async def text(self, name: str, **arguments: JsonValue) -> str:
        return (await self.run(name, **arguments)).text

    async def refused(self, name: str, **arguments: JsonValue) -> str:
        with pytest.raises(ToolFailed) as caught:
            await self.run(name, **arguments)
        return str(caught.value)
