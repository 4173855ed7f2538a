"""A workplace in memory: every rule of a surface about files, and no commands, no git, no disk."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from agent_harness.errors import SurfaceLost, ToolFailed
from agent_harness.surfaces.base import Capabilities, Chunk, Entry, ExecResult, ExportedWork, FileStat, OnOutput
from agent_harness.surfaces.paths import Denied, encode, links_outside, missing, normalise, not_readable, shown
from agent_harness.world import GitFacts, World

ROOT = "/workspace"
MAX_LINKS = 40


@dataclass
class File:
    """Content, permission bits and a number that grows with every change of it."""

    data: bytes
    mode: int = 0o644
    version: int = 0


@dataclass
class Link:
    target: str


@dataclass
class Folder:
    names: dict[str, Node] = field(default_factory=dict[str, "Node"])


Node = File | Link | Folder


@dataclass
class Found:
    """Where a path leads: the folders above it, the name in the last of them, and what is there."""

    above: list[tuple[str, Folder]]
    name: str
    node: Node | None

    @property
    def path(self) -> str:
        return "/".join([name for name, _ in self.above[1:]] + [self.name] * (self.name != "."))

    @property
    def folder(self) -> Folder:
        return self.above[-1][1]


class MemorySurface:
    """A `Surface` without `exec` and `git`. Give it its files; `links` maps a path to a link's target."""

    name = "memory"
    capabilities = Capabilities(exec=False, network=False, git=False)
    root = ROOT
    host_root: Path | None = None

    def __init__(
        self, files: Mapping[str, bytes | str] | None = None, links: Mapping[str, str] | None = None, deny: Sequence[str] = ()
    ) -> None:
        self.denied = Denied(deny)
        self.tree = Folder()
        self._versions = count(1)
        self._closed = False
        for path, data in (files or {}).items():
            self.put(path, File(data if isinstance(data, bytes) else data.encode()))
        for path, target in (links or {}).items():
            self.put(path, Link(target))

    def put(self, path: str, node: Node) -> None:
        """Lay something down without any rule being asked, as a test's setting."""
        *above, name = path.split("/")
        folder = self.tree
        for each in above:
            below = folder.names.setdefault(each, Folder())
            assert isinstance(below, Folder)
            folder = below
        if isinstance(node, File):
            node.version = next(self._versions)
        folder.names[name] = node

    async def open(self) -> None:
        self._alive()

    async def close(self) -> None:
        self._closed = True

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
        self._alive()
        raise ToolFailed("This workplace runs no commands.")

    async def export(self, message: str) -> ExportedWork:
        self._alive()
        raise ToolFailed("This workplace has no git.")

    async def read(self, path: str, offset: int = 0, size: int | None = None) -> Chunk:
        file = self._file(path, self._find(path))
        end = len(file.data) if size is None else offset + size
        return Chunk(file.data[offset:end], len(file.data), _token(file))

    async def stat(self, path: str) -> FileStat:
        node = self._find(path).node
        if isinstance(node, File):
            return FileStat("file", len(node.data), node.mode, _token(node))
        if isinstance(node, Folder):
            return FileStat("dir", 0, 0o755, ",".join(sorted(node.names)))
        raise missing(path)

    async def list(self, path: str) -> list[Entry]:
        found = self._find(path)
        if found.node is None:
            raise missing(path)
        if not isinstance(found.node, Folder):
            raise ToolFailed(f"{shown(path)} is not a folder.")
        below = found.path + "/" if found.path else ""
        return [_entry(name, node) for name, node in found.node.names.items() if not self.denied(below + name)]

    async def write(self, path: str, data: bytes, *, mode: int | None = None, create: bool = False) -> None:
        if create:
            self._create(path, File(data, 0o644 if mode is None else mode & 0o777))
        else:
            file = self._file(path, self._find(path, "written"))
            file.data, file.version = data, next(self._versions)

    def world(self, cwd: str) -> World:
        return MemoryWorld(self, normalise(cwd, root=ROOT))

    def _create(self, path: str, file: File) -> None:
        clean = self._clean(path)
        if any(len(encode(part)) > 255 for part in clean.split("/")):
            raise ToolFailed(f"{shown(path)} can't be written: the name is too long.")
        *folders, name = clean.split("/")
        missing_names: list[str] = []
        found = self._find(".", "written", shown_as=path)
        for depth, folder in enumerate(folders, 1):
            inside = found.node
            below = self._find("/".join(folders[:depth]), "written", shown_as=path)
            if below.node is None:
                if isinstance(inside, Folder) and folder in inside.names:
                    raise ToolFailed(f"{shown(path)} can't be created: {shown(folder)} is a link that leads nowhere.")
                missing_names = folders[depth - 1 :]
                break
            found = below
        if not isinstance(found.node, Folder):
            raise ToolFailed(f"{shown(path)} can't be written: a folder on its way is a file.")
        full = "/".join([*filter(None, [found.path]), *missing_names, name])
        if self.denied(full):
            raise not_readable(path)
        if clean == "." or (not missing_names and name in found.node.names):
            raise ToolFailed(f"{shown(path)} exists already.")
        self.put(full, file)

    def _alive(self) -> None:
        if self._closed:
            raise SurfaceLost("the worktree is closed; start a new session")

    def _clean(self, path: str) -> str:
        self._alive()
        clean = normalise(path, root=ROOT)
        if self.denied(clean):
            raise not_readable(path)
        return clean

    def _file(self, path: str, found: Found) -> File:
        if found.node is None:
            raise missing(path)
        if not isinstance(found.node, File):
            raise ToolFailed(f"{shown(path)} is a folder.")
        return found.node

    def _find(self, path: str, doing: str = "read", *, shown_as: str = "") -> Found:
        """Follow a path and every link on it. A missing last component is found as None, a missing folder too."""
        said = shown_as or path
        return self.follow(self._clean(path) if not shown_as else path, said, doing)

    def follow(self, clean: str, said: str, doing: str = "read") -> Found:
        todo = clean.split("/")[::-1]
        above: list[tuple[str, Folder]] = [("", self.tree)]
        links = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(above) == 1:
                    raise links_outside(said)
                above.pop()
                continue
            place = Found(above, part, above[-1][1].names.get(part))
            if self.denied(place.path):
                raise not_readable(said)
            if isinstance(place.node, Link):
                links += 1
                if place.node.target.startswith("/"):
                    raise links_outside(said)
                if links > MAX_LINKS:
                    raise ToolFailed(f"{shown(said)} is a link that leads back to itself.")
                todo.extend(place.node.target.split("/")[::-1])
            elif not any(rest not in ("", ".") for rest in todo):
                return place
            elif isinstance(place.node, Folder):
                above.append((part, place.node))
            elif place.node is None or doing == "read":
                return Found(above, part, None)
            else:
                raise ToolFailed(f"{shown(said)} can't be written: a folder on its way is a file.")
        return Found(above, ".", above[-1][1])


