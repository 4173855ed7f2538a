"""What guards may look at: the worktree as commands see it, looked up on this machine's disk without leaving it."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path

from agent_harness.world import GitFacts

MAX_LINKS = 40
MAX_MATCHES = 1_000
MAX_TEXT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class HostWorld:
    """A worktree that commands see at `worktree` and that lies in `folder` on this machine.

    Attributes:
        folder: where it really lies; nothing outside it is ever looked at.
    """

    folder: Path
    worktree: str
    cwd: str
    home: str
    env: Mapping[str, str] = field(repr=False)
    facts: GitFacts = field(repr=False)

    def git(self) -> GitFacts:
        """The repository's state."""
        return self.facts

    def _real(self, path: str) -> Path | None:
        """Where a path without links lies on this disk; None outside the worktree."""
        if path == self.worktree:
            return self.folder
        if path.startswith(f"{self.worktree}/"):
            return self.folder / path[len(self.worktree) + 1 :]
        return None

    def realpath(self, path: str) -> str:
        """The path with every link resolved; parts that do not exist, or lie outside the worktree, stay as they are."""
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        found = "/"
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                found = posixpath.dirname(found)
                continue
            step = posixpath.join(found, part)
            target = self._link(step)
            if target is None or links == MAX_LINKS:
                found = step
                continue
            links += 1
            if target.startswith("/"):
                found = "/"
            todo += [piece for piece in reversed(target.split("/")) if piece not in ("", ".")]
        return found

    def _link(self, path: str) -> str | None:
        real = self._real(path)
        if real is None:
            return None
        try:
            return str(real.readlink())
        except OSError:
            return None

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a symbolic link; its parents are resolved first."""
        parent, name = posixpath.split(path.rstrip("/"))
        return self._link(posixpath.join(self.realpath(parent), name)) is not None

    def is_dir(self, path: str) -> bool:
        """Whether the path is a folder, links followed."""
        real = self._real(self.realpath(path))
        return real is not None and real.is_dir()

    def glob(self, pattern: str) -> Sequence[str]:
        """Absolute paths in the worktree that match; none for a pattern that looks elsewhere."""
        places = ["/"]
        for part in [part for part in pattern.split("/") if part]:
            places = [match for place in places for match in self._step(place, part)][:MAX_MATCHES]
        return places if pattern != "/" else []

    def _step(self, place: str, part: str) -> list[str]:
        if part in (".", ".."):
            return [posixpath.normpath(posixpath.join(place, part))]
        inner = self.worktree == place or self.worktree.startswith(place.rstrip("/") + "/")
        if not re.search(r"[*?\[]", part):
            step = posixpath.join(place, part)
            real = self._real(self.realpath(step))
            exists = real is not None and os.path.lexists(real)
            return [step] if exists or self.worktree == step or self.worktree.startswith(f"{step}/") else []
        matches = re.compile(translate(part)).match
        real = self._real(self.realpath(place))
        if real is None:
            names = [self.worktree[len(place.rstrip("/")) + 1 :].split("/")[0]] if inner else []
        else:
            try:
                names = sorted(entry.name for entry in real.iterdir())
            except OSError:
                return []
        return [
            posixpath.join(place, name) for name in names if matches(name) and (part.startswith(".") or not name.startswith("."))
        ]

    def read_text(self, path: str) -> str | None:
        """The text of a small file in the worktree."""
        real = self._real(self.realpath(path))
        if real is None:
            return None
        try:
            fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            regular = stat.S_ISREG(os.fstat(fd).st_mode)
            data = os.read(fd, MAX_TEXT_BYTES + 1) if regular else b""
        except OSError:
            return None
        finally:
            os.close(fd)
        return data.decode("utf-8", "replace") if regular and len(data) <= MAX_TEXT_BYTES else None
