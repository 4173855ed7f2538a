"""Where commands run and files live: the sandbox as tools see it.

Paths are relative to the worktree, with forward slashes; `.` is its root. Every method raises `ToolFailed` for what the caller
asked wrongly (outside, denied, missing: the wordings of `surfaces/paths.py`), `SurfaceError` when the surface itself failed and
`SurfaceLost` when it is gone. No method ever follows a link out of the worktree or opens a denied file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from agent_harness.world import World

Kind = Literal["file", "dir", "link", "other"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a surface can do; the session's tool set is chosen by it. Without `commits` nobody commits or pushes there."""

    exec: bool
    network: bool
    git: bool
    commits: bool = True


@dataclass(frozen=True, slots=True)
class FileStat:
    """Of a path, links inside the worktree followed. `token` changes whenever the content could have."""

    kind: Kind
    size: int
    mode: int
    token: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder; a link is reported as a link. `name` is text, undecodable bytes as surrogates."""

    name: str
    kind: Kind
    size: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a file from an offset on, and the file's size at that moment."""

    data: bytes
    size: int
    token: str


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended.

    Attributes:
        exit_code: None when it was ended by us (timeout, the caller's wish); 128+N for signal N.
        timed_out: its time was up; the whole process tree was ended.
        stopped: `on_output` asked for the end; the whole process tree was ended.
        strays: processes that it left running in the background; they were ended too.
        remarks: what else became of it that its caller should know, a sentence each.
    """

    exit_code: int | None
    timed_out: bool = False
    stopped: bool = False
    strays: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportedWork:
    """The finished work, outside the sandbox, untrusted.

    Attributes:
        bundle: a git bundle (v2) on the host with exactly one ref, `refs/heads/<branch>`; None when nothing was changed.
        head: full id of its commit; the base commit when nothing was changed.
        in_place: paths that were changed in the person's own checkout, with or without a bundle.
    """

    bundle: Path | None
    head: str
    in_place: tuple[str, ...] = ()


OnOutput = Callable[[bytes], bool | None]


class Surface(Protocol):
    """One session's workplace. Made by `build.py`, entered once, closed once."""

    name: str
    capabilities: Capabilities
    root: str
    """Absolute path of the worktree as commands see it."""
    host_root: Path | None
    """The same on this machine's disk; None when it is not here (a VM, memory)."""

    async def open(self) -> None:
        """Make the workplace ready.

        Raises:
            ConfigError: it cannot work on this machine; says what to install or to change.
            SurfaceError: it failed.
        """
        ...

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
        """Run a program and wait until it has ended (its own exit, not the end of its output).

        stdout and stderr arrive in one stream, in order, through `on_output`, which may answer True to end the program.
        Cancelling ends the whole process tree before it returns.

        Args:
            argv: program and arguments; no shell. `rg` and `python3` name what the surface offers under these names.
            cwd: where it starts, relative to the worktree.
            timeout_s: seconds until the whole tree is ended; None = until cancelled (background jobs).
            on_output: called with each piece of output as it arrives.
            stdin: given to the program, then closed.
            writable_git: `.git` may be written: only for the git tool and the export, never for the model's own commands.

        Raises:
            SurfaceError: the surface failed; the program's fate is unknown.
        """
        ...

    async def read(self, path: str, offset: int = 0, size: int | None = None) -> Chunk:
        """At most `size` bytes of a regular file from a byte offset on; all of it when None.

        Raises:
            ToolFailed: outside, denied, missing, a folder, or no regular file.
        """
        ...

    async def write(self, path: str, data: bytes, *, mode: int | None = None, create: bool = False) -> None:
        """Replace a file's content atomically, keeping its mode; links inside the worktree are followed, others refused.

        Args:
            path: the file.
            data: its whole new content.
            mode: permission bits of a new file; None = 0644 by the umask.
            create: the file must not exist yet (`ToolFailed` if it does); missing folders are made.
        """
        ...

    async def stat(self, path: str) -> FileStat:
        """Kind, size, mode and change token of a path."""
        ...

    async def list(self, path: str) -> list[Entry]:
        """The names in a folder, denied ones left out, in no particular order."""
        ...

    async def export(self, message: str) -> ExportedWork:
        """Commit what is left uncommitted as one commit of the harness with that message, and bundle `base..branch` out."""
        ...

    def world(self, cwd: str) -> World:
        """What guards may look at to judge a command that would start in `cwd`."""
        ...

    async def close(self) -> None:
        """End every process and throw the workplace away. Closing twice does nothing."""
        ...