@dataclass(frozen=True)
class MemoryWorld:
    """What guards see of a workplace in memory."""

    surface: MemorySurface
    relative_cwd: str
    worktree: str = ROOT
    home: str = "/home/agent"
    env: Mapping[str, str] = field(default_factory=lambda: {"HOME": "/home/agent", "PATH": "/usr/bin:/bin"})

    @property
    def cwd(self) -> str:
        return ROOT if self.relative_cwd == "." else f"{ROOT}/{self.relative_cwd}"

    def git(self) -> GitFacts:
        return GitFacts(branch="agent/memory", own_branch="agent/memory", default_branch="main")

    def realpath(self, path: str) -> str:
        if not path.startswith(ROOT + "/"):
            return path
        try:
            found = self.surface.follow(path.removeprefix(ROOT + "/"), path)
        except ToolFailed:
            return path
        return f"{ROOT}/{found.path}".rstrip("/")

    def is_link(self, path: str) -> bool:
        above, _, name = path.removeprefix(ROOT + "/").rpartition("/")
        folder = self._node(above)
        return isinstance(folder, Folder) and isinstance(folder.names.get(name), Link)

    def is_dir(self, path: str) -> bool:
        return path == ROOT or (path.startswith(ROOT + "/") and isinstance(self._node(path.removeprefix(ROOT + "/")), Folder))

    def glob(self, pattern: str) -> Sequence[str]:
        wanted = pattern.split("/")
        paths = (f"{ROOT}/{path}".split("/") for path in _paths(self.surface.tree, ""))
        return ["/".join(p) for p in paths if len(p) == len(wanted) and all(map(_glob_fits, p, wanted))][:1_000]

    def read_text(self, path: str) -> str | None:
        node = self._node(path.removeprefix(ROOT + "/"))
        return node.data[: 1 << 16].decode("utf-8", "replace") if isinstance(node, File) else None

    def _node(self, path: str) -> Node | None:
        try:
            return self.surface.follow(path or ".", path).node
        except ToolFailed:
            return None


def _glob_fits(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))


def _paths(folder: Folder, below: str) -> Iterator[str]:
    for name, node in folder.names.items():
        yield below + name
        if isinstance(node, Folder):
            yield from _paths(node, f"{below}{name}/")


def _token(file: File) -> str:
    return f"{file.version}-{len(file.data)}"


def _entry(name: str, node: Node) -> Entry:
    match node:
        case File():
            return Entry(name, "file", len(node.data))
        case Link():
            return Entry(name, "link", 0)
        case Folder():
            return Entry(name, "dir", 0)
