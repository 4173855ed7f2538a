"""git: argv only, sub-commands and options from a list, inside the sandbox; it never pushes, the harness does."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.base import ExecResult
from agent_harness.surfaces.paths import Denied, decode, normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.git_options import CommitRequest, ReadRequest, check_push, commit_request, read_request
from agent_harness.tools.output import Spool
from agent_harness.tools.state_folder import STATE_FOLDERS

TIMEOUT_S = 60
IDENTITY = ("agent-harness", "agent-harness@localhost")
INERT = (
    "git",
    "--no-pager",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.editor=true",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "color.ui=false",
    "-c",
    "diff.ignoreSubmodules=dirty",
    "-c",
    "diff.submodule=short",
)
"""Nothing that a repository configures may run a program, or start one that outlives the call."""
IN_PLACE = (
    "Nothing is committed or pushed here: this is a person's own checkout, and its HEAD, index and branches stay as they are. "
    "Leave your changes in the files; what becomes of them is decided outside."
)


class GitArguments(Arguments):
    """A sub-command and its arguments, one word each."""

    command: Literal["status", "diff", "log", "show", "commit", "push"]
    args: list[str] = Field(default_factory=list[str])


@tool("git", GitArguments, reads_only=False, needs=frozenset({"exec", "git"}))
async def git(arguments: GitArguments, ctx: ToolContext) -> Output:
    """Run git; args is one word each.

    commit takes -m and paths (none: everything) and stages them itself. push asks the harness to push your branch, the only one
    you may push.
    """
    for word in arguments.args:
        if "\0" in word:
            raise ToolFailed(f"`args` holds {shown(word)}, which contains a NUL character.")
    if arguments.command in ("commit", "push") and not ctx.surface.capabilities.commits:
        _check(arguments, ctx)
        raise ToolFailed(IN_PLACE)
    denied = Denied(ctx.deny)
    if arguments.command == "push":
        check_push(arguments.args, ctx.branch, ctx.surface.world(".").git().branch)
        _check(arguments, ctx)
        return Output(await _push(denied, ctx))
    if arguments.command == "commit":
        request = commit_request(arguments.args, denied)
        _check(arguments, ctx)
        return await _commit(request, denied, ctx)
    request = read_request(arguments.command, arguments.args, denied)
    _check(arguments, ctx)
    spool = Spool(ctx.outputs / f"{ctx.call_id}.txt")
    ended = await _run(await _read_argv(request, denied, ctx), ctx, spool)
    return _output(ended, spool, ctx)


async def _read_argv(request: ReadRequest, denied: Denied, ctx: ToolContext) -> list[str]:
    """Behind `--` every word is a path and before it a revision, so that git never guesses, nor compares files outside."""
    revisions: list[str] = []
    paths = [f":(top,literal){path}" for path in request.paths]
    for word in request.words:
        if await _is_path(word, ctx):
            paths.append(f":(top,literal){normalise(word)}")
        else:
            revisions.append(word)
    argv = ["--no-optional-locks", request.command]
    argv += [] if request.command == "status" else ["--no-ext-diff", "--no-textconv"]
    if request.shows_changes:
        paths = [*(paths or [":(top)"]), *(f":(exclude,top,glob){glob}" for glob in _denied_globs(denied))]
    return [*argv, *request.options, *revisions, *(["--", *paths] if paths else [])]


async def _is_path(word: str, ctx: ToolContext) -> bool:
    if any(sign in word for sign in (":", "..", "^", "~", "@")):
        return False
    try:
        await ctx.surface.stat(word)
    except ToolFailed:
        return False
    return True


def _check(arguments: GitArguments, ctx: ToolContext) -> None:
    ctx.check("git", {"command": arguments.command, "args": list(arguments.args)})


async def _run(argv: list[str], ctx: ToolContext, spool: Spool, *, writable: bool = False, stdin: bytes = b"") -> ExecResult:
    argv = [*INERT, *argv]
    return await ctx.surface.exec(argv, timeout_s=TIMEOUT_S, on_output=spool.feed, stdin=stdin, writable_git=writable)


def _output(ended: ExecResult, spool: Spool, ctx: ToolContext) -> Output:
    spool.finish()
    text = spool.render(ctx.call_id) or "(no output)\n"
    text += "" if text.endswith("\n") else "\n"
    end = f"[timed out after {TIMEOUT_S} s]" if ended.timed_out else f"[exit code {ended.exit_code}]"
    return Output(
        text + end,
        exit_code=ended.exit_code,
        ok=ended.exit_code == 0,
        stored=spool.stored,
        truncated=spool.stored is not None,
    )


async def _commit(request: CommitRequest, denied: Denied, ctx: ToolContext) -> Output:
    spool = Spool(ctx.outputs / f"{ctx.call_id}.txt")
    for line in await _stage(request, denied, ctx, spool):
        spool.feed(f"[{line}]\n".encode("utf-8", "backslashreplace"))
    identity = [] if await _has_identity(ctx) else ["-c", f"user.name={IDENTITY[0]}", "-c", f"user.email={IDENTITY[1]}"]
    message = [word for paragraph in request.message for word in ("-m", paragraph)]
    message += [word for name in ctx.co_authors for word in ("--trailer", f"Co-authored-by: {name}")]
    ended = await _run([*identity, "commit", "--no-verify", "--no-gpg-sign", "--no-edit", *message], ctx, spool, writable=True)
    return _output(ended, spool, ctx)


async def _push(denied: Denied, ctx: ToolContext) -> str:
    """Have the harness push what is committed.

    Raises:
        ToolFailed: something is not committed, or the harness refuses; says what to do.
    """
    if ctx.push is None:
        raise ToolFailed("Nothing is pushed from here: there is no session that could. Leave your work committed.")
    listing = bytearray()
    which = ["--no-optional-locks", "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"]
    ended = await ctx.surface.exec([*INERT, *which], timeout_s=TIMEOUT_S, on_output=lambda data: listing.extend(data) or False)
    if ended.exit_code != 0:
        raise ToolFailed(f"Not pushed: `git status` failed: {decode(bytes(listing))[-500:]}")
    names = [decode(entry[3:]) for entry in bytes(listing).split(b"\0") if entry]
    left = [name for name in names if not (name.endswith("/") or denied(name) or name.partition("/")[0] in STATE_FOLDERS)]
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        raise ToolFailed(
            f"Not pushed: commit or remove first {', '.join(map(shown, left[:5]))}{more}; a push takes whole commits."
        )
    return await ctx.push()


async def _stage(request: CommitRequest, denied: Denied, ctx: ToolContext, spool: Spool) -> list[str]:
    """Stage what differs and may be staged; returns what to say of the rest.

    The names come from git and are chosen by us: an exclusion that names an ignored file makes `git add` fail.
    """
    listing = bytearray()
    wanted = [f":(top,literal){path}" for path in request.paths] or [":(top)"]
    which = ["ls-files", "-z", "-m", "-d", "-o", "--exclude-standard", "--", *wanted]
    ended = await ctx.surface.exec([*INERT, *which], timeout_s=TIMEOUT_S, on_output=lambda data: listing.extend(data) or False)
    if ended.exit_code != 0:
        spool.feed(bytes(listing))
        return ["the changed files could not be listed, so nothing was staged"]
    names = {decode(name): name for name in bytes(listing).split(b"\0") if name}
    nested = [name for name in names if name.endswith("/")]
    fit = [name for name in names if not (name.endswith("/") or denied(name) or name.partition("/")[0] in STATE_FOLDERS)]
    refused = {name: refusal for name in fit if (refusal := ctx.changeable.refusal(name))}
    fit = [name for name in fit if name not in refused]
    if fit:
        add = ["--literal-pathspecs", "add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul"]
        await _run(add, ctx, spool, writable=True, stdin=b"\0".join(names[name] for name in fit))
    said = [f"not staged, a git repository of its own: {shown(name)}" for name in nested[:5]]
    said += [f"not staged: {refusal} Undo that change, or it cannot be published." for refusal in list(refused.values())[:5]]
    said += [
        f"nothing to stage at {shown(path)}: it is unchanged, ignored or not there"
        for path in request.paths
        if not any(name == path or name.startswith(f"{path}/") for name in (*fit, *refused))
    ]
    return said


def _denied_globs(denied: Denied) -> list[str]:
    """The denied names as git's glob pathspecs: at any depth, and what lies below."""
    globs: list[str] = []
    for each in denied.ripgrep():
        glob = each.removeprefix("!")
        glob = glob.removeprefix("/") if glob.startswith("/") else f"**/{glob}"
        globs += [glob, f"{glob}/**"]
    return globs


async def _has_identity(ctx: ToolContext) -> bool:
    ended = await ctx.surface.exec(["git", "config", "user.email"], timeout_s=TIMEOUT_S)
    return ended.exit_code == 0
