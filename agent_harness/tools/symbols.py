"""tree_sitter_symbols: what a source file defines, and where."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.paths import normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.languages import Grammar, grammar_for
from agent_harness.tools.text import Coding, coding_of

MAX_FILE = 1 << 20  # bytes
PARSE_S = 5.0  # wall time of the whole process, which on a busy machine may be slow to start
WORKER = str(Path(__file__).with_name("symbols_worker.py"))
ROOM = 3_700
NAME_CHARS = 120
TOP_LEVEL = re.compile(r"[A-Za-z_@#\[<][^\n]*")
OUTLINE_LINES = 200

Row = tuple[str, str, int, int, int, int]


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
    text, truncated = await _describe(path, chunk.data, coding)
    return Output(text, truncated=truncated)


async def _describe(path: str, data: bytes, coding: Coding) -> tuple[str, bool]:
    source = data[len(coding.bom) :].decode(coding.name, "replace").encode("utf-8", "replace")
    grammar = grammar_for(path, source)
    if grammar is None:
        return _outline(source, f"no grammar for {shown(path)}")
    try:
        symbols = await _symbols(grammar, source)
    except _NotParsed as why:
        return _outline(source, f"{shown(path)} could not be parsed as {grammar.name}: {why}")
    if not symbols:
        return f"{shown(path)} ({grammar.name}) defines nothing.", False
    lines = [f"{'  ' * s.nested}{s.first}-{s.last} {s.kind} {s.name}" for s in symbols]
    return _bounded(lines, f"{shown(path)} ({grammar.name}), lines first-last:")


class _NotParsed(Exception):
    """Why there are no symbols."""


async def _symbols(grammar: Grammar, source: bytes) -> list[Symbol]:
    """The definitions in the order of the file.

    Raises:
        _NotParsed: the grammar is missing or out of step with its query, or this file is too much for it.
    """
    asked = json.dumps({"module": grammar.module, "function": grammar.function, "query": grammar.query})
    with anyio.move_on_after(PARSE_S):
        ran = await anyio.run_process([sys.executable, "-I", WORKER], input=asked.encode() + b"\n" + source, check=False, env={})
        if ran.returncode == 0:
            return _nest(cast("list[Row]", json.loads(ran.stdout)))
        if ran.returncode > 0:
            said = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise _NotParsed(said[:200] or f"exit code {ran.returncode}")
    raise _NotParsed("it takes too long or too much memory")


def _nest(rows: list[Row]) -> list[Symbol]:
    """Top-level definitions and those directly in one of them; what lies deeper is left out."""
    symbols: list[Symbol] = []
    open_until: list[int] = []
    for kind, name, first, last, begin, end in sorted(rows, key=lambda row: (row[4], -row[5])):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        if len(open_until) <= 1:
            symbols.append(Symbol(kind, name, first, last, bool(open_until)))
        open_until.append(end)
    return symbols


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


def _outline(source: bytes, why: str) -> tuple[str, bool]:
    """Lines that begin at the margin and look like the head of something."""
    lines: list[str] = []
    for number, line in enumerate(source.decode("utf-8", "replace").split("\n"), 1):
        if len(lines) < OUTLINE_LINES and TOP_LEVEL.match(line):
            lines.append(f"{number} {line.rstrip()[:NAME_CHARS]}")
    return _bounded(lines, f"[{why}; instead, lines that begin at the margin:]")
