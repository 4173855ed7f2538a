"""A world that answers from data: no disk, no git."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_harness.world import GitFacts

ROOT = "/code/project"
HOME = "/home/mia"
BRANCH = "agent/7"
FILES = (
    ".git/config",
    ".git/HEAD",
    ".git/hooks/pre-push",
    ".gitignore",
    "README.md",
    "Makefile",
    "src/app.py",
    "src/app.o",
    "src/__pycache__/app.pyc",
    "build/lib/one.o",
    "build/.cache/x",
    "dist/pkg.whl",
    "logs/a.log",
    "vendor/lib/.git/config",
    "vendor/lib/mod.c",
)


def facts(branch: str | None = BRANCH, default: str = "main", **more: object) -> GitFacts:
    """A repository with one remote, on the session's branch."""
    known = GitFacts(branch, BRANCH, default, {"origin": "https://example.com/team/project.git"}, {}, ("main", BRANCH, "topic"))
    return replace(known, **more)  # pyright: ignore[reportArgumentType]


@dataclass
class DataWorld:
    """The worktree's files, links and environment, as data."""

    cwd: str = ROOT
    env: Mapping[str, str] = field(default_factory=lambda: {"HOME": HOME, "PATH": "/usr/bin:/bin"})
    worktree: str = ROOT
    home: str = HOME
    repository: GitFacts = field(default_factory=facts)
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Iterable[str] = FILES
    asked: int = 0

    def __post_init__(self) -> None:
        paths: set[str] = {f"{self.worktree}/{name}" for name in self.files} | {*self.links}
        folders = {"/"}
        for path in paths:
            while path != "/":
                path = path.rpartition("/")[0] or "/"
                folders.add(path)
        self._folders = folders
        self._paths = paths | folders

    def git(self) -> GitFacts:
        self.asked += 1
        return self.repository

    def realpath(self, path: str) -> str:
        path = posixpath.normpath(path)
        for _ in range(20):
            link = next((each for each in self.links if path == each or path.startswith(each + "/")), None)
            if link is None:
                return path
            target = posixpath.join(posixpath.dirname(link), self.links[link])
            path = posixpath.normpath(target + path[len(link) :])
        return path

    def is_link(self, path: str) -> bool:
        return path in self.links

    def is_dir(self, path: str) -> bool:
        return self.realpath(path) in self._folders

    def glob(self, pattern: str) -> Sequence[str]:
        wanted = pattern.split("/")
        return [path for path in sorted(self._paths) if _matches(path.split("/"), wanted)][:1_000]

    def read_text(self, path: str) -> str | None:
        return None


def _matches(parts: list[str], wanted: list[str]) -> bool:
    return len(parts) == len(wanted) and all(
        fnmatch.fnmatchcase(part, pattern) and (not part.startswith(".") or pattern.startswith("."))
        for part, pattern in zip(parts, wanted, strict=True)
    )
