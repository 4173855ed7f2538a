"""Every byte and mode of a checkout at the start of a session, and what the session changed: enough to give all of it back.

A file that git's index knows to be unchanged is kept as the id of its blob: the repository has the bytes. Everything else is
copied as it is into one file in the session folder. Nothing of git runs for that, so no filter and no hook can.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import ConfigError
from agent_harness.surfaces.kept import (
    GONE,
    LEFT_OUT,
    NOTHING,
    PIECE,
    Kept,
    content_digest,
    keep,
    kept,
    read_rows,
    same_bytes,
    write_rows,
)
from agent_harness.surfaces.paths import SKIPPED, decode, shown
from agent_harness.surfaces.tree import Tree

MAX_IGNORED_FILE = 1 << 20  # bytes; an ignored file that is larger is left out
MAX_IGNORED = 64 << 20  # bytes of all ignored files together
SPARE = 256 << 20  # bytes that a snapshot leaves free on the disk it is written to
MAX_DIGEST = 1 << 20  # bytes of a file whose end is told by its content, too
GIT_ENTRY = b"git-entry"
Now = Mapping[bytes, os.stat_result | None]
"""Path -> what is there now; None when nothing is."""


@dataclass
class Snapshot:
    """A start, in memory and in `folder`.

    Attributes:
        entries: path -> what was there.
        git_entries: paths named `.git`, never looked into.
        left_out: paths whose bytes are not kept, and why; known only to whoever took it.
    """

    folder: Path
    entries: dict[bytes, Kept]
    git_entries: frozenset[bytes]
    left_out: dict[bytes, str]

    @property
    def content(self) -> Path:
        """The bytes of the files that git does not have."""
        return self.folder / "content"

    def touched(self, tree: Tree) -> dict[bytes, os.stat_result | None]:
        """Every path to which anything happened, be it only that it was written as it was."""
        now = tree.nodes
        found: dict[bytes, os.stat_result | None] = {
            path: now.get(path) for path, before in self.entries.items() if not before.is_still(now.get(path))
        }
        found.update((path, now[path]) for path in now.keys() - self.entries.keys())
        return found

    def changed(self, root: Path, tree: Tree) -> dict[bytes, os.stat_result | None]:
        """Every path whose kind, mode or bytes are others. A file whose bytes were left out counts when it was touched."""
        base = os.fsencode(root) + b"/"
        return {
            path: found
            for path, found in self.touched(tree).items()
            if differs(base + path, self.entries.get(path, GONE), found, self.content)
        }

    def record_end(self, root: Path, tree: Tree) -> None:
        """Write down what the session leaves."""
        base = os.fsencode(root) + b"/"
        write_rows(self.folder / "end", {path: _end_of(base + path, found) for path, found in self.touched(tree).items()})


def differs(where: bytes, wanted: Kept, found: os.stat_result | None, content: Path) -> bool:
    """Whether kind, mode or bytes at a path are not the wanted ones."""
    if found is None or wanted.mode == 0:
        return (found is None) != (wanted.mode == 0)
    if stat.S_ISLNK(wanted.mode) and stat.S_ISLNK(found.st_mode):
        return not same_bytes(where, wanted, content)
    if found.st_mode != wanted.mode:
        return True
    return not stat.S_ISDIR(wanted.mode) and not same_bytes(where, wanted, content)


def _end_of(where: bytes, found: os.stat_result | None) -> Kept:
    if found is None:
        return GONE
    small = stat.S_ISREG(found.st_mode) and found.st_size <= MAX_DIGEST
    return kept(found, content_digest(where) if small else LEFT_OUT)


def is_end(where: bytes, end: Kept, found: os.stat_result | None) -> bool:
    """Whether a path is as the session left it: by its stat data, or else by its content."""
    if end.is_still(found):
        return True
    same = found is not None and (found.st_mode, found.st_size) == (end.mode, end.size)
    return same and end.source.startswith(b"sha:") and content_digest(where) == end.source


def own_files(tree: Tree, clean: Mapping[bytes, bytes]) -> dict[bytes, int]:
    """Files whose bytes must be copied, and their sizes."""
    return {path: found.st_size for path, found in tree.nodes.items() if path not in clean and stat.S_ISREG(found.st_mode)}


def fits(own: Mapping[bytes, int]) -> bool:
    """Whether all of it may be copied without asking what is ignored."""
    return sum(own.values()) <= MAX_IGNORED and max(own.values(), default=0) <= MAX_IGNORED_FILE


def take(root: Path, tree: Tree, clean: Mapping[bytes, bytes], optional: Collection[bytes], folder: Path) -> Snapshot:
    """Write the snapshot.

    Args:
        root: the checkout.
        tree: the look at it.
        clean: path -> id of the blob that has a file's bytes.
        optional: files that are left out when they are too large: ignored ones, those of repositories in the repository, and
            what a filter can make again.
        folder: where it is written.

    Raises:
        ConfigError: the disk has no room for it.
    """
    own = own_files(tree, clean)
    left_out = dict.fromkeys(tree.unreadable, "a folder that cannot be listed")
    chosen = _choose(own, optional, left_out)
    folder.mkdir(mode=0o700, exist_ok=True)
    refuse_without_room(folder, sum(own[path] for path in chosen))
    entries: dict[bytes, Kept] = {}
    base = os.fsencode(root) + b"/"
    with (folder / "content").open("wb") as content:
        for path, found in tree.nodes.items():
            if path in clean:
                source = b"git:" + clean[path]
            elif stat.S_ISDIR(found.st_mode):
                source = NOTHING
            elif path in chosen or stat.S_ISLNK(found.st_mode):
                source = keep(base + path, found, content)
                if source == LEFT_OUT:
                    left_out[path] = "it cannot be read"
            else:
                source = LEFT_OUT
            entries[path] = kept(found, source)
        content.flush()
        os.fdatasync(content.fileno())
    snapshot = Snapshot(folder, entries, frozenset(tree.git_entries), left_out)
    write_rows(folder / "start", entries | {path: GONE._replace(source=GIT_ENTRY) for path in snapshot.git_entries})
    return snapshot


def take_part(root: Path, now: Now, folder: Path) -> None:
    """Write a snapshot of some paths alone, also of those at which there is nothing; all bytes are copied.

    Raises:
        ConfigError: the disk has no room for it.
    """
    folder.mkdir(mode=0o700)
    refuse_without_room(folder, sum(found.st_size for found in now.values() if found and stat.S_ISREG(found.st_mode)))
    base = os.fsencode(root) + b"/"
    entries: dict[bytes, Kept] = {}
    with (folder / "content").open("wb") as content:
        for path, found in now.items():
            if found is None:
                entries[path] = GONE
            else:
                source = NOTHING if stat.S_ISDIR(found.st_mode) else keep(base + path, found, content)
                entries[path] = kept(found, source)
        content.flush()
        os.fdatasync(content.fileno())
    write_rows(folder / "start", entries)


def _choose(own: Mapping[bytes, int], optional: Collection[bytes], left_out: dict[bytes, str]) -> set[bytes]:
    """What is copied: everything that is not optional, then of the rest what can't be made again by a tool, as far as it fits."""
    chosen = own.keys() - set(optional)
    room = MAX_IGNORED
    skipped = {name.encode() for name in SKIPPED}
    for path in sorted(own.keys() & set(optional), key=lambda each: (not skipped.isdisjoint(each.split(b"/")), each)):
        if own[path] > MAX_IGNORED_FILE:
            left_out[path] = f"ignored, or of a repository inside, and larger than {MAX_IGNORED_FILE >> 20} MiB"
        elif own[path] > room:
            left_out[path] = f"ignored, and all ignored files together are larger than {MAX_IGNORED >> 20} MiB"
        else:
            room -= own[path]
            chosen.add(path)
    return chosen


