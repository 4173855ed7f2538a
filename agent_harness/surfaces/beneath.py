"""Opening what lies below one folder, so that no path and no race leads out of it.

A path is never checked and then opened: the kernel resolves it below a descriptor of the folder (`openat2`, Linux 5.6), or we do,
component by component, each opened relative to the one before and no link followed by the kernel. Links inside are followed by
the second way only, which knows at each step under which name it arrives, so that a link to a denied file is seen as that file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from agent_harness.surfaces.paths import decode, encode

TRIES = 100  # how often a rename may cross one resolution before the path counts as busy
MAX_LINKS = 40  # as in the kernel
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
SYS_OPENAT2 = 437
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
BENEATH_WITHOUT_LINKS = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS


class DeniedFile(Exception):
    """The path leads to a denied file, perhaps through a link."""


class Opener(Protocol):
    """Opens a path that has no link on it."""

    def __call__(self, root: int, path: bytes, flags: int) -> int | None:
        """A descriptor; None when the path has a link on it, or this opener can't tell.

        Raises:
            OSError: missing, forbidden, or leading out (EXDEV).
        """
        ...


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _syscall() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return function


class OpenAt2:
    """The kernel resolves. Four microseconds a path."""

    def __init__(self, call: Callable[..., int] | None = None, resolve: int = BENEATH_WITHOUT_LINKS) -> None:
        """Take another `syscall` than the C library's, or another way to resolve."""
        self._call = call or _syscall()
        self._resolve = resolve

    def __call__(self, root: int, path: bytes, flags: int) -> int | None:
        """As `Opener` says. EAGAIN means that a rename crossed the resolution."""
        how = _How(flags | os.O_CLOEXEC, 0, self._resolve)
        for _ in range(TRIES):
            fd = self._call(SYS_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            if code == errno.ELOOP:
                return None
            if code not in (errno.EAGAIN, errno.EINTR):
                raise OSError(code, os.strerror(code))
        return None

    def works(self, root: int) -> bool:
        """Whether this kernel has the call and lets us use it; some containers forbid it."""
        try:
            fd = self(root, b".", FOLDER)
        except OSError:
            return False
        if fd is None:
            return False
        os.close(fd)
        return True


def no_opener(root: int, path: bytes, flags: int) -> int | None:
    """For kernels without `openat2`: every path is walked."""
    del root, path, flags


def best_opener(root: int, kernel: OpenAt2 | None = None) -> Opener:
    """`openat2` where it works, else the walk alone."""
    if sys.platform == "linux" and (opener := kernel or OpenAt2()).works(root):
        return opener
    return no_opener


class Place:
    """A name in an opened folder, reached without leaving the root; the name was no link when we looked.

    Attributes:
        folder: descriptor of the folder. The place owns it: use it in a `with` statement.
        name: the last component, `.` for the root itself.
        path: where that is, relative to the root, links resolved.
    """

    __slots__ = ("folder", "name", "path")

    def __init__(self, folder: int, name: bytes, path: str) -> None:
        self.folder, self.name, self.path = folder, name, path

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.folder)


class Beneath:
    """Everything below one folder. Holds one descriptor of it until `close`."""

    def __init__(self, root: str | os.PathLike[str], denied: Callable[[str], bool], opener: Opener | None = None) -> None:
        """Open the root.

        Args:
            root: an existing folder; links on the way to it are followed now and never again.
            denied: whether a path relative to the root may not be opened.
            opener: the way to open; None = the best that this kernel has.
        """
        self.root = os.open(root, FOLDER)
        self.denied = denied
        self._opener = opener or best_opener(self.root)

    def close(self) -> None:
        """Give the descriptor back. Twice does nothing."""
        if self.root >= 0:
            os.close(self.root)
            self.root = -1

    def open(self, path: str, flags: int) -> tuple[int, str]:
        """A descriptor and the path it was reached by, links resolved.

        Args:
            path: as `normalise` spells it, so without `..`.
            flags: of `open(2)`; the result is never a link.

        Raises:
            DeniedFile: it is, or leads through, a denied file.
            OSError: ENOENT, EXDEV for a link that leads out, EAGAIN when the tree changes too fast, and the usual ones.
        """
        if self.denied(path):
            raise DeniedFile
        fd = self._opener(self.root, encode(path), flags)
        if fd is not None:
            return fd, path
        for _ in range(TRIES):
            with self.place(path) as place:
                try:
                    fd = os.open(place.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
                except OSError as error:
                    if _was_a_link(error, place.folder, place.name):
                        continue
                    raise
                if stat.S_ISLNK(os.fstat(fd).st_mode):
                    os.close(fd)
                    continue
                return fd, place.path
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def place(self, path: str) -> Place:
        """Where a file is or would be: every link resolved, the last one too; the file itself need not exist.

        Raises:
            DeniedFile: it is, or leads through, a denied file.
            OSError: a folder on the way is missing (ENOENT), no folder (ENOTDIR), or the way leads out (EXDEV).
        """
        if self.denied(path):
            raise DeniedFile
        parent, _, name = path.rpartition("/")
        fd = self._opener(self.root, encode(parent or "."), FOLDER)
        if fd is not None:
            with ExitStack() as kept:
                place = kept.enter_context(Place(fd, encode(name), path))
                if not _is_link(place):
                    kept.pop_all()
                    return place
        return self._walk(encode(path))

    def _walk(self, path: bytes) -> Place:
        walk = _Walk(self.root, self.denied, path)
        try:
            return walk.run()
        finally:
            walk.close()


def _is_link(place: Place) -> bool:
    return _link(place.folder, place.name) is not None


def _link(folder: int, name: bytes) -> bytes | None:
    """Where a link points, None when the name is no link (or not there)."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            return None
        raise


class _Walk:
    """One resolution by hand. The folders from the root down to the present one are all held open, so `..` can't be misled."""

    def __init__(self, root: int, denied: Callable[[str], bool], path: bytes) -> None:
        self.folders = [os.dup(root)]
        self.names: list[bytes] = []
        self.denied = denied
        self.todo = path.split(b"/")[::-1]
        self.links = 0

    def run(self) -> Place:
        """Go on until the last component is no link."""
        while self.todo:
            part = self.todo.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":
                self.up()
                continue
            if self.denied(self.path(part)):
                raise DeniedFile
            target = _link(self.folders[-1], part)
            if target is not None:
                self.follow(target)
            elif any(rest not in (b"", b".") for rest in self.todo):
                self.down(part)
            else:
                return Place(self.folders.pop(), part, self.path(part))
        return Place(self.folders.pop(), b".", self.path() or ".")

    def path(self, *more: bytes) -> str:
        return decode(b"/".join((*self.names, *more)))

    def up(self) -> None:
        if not self.names:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        self.names.pop()
        os.close(self.folders.pop())

    def down(self, part: bytes) -> None:
        for _ in range(TRIES):
            try:
                self.folders.append(os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=self.folders[-1]))
            except OSError as error:
                if not _was_a_link(error, self.folders[-1], part):
                    raise
                target = _link(self.folders[-1], part)
                if target is not None:
                    return self.follow(target)
            else:
                self.names.append(part)
                return None
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def follow(self, target: bytes) -> None:
        self.links += 1
        if target.startswith(b"/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if self.links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self.todo.extend(target.split(b"/")[::-1])

    def close(self) -> None:
        for fd in self.folders:
            os.close(fd)


def _was_a_link(error: OSError, folder: int, name: bytes) -> bool:
    """Whether a name would not open because it was a link at that moment: looking again, or trying again, is of use."""
    if error.errno != errno.ENOTDIR:
        return error.errno == errno.ELOOP
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
