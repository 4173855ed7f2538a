"""Replacing and creating one file in an opened folder, whole or not at all. Names only, relative to the folder's descriptor.

Nothing is flushed to the disk: an edit may be lost with the machine, and a flush costs milliseconds.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress

TEMPORARY = b".agent-harness-"
"""How the name of a half-written file begins; one is left only when the process is killed in the middle of a write."""

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(folder: int, name: bytes, old: os.stat_result, data: bytes) -> None:
    """Give a regular file new content and keep its mode and owner.

    Args:
        folder: descriptor of its folder.
        name: the file; should it have become a link meanwhile, the link is replaced and not followed.
        old: what the file was.
        data: the whole content.

    Raises:
        OSError: the file is as it was.
    """
    if old.st_nlink > 1:
        return _write_in_place(folder, name, old, data)
    temporary, fd = _temporary(folder, 0o600)
    try:
        try:
            if not _give_to(fd, old):
                os.unlink(temporary, dir_fd=folder)
                return _write_in_place(folder, name, old, data)
            _write(fd, data)
            os.fchmod(fd, old.st_mode & 0o7777)
            _differ(fd, old)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return None


def name_new_file(folder: int, name: bytes, mode: int | None, data: bytes) -> None:
    """Make a file that appears with its content.

    Args:
        folder: descriptor of its folder.
        name: must be free.
        mode: permission bits; None = 0644 by the umask.
        data: the whole content.

    Raises:
        FileExistsError: the name is taken, be it by a link that leads nowhere.
        OSError: nothing was made.
    """
    temporary, fd = _temporary(folder, 0o644)
    try:
        try:
            _write(fd, data)
            if mode is not None:
                os.fchmod(fd, mode & 0o777)
        finally:
            os.close(fd)
        _take_name(folder, temporary, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _take_name(folder: int, temporary: bytes, name: bytes) -> None:
    """Rename without replacing: a second link, then the first name goes; without links the name is reserved by an empty file."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        os.close(os.open(name, NEW, 0o600, dir_fd=folder))
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(temporary, dir_fd=folder)


def _temporary(folder: int, mode: int) -> tuple[bytes, int]:
    name = TEMPORARY + secrets.token_hex(8).encode("ascii")
    return name, os.open(name, NEW, mode, dir_fd=folder)


def _give_to(fd: int, old: os.stat_result) -> bool:
    """Whether the file now has the old one's owner and group."""
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(fd, old.st_uid, old.st_gid)
        except PermissionError:
            return False
    return True


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _differ(fd: int, old: os.stat_result) -> None:
    """Two writes within one tick of the clock, with an inode used again, would look like none: move the time by a nanosecond."""
    new = os.fstat(fd)
    if new.st_mtime_ns == old.st_mtime_ns:
        os.utime(fd, ns=(new.st_atime_ns, new.st_mtime_ns + 1))


def _write_in_place(folder: int, name: bytes, old: os.stat_result, data: bytes) -> None:
    fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not os.path.samestat(os.fstat(fd), old):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        before = os.pread(fd, old.st_size, 0)
        try:
            _overwrite(fd, data)
        except BaseException:
            with suppress(OSError):
                _overwrite(fd, before)
            raise
        _differ(fd, old)
    finally:
        os.close(fd)


def _overwrite(fd: int, data: bytes) -> None:
    os.lseek(fd, 0, os.SEEK_SET)
    _write(fd, data)
    os.ftruncate(fd, len(data))
