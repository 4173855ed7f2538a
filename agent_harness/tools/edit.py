"""edit_file: a literal replacement that changes its span and not one byte besides."""

from __future__ import annotations

from typing import Literal

import anyio.to_thread

from agent_harness.errors import ToolFailed
from agent_harness.redact import PLACEHOLDER
from agent_harness.surfaces.base import FileStat, Surface
from agent_harness.surfaces.paths import normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.near import near_miss
from agent_harness.tools.replacing import Replaced, matches_of, replace, unix
from agent_harness.tools.text import Coding, coding_of

MAX_FILE = 10 << 20
LINES_NAMED = 10


class EditFileArguments(Arguments):
    """One replacement."""

    path: str
    old_text: str
    new_text: str
    occurrence: Literal["only", "first", "all"] = "only"


@tool("edit_file", EditFileArguments, reads_only=False)
async def edit_file(arguments: EditFileArguments, ctx: ToolContext) -> Output:
    """Replace old_text, literally and whitespace included, by new_text.

    It must occur exactly once, unless occurrence is first or all. Empty old_text creates a new file. Line ends, encoding and
    mode of the file are kept; you get the diff.
    """
    path = normalise(arguments.path, root=ctx.surface.root)
    for name, text in (("old_text", arguments.old_text), ("new_text", arguments.new_text)):
        placeholder = PLACEHOLDER.search(text)
        if placeholder is not None:
            raise ToolFailed(
                f"`{name}` contains {placeholder[0]!r}, which stands for a credential that you may not see: written to a file it "
                "would destroy the real one. Edit the text around it."
            )
    refusal = ctx.changeable.refusal(path)
    if refusal is not None:
        raise ToolFailed(f"{refusal} Nothing was written.")
    if not arguments.old_text:
        return await _create(path, arguments.new_text, ctx)
    if unix(arguments.old_text) == unix(arguments.new_text):
        raise ToolFailed(
            "`old_text` and `new_text` are identical (line ends do not count, a file keeps its own): nothing to change."
        )
    return await _edit(path, arguments, ctx)


async def _create(path: str, text: str, ctx: ToolContext) -> Output:
    if await _exists(ctx.surface, path):
        raise ToolFailed(
            f"{shown(path)} exists already; an empty `old_text` only creates. Give the text to replace as `old_text`."
        )
    await ctx.surface.write(path, _encoded(path, Coding("utf-8"), text), create=True)
    ctx.state.seen[path] = (await ctx.surface.stat(path)).token
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return Output(f"Created {shown(path)}, {lines} lines.")


async def _exists(surface: Surface, path: str) -> bool:
    try:
        await surface.stat(path)
    except ToolFailed:
        return False  # missing, or refused: then `write` refuses it with the right words
    return True


async def _edit(path: str, arguments: EditFileArguments, ctx: ToolContext) -> Output:
    stat = await ctx.surface.stat(path)
    _refuse_unfit(path, stat, ctx)
    chunk = await ctx.surface.read(path, 0, MAX_FILE + 1)
    if chunk.token != stat.token:
        raise _changed(path)
    data, replaced = await anyio.to_thread.run_sync(_apply, path, chunk.data, arguments)
    if (await ctx.surface.stat(path)).token != chunk.token:
        raise _changed(path)
    await ctx.surface.write(path, data)
    ctx.state.seen[path] = (await ctx.surface.stat(path)).token
    count = len(replaced.at_lines)
    where = _named(replaced.at_lines)
    return Output(f"Edited {shown(path)}: {count} replacement{'s' * (count != 1)}, {where}.\n{replaced.diff}")


def _refuse_unfit(path: str, stat: FileStat, ctx: ToolContext) -> None:
    if stat.kind == "dir":
        raise ToolFailed(f"{shown(path)} is a folder.")
    if stat.size > MAX_FILE:
        raise ToolFailed(f"{shown(path)} has {stat.size:,} bytes, more than this tool edits ({MAX_FILE:,}); use a command.")
    if ctx.state.seen.get(path, stat.token) != stat.token:
        raise _changed(path)


def _changed(path: str) -> ToolFailed:
    return ToolFailed(f"{shown(path)} changed since you last read it; nothing was edited. Read it again, then edit.")


def _apply(path: str, data: bytes, arguments: EditFileArguments) -> tuple[bytes, Replaced]:
    """The whole new content. Works on the file's own characters, so that what is not replaced comes back byte for byte.

    Raises:
        ToolFailed: not found, ambiguous, or not expressible in the file's encoding.
    """
    coding = coding_of(path, data)
    try:
        text = coding.decode(data[len(coding.bom) :])
        exact = coding.encode(text) == data[len(coding.bom) :]
    except UnicodeError:
        text, exact = "", False
    if not exact:
        raise ToolFailed(f"{shown(path)} is damaged {coding.name}: it can't be edited without changing other bytes.")
    old = unix(arguments.old_text)
    found = matches_of(unix(text), old)
    data_of = coding.encode
    if not found and coding.name == "latin-1" and not old.isascii():
        # UTF-8 with a stray byte somewhere reads as latin-1 as a whole, but its clean lines were shown to the model as UTF-8.
        coding, text = Coding("utf-8"), data.decode("utf-8", "surrogateescape")
        found = matches_of(unix(text), old)
        data_of = _escaped
    if not found:
        raise ToolFailed(f"`old_text` was not found in {shown(path)}; nothing was edited.{near_miss(unix(text), old)}")
    lines = found.lines
    if arguments.occurrence == "only" and len(lines) > 1:
        raise ToolFailed(
            f"`old_text` occurs {found.count} times in {shown(path)}, {_named(lines)}; nothing was edited. "
            'Add surrounding lines until it is unique, or set `occurrence` to "first" or "all".'
        )
    _encoded(path, coding, arguments.new_text)
    replaced = replace(text, old, unix(arguments.new_text), everywhere=arguments.occurrence == "all")
    return coding.bom + data_of(replaced.text), replaced


def _escaped(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _encoded(path: str, coding: Coding, text: str) -> bytes:
    try:
        return coding.encode(text)
    except UnicodeEncodeError as error:
        lacking = dict.fromkeys(c for c in text if not _fits(coding, c))
        names = ", ".join(f"{c if c.isprintable() else '?'} (U+{ord(c):04X})" for c in list(lacking)[:LINES_NAMED])
        raise ToolFailed(
            f"{shown(path)} is {coding.name}, which lacks {names or error.reason}; nothing was written. Write it another way."
        ) from None


def _fits(coding: Coding, char: str) -> bool:
    try:
        coding.encode(char)
    except UnicodeEncodeError:
        return False
    return True


def _named(lines: list[int]) -> str:
    """`line 3`, or `lines 3, 9, ...` with at most ten."""
    listed = ", ".join(map(str, lines[:LINES_NAMED]))
    more = f" and {len(lines) - LINES_NAMED} more" if len(lines) > LINES_NAMED else ""
    return f"{'line' if len(lines) == 1 else 'lines'} {listed}{more}"