def refuse_without_room(folder: Path, needed: int) -> None:
    """Find out whether so many bytes can be written there.

    Raises:
        ConfigError: they cannot.
    """
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    if needed > PIECE and needed + SPARE > free:
        raise ConfigError(
            f"the files to keep are {needed >> 20:,} MiB, and {str(folder)!r} has {free >> 20:,} MiB free for them; "
            "ignore or move large ones, set AGENT_HARNESS_HOME to a larger disk, or use --surface local"
        )


def load(folder: Path) -> Snapshot | None:
    """The snapshot that was written there; None when there is none, or only a part of one."""
    if not (folder / "start").exists():
        return None
    entries = read_rows(folder / "start")
    git_entries = frozenset(path for path, each in entries.items() if each.source == GIT_ENTRY)
    for path in git_entries:
        del entries[path]
    return Snapshot(folder, entries, git_entries, {})


def load_end(folder: Path) -> dict[bytes, Kept] | None:
    """What the session left: path -> its end; None when it was broken off before it could write that down."""
    return read_rows(folder / "end") if (folder / "end").exists() else None


def describe_left_out(left_out: Mapping[bytes, str]) -> str:
    """One line for people: what a restore will not give back."""
    reasons: dict[str, list[bytes]] = {}
    for path, why in left_out.items():
        reasons.setdefault(why, []).append(path)
    parts = [
        f"{len(paths):,} x {why} ({', '.join(shown(decode(path)) for path in paths[:3])}{', ...' if len(paths) > 3 else ''})"
        for why, paths in reasons.items()
    ]
    return "not in the snapshot, so `restore` cannot give it back: " + "; ".join(parts)
