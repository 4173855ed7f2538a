"""Brace expansion: the first thing that a shell does to a word, purely textual."""

from __future__ import annotations

import itertools
import re

from agent_harness.guards.lexer import Scanner
from agent_harness.guards.machine import Unanalysed

_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")
MAX_WORDS = 512


def expand_braces(word: str) -> list[str]:
    """The words that `word` stands for, quotes untouched; just itself when it has no brace list.

    Raises:
        Unanalysed: there are too many.
    """
    if "{" not in word:
        return [word]
    words = _expand(word)
    if len(words) > MAX_WORDS:
        raise Unanalysed(f"a brace list makes more than {MAX_WORDS} words")
    return words


def _expand(word: str, depth: int = 0) -> list[str]:
    if depth > 20:
        raise Unanalysed("brace lists are nested too deeply")
    scanner = Scanner(word)
    at = 0
    while at < len(word):
        char = word[at]
        if char in "\\'\"`$":
            at = scanner.construct(at)
        elif char == "{" and (group := _group(word, at, scanner)):
            end, parts = group
            heads = [word[:at] + part for part in parts]
            tails = _expand(word[end:], depth + 1)
            if len(heads) * len(tails) > MAX_WORDS:
                raise Unanalysed(f"a brace list makes more than {MAX_WORDS} words")
            inner = [_expand(head, depth + 1) if "{" in head[at:] else [head] for head in heads]
            return [head + tail for head, tail in itertools.product(itertools.chain.from_iterable(inner), tails)]
        else:
            at += 1
    return [word]


def _group(word: str, start: int, scanner: Scanner) -> tuple[int, list[str]] | None:
    """The end of the brace list that begins at `start`, and its parts; None when it is literal text."""
    depth, at, begin = 0, start, start + 1
    parts: list[str] = []
    while at < len(word):
        char = word[at]
        if char in "\\'\"`$":
            at = scanner.construct(at)
            continue
        depth += (char == "{") - (char == "}")
        if depth == 0:
            body = word[start + 1 : at]
            if parts:
                return at + 1, [*parts, word[begin:at]]
            span = _RANGE.fullmatch(body)
            return (at + 1, _span(span)) if span else None
        if char == "," and depth == 1:
            parts.append(word[begin:at])
            begin = at + 1
        at += 1
    return None


def _span(match: re.Match[str]) -> list[str]:
    first, last, step = match.groups()
    numeric = first.lstrip("-").isdigit() and last.lstrip("-").isdigit()
    if not numeric and (len(first) > 1 or len(last) > 1):
        return ["{" + match.group() + "}"]
    low, high = (int(first), int(last)) if numeric else (ord(first), ord(last))
    stride = max(abs(int(step or 1)), 1)
    if abs(high - low) // stride > MAX_WORDS:
        raise Unanalysed(f"a brace range makes more than {MAX_WORDS} words")
    numbers = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    width = (
        max(len(first), len(last)) if numeric and (first.lstrip("-").startswith("0") or last.lstrip("-").startswith("0")) else 0
    )
    return [f"{number:0{width}d}" if numeric else chr(number) for number in numbers]
