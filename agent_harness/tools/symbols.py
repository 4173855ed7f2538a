"""tree_sitter_symbols: what a source file defines, and where."""

from __future__ import annotations

import importlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.paths import normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.languages import Grammar, grammar_for
from agent_harness.tools.text import Coding, coding_of

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

MAX_FILE = 1 << 20
PARSE_S = 0.5  # a megabyte of noise would take three seconds
ROOM = 3_700
NAME_CHARS = 120
TOP_LEVEL = re.compile(r"[A-Za-z_@#\[<][^\n]*")
OUTLINE_LINES = 200


class SymbolsArguments(Arguments):
    """The source file."""

    path: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """One definition; lines count from 1, both included."""

    kind: str
    name: str
    first: int
    last: int
    nested: bool


@tool("tree_sitter_symbols", SymbolsArguments, reads_only=True)
async def tree_sitter_symbols(arguments: SymbolsArguments, ctx: ToolContext) -> Output:
    """List a source file's definitions with line ranges, one level nested."""
    path = normalise(arguments.path, root=ctx.surface.root)
    chunk = await ctx.surface.read(path, 0, MAX_FILE + 1)
    if chunk.size > MAX_FILE:
        raise ToolFailed(f"{shown(path)} has {chunk.size:,} bytes, more than this tool parses ({MAX_FILE:,}); use ripgrep on it.")
    coding = coding_of(path, chunk.data)
    text, truncated = await anyio.to_thread.run_sync(_describe, path, chunk.data, coding)
    return Output(text, truncated=truncated)


def _describe(path: str, data: bytes, coding: Coding) -> tuple[str, bool]:
    source = data[len(coding.bom) :].decode(coding.name, "replace").encode("utf-8", "replace")
    grammar = grammar_for(path, source)
    if grammar is None:
        return _outline(source, f"no grammar for {shown(path)}")
    try:
        symbols = _symbols(grammar, source)
    except (ImportError, ValueError, AttributeError) as error:
        # A grammar that is missing or out of step with its query costs the detail, never the answer.
        return _outline(source, f"{shown(path)} could not be parsed as {grammar.name}: {error}")
    if symbols is None:
        return _outline(source, f"{shown(path)} took longer than {PARSE_S} s to parse as {grammar.name}")
    if not symbols:
        return f"{shown(path)} ({grammar.name}) defines nothing at its top level.", False
    lines = [f"{'  ' * s.nested}{s.first}-{s.last} {s.kind} {s.name}" for s in symbols]
    return _bounded(lines, f"{shown(path)} ({grammar.name}), lines first-last:")


def _bounded(lines: list[str], head: str) -> tuple[str, bool]:
    kept = [head]
    room = ROOM - len(head)
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left = len(lines) - len(kept) + 1
    if left:
        kept.append(f"... {left} more")
    return "\n".join(kept), left > 0


_loaded: dict[str, tuple[Language, Query]] = {}


def _load(grammar: Grammar) -> tuple[Language, Query]:
    """The grammar and its compiled query, loaded when first needed; a grammar costs 1 to 15 ms and some megabytes."""
    from tree_sitter import Language, Query

    if grammar.name not in _loaded:
        language = Language(getattr(importlib.import_module(grammar.module), grammar.function)())  # pyright: ignore[reportDeprecated] - a capsule, typed as object
        _loaded[grammar.name] = (language, Query(language, grammar.query))
    return _loaded[grammar.name]


def _symbols(grammar: Grammar, source: bytes) -> list[Symbol] | None:
    """The definitions in the order of the file; None when time ran out."""
    from tree_sitter import Parser, QueryCursor

    language, query = _load(grammar)
    end = time.monotonic() + PARSE_S

    def late(*_: object) -> bool:
        return time.monotonic() > end

    try:
        tree = Parser(language).parse(lambda offset, _: source[offset : offset + 65_536], progress_callback=late)
    except ValueError:
        if late():
            return None
        raise
    found: dict[tuple[int, int], tuple[str, str, Node]] = {}
    for _, captures in QueryCursor(query).matches(tree.root_node, None, late):
        name = captures["name"][0]
        for kind, (node, *_) in captures.items():
            # The first pattern wins: an arrow function is both a constant and, more tellingly, a function further down.
            if kind != "name" and (kind != "const" or (node.start_byte, node.end_byte) not in found):
                found[node.start_byte, node.end_byte] = (kind, _text(name), node)
    return None if late() else _nest(found)


def _text(node: Node) -> str:
    text = (node.text or b"").decode("utf-8", "replace")
    return " ".join(text.split())[:NAME_CHARS]


def _nest(found: dict[tuple[int, int], tuple[str, str, Node]]) -> list[Symbol]:
    """Top-level definitions and those directly in one of them; what lies deeper is left out."""
    symbols: list[Symbol] = []
    open_until: list[int] = []
    for (begin, end), (kind, name, node) in sorted(found.items(), key=lambda item: (item[0][0], -item[0][1])):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        depth = len(open_until)
        open_until.append(end)
        if depth <= 1:
            symbols.append(Symbol(kind, name, node.start_point.row + 1, node.end_point.row + 1, depth == 1))
    return symbols


def _outline(source: bytes, why: str) -> tuple[str, bool]:
    """Lines that begin at the margin and look like the head of something."""
    lines: list[str] = []
    for number, line in enumerate(source.decode("utf-8", "replace").split("\n"), 1):
        if len(lines) < OUTLINE_LINES and TOP_LEVEL.match(line):
            lines.append(f"{number} {line.rstrip()[:NAME_CHARS]}")
    return _bounded(lines, f"[{why}; instead, lines that begin at the margin:]")
