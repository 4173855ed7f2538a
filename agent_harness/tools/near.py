"""What the model may have meant by a text that is not in the file. Only ever shown: nothing here edits."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable

MAX_LINES = 20_000  # of a file in which the nearest line is looked for; beyond, it would take too long
MAX_PLACES = 10
SHOWN_CHARS = 600

PUNCTUATION = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad")),
    0x2026: "...",
}


def _trailing(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _characters(text: str) -> str:
    return unicodedata.normalize("NFC", _trailing(text)).translate(PUNCTUATION)


def _indentation(text: str) -> str:
    return "\n".join(line.strip() for line in _characters(text).split("\n"))


def _spacing(text: str) -> str:
    return "\n".join(re.sub(r"[^\S\n]+", " ", line) for line in _indentation(text).split("\n"))


LADDER: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("only in spaces at line ends", _trailing),
    ("in quotes, dashes or other characters that look alike", _characters),
    ("in the indentation", _indentation),
    ("in the number of spaces", _spacing),
)


def near_miss(text: str, old: str) -> str:
    """A sentence, with a leading space, that says where something like `old` stands and how it differs; empty when nothing does.

    Args:
        text: the file, line ends as LF.
        old: what was asked for, LF.
    """
    for how, fold in LADDER:
        wanted = fold(old)
        if not wanted.strip():
            continue
        lines = _places(fold(text), wanted)
        if lines:
            return _told(text, old, lines, f"differs {how}")
    if text.count("\n") > MAX_LINES:
        return ""
    return _nearest(text, old)


def _places(text: str, wanted: str) -> list[int]:
    """Lines, from 1, in which `wanted` begins; folding keeps the number of lines."""
    lines: list[int] = []
    at, line, seen = text.find(wanted), 1, 0
    while at >= 0 and len(lines) < MAX_PLACES:
        line += text.count("\n", seen, at)
        seen = at
        lines.append(line)
        at = text.find(wanted, at + 1)
    return lines


def _nearest(text: str, old: str) -> str:
    """The line most like the first full one of `old`, when it is like it at all."""
    wanted = next((line for line in old.split("\n") if line.strip()), "")[:500]
    lines = text.split("\n")
    near = difflib.get_close_matches(wanted.strip(), {line.strip()[:500] for line in lines} - {""}, n=1, cutoff=0.75)
    if not near:
        return " No line in it is like it; read the file again."
    found = [number for number, line in enumerate(lines, 1) if line.strip()[:500] == near[0]][:MAX_PLACES]
    return _told(text, old, found, "is the nearest thing there")


def _told(text: str, old: str, lines: list[int], how: str) -> str:
    count = old.rstrip("\n").count("\n") + 1
    start = lines[0] - 1
    there = "\n".join(text.split("\n")[start : start + count])
    if len(there) > SHOWN_CHARS:
        there = there[:SHOWN_CHARS] + "..."
    also = f" (also {', '.join(map(str, lines[1:]))})" if len(lines) > 1 else ""
    return f" The text at line {lines[0]}{also} {how}; it reads:\n{there}"
