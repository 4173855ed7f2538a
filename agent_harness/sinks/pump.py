"""Carries a trace to a stream that may be slow, stuck or gone, without slowing the session."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable
from typing import BinaryIO

import anyio
from anyio import to_thread

from agent_harness.trace import Delta, Record

Render = Callable[[Record | Delta], bytes]
PENDING_BYTES = 1 << 20  # what may wait for a slow stream; more stays in the trace, which is read from disk later


class Stream:
    """A binary stream such as `sys.stdout.buffer` that goes silent, instead of failing, when nobody reads it any more."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.gone = False

    def write(self, data: bytes) -> None:
        """Write and flush; blocks as long as the reader does."""
        if self.gone or not data:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError:
            self.gone = True
            self._discard_the_rest()

    def _discard_the_rest(self) -> None:
        # What is still buffered would fail again when the interpreter flushes it at exit, and would change the exit code.
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, self._stream.fileno())
        os.close(null)


async def pump(items: AsyncIterable[Record | Delta], render: Render, stream: Stream) -> None:
    """Render every item and write it, many at a time when they come fast; returns when `items` ends and all is written."""
    pending: list[bytes] = []
    news = anyio.Event()
    room = anyio.Event()
    done = False

    async def write() -> None:
        nonlocal news, room
        while pending or not done:
            if not pending:
                news = anyio.Event()
                await news.wait()
                continue
            data = b"".join(pending)
            pending.clear()
            room.set()
            await to_thread.run_sync(stream.write, data, abandon_on_cancel=True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        async for item in items:
            pending.append(render(item))
            news.set()
            if sum(map(len, pending)) > PENDING_BYTES:
                room = anyio.Event()
                await room.wait()
        done = True
        news.set()
