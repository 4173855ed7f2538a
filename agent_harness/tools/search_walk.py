"""Search in Python, for a surface on which nothing can be run: the same answers from `list` and `read` alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread

from agent_harness.errors import ConfigError, ToolFailed
from agent_harness.surfaces.base import Surface
from agent_harness.surfaces.globs import Glob, parse_globs
from agent_harness.tools.hits import Found, Hit
from agent_harness.tools.text import HEAD

TIMEOUT_S = 20
MAX_FILE = 10 << 20
LINE_BYTES = 20_000  # of a line that an expression looks at: its time may grow with the square of them
LITERAL_BYTES = 1 << 20
SLOW = re.compile(rb"(?<!\\)[*+}]\)[*+{]")


class Wanted:
    """What a line must hold, for searching in Python.

    Args:
        query: literal text, or a regular expression.

    Raises:
        ToolFailed: it is no regular expression.
    """

    def __init__(self, query: str, *, regex: bool, ignore_case: bool) -> None:
        source = query.encode("utf-8", "surrogateescape")
        self.slow = regex and SLOW.search(source) is not None
        self._limit = LINE_BYTES if regex else LITERAL_BYTES
        try:
            self._pattern = re.compile(source if regex else re.escape(source), re.IGNORECASE if ignore_case else 0)
        except re.error as error:
            raise ToolFailed(f"`query` is no valid regular expression: {error}.") from None

    def column(self, line: bytes) -> int:
        """Where it begins in the line, in bytes from 1; 0 when it is not there."""
        found = self._pattern.search(line.removesuffix(b"\r")[: self._limit])
        return found.start() + 1 if found else 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a `.gitignore`, for paths below the folder that it stands in."""

    folder: str
    globs: tuple[Glob, ...]
    only_folders: bool
    back: bool

    def matches(self, path: str, is_dir: bool) -> bool:
        """Whether the line speaks of this path."""
        if self.only_folders and not is_dir:
            return False
        below = path.removeprefix(f"{self.folder}/") if self.folder else path
        parts = below.casefold().split("/")
        return any(glob.covers(parts) for glob in self.globs)


def rules_of(text: str, folder: str) -> list[Rule]:
    """The rules of a `.gitignore` in a folder (empty for the root), in their order; what can't be read is passed over."""
    rules: list[Rule] = []
    for line in text.splitlines():
        glob = line.rstrip().removeprefix("\\")
        if not glob or line.startswith("#"):
            continue
        back = line.startswith("!")
        glob = glob.removeprefix("!") if back else glob
        only_folders = glob.endswith("/")
        glob = glob.rstrip("/")
        try:
            rules.append(Rule(folder, tuple(parse_globs(glob)), only_folders, back))
        except ConfigError:
            continue
    return rules


def ignored(path: str, is_dir: bool, rules: list[Rule]) -> bool:
    """The last rule that speaks of the path decides."""
    return next((not rule.back for rule in reversed(rules) if rule.matches(path, is_dir)), False)


async def search_files(
    surface: Surface, top: str, is_dir: bool, wanted: Wanted, accepts: Callable[[str], bool], include_ignored: bool
) -> tuple[Found, bool]:
    """Every line that matches in the files below `top`, and whether time ran out first.

    Raises:
        ToolFailed: the expression could take for ever.
    """
    if wanted.slow:
        raise ToolFailed("`query` repeats a repetition, such as (a+)+, which can take for ever here; write it without.")
    found = Found()
    end = time.monotonic() + TIMEOUT_S
    todo: list[tuple[str, list[Rule]]] = [(top, [])] if is_dir else []
    if not is_dir:
        await _search_file(surface, top, wanted, found)
    while todo and not found.full:
        if time.monotonic() > end:
            return found, True
        folder, rules = todo.pop()
        rules = rules if include_ignored else rules + await _read_rules(surface, folder)
        for entry in sorted(await surface.list(folder), key=lambda each: each.name):
            path = entry.name if folder == "." else f"{folder}/{entry.name}"
            if entry.name == ".git" or ignored(path, entry.kind == "dir", rules):
                continue
            if entry.kind == "dir":
                todo.append((path, rules))
            elif entry.kind == "file" and entry.size <= MAX_FILE and accepts(path):
                await _search_file(surface, path, wanted, found)
    return found, False


async def _read_rules(surface: Surface, folder: str) -> list[Rule]:
    path = ".gitignore" if folder == "." else f"{folder}/.gitignore"
    try:
        text = (await surface.read(path, 0, 1 << 20)).data.decode("utf-8", "replace")
    except ToolFailed:
        return []
    return rules_of(text, "" if folder == "." else folder)


async def _search_file(surface: Surface, path: str, wanted: Wanted, found: Found) -> None:
    try:
        data = (await surface.read(path, 0, MAX_FILE)).data
    except ToolFailed:
        return
    await anyio.to_thread.run_sync(_search_bytes, path, data, wanted, found)


def _search_bytes(path: str, data: bytes, wanted: Wanted, found: Found) -> None:
    for number, line in enumerate(data.split(b"\n"), 1):
        if found.full:
            return
        column = wanted.column(line)
        if not column:
            continue
        if b"\0" in data[:HEAD]:
            found.binary.append(path)
            return
        hit = Hit(path, number, column)
        hit.take(line)
        found.add(hit)
