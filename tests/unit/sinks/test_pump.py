"""A reader that is slow, stuck or gone changes nothing for the session."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from agent_harness.events import AssistantText, Event, Notice
from agent_harness.redact import Redactor
from agent_harness.sinks import jsonl
from agent_harness.sinks.pump import Stream, pump
from agent_harness.trace import Trace

pytestmark = pytest.mark.anyio


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(tmp_path / "trace.jsonl", "s1", Redactor())


def events(count: int) -> list[Event]:
    return [Notice("n", f"event {number} \udcff é") for number in range(count)]


async def run_pump(trace: Trace, stream: Stream, emitted: list[Event]) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump, trace.subscribe(), jsonl.render, stream)
            await anyio.lowlevel.checkpoint()
            for event in emitted:
                trace.emit(event)
                trace.delta("never a line of its own")
            trace.close()


async def test_json_lines_are_the_lines_of_the_trace_and_their_chain_holds(trace: Trace, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        await run_pump(trace, Stream(out), [*events(300), AssistantText(1, "bye")])
    written = (tmp_path / "out").read_bytes()
    assert written == trace.path.read_bytes()
    prev = None
    for line in written.splitlines():
        assert json.loads(line)["prev"] == prev
        prev = hashlib.sha256(line).hexdigest()


async def test_a_closed_pipe_is_noticed_once_and_everything_is_still_recorded(trace: Trace) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as out:
        stream = Stream(out)
        await run_pump(trace, stream, events(100))
        assert stream.gone
    assert trace.last_seq == 100


async def test_a_stuck_reader_stops_the_showing_and_not_the_session(trace: Trace) -> None:
    reader, writer = os.pipe()
    got: list[bytes] = []

    def drain() -> None:
        with os.fdopen(reader, "rb") as pipe:
            got.append(pipe.read())

    with os.fdopen(writer, "wb") as out, anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def show() -> None:
                await pump(trace.subscribe(), jsonl.render, Stream(out))
                out.close()

            tasks.start_soon(show)
            for event in [Notice("big", "x" * 9_000)] * 400:  # 3.6 MB: more than a pipe and the pump's buffer hold
                trace.emit(event)
                await anyio.lowlevel.checkpoint()
            assert trace.last_seq == 400
            tasks.start_soon(to_thread.run_sync, drain)
            trace.close()
    assert got[0] == trace.path.read_bytes()
