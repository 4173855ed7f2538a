"""Characters that stand for what is not known, or not literal, inside an evaluated word.

They are private-use code points, so a command that already holds one is refused before it is read. Keeping them inside the
string lets a partly known word (`HEAD:` and something) stay useful.
"""

from __future__ import annotations

import re

HOLE = "\ue000"  # unknown text inside one word
GAP = "\ue001"  # unknown text that may be any number of words
STAR = "\ue002"  # an active `*`
ONE = "\ue003"  # an active `?`
OPEN = "\ue004"  # an active `[`
CLOSE = "\ue005"  # its `]`
DEEP = "\ue006"  # any number of folders
SAFE = "\ue007"  # a name that is neither `.`, `..` nor `.git`, and not everything
DIGITS = "\ue008"  # a number
UNSET = "\ue009"  # nothing, from a quoted variable that is not set
GONE = "\ue00a"  # nothing, from an unquoted variable that is not set: alone it is no word at all
STORED = "\ue00b"  # both ends of the name of a text that the command carries (heredoc, process substitution)
TEST = "\ue00c"  # the name of a `[` command, where the grammar does better without the bracket

ANY_MARK = re.compile("[\ue000-\ue0ff]")
UNKNOWN = re.compile(f"[{HOLE}{GAP}]")
PATTERN = re.compile(f"[{STAR}{ONE}{OPEN}{DEEP}{SAFE}{DIGITS}]")
NOTHING = re.compile(f"[{UNSET}{GONE}]")
_SHOWN = {
    HOLE: "…",
    GAP: "…",
    STAR: "*",
    ONE: "?",
    OPEN: "[",
    CLOSE: "]",
    DEEP: "**",
    SAFE: "*",
    DIGITS: "N",
    UNSET: "",
    GONE: "",
}
_TABLE = str.maketrans({**_SHOWN, STORED: "", TEST: "["})


def show(text: str) -> str:
    """The word as a person would write it; unknown parts are an ellipsis."""
    return text.translate(_TABLE)


def unknown(text: str) -> bool:
    """Whether any part of it is unknown."""
    return UNKNOWN.search(text) is not None


def literal(text: str) -> bool:
    """Whether it is plain known text, no pattern."""
    return ANY_MARK.search(text) is None


def strip_nothing(text: str) -> str:
    """The text without the marks of unset variables."""
    return NOTHING.sub("", text)


def vague(text: str) -> bool:
    """Whether it cannot be relied on as a name: unknown, a pattern, or from a variable that is not set."""
    return ANY_MARK.search(text) is not None


def plain_list(fields: list[str]) -> list[str]:
    """The fields that a program would really get: those that vanish are dropped, other marks of nothing removed."""
    return [strip_nothing(field) for field in fields if field == "" or field.strip(GONE)]
