"""Every byte and mode of a checkout at the start of a session, and what the session changed: enough to give all of it back.

A file that git's index knows to be unchanged is kept as the id of its blob: the repository has the bytes. Everything else is
copied as it is into one file in the session folder. Nothing of git runs for that, so no filter and no hook can.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agent_harness.errors import ConfigError
from agent_harness.surfaces.paths import SKIPPED, decode, shown
from agent_harness.surfaces.tree import Token, Tree

MAX_IGNORED_FILE = 1 << 20  # bytes; an ignored file that is larger is left out
MAX_IGNORED = 64 << 20  # bytes of all ignored files together
SPARE = 256 << 20  # bytes that a snapshot leaves free on the disk it is written to
MAX_DIGEST = 1 << 20  # bytes of a file whose end is told by its content, too
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PIECE = 1 << 20
NOTHING, LEFT_OUT = b"folder", b"none"


class Kept(NamedTuple):
    """What was there, and where its bytes are.

    Attributes:
        mode: kind and permission bits.
        source: `folder`; `git:<blob id>`; `own:<offset>` in the session's content file; `none` when they were left out.
    """

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    source: bytes

    @property
    def token(self) -> Token:
        """As `tree.token`."""
        return self.ino, self.size, self.mtime_ns, self.ctime_ns, self.mode

    def is_still(self, found: os.stat_result | None) -> bool:
        """Whether nothing happened to it since; of a folder its kind and mode."""
        if found is None or found.st_mode != self.mode:
            return False
        return stat.S_ISDIR(self.mode) or self.token == _token(found)


class End(NamedTuple):
    """What a session left at a path: nothing when `mode` is 0; `digest` is empty when the file was too large."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    digest: bytes

    def is_still(self, found: os.stat_result | None) -> bool:
        """Whether the path is as the session left it, by its stat data alone."""
        if found is None or self.mode == 0:
            return found is None and self.mode == 0
        if found.st_mode != self.mode:
            return False
        return stat.S_ISDIR(self.mode) or (self.ino, self.size, self.mtime_ns, self.ctime_ns, self.mode) == _token(found)


def _token(found: os.stat_result) -> Token:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


@dataclass
class Snapshot:
    """A start, in memory and in `folder`.

    Attributes:
        entries: path -> what was there.
        git_entries: paths named `.git`, never looked into.
        repositories: folders that were repositories.
        left_out: paths whose bytes are not kept, and why.
    """

    folder: Path
    entries: dict[bytes, Kept]
    git_entries: frozenset[bytes]
    repositories: frozenset[bytes]
    left_out: dict[bytes, str]

    def changes(self, tree: Tree) -> dict[bytes, os.stat_result | None]:
        """Every path that is not as it was: what is there now, None when nothing is."""
        now = tree.nodes
        changed: dict[bytes, os.stat_result | None] = {
            path: now.get(path) for path, kept in self.entries.items() if not kept.is_still(now.get(path))
        }
        changed.update((path, now[path]) for path in now.keys() - self.entries.keys())
        return changed

    def record_end(self, root: Path, tree: Tree) -> int:
        """Write down what the session leaves; returns how many paths it changed."""
        changed = self.changes(tree)
        lines = [_line(path, _end_of(root, path, found)) for path, found in changed.items()]
        _write(self.folder / "end", lines)
        return len(changed)


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
        optional: files that are left out when they are too large: ignored ones, and what a filter can make again.
        folder: where it is written.

    Raises:
        ConfigError: the disk has no room for it.
    """
    own = own_files(tree, clean)
    left_out = dict.fromkeys(tree.unreadable, "a folder that cannot be listed")
    chosen = _choose(own, optional, left_out)
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_without_room(folder, sum(own[path] for path in chosen))
    entries: dict[bytes, Kept] = {}
    base = os.fsencode(root) + b"/"
    with (folder / "content").open("wb") as content:
        for path, found in tree.nodes.items():
            mode = found.st_mode
            if stat.S_ISDIR(mode):
                source = NOTHING
            elif path in clean:
                source = b"git:" + clean[path]
            elif path in chosen or stat.S_ISLNK(mode):
                source = _keep(base + path, found, content)
                if source == LEFT_OUT:
                    left_out[path] = "it cannot be read"
            else:
                source = LEFT_OUT
            entries[path] = Kept(mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, source)
        content.flush()
        os.fdatasync(content.fileno())
    snapshot = Snapshot(folder, entries, frozenset(tree.git_entries), frozenset(tree.repositories()), left_out)
    heads = [_line(path, Kept(0, 0, 0, 0, 0, b"git-entry")) for path in sorted(snapshot.git_entries)]
    heads += [_line(path, Kept(0, 0, 0, 0, 0, b"repository")) for path in sorted(snapshot.repositories)]
    _write(folder / "start", [*heads, *(_line(path, kept) for path, kept in entries.items())])
    return snapshot


def _choose(own: Mapping[bytes, int], optional: Collection[bytes], left_out: dict[bytes, str]) -> set[bytes]:
    """What is copied: everything that is not optional, then of the rest what can't be made again by a tool, as far as it fits."""
    chosen = own.keys() - set(optional)
    room = MAX_IGNORED
    skipped = {name.encode() for name in SKIPPED}
    for path in sorted(own.keys() & set(optional), key=lambda each: (not skipped.isdisjoint(each.split(b"/")), each)):
        if own[path] > MAX_IGNORED_FILE:
            left_out[path] = f"ignored, and larger than {MAX_IGNORED_FILE >> 20} MiB"
        elif own[path] > room:
            left_out[path] = f"ignored, and all ignored files together are larger than {MAX_IGNORED >> 20} MiB"
        else:
            room -= own[path]
            chosen.add(path)
    return chosen


