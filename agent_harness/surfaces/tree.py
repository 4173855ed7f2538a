"""What lies in a checkout: one look at every name, no link followed, nothing opened.

Paths are bytes, relative to the root, as git prints them: a name need not be text.
"""

from __future__ import annotations

import gc
import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Token = tuple[int, int, int, int, int]
"""Which file, its length, when its content and when anything about it was last changed, kind and mode."""


@dataclass
class Tree:
    """One look.

    Attributes:
        nodes: path -> what `lstat` says, of folders, files and links; of nothing else.
        git_entries: paths named `.git`; those that were known before are not in `nodes`, nor is what lies below them.
        unreadable: folders that could not be listed.
    """

    nodes: dict[bytes, os.stat_result] = field(default_factory=dict[bytes, os.stat_result])
    git_entries: list[bytes] = field(default_factory=list[bytes])
    unreadable: list[bytes] = field(default_factory=list[bytes])

    def repositories(self) -> set[bytes]:
        """Folders that git would take for a repository: those with a `.git`, and bare ones. The root is b""."""
        bare = {
            path[:-5]
            for path, found in self.nodes.items()
            if path.endswith(b"/HEAD")
            and not stat.S_ISDIR(found.st_mode)
            and path[:-4] + b"objects" in self.nodes
            and path[:-4] + b"refs" in self.nodes
        }
        inside = tuple(path + b"/" for path in self.git_entries)
        return {path[:-5] for path in self.git_entries} | {
            path for path in bare if path not in self.git_entries and not path.startswith(inside)
        }


@contextmanager
def without_collecting() -> Generator[None]:
    """No search for cycles in the block: among hundred thousands of small objects that all stay it takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def walk(root: Path, known: Collection[bytes] | None = None, below: bytes = b"") -> Tree:
    """Look at everything below the root.

    Args:
        root: the checkout.
        known: `.git` entries that are not looked into; None = all of them.
        below: only what lies in this folder.
    """
    tree = Tree()
    nodes, git_entries = tree.nodes, tree.git_entries
    base = os.fsencode(root) + b"/"
    stack = [below + b"/" if below else b""]
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(base + folder) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # gone since the folder was read
                    path = folder + entry.name
                    if entry.name == b".git":
                        git_entries.append(path)
                        if known is None or path in known:
                            continue
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(path + b"/")
                    elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                        continue
                    nodes[path] = found
        except OSError:
            tree.unreadable.append(folder.rstrip(b"/"))
    return tree


def token(found: os.stat_result) -> Token:
    """Changes whenever anything about the file could have changed: no program can set the last two back."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def same(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether nothing happened between two looks. Of a folder only its kind and mode count: its names are looked at as such."""
    if stat.S_ISDIR(before.st_mode):
        return before.st_mode == after.st_mode
    return token(before) == token(after)
