"""Bytes as text and back, so that every byte survives: which encoding a file has, and its lines as the model sees them."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.paths import shown

HEAD = 8 * 1024  # a NUL in so many first bytes makes a file binary: what git and ripgrep look at, too
MAX_CONTROL_SHARE = 0.10
CONTROLS = bytes(b for b in range(32) if b not in b"\t\n\r\f\b\x1b") + b"\x7f"

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Coding:
    """How a file's bytes stand for text.

    Attributes:
        name: of the codec.
        bom: the mark at the file's start, which is no part of the text; may be empty.
    """

    name: str
    bom: bytes = b""

    @property
    def wide(self) -> bool:
        """A line end is not the byte 10, so that lines can't be counted in bytes."""
        return line_feed(self.name) != b"\n"

    @property
    def label(self) -> str:
        """For messages."""
        return self.name + (" with a byte order mark" if self.bom else "")

    def decode(self, data: bytes) -> str:
        """The text after the mark; lone surrogates of UTF-16 and UTF-32 pass.

        Raises:
            UnicodeError: the bytes are no such text.
        """
        return data.decode(self.name, self._errors)

    def encode(self, text: str) -> bytes:
        """The bytes of a piece of text, without a mark.

        Raises:
            UnicodeEncodeError: the encoding lacks a character.
        """
        return text.encode(self.name, self._errors)

    @property
    def _errors(self) -> str:
        return "surrogatepass" if self.name.startswith(("utf-16", "utf-32")) else "strict"


def line_feed(name: str) -> bytes:
    """The bytes of a line end in that codec; empty when it has none of its own (a stateful or a broken one)."""
    try:
        return "\n".encode(name)
    except UnicodeError:
        return b""


def named(encoding: str) -> str:
    """The codec's own name for what the model asked for.

    Raises:
        ToolFailed: there is no such text encoding.
    """
    try:
        name = codecs.lookup(encoding).name
        b"".decode(name)
        "".encode(name)
    except (LookupError, ValueError, AttributeError):
        raise ToolFailed(
            f'`encoding` {shown(encoding)} is unknown; for example "utf-8", "latin-1", "cp1252" or "utf-16-le".'
        ) from None
    return name


def bom_of(head: bytes) -> Coding | None:
    """The encoding that a mark at the file's start declares."""
    for bom, name in BOMS:
        if head.startswith(bom):
            return Coding(name, bom)
    return None


def is_binary(head: bytes) -> bool:
    """Whether a file without a mark that begins so is no text: it has a NUL, or is no UTF-8 and a tenth control characters."""
    head = head[:HEAD]
    if b"\0" in head:
        return True
    few = len(head.translate(None, CONTROLS)) >= len(head) * (1 - MAX_CONTROL_SHARE)
    return not few and eight_bit(head, cut=True) != "utf-8"


def eight_bit(data: bytes, *, cut: bool = False) -> str:
    """`utf-8` when the bytes are that, else `latin-1`, in which every byte is some character.

    Args:
        data: text without a mark.
        cut: the end may lie within a character.
    """
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(data, final=not cut)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def coding_of(path: str, data: bytes) -> Coding:
    """The encoding of a whole file: mark, then binary or not, then UTF-8, then latin-1.

    Raises:
        ToolFailed: binary.
    """
    marked = bom_of(data[:4])
    if marked is not None:
        return marked
    refuse_binary(path, data)
    return Coding(eight_bit(data))


def refuse_binary(path: str, head: bytes) -> None:
    """Raise `ToolFailed` when a file that begins so is no text."""
    if is_binary(head):
        wide = ' If it is UTF-16 without a mark, read it with `encoding`="utf-16-le".' if b"\0" in head else ""
        raise ToolFailed(f"{shown(path)} is a binary file.{wide}")
