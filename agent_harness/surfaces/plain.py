"""Commands without any sandbox, for `--no-confine`: the person's own rights, and an end for everything that a command started.

What a command leaves running is found by a mark in its environment: a process that left its session still carries it. One that
clears its environment gets away, as it would from a terminal.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import anyio.to_thread
from anyio.abc import Process

from agent_harness.errors import ToolFailed
from agent_harness.surfaces import bwrap
from agent_harness.surfaces.base import ExecResult, OnOutput

MARK = "AGENT_HARNESS_COMMAND"
GRACE_S = 2.0  # between TERM and KILL, so that test runners can clean up
ROUNDS = 20  # looks for processes that start others faster than they are ended
READ_BYTES = 1 << 16


def plain_environment(environ: Mapping[str, str], root: str) -> dict[str, str]:
    """What a command finds: the person's variables, and what keeps programs from waiting for a person."""
    rg = bwrap.find_rg()
    path = [environ.get("PATH") or os.defpath, *([] if rg is None else [str(Path(rg).parent)])]
    ours = {name: value for name, value in bwrap.environment().items() if name not in ("PATH", "HOME", "PYTHONPYCACHEPREFIX")}
    return {"HOME": str(Path.home()), **environ, **ours, "PATH": ":".join(path), "TMPDIR": f"{root}/.agent/tmp"}


async def run_plain(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None,
    on_output: OnOutput | None,
    stdin: bytes,
) -> ExecResult:
    """Run one command as `Surface.exec` says, with nothing between it and the machine."""
    if any("\0" in word for word in argv):
        raise ToolFailed("the command contains a NUL character, which no command can.")
    mark = secrets.token_hex(16)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read_end, False)
    try:
        process = await anyio.open_process(
            list(argv),
            stdin=PIPE if stdin else DEVNULL,
            stdout=write_end,
            stderr=write_end,
            cwd=cwd,
            env={**env, MARK: mark},
            start_new_session=True,
        )
    except OSError as error:
        os.close(read_end)
        if on_output is not None:
            on_output(f"{argv[0]}: {os.strerror(error.errno or 0)}\n".encode("utf-8", "surrogateescape"))
        return ExecResult(127 if isinstance(error, FileNotFoundError) else 126)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    stopped = timed_out = False
    strays = 0
    try:
        with anyio.move_on_after(timeout_s) as clock:
            stopped = await _follow(process, read_end, on_output, stdin)
        timed_out = clock.cancelled_caught
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                await _end_gently(process, mark, at_once=stopped)
            strays = await anyio.to_thread.run_sync(_end_marked, mark)
            _drain(read_end, None if stopped else on_output)
            os.close(read_end)
            await process.aclose()
    code = process.returncode or 0
    ended_by_us = stopped or timed_out
    return ExecResult(
        None if ended_by_us else code if code >= 0 else 128 - code,
        timed_out=timed_out,
        stopped=stopped,
        strays=0 if ended_by_us else strays,
    )


async def _follow(process: Process, read_end: int, on_output: OnOutput | None, stdin: bytes) -> bool:
    """Until the process itself has ended; True when the reader wants no more."""
    stopped = False

    async def read(scope: anyio.CancelScope) -> None:
        nonlocal stopped
        while True:
            await anyio.wait_readable(read_end)
            with suppress(BlockingIOError):
                data = os.read(read_end, READ_BYTES)
                if not data:
                    return
                if on_output is not None and on_output(data):
                    stopped = True
                    scope.cancel()

    async def feed() -> None:
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(stdin)
            await process.stdin.aclose()

    failures: list[BaseException] = []
    try:
        async with anyio.create_task_group() as tasks:
            if stdin:
                tasks.start_soon(feed)
            tasks.start_soon(read, tasks.cancel_scope)
            await process.wait()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failures += group.exceptions
    if failures:
        raise failures[0]
    return stopped


def _drain(read_end: int, on_output: OnOutput | None) -> None:
    """What is in the pipe still, and no more: at most what a pipe can hold."""
    with suppress(BlockingIOError):
        for _ in range(32):
            data = os.read(read_end, READ_BYTES)
            if not data or on_output is None or on_output(data):
                return


async def _end_gently(process: Process, mark: str, *, at_once: bool) -> None:
    if not at_once:
        await anyio.to_thread.run_sync(_signal, mark, signal.SIGTERM)
        with anyio.move_on_after(GRACE_S):
            await process.wait()
    await anyio.to_thread.run_sync(_end_marked, mark)
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _end_marked(mark: str) -> int:
    """Kill every process that carries the mark; returns how many there were."""
    ended: set[int] = set()
    for _ in range(ROUNDS):
        found = _signal(mark, signal.SIGKILL)
        if not found:
            break
        ended |= found
    return len(ended)


def _signal(mark: str, number: signal.Signals) -> set[int]:
    """Signal the processes that carry the mark, each by a descriptor of its own, so that no other can be hit."""
    wanted = f"{MARK}={mark}".encode()
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            fd = os.pidfd_open(int(entry.name))
            try:
                alive = b") Z " not in (entry / "stat").read_bytes()
                if alive and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    signal.pidfd_send_signal(fd, number)
                    found.add(int(entry.name))
            finally:
                os.close(fd)
    return found
