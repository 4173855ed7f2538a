"""Literal replacement in text whose line ends may be LF, CRLF or both: only the span changes, and it keeps its own line ends."""

from __future__ import annotations

import bisect
import difflib
import re
from dataclasses import dataclass

CRLF = "\r\n"
CONTEXT = 2
MAX_DIFF_LINES = 80
MAX_DIFF_CHARS = 3_000
MAX_MATCHES = 1_000
BIG_HUNK = 400  # lines above which a hunk is shown as all old, then all new: comparing them could take seconds


def unix(text: str) -> str:
    """The text with CRLF as LF, which is how the model sees every file."""
    return text.replace(CRLF, "\n")


@dataclass(frozen=True, slots=True)
class Matches:
    """Where a text occurs, overlapping places included.

    Attributes:
        starts: offsets of the first places, at most `MAX_MATCHES`.
        lines: the lines that they begin in, from 1.
        count: of all places.
    """

    starts: list[int]
    lines: list[int]
    count: int

    def __bool__(self) -> bool:
        return self.count > 0


def matches_of(text: str, old: str) -> Matches:
    """Every place in LF text where `old` begins."""
    starts: list[int] = []
    count, at = 0, text.find(old)
    while at >= 0:
        count += 1
        if len(starts) < MAX_MATCHES:
            starts.append(at)
        elif count > 10 * MAX_MATCHES:
            break
        at = text.find(old, at + 1)
    return Matches(starts, _line_numbers(text, starts), count)


def _line_numbers(text: str, offsets: list[int]) -> list[int]:
    lines: list[int] = []
    line, seen = 1, 0
    for offset in offsets:
        line += text.count("\n", seen, offset)
        seen = offset
        lines.append(line)
    return lines


@dataclass(frozen=True, slots=True)
class Replaced:
    """What came of it.

    Attributes:
        text: the whole new text, with its line ends.
        at_lines: the lines of the old text where a replacement begins, one each.
        diff: a bounded unified diff of the hunks.
    """

    text: str
    at_lines: list[int]
    diff: str


def replace(text: str, old: str, new: str, *, everywhere: bool) -> Replaced:
    """Replace the first place, or every place from left to right.

    Args:
        text: with its own line ends.
        old: LF; occurs in the LF form of `text`.
        new: LF. Its line ends become those of the span that it replaces, else those of the file.
        everywhere: every place that does not overlap one before.
    """
    seen = unix(text)
    starts = _places(seen, old, everywhere=everywhere)
    # The lines around what differs keep their own line ends, which matters in a file that mixes them.
    before, after = _common(old, new)
    gone, come = old[before : len(old) - after], new[before : len(new) - after]
    raw_at = _RawOffsets(text)
    house = _house_style(text)
    pieces: list[str] = []
    done = 0
    for start in starts:
        begin, end = raw_at(start + before), raw_at(start + before + len(gone))
        pieces += [text[done:begin], come.replace("\n", _line_end(text, begin, end, house))]
        done = end
    pieces.append(text[done:])
    spans = [(start, start + len(old)) for start in starts]
    return Replaced("".join(pieces), _line_numbers(seen, starts), _diff(seen, spans, new))


def _places(text: str, old: str, *, everywhere: bool) -> list[int]:
    if not everywhere:
        return [text.index(old)]
    return [found.start() for found in re.finditer(re.escape(old), text)]


def _common(old: str, new: str) -> tuple[int, int]:
    """Lengths of the common start and end, which do not overlap."""
    limit = min(len(old), len(new))
    before = 0
    while before < limit and old[before] == new[before]:
        before += 1
    after = 0
    while after < limit - before and old[-1 - after] == new[-1 - after]:
        after += 1
    return before, after


class _RawOffsets:
    """Offsets in the LF form of a text as offsets in the text itself."""

    def __init__(self, text: str) -> None:
        # In the LF form, the nth CRLF's line feed stands n places earlier than its carriage return does in the text.
        self._ends = [found.start() - n for n, found in enumerate(re.finditer(CRLF, text))]

    def __call__(self, offset: int) -> int:
        return offset + bisect.bisect_left(self._ends, offset)


def _house_style(text: str) -> str:
    """The line end that most lines have; LF when there is none."""
    crlf = text.count(CRLF)
    return CRLF if crlf * 2 > text.count("\n") else "\n"


def _line_end(text: str, begin: int, end: int, house: str) -> str:
    """The line end for lines put in place of a span: its own first one, else that of its line, else the one before it."""
    at = text.find("\n", begin, end)
    if at < 0:
        at = text.find("\n", end)
    if at < 0:
        at = text.rfind("\n", 0, begin)
    if at < 0:
        return house
    return CRLF if text[at - 1 : at] == "\r" else "\n"


@dataclass(frozen=True, slots=True)
class _Hunk:
    begin: int
    end: int
    spans: list[tuple[int, int]]


def _diff(text: str, spans: list[tuple[int, int]], new: str) -> str:
    """A unified diff of the hunks around the spans, in LF text; bounded, and says what it leaves out."""
    out: list[str] = []
    grown = 0  # lines that earlier hunks added
    line, seen = 1, 0
    for hunk in _hunks(text, spans):
        if len(out) > MAX_DIFF_LINES:
            break
        line += text.count("\n", seen, hunk.begin)
        seen = hunk.begin
        pieces: list[str] = []
        at = hunk.begin
        for begin, end in hunk.spans:
            pieces += [text[at:begin], new]
            at = end
        old_lines = _lines(text[hunk.begin : hunk.end])
        new_lines = _lines("".join([*pieces, text[at : hunk.end]]))
        out += _hunk_lines(old_lines, new_lines, line, line + grown)
        grown += len(new_lines) - len(old_lines)
    return _bounded(out)


def _hunks(text: str, spans: list[tuple[int, int]]) -> list[_Hunk]:
    """The spans with their lines and two lines of context, joined where they touch."""
    hunks: list[_Hunk] = []
    for begin, end in spans:
        first = text.rfind("\n", 0, begin) + 1
        for _ in range(CONTEXT):
            first = text.rfind("\n", 0, max(first - 1, 0)) + 1
        last = end
        for _ in range(CONTEXT + 1):
            at = text.find("\n", last)
            last = at + 1 if at >= 0 else len(text)
        if hunks and first <= hunks[-1].end:
            hunks[-1] = _Hunk(hunks[-1].begin, last, [*hunks[-1].spans, (begin, end)])
        elif len(hunks) > MAX_DIFF_LINES:
            break
        else:
            hunks.append(_Hunk(first, last, [(begin, end)]))
    return hunks


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _hunk_lines(old: list[str], new: list[str], old_first: int, new_first: int) -> list[str]:
    if len(old) + len(new) > BIG_HUNK:
        head = f"@@ -{old_first},{len(old)} +{new_first},{len(new)} @@"
        return [head, *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    out: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        a1, a2, b1, b2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        out.append(f"@@ -{old_first + a1},{a2 - a1} +{new_first + b1},{b2 - b1} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [f" {line}" for line in old[i1:i2]]
            else:
                out += [f"-{line}" for line in old[i1:i2]] + [f"+{line}" for line in new[j1:j2]]
    return out


def _bounded(lines: list[str]) -> str:
    shown: list[str] = []
    room = MAX_DIFF_CHARS
    for line in lines[:MAX_DIFF_LINES]:
        cut = line if len(line) <= 300 else f"{line[:300]}... ({len(line) - 300:,} more characters)"
        room -= len(cut) + 1
        if room < 0:
            break
        shown.append(cut)
    if len(shown) < len(lines):
        shown.append("[the diff goes on]")
    return "\n".join(shown)
