"""Text of others (a model, a task, a tool's output) made harmless inside the harness's own Markdown; pure functions.

A forge acts on text: a mention notifies people, a closing word in front of a reference closes an issue at merge (negated or
not), an image fetches a URL, HTML hides or opens things. So every such text is shown literally, and the two characters that
mentions and references hang on are followed by a zero-width joiner, which breaks them without being seen.
"""

from __future__ import annotations

import re

JOINER = "\u200d"
CUT = "…"
LOOK_ALIKE = "\u02cb"

# Control characters, lone surrogates, and marks that reorder or hide text (as in source that reads differently than it runs).
UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")
MENTION = re.compile(r"@(?=[^\s@])")
REFERENCE = re.compile(r"#(?=\d)|\bGH-(?=\d)|(?<=/issues/)(?=\d)|(?<=/pull/)(?=\d)|(?<=/discussions/)(?=\d)", re.IGNORECASE)
HTML_THAT_NESTS = re.compile(r"<(?=/?details|/?summary|!--)|--(?=>)", re.IGNORECASE)
LONG_RUN = re.compile(r"(``|~~)(?=[`~])")
SPECIAL = re.compile(r"[\\`*_{}\[\]<>&|~!#$]")
ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
LINE_START = re.compile(r"^(\s*\d{0,9})([-+=.)])")
LIST_ITEM = re.compile(r"^( {0,6})([-*+]|\d{1,3}[.)]) (?=\S)")
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def units(text: str) -> int:
    """Length in UTF-16 units, the larger of the two ways in which forges count characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def clip(text: str, most: int) -> str:
    """The text in at most that many UTF-16 units, an ellipsis where it was cut; never half a character."""
    if len(text) <= most and units(text) <= most:
        return text
    return head(text, most - len(CUT)) + CUT if most >= len(CUT) else ""


def head(text: str, most: int) -> str:
    """As much of the text's start as fits into that many UTF-16 units."""
    return _whole(text[:most].encode("utf-16-le", "surrogatepass")[: 2 * most])


def tail(text: str, most: int) -> str:
    """As much of the text's end as fits into that many UTF-16 units."""
    return _whole(text[-most:].encode("utf-16-le", "surrogatepass")[-2 * most :]) if most > 0 else ""


def _whole(encoded: bytes) -> str:
    """The text of UTF-16 units, without a half of a character at either end."""
    return encoded.decode("utf-16-le", "ignore")


def clean(text: str) -> str:
    """Line ends made alike; what is unfit to be shown is replaced by a question mark in a lozenge."""
    return UNFIT.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def inert(text: str) -> str:
    """Mentions and references broken; for code and plain text as well as for Markdown."""
    return REFERENCE.sub(lambda found: found[0] + JOINER, MENTION.sub("@" + JOINER, text))


def _literal(text: str) -> str:
    return SPECIAL.sub(lambda found: ENTITIES.get(found[0]) or "\\" + found[0], text)


def inline(text: str) -> str:
    """One line of Markdown that shows the text literally."""
    line = " ".join(clean(text).split())
    return inert(LINE_START.sub(r"\1\\\2", _literal(line)))


def code(text: str) -> str:
    """A code span that shows the text; backticks become a look-alike, since no span can hold every run of them."""
    line = " ".join(clean(text).split()).replace("`", LOOK_ALIKE)
    return f"`{_in_code(line)}`" if line else "` `"


def quoted(text: str) -> str:
    """A block quote that shows the lines of the text literally."""
    lines = clean(text).strip("\n").split("\n")
    return "\n".join(f"> {_literal_line(line)}".rstrip() for line in lines)


def prose(text: str) -> str:
    """A block quote that keeps what is harmless of the text's own Markdown: list items and code spans."""
    lines: list[str] = []
    for line in clean(text).strip("\n").split("\n"):
        item = LIST_ITEM.match(line)
        start = item[0] if item else ""
        lines.append(f"> {start}{_with_code_spans(line[len(start) :], first=not item)}".rstrip())
    return "\n".join(lines)


def sentence(text: str) -> str:
    """One line of Markdown that shows the text literally, its code spans kept."""
    return _with_code_spans(" ".join(clean(text).split()), first=True)


def _with_code_spans(line: str, *, first: bool) -> str:
    parts = CODE_SPAN.split(line)
    shown = [f"`{_in_code(part)}`" if at % 2 else inert(_literal(part)) for at, part in enumerate(parts)]
    joined = "".join(shown)
    return LINE_START.sub(r"\1\\\2", joined) if first else joined


def _literal_line(line: str) -> str:
    return inert(LINE_START.sub(r"\1\\\2", _literal(line)))


def _in_code(text: str) -> str:
    return HTML_THAT_NESTS.sub(lambda found: found[0] + JOINER, inert(text))


def fenced(text: str) -> str:
    """The text for the inside of a code fence of three backticks: nothing in it can close the fence or an element around it."""
    return LONG_RUN.sub(lambda found: found[0] + JOINER, _in_code(clean(text)))
