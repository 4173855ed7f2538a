"""The host's side of the exec server: one request a command, output through a pipe, an untrusted answer.

Everything that comes from inside is checked: answers are size-capped JSON with a known id and an integer code; output is bytes.
A command ends when its process ended, not when its output did: what it left running is ended by the server first.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import anyio

from agent_harness.errors import SurfaceLost, ToolFailed
from agent_harness.surfaces.base import ExecResult, OnOutput

MAX_ANSWER = 4_096
MAX_REQUEST = 150_000  # bytes: one message must fit the socket's buffer, and Linux takes no argument over 128 KiB
SEND_BUFFER = 1 << 20
RETRY_S = 0.05
READ_BYTES = 1 << 16
GRACE_S = 2.0  # between TERM and KILL, so that test runners can clean up


@dataclass
class _Job:
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    code: int | None = None
    strays: int = 0
    stopped: bool = False
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    number: int
    code: int
    strays: int


READY = _Answer(0, 0, 0)


def _request(number: int, argv: Sequence[str], cwd: str) -> bytes:
    words = ("run", str(number), cwd, *argv)
    if any("\0" in word for word in words):
        raise ToolFailed("the command contains a NUL character, which no command can.")
    message = "\0".join(words).encode("utf-8", "surrogateescape")
    if len(message) > MAX_REQUEST:
        raise ToolFailed(
            f"the command has {len(message):,} bytes, and at most {MAX_REQUEST:,} can be run at once; "
            "write its data to a file first, then run a short command on it."
        )
    return message


def _read_answer(message: bytes) -> _Answer | None:
    """None for anything but what our server says."""
    try:
        said: object = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    fields = cast("dict[str, object]", said)
    if fields == {"ready": True}:
        return READY
    number, code, strays = fields.get("id"), fields.get("rc"), fields.get("strays")
    if type(number) is not int or type(code) is not int or type(strays) is not int:
        return None
    return _Answer(number, code, strays) if 0 <= code <= 255 and 0 <= strays <= 1 << 22 else None


class ExecClient:
    """Runs commands in one sandbox.

    Args:
        host: our end of the SOCK_SEQPACKET pair.
    """

    def __init__(self, host: socket.socket) -> None:
        host.setblocking(False)
        host.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._host = host
        self._jobs: dict[int, _Job] = {}
        self._last = 0
        self._ready = asyncio.Event()
        self.lost = False
        asyncio.get_running_loop().add_reader(host.fileno(), self._answered)

    async def ready(self) -> None:
        """Wait until the server is there."""
        await self._ready.wait()
        self._check()

    def _check(self) -> None:
        if self.lost:
            raise SurfaceLost("the sandbox has ended; start the session again")

    async def run(
        self, argv: Sequence[str], cwd: str, timeout_s: float | None, on_output: OnOutput | None, stdin: bytes
    ) -> ExecResult:
        """Run a command to its end, as `Surface.exec` says.

        Raises:
            ToolFailed: the command is too long, or holds a NUL character.
        """
        self._check()
        self._last += 1
        number, job = self._last, _Job()
        message = _request(number, argv, cwd)
        self._jobs[number] = job
        try:
            reader = await self._start(number, message, stdin, job, on_output)
        except BaseException:
            del self._jobs[number]
            raise
        timed_out = False
        try:
            with anyio.move_on_after(timeout_s) as clock:
                await job.ended.wait()
            timed_out = clock.cancelled_caught
        finally:
            with anyio.CancelScope(shield=True):
                if not job.ended.is_set():
                    await self._end(number, job)
                reader.finish()
                self._jobs.pop(number, None)
        if job.failure is not None:
            raise job.failure
        if self.lost and job.code is None:
            self._check()
        ours = timed_out or job.stopped
        return ExecResult(
            None if ours else job.code, timed_out=timed_out, stopped=job.stopped and not timed_out, strays=job.strays
        )

    async def _start(self, number: int, message: bytes, stdin: bytes, job: _Job, on_output: OnOutput | None) -> _Reader:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(write_end, True)
        source = _Feeder(stdin)
        try:
            await self._send(message, [source.read_end, write_end])
        except BaseException:
            os.close(read_end)
            source.close()
            raise
        finally:
            os.close(write_end)
            os.close(source.read_end)
        source.start()

        def stop() -> None:
            job.stopped = True
            self._signal(number, signal.SIGKILL)

        def take(data: bytes) -> None:
            # Called from the event loop itself, where an error would be logged and forgotten: it belongs to our caller.
            try:
                if on_output is not None and not job.stopped and on_output(data):
                    stop()
            except Exception as error:  # noqa: BLE001 - raised again by `run`
                job.failure = job.failure or error
                stop()

        return _Reader(read_end, take, source)

    async def _send(self, message: bytes, fds: Sequence[int]) -> None:
        while True:
            self._check()
            try:
                socket.send_fds(self._host, [message], fds)
                return
            except BlockingIOError:
                await anyio.wait_writable(self._host)
            except OSError as error:
                self._lose()
                raise SurfaceLost("the sandbox has ended; start the session again") from error

    async def _end(self, number: int, job: _Job) -> None:
        for name in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number, name)
            with anyio.move_on_after(GRACE_S):
                await job.ended.wait()
                return
        self._lose()  # a sandbox that does not answer a KILL any more is no sandbox

    def _signal(self, number: int, name: signal.Signals) -> None:
        if self.lost or number not in self._jobs:
            return
        try:
            self._host.send(b"signal\0%d\0%d" % (number, name))
        except BlockingIOError:
            asyncio.get_running_loop().call_later(RETRY_S, self._signal, number, name)
        except OSError:
            self._lose()

    def _answered(self) -> None:
        try:
            message = self._host.recv(MAX_ANSWER)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._lose()
            return
        answer = _read_answer(message)
        if answer is None:
            self._lose()  # what speaks there is not our server any more
        elif answer == READY:
            self._ready.set()
        elif (job := self._jobs.get(answer.number)) is not None and not job.ended.is_set():
            job.code, job.strays = answer.code, answer.strays
            job.ended.set()

    def _lose(self) -> None:
        if self.lost:
            return
        self.lost = True
        with suppress(ValueError, OSError):
            asyncio.get_running_loop().remove_reader(self._host.fileno())
        self._ready.set()
        for job in self._jobs.values():
            job.ended.set()

    def close(self) -> None:
        """Close our end: the server ends, and with it everything in the sandbox."""
        self._lose()
        self._host.close()


class _Reader:
    """Hands a command's output on as it arrives."""

    def __init__(self, read_end: int, take: Callable[[bytes], None], source: _Feeder) -> None:
        self._fd = read_end
        self._give = take
        self._source = source
        self._open = True
        asyncio.get_running_loop().add_reader(read_end, self._take)

    def _take(self) -> bool:
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close()
            return False
        self._give(data)
        return True

    def finish(self) -> None:
        """The command has ended: take what is in the pipe already, and no more."""
        for _ in range(32):  # a pipe holds at most 1 MiB; a process that escaped must not keep us here
            if not self._open or not self._take():
                break
        self._close()
        self._source.close()

    def _close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)


class _Feeder:
    """Gives a command its stdin: nothing, or bytes as it takes them."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._fd: int | None = None
        if not data:
            self.read_end = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        else:
            self.read_end, self._fd = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._fd, False)

    def start(self) -> None:
        """Begin to feed."""
        if self._fd is not None:
            asyncio.get_running_loop().add_writer(self._fd, self._give)

    def _give(self) -> None:
        assert self._fd is not None
        try:
            self._data = self._data[os.write(self._fd, self._data[:READ_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:
            self._data = self._data[:0]
        if not self._data:
            self.close()

    def close(self) -> None:
        """No more input."""
        if self._fd is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
            os.close(self._fd)
            self._fd = None
