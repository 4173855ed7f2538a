"""A window of whole lines out of a file of any size, in bounded memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_harness.surfaces.base import Chunk

STEP = 1 << 20  # bytes at once while lines are counted: measured fastest, and all the memory it takes
MAX_BYTES = 50 * 1024
MAX_LINES = 2_000

ReadAt = Callable[[int, int], Awaitable[Chunk]]


@dataclass(frozen=True, slots=True)
class Window:
    """Lines `first` to `first + len(lines) - 1` of a file.

    Attributes:
        lines: without their line ends.
        total: how many lines the file has, when the window reaches its end or begins past it; else None.
        ends_in_newline: whether the last of `lines` is finished.
        too_long: the first line alone exceeds the window.
    """

    first: int
    lines: list[bytes]
    total: int | None = None
    ends_in_newline: bool = True
    too_long: bool = False


async def window(read: ReadAt, start: int, first: int, limit: int) -> Window:
    """Read lines `first` on: at most `limit`, and at most 50 KiB.

    Args:
        read: gives at most so many bytes from an offset on.
        start: offset of line 1 (behind a byte order mark).
        first: counted from 1.
        limit: lines.
    """
    offset, line, unfinished = start, 1, False  # `offset` lies in line `line`
    while True:
        chunk = await read(offset, STEP)
        count = chunk.data.count(b"\n") if line < first else 0
        if line + count >= first:
            break
        if not chunk.data:
            return Window(first, [], line - 1 + unfinished)
        offset += len(chunk.data)
        line += count
        unfinished = not chunk.data.endswith(b"\n")
    data = chunk.data[_after_newlines(chunk.data, first - line) :]
    offset += len(chunk.data)
    while len(data) <= MAX_BYTES and offset < chunk.size:
        chunk = await read(offset, MAX_BYTES + 1 - len(data))
        if not chunk.data:
            break
        offset += len(chunk.data)
        data += chunk.data
    return cut_window(data, first, limit)


def _after_newlines(data: bytes, count: int) -> int:
    """Offset behind the `count`th line end, which is there.

    Halving first: counting in C is far faster than finding line by line.
    """
    low, high = 0, len(data)
    while count > 64:
        middle = (low + high) // 2
        there = data.count(b"\n", low, middle)
        if there < count:
            count -= there
            low = middle
        else:
            high = middle
    for _ in range(count):
        low = data.find(b"\n", low) + 1
    return low


def cut_window(data: bytes, first: int, limit: int) -> Window:
    """The whole lines at the start of `data`, which is the file from line `first` on, or more than 50 KiB of it."""
    whole = len(data) <= MAX_BYTES
    lines = data[: MAX_BYTES + 1].split(b"\n")
    rest = lines.pop()
    if whole and rest:
        lines.append(rest)
    if not lines and not whole:
        return Window(first, [], too_long=True)
    shown = [line.removesuffix(b"\r") for line in lines[:limit]]
    if whole and len(lines) <= limit:
        return Window(first, shown, first - 1 + len(lines), not rest)
    return Window(first, shown)
