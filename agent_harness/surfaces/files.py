"""Files of a folder on this machine: read, write, stat, list, none of which a link or a race leads out of it.

Synchronous; a surface calls it in a thread. Every access starts at one descriptor of the folder, so the folder's own path may
change. What is opened is looked at after opening, never before: a FIFO or a device is not waited for and not acted on.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from agent_harness.errors import SurfaceError, SurfaceLost, ToolFailed
from agent_harness.surfaces.atomic import name_new_file, replace_file
from agent_harness.surfaces.base import Chunk, Entry, FileStat, Kind
from agent_harness.surfaces.beneath import FOLDER, Beneath, DeniedFile, Opener
from agent_harness.surfaces.paths import Denied, decode, encode, links_outside, missing, normalise, not_readable, shown

QUIET = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
READ_AT_ONCE = 1 << 20

Doing = Literal["read", "written"]


class HostFiles:
    """The file half of a surface whose worktree lies on this machine."""

    def __init__(self, root: Path, deny: Sequence[str] = (), *, seen_as: str = "", opener: Opener | None = None) -> None:
        """Open the folder; it stays open until `close`.

        Args:
            root: the worktree.
            deny: the person's denied globs.
            seen_as: absolute path of the worktree as the model sees it, when that is not `root`.
            opener: how to open; None = the best that this kernel has.

        Raises:
            ConfigError: a denied glob can't be read.
            SurfaceError: the folder can't be opened.
        """
        self.denied = Denied(deny)
        self.seen_as = seen_as or str(root)
        try:
            self._tree = Beneath(root, self.denied, opener)
        except OSError as error:
            raise SurfaceError(f'the worktree "{root}" can\'t be opened: {error.strerror}') from error

    def close(self) -> None:
        """Give the descriptor back; every later call raises `SurfaceLost`. Twice does nothing."""
        self._tree.close()

    def read(self, path: str, offset: int = 0, size: int | None = None) -> Chunk:
        """As `Surface.read`."""
        with self._refusing(path, "read") as clean, _closing(self._tree.open(clean, os.O_RDONLY | QUIET)) as (fd, _):
            found = os.fstat(fd)
            _only_regular(path, found)
            return Chunk(_read(fd, offset, size, found.st_size), found.st_size, _token(found))

    def stat(self, path: str) -> FileStat:
        """As `Surface.stat`."""
        with self._refusing(path, "read") as clean, _closing(self._tree.open(clean, LOOK)) as (fd, _):
            found = os.fstat(fd)
            return FileStat(_kind(found.st_mode), found.st_size, stat.S_IMODE(found.st_mode), _token(found))

    def list(self, path: str) -> list[Entry]:
        """As `Surface.list`."""
        with self._refusing(path, "read") as clean, _closing(self._open_folder(path, clean)) as (fd, resolved):
            below = "" if resolved == "." else resolved + "/"
            with os.scandir(fd) as found:
                entries = [_entry(each) for each in found if not self.denied(below + _name(each))]
        return [entry for entry in entries if entry is not None]

    def _open_folder(self, path: str, clean: str) -> tuple[int, str]:
        try:
            return self._tree.open(clean, os.O_RDONLY | os.O_DIRECTORY | QUIET)
        except NotADirectoryError:
            self.stat(path)  # something on the way may be a file, then the path is missing
            raise ToolFailed(f"{shown(path)} is not a folder.") from None

    def write(self, path: str, data: bytes, *, mode: int | None = None, create: bool = False) -> None:
        """As `Surface.write`. Nothing is left behind when it fails.

        A file with several names, or of an owner whom we can't give it to, is written in place: it stays the same file for all.
        """
        with self._refusing(path, "written") as clean:
            if create:
                self._create(path, clean, data, mode)
                return
            with self._tree.place(clean) as place:
                found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
                _only_regular(path, found)
                self._refuse_git(place.folder, found)
                replace_file(place.folder, place.name, found, data)

    def _create(self, path: str, clean: str, data: bytes, mode: int | None) -> None:
        if self.denied(clean):
            raise DeniedFile
        if clean == ".":
            raise ToolFailed(f"{shown(path)} exists already.")
        folder, _, name = clean.rpartition("/")
        made: list[str] = []
        try:
            with _closing(self._make_folder(path, folder or ".", made)) as (fd, resolved):
                if self.denied(name if resolved == "." else f"{resolved}/{name}"):
                    raise DeniedFile
                self._refuse_git(fd, None)
                try:
                    name_new_file(fd, encode(name), mode, data)
                except FileExistsError:
                    raise ToolFailed(f"{shown(path)} exists already.") from None
        except BaseException:
            self._remove_folders(made)
            raise

    def _make_folder(self, path: str, folder: str, made: list[str]) -> tuple[int, str]:
        """Open a folder, making what is missing of it; what was made is appended to `made`."""
        names: list[str] = []
        while True:
            try:
                fd, at = self._tree.open(folder, FOLDER)
                break
            except FileNotFoundError:
                if folder == ".":
                    raise
                above, _, name = folder.rpartition("/")
                names.append(name)
                folder = above or "."
        for name in reversed(names):
            with _closing((fd, at)):
                at = name if at == "." else f"{at}/{name}"
                if self.denied(at):
                    raise DeniedFile
                self._refuse_git(fd, None)
                try:
                    os.mkdir(encode(name), dir_fd=fd)
                except FileExistsError:
                    raise ToolFailed(f"{shown(path)} can't be created: {shown(at)} is a link that leads nowhere.") from None
                made.append(at)
                fd = os.open(encode(name), FOLDER | os.O_NOFOLLOW, dir_fd=fd)
        return fd, at

    def _remove_folders(self, made: list[str]) -> None:
        for folder in reversed(made):
            with suppress(OSError, DeniedFile), self._tree.place(folder) as place:
                os.rmdir(place.name, dir_fd=place.folder)

    def _refuse_git(self, folder: int, target: os.stat_result | None) -> None:
        """Refuse what is `.git`, or lies in it, under whichever name a file system that folds names gives it.

        Raises:
            DeniedFile: it is.
        """
        try:
            git = os.stat(".git", dir_fd=self._tree.root, follow_symlinks=False)
        except FileNotFoundError:
            return
        if target is not None and os.path.samestat(target, git):
            raise DeniedFile
        root, at = os.fstat(self._tree.root), os.dup(folder)
        try:
            while not os.path.samestat(here := os.fstat(at), root):
                if os.path.samestat(here, git):
                    raise DeniedFile
                above = os.open("..", FOLDER, dir_fd=at)
                os.close(at)
                at = above
                if os.path.samestat(os.fstat(at), here):
                    return
        finally:
            os.close(at)

    @contextmanager
    def _refusing(self, path: str, doing: Doing) -> Generator[str]:
        """The path in its one spelling; what goes wrong inside becomes a refusal for the model or a failure of the surface."""
        if self._tree.root < 0:
            raise SurfaceLost("the worktree is closed; start a new session")
        clean = normalise(path, root=self.seen_as)
        try:
            yield clean
        except DeniedFile:
            raise not_readable(path) from None
        except OSError as error:
            raise _refusal(path, doing, error) from error


def _refusal(path: str, doing: Doing, error: OSError) -> ToolFailed | SurfaceError:
    name = shown(path)
    match error.errno:
        case errno.EXDEV:
            return links_outside(path)
        case errno.ENOENT:
            return missing(path)
        case errno.ENOTDIR | errno.ENAMETOOLONG if doing == "read":
            return missing(path)
        case errno.ENOTDIR:
            return ToolFailed(f"{name} can't be written: a folder on its way is a file.")
        case errno.ENAMETOOLONG:
            return ToolFailed(f"{name} can't be written: the name is too long.")
        case errno.ELOOP:
            return ToolFailed(f"{name} is a link that leads back to itself.")
        case errno.EACCES | errno.EPERM | errno.EROFS | errno.EBUSY | errno.ETXTBSY:
            return ToolFailed(f"{name} can't be {doing}: {os.strerror(error.errno).lower()}.")
        case errno.EISDIR:
            return ToolFailed(f"{name} is a folder.")
        case errno.EAGAIN:
            return ToolFailed(f"{name} keeps changing while it is being {doing}; try again.")
        case errno.ENXIO | errno.ENODEV | errno.EOPNOTSUPP:
            return ToolFailed(f"{name} is not a regular file.")
        case _:
            return SurfaceError(f"{name} could not be {doing}: {error.strerror}")


@contextmanager
def _closing(opened: tuple[int, str]) -> Generator[tuple[int, str]]:
    try:
        yield opened
    finally:
        os.close(opened[0])


def _only_regular(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"{shown(path)} is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"{shown(path)} is not a regular file.")


def _read(fd: int, offset: int, size: int | None, expected: int) -> bytes:
    """Up to `size` bytes, never more in memory than were there; a file that grows meanwhile is read to its new end."""
    pieces: list[bytes] = []
    at_once = min(READ_AT_ONCE, max(1 << 16, expected - offset + 1))
    while size is None or size > 0:
        piece = os.pread(fd, at_once if size is None else min(at_once, size), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        size = None if size is None else size - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _token(found: os.stat_result) -> str:
    """Which file, how long, when its content and when anything about it was last changed: a restored time gives nothing away."""
    return f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"


def _name(entry: os.DirEntry[str]) -> str:
    return decode(os.fsencode(entry.name))


def _entry(entry: os.DirEntry[str]) -> Entry | None:
    """None when it vanished since the folder was read."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = _kind(found.st_mode)
    return Entry(_name(entry), kind, found.st_size if kind == "file" else 0)
