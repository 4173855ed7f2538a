"""list_files and read_file."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.base import Chunk, Entry
from agent_harness.surfaces.paths import SKIPPED, normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.state_folder import STATE_FOLDERS
from agent_harness.tools.text import HEAD, Coding, bom_of, eight_bit, named, refuse_binary
from agent_harness.tools.windows import MAX_BYTES, MAX_LINES, ReadAt, Window, cut_window, window

MAX_ENTRIES = 300
MAX_WIDE = 10 << 20  # bytes of a UTF-16 or UTF-32 file, which is decoded as a whole
STORED = "output:"
STORED_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")


class ListFilesArguments(Arguments):
    """A folder, and how deep to look."""

    path: str = "."
    depth: int = Field(default=2, ge=1, le=4)


class ReadFileArguments(Arguments):
    """A file, or a stored output, and which lines of it."""

    path: str
    offset: int = Field(default=1, ge=1, description="first line, from 1")
    limit: int = Field(default=MAX_LINES, ge=1)
    encoding: str | None = None


@tool("list_files", ListFilesArguments, reads_only=True)
async def list_files(arguments: ListFilesArguments, ctx: ToolContext) -> Output:
    """List a folder as a tree; folders end in "/". At most 300 entries."""
    top = normalise(arguments.path, root=ctx.surface.root)
    found: list[str] = []
    skipped: list[str] = []
    todo: deque[tuple[str, int]] = deque([(top, 1)])
    while todo and len(found) < MAX_ENTRIES:
        folder, depth = todo.popleft()
        entries = await _entries(ctx, folder, must_exist=folder == top)
        for entry in entries:
            if len(found) == MAX_ENTRIES:
                todo.appendleft((folder, 0))
                break
            path = entry.name if folder == "." else f"{folder}/{entry.name}"
            found.append(_line(path, entry))
            if entry.kind != "dir":
                continue
            if entry.name in SKIPPED:
                skipped.append(path)
            elif depth < arguments.depth:
                todo.append((path, depth + 1))
    return Output(_listing(top, found, skipped, [folder for folder, _ in todo]), truncated=bool(todo))


async def _entries(ctx: ToolContext, folder: str, *, must_exist: bool) -> list[Entry]:
    try:
        entries = await ctx.surface.list(folder)
    except ToolFailed:
        if must_exist:
            raise
        return []  # it went away, or is no longer what it was, since its parent was listed
    return sorted((e for e in entries if folder != "." or e.name not in STATE_FOLDERS), key=lambda e: e.name)


def _line(path: str, entry: Entry) -> str:
    text = shown(path)[1:-1]
    return text + {"dir": "/", "link": " (link)", "other": " (no regular file)", "file": ""}[entry.kind]


def _listing(top: str, found: list[str], skipped: list[str], left: list[str]) -> str:
    lines = sorted(found) or [f"{shown(top)} is empty."]
    if skipped:
        lines.append(f"[not looked into: {', '.join(shown(path) for path in skipped[:10])}; name one as `path` to list it]")
    if left:
        rest = f" and {len(left) - 5} more" if len(left) > 5 else ""
        folders = ", ".join(shown(folder) for folder in left[:5])
        lines.append(f"[stopped at {MAX_ENTRIES} entries; not (fully) listed: {folders}{rest}; list one of them by itself]")
    return "\n".join(lines)


@tool("read_file", ReadFileArguments, reads_only=True)
async def read_file(arguments: ReadFileArguments, ctx: ToolContext) -> Output:
    """Read whole, numbered lines of a text file: at most 2,000 lines or 50 KiB; says which offset continues.

    path="output:<call id>" pages a long output that was stored.
    """
    limit = min(arguments.limit, MAX_LINES)
    if arguments.path.startswith(STORED):
        return await _read_stored(arguments, ctx, limit)
    path = normalise(arguments.path, root=ctx.surface.root)
    head = await ctx.surface.read(path, 0, HEAD)

    async def read(offset: int, size: int) -> Chunk:
        return await ctx.surface.read(path, offset, size)

    output = await _render(path, head, read, arguments, limit)
    ctx.state.seen[path] = head.token
    return output


async def _read_stored(arguments: ReadFileArguments, ctx: ToolContext, limit: int) -> Output:
    """A window of an output in the session folder; the id is a plain name, so nothing else can be reached."""
    stored_id = arguments.path.removeprefix(STORED)
    file = ctx.state.job_logs.get(stored_id, ctx.outputs / f"{stored_id}.txt")
    if STORED_ID.fullmatch(stored_id) is None or not file.is_file():
        raise ToolFailed(f"There is no stored output {shown(stored_id)}; the result that was cut names the one it has.")

    async def read(offset: int, size: int) -> Chunk:
        return await anyio.to_thread.run_sync(_read_at, file, offset, size)

    found = await window(read, 0, arguments.offset, limit)
    return Output(_numbered(arguments.path, found, "replace", Coding("utf-8")), window=True, truncated=found.total is None)


def _read_at(file: Path, offset: int, size: int) -> Chunk:
    with file.open("rb") as stream:
        stream.seek(offset)
        return Chunk(stream.read(size), file.stat().st_size, "")


async def _render(path: str, head: Chunk, read: ReadAt, arguments: ReadFileArguments, limit: int) -> Output:
    marked = bom_of(head.data)
    coding = marked or Coding("utf-8")
    if arguments.encoding is not None:
        name = named(arguments.encoding)
        coding = Coding(name, marked.bom if marked and marked.name == name else b"")
    elif marked is None:
        refuse_binary(path, head.data)
    if coding.wide:
        found = await _wide_window(path, coding, head, read, arguments.offset, limit)
        coding = Coding("utf-8")
    else:
        found = await window(read, len(coding.bom), arguments.offset, limit)
        if arguments.encoding is None and marked is None:
            coding = Coding(eight_bit(b"\n".join(found.lines)))
    return Output(_numbered(path, found, "strict", coding), window=True, truncated=found.total is None)


async def _wide_window(path: str, coding: Coding, head: Chunk, read: ReadAt, first: int, limit: int) -> Window:
    """A window of a file whose lines can't be counted in bytes: decoded as a whole, then cut as UTF-8."""
    if head.size > MAX_WIDE:
        raise ToolFailed(f"{shown(path)} is {head.size:,} bytes of {coding.name}, too many to decode; convert a copy with iconv.")
    data = (await read(0, MAX_WIDE)).data[len(coding.bom) :]
    try:
        text = coding.decode(data)
    except UnicodeError as error:
        raise ToolFailed(f"{shown(path)} is not {coding.name}: {error}.") from None
    lines = text.encode("utf-8", "backslashreplace").split(b"\n")
    total = len(lines) - (not lines[-1])
    if first > max(total, 1):
        return Window(first, [], total)
    rest = b"\n".join(lines[first - 1 :])
    return cut_window(rest, first, limit)


def _numbered(path: str, found: Window, errors: str, coding: Coding) -> str:
    if found.too_long:
        raise ToolFailed(
            f"Line {found.first} of {shown(path)} is longer than a window ({MAX_BYTES:,} bytes). "
            f"Find the part you need with ripgrep, or cut it out with run_shell, or go on with offset={found.first + 1}."
        )
    if not found.lines:
        if found.total == 0 and found.first == 1:
            return f"{shown(path)} is empty."
        raise ToolFailed(f"{shown(path)} has {found.total} lines; `offset` {found.first} is past its end.")
    try:
        lines = [line.decode(coding.name, errors) for line in found.lines]
    except UnicodeError as error:
        raise ToolFailed(f"{shown(path)} is not {coding.name}: {error}.") from None
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, found.first))
    notes = [] if coding.name == "utf-8" and not coding.bom else [f"encoding {coding.label}"]
    if found.total is None:
        notes.append(f"continues: offset={found.first + len(lines)}")
    else:
        notes.append(f"end of file, {found.total} lines" if found.total != 1 else "end of file, 1 line")
        notes += [] if found.ends_in_newline else ["no newline at the end"]
    return f"{text}\n[{'; '.join(notes)}]"
