"""What must not change behind a person's back: files by which their git would run something, and repositories that appear.

Nothing inside can write the repository, so a change means that the person did it meanwhile, or that the sandbox failed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from agent_harness.surfaces.checkout import Checkout
from agent_harness.surfaces.tree import Token, Tree, token

IN_BOTH = ("config", "config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates")
MAX_FOLDERS = 2_000  # with more, new repositories are looked for at the end only: a look at each costs microseconds


class RepositoryWatch:
    """Hashes of the files by which git is told to run programs or to look elsewhere."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._known: dict[Path, tuple[Token, str]] = {}
        self._known = self._look()

    def changed(self) -> list[str]:
        """Paths that are not as they were at the last call; what they are now counts from now on."""
        before, self._known = self._known, self._look()
        names = {path for path in before.keys() | self._known.keys() if _hash(before, path) != _hash(self._known, path)}
        return sorted(map(str, names))

    def _look(self) -> dict[Path, tuple[Token, str]]:
        found: dict[Path, tuple[Token, str]] = {}
        for path in self._watched():
            with suppress(OSError):
                now = token(path.lstat())
                known = self._known.get(path)
                found[path] = known if known is not None and known[0] == now else (now, _digest(path))
        return found

    def _watched(self) -> Iterator[Path]:
        folders = {self._checkout.git_dir, self._checkout.common_dir}
        yield self._checkout.root / ".git"
        for folder in folders:
            for name in IN_BOTH:
                yield folder / name
        with suppress(OSError):
            yield from (self._checkout.common_dir / "hooks").iterdir()


def _hash(looked: dict[Path, tuple[Token, str]], path: Path) -> str:
    return looked[path][1] if path in looked else ""


def _digest(path: Path) -> str:
    """Of a file its content and mode; of a folder that it is one; of a link where it leads to and what is there."""
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    target = os.fsencode(path.readlink()) if stat.S_ISLNK(found.st_mode) else b""
    with suppress(OSError):
        return sha256(b"%o\0%s\0%s" % (found.st_mode, target, path.read_bytes())).hexdigest()
    return f"{token(found)}"


class NestedWatch:
    """Repositories that appear in the worktree: whoever runs git in one obeys what the agent wrote there."""

    def __init__(self, root: Path, tree: Tree) -> None:
        self._root = root
        self._known = set(tree.repositories())
        self._folders = {path: found.st_mtime_ns for path, found in tree.nodes.items() if stat.S_ISDIR(found.st_mode)}
        with suppress(OSError):
            self._folders[b""] = root.stat().st_mtime_ns

    def look(self) -> list[bytes]:
        """Repositories that are new since the last look; only folders whose names changed are read."""
        if len(self._folders) > MAX_FOLDERS:
            return []
        base = os.fsencode(self._root) + b"/"
        touched: list[bytes] = []
        for path, before in list(self._folders.items()):
            try:
                found = os.lstat(base + path)
            except OSError:
                del self._folders[path]
                continue
            if found.st_mtime_ns != before:
                self._folders[path] = found.st_mtime_ns
                touched.append(path)
        return [new for folder in touched for new in self._look_into(base, folder)]

    def _look_into(self, base: bytes, folder: bytes) -> Iterator[bytes]:
        try:
            names = set(os.listdir(base + folder))  # noqa: PTH208 - bytes
        except OSError:
            return
        yield from self._report(folder, names)
        prefix = folder + b"/" if folder else b""
        for name in names:
            path = prefix + name
            if path in self._folders or name == b".git" or not _is_folder(base + path):
                continue
            with suppress(OSError):
                self._folders[path] = os.lstat(base + path).st_mtime_ns
            yield from self._look_into(base, path)

    def _report(self, folder: bytes, names: set[bytes]) -> Iterator[bytes]:
        if folder not in self._known and (b".git" in names or {b"HEAD", b"objects", b"refs"} <= names):
            self._known.add(folder)
            yield folder

    def all_new(self, tree: Tree) -> list[bytes]:
        """The same from a whole look."""
        new = tree.repositories() - self._known
        self._known |= new
        return sorted(new)


def _is_folder(path: bytes) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False
