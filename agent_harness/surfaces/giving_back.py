"""Puts paths of a checkout back to what was kept of them: kind, mode, bytes, time of change. No link is followed on the way.

What is wrong at a path is removed first, what lies deepest before what holds it; then folders are made, files written whole
under another name and renamed, and the folders' own modes set last, because a folder may be one that nobody may write to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.surfaces.atomic import name_new_file, replace_file
from agent_harness.surfaces.kept import GONE, LEFT_OUT, Kept, read_own, same_bytes
from agent_harness.surfaces.snapshot import Now

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OWNER = 0o700
Blobs = Mapping[bytes, tuple[int, int]]
"""Id of a blob -> offset and size in the file of blobs."""


@dataclass
class GivenBack:
    """What was done.

    Attributes:
        written: paths that are again what they were.
        removed: paths at which there is nothing again.
        failed: path -> why it could not be done.
    """

    written: list[bytes] = field(default_factory=list[bytes])
    removed: list[bytes] = field(default_factory=list[bytes])
    failed: dict[bytes, str] = field(default_factory=dict[bytes, str])


class GivingBack:
    """One restoring.

    Args:
        root: the checkout.
        wanted: path -> what is to be there.
        now: the same paths -> what is there.
        content: the file of the bytes that were copied.
        blobs: a file of blobs, and where each lies in it.
    """

    def __init__(self, root: Path, wanted: Mapping[bytes, Kept], now: Now, content: Path, blobs: tuple[Path, Blobs]) -> None:
        self._root = os.open(root, FOLDER)
        self._base = os.fsencode(root) + b"/"
        self._wanted = wanted
        self._now = now
        self._content = content
        self._blob_file, self._blobs = blobs
        self._modes: dict[bytes, int] = {}
        self._done = GivenBack()

    def run(self) -> GivenBack:
        """Do it; what cannot be done at one path keeps nobody from the others."""
        try:
            for path in sorted(self._wanted, reverse=True):
                with self._noting(path):
                    self._remove(path)
            for path in sorted(self._wanted):
                with self._noting(path):
                    self._put(path)
            for path in sorted(self._modes, reverse=True):
                with self._noting(path):
                    self._set_mode(path, self._modes[path])
        finally:
            os.close(self._root)
        return self._done

    @contextmanager
    def _noting(self, path: bytes) -> Generator[None]:
        try:
            yield
        except OSError as error:
            self._done.failed.setdefault(path, (error.strerror or str(error)).lower())

    @contextmanager
    def _folder_of(self, path: bytes) -> Generator[tuple[int, bytes]]:
        """A descriptor of the folder that a path is in, and its name there; the folder can be written to."""
        *folders, name = path.split(b"/")
        fd = os.dup(self._root)
        try:
            at = b""
            for folder in folders:
                at = at + b"/" + folder if at else folder
                self._open_up(fd)
                inner = os.open(folder, FOLDER, dir_fd=fd)
                os.close(fd)
                fd = inner
                if (mode := stat.S_IMODE(os.fstat(fd).st_mode)) & OWNER != OWNER:
                    self._modes.setdefault(at, mode)
            self._open_up(fd)
            yield fd, name
        finally:
            os.close(fd)

    def _open_up(self, fd: int) -> None:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & OWNER != OWNER:
            Path(f"/proc/self/fd/{fd}").chmod(mode | OWNER)

    def _remove(self, path: bytes) -> None:
        wanted, found = self._wanted[path], self._now[path]
        if found is None:
            with suppress(FileNotFoundError, NotADirectoryError), self._folder_of(path) as (folder, name):
                _remove_special(folder, name)
            return
        if wanted.mode and stat.S_IFMT(wanted.mode) == stat.S_IFMT(found.st_mode):
            return
        if wanted.source == LEFT_OUT:
            raise OSError(0, "its content was not in the snapshot, so it is left as it is")
        with self._folder_of(path) as (folder, name):
            if stat.S_ISDIR(found.st_mode):
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    for each in os.listdir(inner):  # noqa: PTH208 - a descriptor
                        _remove_special(inner, os.fsencode(each))
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=folder)
                self._modes.pop(path, None)
            else:
                os.unlink(name, dir_fd=folder)
        if wanted == GONE:
            self._done.removed.append(path)

    def _put(self, path: bytes) -> None:
        wanted = self._wanted[path]
        if wanted.mode == 0 or path in self._done.failed:
            return
        with self._folder_of(path) as (folder, name):
            if stat.S_ISDIR(wanted.mode):
                with suppress(FileExistsError):
                    os.mkdir(name, OWNER, dir_fd=folder)
                self._modes[path] = stat.S_IMODE(wanted.mode)
            elif stat.S_ISLNK(wanted.mode):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                os.symlink(read_own(self._content, wanted), name, dir_fd=folder)
            else:
                self._put_file(path, wanted, folder, name)
        self._done.written.append(path)

    def _put_file(self, path: bytes, wanted: Kept, folder: int, name: bytes) -> None:
        mode = stat.S_IMODE(wanted.mode)
        try:
            old = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            old = None
        if old is not None and old.st_nlink > 1 and old.st_ino != wanted.ino:
            os.unlink(name, dir_fd=folder)  # another file's second name, laid here: nothing may be written through it
            old = None
        if old is not None and same_bytes(self._base + path, wanted, self._content):
            self._finish_file(folder, name, mode, None)
            return
        data = self._data(wanted)
        if old is None:
            name_new_file(folder, name, mode, data)
        else:
            replace_file(folder, name, old, data)
        self._finish_file(folder, name, mode, wanted.mtime_ns)

    def _finish_file(self, folder: int, name: bytes, mode: int, mtime_ns: int | None) -> None:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            Path(f"/proc/self/fd/{fd}").chmod(mode)
            if mtime_ns is not None:
                os.utime(f"/proc/self/fd/{fd}", ns=(mtime_ns, mtime_ns))
        finally:
            os.close(fd)

    def _data(self, wanted: Kept) -> bytes:
        if wanted.blob:
            place = self._blobs.get(wanted.blob)
            if place is None or place[1] != wanted.size:
                raise OSError(0, "git does not have its content any more")
            with self._blob_file.open("rb") as file:
                file.seek(place[0])
                return file.read(place[1])
        if wanted.offset < 0:
            raise OSError(0, "its content was not in the snapshot")
        return read_own(self._content, wanted)

    def _set_mode(self, path: bytes, mode: int) -> None:
        with self._folder_of(path) as (folder, name):
            fd = os.open(name, FOLDER, dir_fd=folder)
            try:
                Path(f"/proc/self/fd/{fd}").chmod(mode)
            finally:
                os.close(fd)


def _remove_special(folder: int, name: bytes) -> None:
    """Remove a pipe or a socket: a look at a checkout leaves them out, and they have no bytes to lose."""
    with suppress(FileNotFoundError):
        kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            os.unlink(name, dir_fd=folder)
