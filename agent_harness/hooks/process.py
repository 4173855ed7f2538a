"""Runs one hook: JSON on stdin, its answer on stdout, an end in time, nothing left behind."""

from __future__ import annotations

import codecs
import os
import secrets
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process

from agent_harness.hooks.descendants import MARK, end_descendants, newer_than
from agent_harness.hooks.programs import SHELL
from agent_harness.processes import patiently, start_whole

MAX_OUTPUT_BYTES = 1 << 20
GRACE_S = 2.0  # between TERM and KILL
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what some shells write by default: a refusal in it is one
DRAIN_S = 0.2  # for output that is in the pipe when the hook has ended; a child that keeps the pipe open is not waited for


@dataclass(frozen=True, slots=True)
class Finished:
    """How a hook ended.

    Attributes:
        exit_code: negative for a signal; None when it could not be started or was ended by us.
        problem: why it is broken, when it could not start, took too long or printed too much.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    problem: str = ""


async def run_hook(command: str, payload: bytes, cwd: Path, env: Mapping[str, str], timeout_s: float) -> Finished:
    """Run a command line by `sh -c` until it exits; whatever it started is ended with it."""
    mark = secrets.token_hex(8)
    process: Process | None = None
    try:
        with anyio.CancelScope(shield=True):  # cancelled half-way, the process would run on with nobody to end its group
            process = await start_whole(
                lambda: anyio.open_process(
                    [SHELL, "-c", command],
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=PIPE,
                    cwd=cwd,
                    env={**env, MARK: mark},
                    start_new_session=True,
                )
            )
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command line
        return Finished(None, "", "", f"it cannot be started: {error}")
    assert process is not None
    out, err = _Bounded(), _Bounded()
    problem = ""
    try:
        with anyio.move_on_after(timeout_s) as clock:
            await _talk(process, payload, out, err)
        if clock.cancelled_caught:
            problem = f"it did not answer within {timeout_s:g} s and was ended"
        elif out.full or err.full:
            problem = f"it printed more than {MAX_OUTPUT_BYTES:,} bytes and was ended"
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, mark, gently=bool(problem))
    code = None if problem else process.returncode
    return Finished(code, out.text(), err.text(), problem)


async def _talk(process: Process, payload: bytes, out: _Bounded, err: _Bounded) -> None:
    """Give it the payload, read both streams, and return when it has exited or printed too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_give, process, payload)
        for stream, kept in ((process.stdout, out), (process.stderr, err)):
            tasks.start_soon(_read, stream, kept, tasks.cancel_scope)
        await process.wait()
        with anyio.move_on_after(DRAIN_S):
            await out.ended.wait()
            await err.ended.wait()
        tasks.cancel_scope.cancel()


async def _give(process: Process, payload: bytes) -> None:
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):  # a hook need not read what it is told
        await process.stdin.send(payload)
    await process.stdin.aclose()


async def _read(stream: ByteReceiveStream, kept: _Bounded, everything: anyio.CancelScope) -> None:
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            kept.add(await stream.receive())
            if kept.full:
                everything.cancel()
                return
    kept.ended.set()


async def _end(process: Process, mark: str, *, gently: bool) -> None:
    """End the group: TERM and a little time when the hook itself still runs, KILL for what it left behind anywhere."""
    if gently and process.returncode is None:
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(GRACE_S):
            await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()
    if newer_than(process.pid):
        await patiently(lambda: anyio.to_thread.run_sync(end_descendants, process.pid, mark))
    await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Bounded:
    """Bytes of a stream up to a limit."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.full = False
        self.ended = anyio.Event()

    def add(self, data: bytes) -> None:
        """Keep what fits."""
        self._data += data[: MAX_OUTPUT_BYTES - len(self._data)]
        self.full = self.full or len(self._data) >= MAX_OUTPUT_BYTES

    def text(self) -> str:
        """As UTF-8, or UTF-16 when it says so by its first bytes; what is none is replaced."""
        return self._data.decode("utf-16" if self._data.startswith(UTF_16) else "utf-8", "replace")
