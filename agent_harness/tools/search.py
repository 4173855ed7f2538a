"""ripgrep: a line-numbered search, with ripgrep, else with grep, else in Python where nothing can be run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_harness.errors import ConfigError, ToolFailed
from agent_harness.surfaces.base import ExecResult
from agent_harness.surfaces.globs import parse_globs
from agent_harness.surfaces.paths import SKIPPED, Denied, decode, normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.hits import COUNTED, Found, HitReader, render
from agent_harness.tools.search_walk import Wanted, search_files
from agent_harness.tools.state_folder import STATE_FOLDERS

TIMEOUT_S = 20
NOT_FOUND = (126, 127)
EXTENSION = re.compile(r"\*\.[\w.-]+|\*\.\{[\w.,-]+\}")
NAMED_FILES = 5


class RipgrepArguments(Arguments):
    """What to look for, and where."""

    query: str
    path: str = "."
    glob: str | None = None
    regex: bool = False
    ignore_case: bool = False
    include_ignored: bool = False


@dataclass(frozen=True, slots=True)
class _Search:
    """A checked request: `path` is normalised, `skipped` are the folders that it leaves out by name."""

    asked: RipgrepArguments
    path: str
    is_dir: bool
    skipped: tuple[str, ...]
    denied: Denied

    def accepts(self, path: str) -> bool:
        """Whether matches in that file may be shown."""
        parts = path.split("/")
        if self.denied(path) or parts[0] in STATE_FOLDERS:
            return False
        if self.is_dir and any(part in self.skipped for part in parts[:-1]):
            return False
        return self._in_glob(path)

    def _in_glob(self, path: str) -> bool:
        glob = self.asked.glob
        if not glob:
            return True
        wanted = not glob.startswith("!")
        folded = path.casefold().split("/")
        below = folded if self.path == "." else folded[self.path.count("/") + 1 :]
        return wanted == any(each.covers(folded) or each.covers(below) for each in parse_globs(glob.removeprefix("!")))


@tool("ripgrep", RipgrepArguments, reads_only=True)
async def ripgrep(arguments: RipgrepArguments, ctx: ToolContext) -> Output:
    """Search file contents line by line, hidden files too; query is literal unless regex is set. At most 50 matches."""
    search = await _checked(arguments, ctx)
    found, partial = await _find(search, ctx)
    if found.total == 0:
        return Output(await _nothing(search, found, partial, ctx))
    text, count = render(found)
    notes: list[str] = []
    if found.total > count:
        more = f"more than {COUNTED - count}" if found.full else str(found.total - count)
        notes.append(f"... {more} more matches; narrow `query`, `path` or `glob`")
    if found.binary:
        notes.append(f"[binary files match too, not shown: {_names(found.binary)}]")
    left_out = await _left_out(search, ctx)
    if left_out:
        notes.append(f"[not searched: {', '.join(left_out)}; `include_ignored` searches them]")
    if partial:
        notes.append(f"[stopped after {TIMEOUT_S} s: there may be more]")
    return Output("\n".join([text, *notes]), truncated=found.total > count or partial)


async def _checked(arguments: RipgrepArguments, ctx: ToolContext) -> _Search:
    if not arguments.query:
        raise ToolFailed("`query` is empty; give the text to look for.")
    if "\n" in arguments.query or "\0" in arguments.query:
        raise ToolFailed("`query` holds a line end or a NUL; the search goes line by line: look for the most telling line of it.")
    path = normalise(arguments.path, root=ctx.surface.root)
    try:
        parse_globs((arguments.glob or "*").removeprefix("!"))
    except ConfigError as error:
        raise ToolFailed(f"`glob`: {error}") from None
    stat = await ctx.surface.stat(path)
    skipped = () if arguments.include_ignored else tuple(name for name in SKIPPED if name not in path.split("/"))
    return _Search(arguments, path, stat.kind == "dir", skipped, Denied(ctx.deny))


async def _find(search: _Search, ctx: ToolContext) -> tuple[Found, bool]:
    """What is there, and whether time ran out first."""
    if not ctx.surface.capabilities.exec:
        return await search_files(
            ctx.surface, search.path, search.is_dir, _wanted(search.asked), search.accepts, search.asked.include_ignored
        )
    reader = HitReader(search.accepts)
    ended = await _exec(ctx, _rg(search), reader.feed)
    if ended.exit_code in NOT_FOUND and reader.found.total == 0:
        reader, ended = await _grep_for(search, ctx)
    found = reader.found
    if ended.exit_code == 2 and found.total == 0:
        said = found.messages.decode("utf-8", "replace").strip()[:1_000]
        raise ToolFailed(
            f"The search failed; `query` is {'no valid regular expression' if search.asked.regex else 'literal'}:\n{said}"
        )
    return found, ended.timed_out


async def _exec(ctx: ToolContext, argv: list[str], on_output: Callable[[bytes], bool]) -> ExecResult:
    return await ctx.surface.exec(argv, timeout_s=TIMEOUT_S, on_output=on_output)


def _rg(search: _Search, *more: str) -> list[str]:
    """Without `--no-config` a variable, and without `-e ... --` a query, could make ripgrep run a program."""
    asked = search.asked
    argv = [
        "rg",
        "--no-config",
        "--no-follow",
        "--no-messages",
        "--color=never",
        "--hidden",
        "--binary",
        "--crlf",
        "--no-heading",
    ]
    argv += ["--column", "-n", "-H", "--null", "--max-filesize", "10M", *more]
    argv += [] if asked.regex else ["-F"]
    argv += ["-i"] if asked.ignore_case else []
    argv += ["--no-ignore"] if asked.include_ignored else []
    if asked.glob and EXTENSION.fullmatch(asked.glob):
        # As a type and not as a glob: a glob would search ignored files, too.
        argv += [word for each in parse_globs(asked.glob) for word in ("--type-add", f"wanted:{each.folded()}")] + [
            "-t",
            "wanted",
        ]
    left_out = [f"!{name}/" for name in (*search.skipped, *STATE_FOLDERS)]
    for glob in [*left_out, *search.denied.ripgrep()]:
        argv += ["-g", glob]
    return [*argv, "-e", asked.query, "--", "." if search.path == "." else f"./{search.path}"]


async def _grep_for(search: _Search, ctx: ToolContext) -> tuple[HitReader, ExecResult]:
    """The same search with grep, which knows no ignore files: git says which files those leave over."""
    accepts = search.accepts
    if not search.asked.include_ignored and search.is_dir:
        names = await _not_ignored(search, ctx)

        def accepts(path: str) -> bool:
            return (names is None or path in names) and search.accepts(path)

    reader = HitReader(accepts, _wanted(search.asked).column)
    asked = search.asked
    argv = ["grep", "-r", "-n", "-H", "-Z", "-s", "--color=never", "-E" if asked.regex else "-F"]
    argv += ["-i"] if asked.ignore_case else []
    argv += [f"--exclude-dir={name}" for name in (*search.skipped, *STATE_FOLDERS)] if search.is_dir else []
    argv += [*search.denied.grep(), "-e", asked.query, "--", "." if search.path == "." else f"./{search.path}"]
    return reader, await _exec(ctx, argv, reader.feed)


async def _not_ignored(search: _Search, ctx: ToolContext) -> set[str] | None:
    """What git lists; None where there is no repository, and so nothing is ignored."""
    listed = bytearray()

    def collect(data: bytes) -> bool:
        listed.extend(data)
        return False

    which = ["--cached", "--others", "--exclude-standard"]
    ended = await _exec(ctx, ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", *which, "--", search.path], collect)
    return {decode(name) for name in bytes(listed).split(b"\0")} if ended.exit_code == 0 else None


def _wanted(asked: RipgrepArguments) -> Wanted:
    return Wanted(asked.query, regex=asked.regex, ignore_case=asked.ignore_case)


async def _left_out(search: _Search, ctx: ToolContext) -> list[str]:
    """Folders directly below the search path that are left out by name."""
    if not search.is_dir or not search.skipped:
        return []
    entries = await ctx.surface.list(search.path)
    return sorted(entry.name for entry in entries if entry.kind == "dir" and entry.name in search.skipped)


async def _nothing(search: _Search, found: Found, partial: bool, ctx: ToolContext) -> str:
    """Why nothing was found: nothing there, or only where was not looked."""
    where = "" if search.path == "." else f" in {shown(search.path)}"
    parts = [f"No matches for {shown(search.asked.query)}{where}."]
    if found.binary:
        parts.append(f"Binary files match, their lines are not shown: {_names(found.binary)}.")
    if partial:
        parts.append(f"The search was stopped after {TIMEOUT_S} s, so this is not certain; narrow `path`.")
    elif not search.asked.include_ignored and search.is_dir:
        widened = replace(search, asked=search.asked.model_copy(update={"include_ignored": True}), skipped=())
        more, _ = await _find(widened, ctx)
        files = list(dict.fromkeys([hit.path for hit in more.hits] + more.binary))
        hidden = [path for path in files if path not in found.binary]
        if hidden:
            parts.append(f"Ignored files do match: {_names(hidden)}; search them with `include_ignored`=true.")
        else:
            parts.append("Ignored files do not match either.")
    if not search.asked.regex and re.search(r"[\\|*+^$]|\.\*", search.asked.query):
        parts.append("`query` was taken literally; set `regex`=true for a regular expression.")
    return " ".join(parts)


def _names(paths: list[str]) -> str:
    more = f" and {len(paths) - NAMED_FILES} more" if len(paths) > NAMED_FILES else ""
    return ", ".join(shown(path) for path in paths[:NAMED_FILES]) + more
