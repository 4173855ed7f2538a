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
LINE_BYTES = 20_000  # of a line that is looked at: what a simple expression could take squares with the length
SLOW = re.compile(rb"(?<!\\)[*+}]\)[*+{]")


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
    surface: Surface, top: str, is_dir: bool, pattern: re.Pattern[bytes], accepts: Callable[[str], bool], include_ignored: bool
) -> tuple[Found, bool]:
    """Every line that matches in the files below `top`, and whether time ran out first.

    Raises:
        ToolFailed: the expression could take for ever.
    """
    if SLOW.search(pattern.pattern):
        raise ToolFailed("`query` repeats a repetition, such as (a+)+, which can take for ever here; write it without.")
    found = Found()
    end = time.monotonic() + TIMEOUT_S
    todo: list[tuple[str, list[Rule]]] = [(top, [])] if is_dir else []
    if not is_dir:
        await _search_file(surface, top, pattern, found)
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
                await _search_file(surface, path, pattern, found)
    return found, False


async def _read_rules(surface: Surface, folder: str) -> list[Rule]:
    path = ".gitignore" if folder == "." else f"{folder}/.gitignore"
    try:
        text = (await surface.read(path, 0, 1 << 20)).data.decode("utf-8", "replace")
    except ToolFailed:
        return []
    return rules_of(text, "" if folder == "." else folder)


async def _search_file(surface: Surface, path: str, pattern: re.Pattern[bytes], found: Found) -> None:
    try:
        data = (await surface.read(path, 0, MAX_FILE)).data
    except ToolFailed:
        return
    await anyio.to_thread.run_sync(_search_bytes, path, data, pattern, found)


def _search_bytes(path: str, data: bytes, pattern: re.Pattern[bytes], found: Found) -> None:
    for number, line in enumerate(data.split(b"\n"), 1):
        match = pattern.search(line.removesuffix(b"\r")[:LINE_BYTES])
        if match is None or found.full:
            continue
        if b"\0" in data[:HEAD]:
            found.binary.append(path)
            return
        hit = Hit(path, number, match.start() + 1)
        hit.take(line)
        found.add(hit)
