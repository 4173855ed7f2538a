"""What lay at a path of a checkout, where its bytes are kept, and the two files of a session folder that say so.

`start` has columns, one row a path: `content` the bytes of files one after the other. Paths are bytes, as `tree.py` has them.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Mapping
from contextlib import suppress
from hashlib import new
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agent_harness.errors import HarnessError
from agent_harness.surfaces.tree import Token, token

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PIECE = 1 << 20
MAGIC = b"agent-harness 1\n"
NUMBERS = 5  # fields of `Kept` that are numbers
NOTHING, LEFT_OUT, ABSENT = b"folder", b"none", b"absent"


class Kept(NamedTuple):
    """What was there, and where its bytes are.

    Attributes:
        mode: kind and permission bits; 0 when nothing was there.
        source: `folder`; `git:<blob id>`; `own:<offset>` in the content file; `none` when they were left out; `absent`.
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

    @property
    def is_file(self) -> bool:
        """Whether it was a file or a link."""
        return self.mode != 0 and not stat.S_ISDIR(self.mode)

    @property
    def blob(self) -> bytes:
        """Id of the blob that has the bytes; empty when they are elsewhere."""
        return self.source.removeprefix(b"git:") if self.source.startswith(b"git:") else b""

    @property
    def offset(self) -> int:
        """Where the bytes begin in the content file; -1 when they are elsewhere."""
        return int(self.source.removeprefix(b"own:")) if self.source.startswith(b"own:") else -1

    def is_still(self, found: os.stat_result | None) -> bool:
        """Whether nothing happened to it since; of a folder its kind and mode."""
        if found is None or self.mode == 0:
            return found is None and self.mode == 0
        if found.st_mode != self.mode:
            return False
        return stat.S_ISDIR(self.mode) or self.token == token(found)


GONE = Kept(0, 0, 0, 0, 0, ABSENT)


def kept(found: os.stat_result, source: bytes) -> Kept:
    """What a look found, with the place of its bytes."""
    return Kept(found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, source)


def keep(where: bytes, found: os.stat_result, content: BinaryIO) -> bytes:
    """Append a file's bytes, or where a link points to; returns the source, `none` when it cannot be read."""
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


def write_rows(file: Path, rows: Mapping[bytes, Kept]) -> None:
    """Whole or not at all, and on the disk when it returns.

    The numbers first, a column after the other, then paths and sources, each ended by a NUL: of a large checkout a line of text a
    path would take longer to make than everything else.
    """
    columns = list(zip(*rows.values(), strict=True)) if rows else [()] * len(Kept._fields)
    numbers = b"".join(array("q", column).tobytes() for column in columns[:NUMBERS])
    part = file.with_suffix(".part")
    with part.open("wb") as out:
        out.write(MAGIC + array("q", [len(rows)]).tobytes() + numbers)
        out.write(b"".join(b"\0".join([*texts, b""]) for texts in (rows, columns[NUMBERS])))
        out.flush()
        os.fdatasync(out.fileno())
    part.replace(file)


def read_rows(file: Path) -> dict[bytes, Kept]:
    """What `write_rows` wrote.

    Raises:
        HarnessError: it is another format, or not whole.
    """
    data = file.read_bytes()
    numbers = array("q")
    start = len(MAGIC) + numbers.itemsize
    numbers.frombytes(data[len(MAGIC) : start])
    count = numbers[0] if data.startswith(MAGIC) and numbers else -1
    end = start + NUMBERS * count * numbers.itemsize
    texts = data[end:].split(b"\0")
    if count < 0 or len(texts) != 2 * count + 1:
        raise HarnessError(f"{str(file)!r} is damaged, or was written on another kind of machine")
    numbers = array("q")
    numbers.frombytes(data[start:end])
    columns = [numbers[each * count : (each + 1) * count] for each in range(NUMBERS)]
    return {path: Kept(*row) for path, *row in zip(texts[:count], *columns, texts[count : 2 * count], strict=True)}


def same_bytes(where: bytes, wanted: Kept, content: Path) -> bool:
    """Whether a regular file or a link has the bytes that were kept of it; False when that cannot be told."""
    try:
        if stat.S_ISLNK(wanted.mode):
            return os.readlink(where) == read_own(content, wanted)  # noqa: PTH115 - bytes
        if os.lstat(where).st_size != wanted.size:
            return False
        if wanted.blob:
            return blob_id(where, wanted.size, len(wanted.blob)) == wanted.blob
        return wanted.offset >= 0 and _same_as_own(where, wanted, content)
    except OSError:
        return False


def _same_as_own(where: bytes, wanted: Kept, content: Path) -> bool:
    with os.fdopen(os.open(where, READ), "rb") as now, content.open("rb") as before:
        before.seek(wanted.offset)
        left = wanted.size
        while left:
            size = min(left, PIECE)
            if now.read(size) != before.read(size):
                return False
            left -= size
    return True


def read_own(content: Path, wanted: Kept) -> bytes:
    """The bytes that were copied of a file or a link.

    Raises:
        OSError: the content file is not whole.
    """
    with content.open("rb") as file:
        file.seek(wanted.offset)
        data = file.read(wanted.size)
    if len(data) != wanted.size:
        raise OSError(f"{str(content)!r} ends too early")
    return data


def blob_id(where: bytes, size: int, digits: int) -> bytes:
    """The id that git would give a file's bytes as they are.

    Raises:
        OSError: it cannot be read.
    """
    digest = new("sha1" if digits == 40 else "sha256", b"blob %d\0" % size, usedforsecurity=False)
    with os.fdopen(os.open(where, READ), "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest().encode()


def content_digest(where: bytes) -> bytes:
    """The same without a length, to compare files that were never in git; empty when it cannot be read."""
    with suppress(OSError):
        return b"sha:" + blob_id(where, 0, 64)
    return b""