def _refuse_without_room(folder: Path, needed: int) -> None:
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    if needed > PIECE and needed + SPARE > free:
        raise ConfigError(
            f"the files that git does not have are {needed >> 20:,} MiB, and {str(folder)!r} has {free >> 20:,} MiB free for the "
            "snapshot of them; ignore or move large ones, set AGENT_HARNESS_HOME to a larger disk, or use --surface local"
        )


def _keep(where: bytes, found: os.stat_result, content: BinaryIO) -> bytes:
    """Copy a file's bytes, or where a link points to."""
    offset = content.tell()
    try:
        if stat.S_ISLNK(found.st_mode):
            content.write(os.readlink(where))  # noqa: PTH115 - bytes
        else:
            with os.fdopen(os.open(where, READ), "rb", buffering=0) as file:
                left = found.st_size  # a file that grows meanwhile is kept as long as it was
                while left and (piece := file.read(min(left, PIECE))):
                    content.write(piece)
                    left -= len(piece)
            content.write(b"\0" * left)
    except OSError:
        content.seek(offset)
        content.truncate()
        return LEFT_OUT
    return b"own:%d" % offset


def _end_of(root: Path, path: bytes, found: os.stat_result | None) -> End:
    if found is None:
        return End(0, 0, 0, 0, 0, b"")
    digest = content_digest(root, path) if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_DIGEST else b""
    return End(found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, digest)


def content_digest(root: Path, path: bytes) -> bytes:
    """SHA-256 of a file, in hex; empty when it can't be read."""
    digest = sha256()
    try:
        with os.fdopen(os.open(os.fsencode(root) + b"/" + path, READ), "rb", buffering=0) as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    except OSError:
        return b""
    return digest.hexdigest().encode()


def _line(path: bytes, entry: Kept | End) -> bytes:
    return b"%o %d %d %d %d %s\t%s" % (*entry, path)


def _write(file: Path, lines: Iterable[bytes]) -> None:
    part = file.with_suffix(".part")
    with part.open("wb") as out:
        out.write(b"".join(line + b"\0" for line in lines))
        out.flush()
        os.fdatasync(out.fileno())
    part.replace(file)


def _lines(file: Path) -> Iterator[tuple[bytes, tuple[int, int, int, int, int], bytes]]:
    for line in file.read_bytes().split(b"\0"):
        about, tab, path = line.partition(b"\t")
        if tab:
            mode, size, mtime, ctime, ino, last = about.split(b" ", 5)
            yield path, (int(mode, 8), int(size), int(mtime), int(ctime), int(ino)), last


def load(folder: Path) -> Snapshot | None:
    """The snapshot that was written there; None when there is none, or only a part of one."""
    if not (folder / "start").exists():
        return None
    entries: dict[bytes, Kept] = {}
    special: dict[bytes, set[bytes]] = {b"git-entry": set(), b"repository": set()}
    for path, numbers, source in _lines(folder / "start"):
        if source in special:
            special[source].add(path)
        else:
            entries[path] = Kept(*numbers, source)
    return Snapshot(folder, entries, frozenset(special[b"git-entry"]), frozenset(special[b"repository"]), {})


def load_end(folder: Path) -> dict[bytes, End] | None:
    """What the session left: path -> its end; None when it was broken off before it could write that down."""
    if not (folder / "end").exists():
        return None
    return {path: End(*numbers, digest) for path, numbers, digest in _lines(folder / "end")}


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
