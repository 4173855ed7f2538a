"""Text that a terminal shows as it is: control characters made visible, and clipped by the cells that it takes."""

from __future__ import annotations

import unicodedata

# Explicit direction marks can make a line read as something else than it says; line separators would break it in two.
_MISLEADING = (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_VISIBLE: dict[int, str] = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in _MISLEADING},
}
_LINES = {**_VISIBLE, ord("\n"): "\n", ord("\t"): "    "}
_ONE_LINE = {**_VISIBLE, **dict.fromkeys(map(ord, "\n\r\t\v\f"), " ")}


def lines(text: str) -> str:
    """The text with line ends kept, tabs as four blanks and every other control character written out."""
    return text.replace("\r\n", "\n").translate(_LINES)


def one_line(text: str) -> str:
    """The text as one line without control characters; runs of blanks and line ends become one blank."""
    return " ".join(text.translate(_ONE_LINE).split())


def cells(text: str) -> int:
    """How many terminal cells the text takes: wide characters two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def clip(text: str, width: int) -> str:
    """The text, or its beginning and "..." so that it takes at most `width` cells (of at least 4)."""
    if cells(text) <= width:
        return text
    room = width - 3
    for position, character in enumerate(text):
        room -= _cells_of(character)
        if room < 0:
            return text[:position] + "..."
    return text


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
