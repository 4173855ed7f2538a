"""What a repository would have run, as plain values, and where its files are read from."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from agent_harness.inert_git import HOSTILE, Git
from agent_harness.surfaces.paths import decode, encode

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 100_000
NOT_ENTERED = frozenset({".git", "node_modules", ".venv", "venv", ".tox", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that some everyday command would have run.

    Attributes:
        kind: a stable word: `hook`, `filter`, `alias`, `editor`, ...
        where: the file that says so, relative to the repository.
        name: the hook, configuration key or script that it is.
        command: what would be run, as it stands there; empty when it is the file itself.
        when: which command of a person sets it off.
    """

    kind: str
    where: str
    name: str
    command: str
    when: str


class Files(Protocol):
    """The files of a repository, wherever they are."""

    async def paths(self) -> list[str]:
        """Every file, relative, with forward slashes; at most `MAX_FILES`."""
        ...

    async def read(self, path: str) -> str:
        """The first MiB of it as text; empty when it is no regular file."""
        ...


class FolderFiles:
    """What lies in a folder of this machine. No link is followed, and nothing but regular files is opened."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def paths(self) -> list[str]:
        """As `Files.paths`."""
        return await anyio.to_thread.run_sync(self._walk)

    def _walk(self) -> list[str]:
        found: list[str] = []
        start = encode(str(self._root))
        for folder, folders, names in os.walk(start):
            folders[:] = sorted(name for name in folders if decode(name) not in NOT_ENTERED)
            inside = folder[len(start) :].lstrip(b"/")
            found += [decode(inside + b"/" + name if inside else name) for name in sorted(names)]
            if len(found) >= MAX_FILES:
                break
        return found[:MAX_FILES]

    async def read(self, path: str) -> str:
        """As `Files.read`."""
        return read_text(self._root / path)


class CommitFiles:
    """The files of a commit in a bare repository of ours."""

    def __init__(self, git: Git, git_dir: Path, commit: str) -> None:
        self._git = git
        self._git_dir = git_dir
        self._commit = commit
        self._blobs: Mapping[str, str] = {}

    async def paths(self) -> list[str]:
        """As `Files.paths`."""
        tree = await self._git.run("ls-tree", "-r", "-z", self._commit, git_dir=self._git_dir, ceilings=HOSTILE)
        entries = (entry.split(b"\t", 1) for entry in tree.stdout.split(b"\0")[:MAX_FILES] if entry)
        self._blobs = {decode(path): about.split(b" ")[2].decode() for about, path in entries if about.startswith(b"100")}
        return [path for path in self._blobs if not NOT_ENTERED & set(path.split("/"))]

    async def read(self, path: str) -> str:
        """As `Files.read`."""
        blob = self._blobs.get(path)
        if blob is None:
            return ""
        size = await self._git.run("cat-file", "-s", blob, git_dir=self._git_dir)
        if int(size.text) > MAX_FILE_BYTES:
            return ""
        return (await self._git.run("cat-file", "blob", blob, git_dir=self._git_dir)).stdout.decode("utf-8", "replace")


def read_text(path: Path) -> str:
    """The first MiB of a regular file as text; empty for anything else."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
