"""Reads the lines that commits add and take away out of git's own patch text (`diff-tree --stdin -p -U0 --text`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

COMMIT = re.compile(rb"[0-9a-f]{40,64}\n")
HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line that a commit adds, or takes away.

    Attributes:
        commit: its full id.
        path: the file as it is named after the change.
        number: its place in the file after the change, from 1; of a line that is taken away, where it was taken from.
        text: without its newline, bytes that are no UTF-8 replaced.
        added: it is new; else it is gone.
    """

    commit: str
    path: str
    number: int
    text: str
    added: bool


def read_patch(patch: Iterable[bytes]) -> Iterator[Line]:
    """Every changed line, in the order of the patch.

    The numbers of each hunk's head say which lines are its body, so that no content is taken for a head.
    """
    commit, path, lines = "", "", iter(patch)
    for raw in lines:
        hunk = HUNK.match(raw)
        if COMMIT.fullmatch(raw):
            commit = raw.decode("ascii").strip()
        elif raw.startswith((b"+++ ", b"--- ")):
            path = _path(raw[4:].rstrip(b"\n")) or path
        elif hunk:
            gone, came = (1 if count is None else int(count) for count in (hunk[1], hunk[3]))
            yield from _body(lines, commit, path, int(hunk[2]), gone, came)


def only_new(found: Iterable[tuple[Line, str, str]]) -> Iterator[tuple[Line, str, str]]:
    """Of (line, rule, digest) in the order of the patch, the added lines whose digest the range brings in.

    What a commit takes away and no earlier commit of the range had added was there before; moving it is not adding it.
    """
    begun, waiting = "", list[tuple[Line, str, str]]()
    added, old = set[str](), set[str]()
    for each in found:
        line, _, digest = each
        if line.commit != begun:
            yield from _settled(waiting, added, old)
            begun, waiting = line.commit, []
        if line.added:
            waiting.append(each)
        elif digest not in added:
            old.add(digest)
    yield from _settled(waiting, added, old)


def _settled(waiting: list[tuple[Line, str, str]], added: set[str], old: set[str]) -> Iterator[tuple[Line, str, str]]:
    """A commit is over: what it takes away is known, and what it adds counts as added from now on."""
    added.update(digest for _, _, digest in waiting)
    yield from (each for each in waiting if each[2] not in old)


def _body(lines: Iterator[bytes], commit: str, path: str, number: int, gone: int, came: int) -> Iterator[Line]:
    while gone or came:
        raw = next(lines, None)
        if raw is None:
            return
        sign, text = raw[:1], raw[1:].rstrip(b"\n").decode("utf-8", "replace")
        if sign == b"+":
            yield Line(commit, path, number, text, added=True)
            came -= 1
            number += 1
        elif sign == b"-":
            yield Line(commit, path, number, text, added=False)
            gone -= 1


def _path(name: bytes) -> str:
    """`b/dir/file`, quoted as in C where it holds odd bytes; empty for `/dev/null`."""
    name = name.removesuffix(b"\t")
    if name == b"/dev/null":
        return ""
    if name.startswith(b'"') and name.endswith(b'"'):
        name = ESCAPE.sub(_unescaped, name[1:-1])
    return name.partition(b"/")[2].decode("utf-8", "replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    return bytes([int(escape, 8) & 0xFF]) if len(escape) == 3 else ESCAPES.get(escape, escape)
