"""Parses one source file in a process of its own, so that a file which makes a grammar hang, swell or crash costs one answer.

Run as a program. Standard input: a line of JSON (`module`, `function`, `query`), then the source. Standard output: a JSON list of
`[kind, name, first line, last line, first byte, end byte]`, lines from 1. Needs nothing but the grammar's own packages.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys

from tree_sitter import Language, Node, Parser, Query, QueryCursor

CPU_S = 2
MEMORY = 1 << 30
MAX_SYMBOLS = 20_000
NAME_CHARS = 120

Row = tuple[str, str, int, int, int, int]


def symbols(module: str, function: str, query: str, source: bytes) -> list[Row]:
    """Every node that the query matches, by the first of its patterns that does; in no particular order."""
    language = Language(getattr(importlib.import_module(module), function)())  # pyright: ignore[reportDeprecated] - a capsule
    root = Parser(language).parse(source).root_node
    found: dict[tuple[int, int], Row] = {}
    matches = QueryCursor(Query(language, query)).matches(root)
    for _, captures in sorted(matches, key=lambda match: match[0]):
        name = captures["name"][0]
        for kind, (node, *_) in captures.items():
            place = (node.start_byte, node.end_byte)
            if kind != "name" and place not in found and len(found) < MAX_SYMBOLS:
                found[place] = (kind, _text(name), node.start_point.row + 1, _last_row(node), *place)
    return list(found.values())


def _text(node: Node) -> str:
    return " ".join((node.text or b"").decode("utf-8", "replace").split())[:NAME_CHARS]


def _last_row(node: Node) -> int:
    """The last line that the node has a character in."""
    end = node.end_point
    return end.row + 1 if end.column else max(end.row, node.start_point.row + 1)


def main() -> None:
    """Answer one request."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    asked: dict[str, str] = json.loads(sys.stdin.buffer.readline())
    rows = symbols(asked["module"], asked["function"], asked["query"], sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
