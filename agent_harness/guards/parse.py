"""Shell text to a tree, by the bash grammar of tree-sitter; what does not parse without doubt is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from agent_harness.guards.lexer import Heredoc, Scanner
from agent_harness.guards.machine import Unanalysed
from agent_harness.guards.marks import STORED, TEST

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# A `[` in command position; some of its operands confuse the grammar, as a plain command they do not.
_TEST = re.compile(r"((?:^|[;&|\n({!]|\b(?:if|then|else|elif|do|while|until)\b)[ \t]*)\[(?=[ \t])", re.MULTILINE)
# Valid bash that the grammar refuses, and the same in a form that it reads; tried one after the other on an error.
_PLAINER = (
    (_TEST, rf"\1{TEST}"),
    (re.compile(r"\b(for[ \t]+\w+)[ \t\n]*(?:;[ \t\n]*)?(?=\bdo\b)"), r'\1 in "$@"; '),
    (re.compile(r"(?<!\$)\(\("), "( ("),
)
# At the end of everything a line goes on with nothing, which the grammar takes for an error.
_LAST_BACKSLASH = re.compile(r"(?<!\\)((?:\\\\)*)\\\n*\Z")
_LINE_ESCAPE = re.compile(r"\n[ \t]*\\[A-Za-z]")
_STAND_IN = re.compile(f"{STORED}\\d+{STORED}")
_BEYOND = re.compile(r"[^\x00-\x7f]")
_SIGN = "§"  # two bytes of UTF-8; neither a letter, a digit nor a blank in any locale
_NO_UTF8 = re.compile(r"[\ud800-\udfff]")
_AS_FILE = "write the text with edit_file and keep the command short"
MAX_CODE = 65_536  # characters without the bodies of heredocs: more is a file that was not written as one
MAX_BYTES = 131_072  # one argument of a process cannot be longer on Linux, so such a line cannot run anyway
# Words that the grammar takes for a command's name; the same length keeps offsets.
_PREFIX = re.compile(
    r"((?:^|[;&|\n({])[ \t]*)(time(?:[ \t]+-p)?|coproc)(?=[ \t]+(?:[({]|(?:while|until|for|if|case)\b))", re.MULTILINE
)
_SELECT = re.compile(r"((?:^|[;&|\n({]|\b(?:do|then|else))[ \t]*)select(?=[ \t]+\w+[ \t]+in\b)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed text.

    Attributes:
        source: what the grammar read: the text without heredoc bodies, every letter beyond ASCII replaced by one sign.
        root: the tree's top node.
        heredocs: stand-in name -> body.
        letters: the text itself, and for each byte of the source the place of its letter; None where all is ASCII.
    """

    source: bytes
    root: Node
    heredocs: dict[str, Heredoc]
    letters: tuple[str, list[int]] | None = None

    def text(self, start: int, end: int) -> str:
        """The text between two byte offsets of the source."""
        if self.letters is None:
            return self.source[start:end].decode()
        text, places = self.letters
        return text[places[start] : places[end]]


@dataclass(frozen=True, slots=True)
class Body:
    """Code of a script that can be run later: the body of a function."""

    script: Script
    node: Node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self.script is other.script and self.node.id == other.node.id

    def __hash__(self) -> int:
        return hash((id(self.script), self.node.id))


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _check(text: str) -> None:
    if _NO_UTF8.search(text):
        raise Unanalysed("it holds bytes that are no UTF-8", _AS_FILE)
    if len(text) > MAX_BYTES or len(text.encode()) > MAX_BYTES:
        raise Unanalysed(f"it is {len(text):,} characters long, and at most {MAX_BYTES:,} bytes are read", _AS_FILE)


def _read(text: str, heredocs: dict[str, Heredoc]) -> Script:
    """The grammar's tree of a text, with or without errors.

    The grammar's scanner asks the C library about each letter, which answers by the locale of the machine, and for letters
    far beyond ASCII reads memory that is not its own (a brace before one can end the process). To bash each of them is one
    more letter of a word, so the grammar gets the same sign for all of them.
    """
    source = _BEYOND.sub(_SIGN, text).encode()
    letters = None if text.isascii() else (text, _places(text))
    return Script(source, _parser().parse(source).root_node, heredocs, letters)


def _places(text: str) -> list[int]:
    """For each byte of the source, and its end, the index of the letter in the text."""
    places: list[int] = []
    for index, letter in enumerate(text):
        places += (index,) if letter < "\x80" else (index, index)
    return [*places, len(text)]


def parse(text: str, taken: int = 0) -> Script:
    """The tree of shell text.

    Args:
        text: the source.
        taken: how many heredocs have names already, so that new ones get others.

    Raises:
        Unanalysed: it is too long, or no tree without errors exists.
    """
    _check(text)
    heredocs: dict[str, Heredoc] = {}
    if "<<" in text:
        store: dict[str, Heredoc] = {}
        text = Scanner(text, store).cut()
        names = {name: f"{STORED}h{number}{STORED}" for number, name in enumerate(store, taken)}
        heredocs = {names[name]: body for name, body in store.items()}
        text = _STAND_IN.sub(lambda found: names.get(found.group(), found.group()), text)
    if text.rstrip("\n").endswith("\\"):
        text = _LAST_BACKSLASH.sub(lambda found: found.group(1), text)
    if len(text) > MAX_CODE:
        raise Unanalysed(f"it has {len(text):,} characters of code, and at most {MAX_CODE:,} are read", _AS_FILE)
    text = _PREFIX.sub(lambda found: found.group(1) + " " * len(found.group(2)), text)
    text = _SELECT.sub(lambda found: found.group(1) + "for   ", text)
    if _LINE_ESCAPE.search(text):
        # The grammar takes such a line for more words of the line before.
        scanner = Scanner(text)
        scanner.code(0, "")
        for at in reversed(scanner.escapes):
            text = text[:at] + text[at + 1 :]
    script = _read(text, heredocs)
    for pattern, plainer in _PLAINER:
        if not script.root.has_error:
            break
        if (simpler := pattern.sub(plainer, text)) != text:
            text = simpler
            script = _read(text, heredocs)
    if script.root.has_error:
        raise Unanalysed(_where(script), "write it in plainer shell, or put longer text into a file with edit_file first")
    if heredocs and _stand_ins(script) != len(heredocs):
        raise Unanalysed("its heredocs can be read in two ways", "write the text with edit_file first")
    return script


def _where(script: Script) -> str:
    """Names the place of the first error."""
    node, steps = script.root, 0
    while steps < 200 and not (node.is_error or node.is_missing):
        steps += 1
        bad = next((child for child in node.children if child.has_error or child.is_missing), None)
        if bad is None:
            break
        node = bad
    near = script.text(max(node.start_byte - 10, 0), min(node.start_byte + 30, len(script.source))).strip()
    return f"this shell text could not be read without doubt near {near!r}"


def _stand_ins(script: Script) -> int:
    """How many redirections have a stand-in of a heredoc as their file."""
    found, stack = 0, [script.root]
    while stack:
        node = stack.pop()
        if node.type == "file_redirect":
            target = node.child_by_field_name("destination")
            text = "" if target is None else script.text(target.start_byte, target.end_byte)
            found += text.startswith(STORED) and text.endswith(STORED)
        stack.extend(node.named_children)
    return found
