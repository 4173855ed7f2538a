"""Matches of a search: read from a stream of any size in bounded memory, and shown within the window."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_harness.surfaces.paths import decode, shown

KEPT = 50  # matches shown at most
COUNTED = 1_000  # matches after which the search is stopped: enough to say how many more there are in the usual case
BEFORE = 80  # bytes of a long line shown before the match
PREVIEW = 240  # bytes of a line shown at most
ROOM = 3_700  # characters of matches in an answer
MAX_HEADER = 16 * 1024
MAX_LINE = 1 << 20  # bytes of a line held to find the match in it, when the program does not say where it is
BINARY = re.compile(rb"(?:grep: )?(.+): binary file matches|Binary file (.+) matches$", re.DOTALL)


@dataclass
class Hit:
    """One matching line; `column` counts bytes from 1, `size` the bytes of the line."""

    path: str
    line: int
    column: int
    preview: bytes = b""
    size: int = 0

    def take(self, piece: bytes) -> None:
        """The next piece of the line: what is near the match is kept."""
        begin = max(0, self.column - 1 - BEFORE) if self.column > PREVIEW // 2 else 0
        lacking = begin + PREVIEW - self.size
        if lacking > 0:
            self.preview += piece[max(0, begin - self.size) : lacking]
        self.size += len(piece)

    def text(self) -> str:
        """`path:line:text`, the path as `read_file` takes it; of a long line the part around the match, and which that is."""
        line = self.preview.removesuffix(b"\r").decode("utf-8", "replace")
        cut = self.size - len(self.preview)
        note = f" [from a line of {self.size:,} bytes, match at column {self.column:,}]" if cut else ""
        return f"{_plain(self.path)}:{self.line}:{line}{note}"


def _plain(path: str) -> str:
    return shown(path)[1:-1] if len(path) <= 200 else path


@dataclass
class Found:
    """What a search has found so far.

    Attributes:
        hits: the first ones.
        total: how many were seen, shown or not.
        binary: files that match but hold a NUL, so that their lines are not shown.
        messages: what the program said besides, for an error.
    """

    hits: list[Hit] = field(default_factory=list[Hit])
    total: int = 0
    binary: list[str] = field(default_factory=list[str])
    messages: bytes = b""

    def add(self, hit: Hit) -> None:
        """One more match; kept while there is room."""
        self.total += 1
        if len(self.hits) < KEPT:
            self.hits.append(hit)

    @property
    def full(self) -> bool:
        """Nothing more needs to be looked for."""
        return self.total >= COUNTED


class HitReader:
    """Reads `path NUL line:column:text` (or without the column) as it arrives.

    Args:
        accept: whether matches in that path may be shown.
        column_of: finds the column when the program does not print it; None when it does.
    """

    def __init__(self, accept: Callable[[str], bool], column_of: Callable[[bytes], int] | None = None) -> None:
        self.found = Found()
        self._accept = accept
        self._column_of = column_of
        self._hold = 0 if column_of is None else MAX_LINE
        self._judged: dict[str, bool] = {}
        self._buffer = b""
        self._hit: Hit | None = None

    def feed(self, data: bytes) -> bool:
        """Take the next piece of output; True when enough was found and the program may be ended."""
        buffer, at = self._buffer + data, 0
        while at < len(buffer) and not self.found.full:
            end = buffer.find(b"\n", at)
            if self._hit is None:
                begin = self._begin(buffer, at, end)
                if begin < 0:
                    break
                at = begin
                continue
            self._hit.take(buffer[at : end if end >= 0 else len(buffer)])
            at = end + 1 if end >= 0 else len(buffer)
            if end >= 0:
                self._end(self._hit)
        self._buffer = buffer[at:] if len(buffer) - at <= self._hold + MAX_HEADER else b""
        return self.found.full

    def _begin(self, buffer: bytes, at: int, end: int) -> int:
        """Read up to a line's text; where that begins, or -1 when more must arrive first."""
        nul = buffer.find(b"\0", at)
        if end >= 0 and (nul < 0 or end < nul):
            self._message(buffer[at:end])
            return end + 1
        first = buffer.find(b":", nul) if nul >= 0 else -1
        text = first if first < 0 or self._column_of is not None else buffer.find(b":", first + 1)
        if text < 0 or (self._column_of is not None and end < 0 and len(buffer) - text < MAX_LINE):
            return -1
        numbers = buffer[nul + 1 : text].split(b":")
        path = decode(buffer[at:nul]).removeprefix("./")
        if not all(number.isdigit() for number in numbers):
            return text + 1
        self._hit = Hit(path, int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 1)
        if self._column_of is not None:
            self._hit.column = self._column_of(buffer[text + 1 : end] if end >= 0 else buffer[text + 1 :]) or 1
        return text + 1

    def _end(self, hit: Hit) -> None:
        self._hit = None
        if self._accepts(hit.path):
            self.found.add(hit)

    def _accepts(self, path: str) -> bool:
        if path not in self._judged:
            self._judged[path] = self._accept(path)
        return self._judged[path]

    def _message(self, line: bytes) -> None:
        binary = BINARY.match(line)
        if binary is not None:
            path = decode(binary[1] or binary[2]).removeprefix("./")
            if self._accepts(path):
                self.found.binary.append(path)
            return
        if len(self.found.messages) < 2_000:
            self.found.messages += line + b"\n"


def render(found: Found) -> tuple[str, int]:
    """The kept matches by path and line, as many as fit whole; and how many of them are shown."""
    lines: list[str] = []
    room = ROOM
    for hit in sorted(found.hits, key=lambda hit: (hit.path, hit.line)):
        text = hit.text()
        room -= len(text) + 1
        if room < 0 and lines:
            break
        lines.append(text)
    return "\n".join(lines), len(lines)
