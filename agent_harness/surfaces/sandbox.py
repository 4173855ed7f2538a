"""Runs commands in bubblewrap: one long-lived sandbox with an exec server, or a sandbox of its own for each command."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process

from agent_harness.errors import SurfaceError
from agent_harness.processes import start_whole
from agent_harness.surfaces import bwrap, pids
from agent_harness.surfaces.base import ExecResult, OnOutput
from agent_harness.surfaces.exec_client import ExecClient

START_S = 20
ENDING_S = 10
SERVER = Path(__file__).with_name("exec_server.py")


class Sandbox:
    """One long-lived bubblewrap. Ends with us, whatever ends us (`--die-with-parent`)."""

    def __init__(self, process: Process, client: ExecClient, group: pids.PidsGroup | None) -> None:
        self._process = process
        self._client = client
        self._group = group
        self._first: int | None = None

    @classmethod
    async def start(cls, profile: bwrap.AnyProfile, most: int = pids.MOST, cwd: str = bwrap.WORKSPACE) -> Sandbox | None:
        """Start it and wait until its server answers; None when there is no Python inside to run the server.

        Args:
            profile: what it is given.
            most: processes that there may be in it at once.
            cwd: a folder that is there inside.

        Raises:
            SurfaceError: it did not start; says what bubblewrap said.
        """
        python = bwrap.find_python()
        if python is None:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        inside = f"{profile.tools}/{SERVER.name}"
        server = [python, "-I", "-S", "-B", inside, str(theirs.fileno()), str(most)]
        group = pids.make_group(most)
        mounts = ("--ro-bind", str(SERVER), inside)
        try:
            with bwrap.command(profile, server, cwd=cwd, extra=mounts) as (line, fds):
                process = await start_whole(
                    lambda: anyio.open_process(
                        line if group is None else group.entering(line),
                        stdin=DEVNULL,
                        stdout=DEVNULL,
                        stderr=PIPE,
                        env=bwrap.CLEAN_ENV,
                        cwd="/",
                        pass_fds=[theirs.fileno(), *fds],
                        start_new_session=True,
                    )
                )
        except BaseException as error:
            ours.close()
            if group is not None:
                group.remove()
            if isinstance(error, OSError):
                raise SurfaceError(f"bubblewrap could not be started: {error}") from error
            raise
        finally:
            theirs.close()
        sandbox = cls(process, ExecClient(ours), group)
        try:
            await sandbox._wait_until_ready()
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def _wait_until_ready(self) -> None:
        try:
            with anyio.fail_after(START_S):
                await self._client.ready()
            self._first = _only_child(self._process.pid)
        except (TimeoutError, SurfaceError) as error:
            said = b""
            if self._process.stderr is not None:
                with anyio.move_on_after(1), suppress(anyio.EndOfStream):
                    said = await self._process.stderr.receive()
            raise SurfaceError(f"the sandbox did not start: {said.decode(errors='replace').strip() or error}") from error

    async def exec(
        self, argv: Sequence[str], cwd: str, timeout_s: float | None, on_output: OnOutput | None, stdin: bytes
    ) -> ExecResult:
        """As `Surface.exec`; `cwd` is absolute."""
        return await self._client.run(argv, cwd, timeout_s, on_output, stdin)

    async def close(self) -> None:
        """End everything in it; when this returns every process is gone, however many there were."""
        self._client.close()
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                self._process.kill()
            if self._first is not None:
                await self._end_namespace(self._first)
            await self._process.wait()
            await self._process.aclose()
            if self._group is not None:
                self._group.remove()

    async def _end_namespace(self, first: int) -> None:
        """Kill its process 1. The kernel then kills all others and tells of the end of the first when none is left."""
        self._first = None
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        with anyio.move_on_after(ENDING_S):
            await anyio.wait_readable(first)
        os.close(first)


def _only_child(parent: int) -> int | None:
    """A descriptor of bubblewrap's one child, which is process 1 inside; None when it cannot be told."""
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
        return os.pidfd_open(int(children[0])) if len(children) == 1 else None
    except OSError:
        return None


async def run_once(
    profile: bwrap.AnyProfile,
    argv: Sequence[str],
    cwd: str,
    timeout_s: float | None,
    on_output: OnOutput | None,
    stdin: bytes,
) -> ExecResult:
    """Run one command in a sandbox of its own, which ends with it.

    Raises:
        SurfaceError: bubblewrap could not be started.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        with bwrap.command(profile, argv, cwd=cwd) as (line, fds):
            process = await start_whole(
                lambda: anyio.open_process(
                    line,
                    stdin=PIPE if stdin else DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    env=bwrap.CLEAN_ENV,
                    cwd="/",
                    pass_fds=fds,
                    start_new_session=True,
                )
            )
    except BaseException as error:
        os.close(read_end)
        if isinstance(error, OSError):
            raise SurfaceError(f"bubblewrap could not be started: {error}") from error
        raise
    finally:
        os.close(write_end)
    stopped = timed_out = False
    code = 0
    try:
        with anyio.move_on_after(timeout_s) as clock:
            async with anyio.create_task_group() as tasks:
                if stdin and process.stdin is not None:
                    tasks.start_soon(_feed, process, stdin)
                stopped = await _pump(read_end, on_output)
                if not stopped:
                    await process.wait()
                tasks.cancel_scope.cancel()
        timed_out = clock.cancelled_caught
    finally:
        os.close(read_end)
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.kill()
            code = await process.wait()
            await process.aclose()
    ended_by_us = stopped or timed_out
    return ExecResult(None if ended_by_us else code if code >= 0 else 128 - code, timed_out=timed_out, stopped=stopped)


async def _pump(read_end: int, on_output: OnOutput | None) -> bool:
    """Hand output on until its end; True when the caller wants no more. The pid namespace ends every writer with the command."""
    os.set_blocking(read_end, False)
    while True:
        await anyio.wait_readable(read_end)
        data = os.read(read_end, 1 << 16)
        if not data:
            return False
        if on_output is not None and on_output(data):
            return True


async def _feed(process: Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(stdin)
        await process.stdin.aclose()
