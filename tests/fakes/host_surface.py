"""A workplace in a plain folder with plain processes: the fast stand-in of a sandbox for tests of tools. It confines nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import Process

from agent_harness.errors import SurfaceError, ToolFailed
from agent_harness.surfaces.base import Capabilities, Chunk, Entry, ExecResult, ExportedWork, FileStat, OnOutput
from agent_harness.surfaces.files import HostFiles
from agent_harness.world import GitFacts, World

PROGRAMS = {"rg": str(Path(sys.executable).parent / "rg"), "python3": sys.executable}


class HostSurface:
    """A `Surface` over `root`; `programs` says what a name stands for, a name that maps to "" is not installed."""

    name = "plain"

    def __init__(
        self, root: Path, deny: Sequence[str] = (), programs: Mapping[str, str] = PROGRAMS, branch: str = "agent/test"
    ) -> None:
        self.files = HostFiles(root, deny)
        self.root = str(root)
        self.host_root: Path | None = root
        self.capabilities = Capabilities(exec=True, network=True, git=True)
        self.programs = dict(programs)
        self.branch = branch
        self.ran: list[tuple[str, ...]] = []
        self.writable: list[bool] = []
        (root / ".agent" / "tmp").mkdir(parents=True, exist_ok=True)

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        self.files.close()

    async def export(self, message: str) -> ExportedWork:
        raise ToolFailed("This workplace gives nothing out.")

    async def read(self, path: str, offset: int = 0, size: int | None = None) -> Chunk:
        return await anyio.to_thread.run_sync(self.files.read, path, offset, size)

    async def stat(self, path: str) -> FileStat:
        return self.files.stat(path)

    async def list(self, path: str) -> list[Entry]:
        return self.files.list(path)

    async def write(self, path: str, data: bytes, *, mode: int | None = None, create: bool = False) -> None:
        self.files.write(path, data, mode=mode, create=create)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float | None = 30,
        on_output: OnOutput | None = None,
        stdin: bytes = b"",
        writable_git: bool = False,
    ) -> ExecResult:
        self.ran.append(tuple(argv))
        self.writable.append(writable_git)
        program = self.programs.get(argv[0], argv[0])
        if not program:
            return ExecResult(127)
        process = await anyio.open_process(
            [program, *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=Path(self.root) / cwd,
            start_new_session=True,
            env=_environment(self.root),
        )
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError):
            await process.stdin.send(stdin)
        await process.stdin.aclose()
        return await _follow(process, timeout_s, on_output)

    def world(self, cwd: str) -> World:
        return HostWorld(self.root, self.root if cwd == "." else f"{self.root}/{cwd}", self.branch)


def _environment(root: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "TMPDIR": f"{root}/.agent/tmp",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


async def _follow(process: Process, timeout_s: float | None, on_output: OnOutput | None) -> ExecResult:
    """Until the process itself has ended, its time is up or enough was read; then what is left of its group is killed."""
    stream = process.stdout
    assert stream is not None
    stopped = timed_out = False

    async def read(scope: anyio.CancelScope) -> None:
        nonlocal stopped
        async for piece in stream:
            if on_output is not None and on_output(piece):
                stopped = True
                scope.cancel()
                return

    try:
        with anyio.move_on_after(timeout_s) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, scope)
                await process.wait()
                tasks.cancel_scope.deadline = anyio.current_time() + 0.1  # what is in the pipe still
        timed_out = scope.cancelled_caught and not stopped
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await process.aclose()
    ended_by_us = timed_out or stopped
    code = process.returncode
    if code is None:
        raise SurfaceError("a process did not end")
    return ExecResult(None if ended_by_us else (128 - code if code < 0 else code), timed_out=timed_out, stopped=stopped)


@dataclass(frozen=True)
class HostWorld:
    """What guards see of a plain folder."""

    worktree: str
    cwd: str
    branch: str
    home: str = "/nowhere"
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def git(self) -> GitFacts:
        return GitFacts(branch=self.branch, own_branch="agent/test", default_branch="main")

    def realpath(self, path: str) -> str:
        return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        return Path(path).is_symlink()

    def is_dir(self, path: str) -> bool:
        return Path(path).is_dir()

    def glob(self, pattern: str) -> Sequence[str]:
        return ()

    def read_text(self, path: str) -> str | None:
        return None
