"""run_shell: one command in a fresh shell, in the foreground within a time, or in the background as a job with an id."""

from __future__ import annotations

import re
import shlex
from typing import Literal

import anyio
import anyio.to_thread
from pydantic import Field

from agent_harness.errors import SurfaceError, SurfaceLost, ToolFailed
from agent_harness.surfaces.base import ExecResult
from agent_harness.surfaces.paths import decode, normalise, shown
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.output import JobLog, Spool, tail_of
from agent_harness.tools.state_folder import put_state

MAX_TIMEOUT_S = 120
FIRST_LOOK_S = 0.3  # how long a background job is watched, so that one which fails at once says so at once
CWD_FILE = ".agent/tmp/cwd"
READ_ONLY_GIT = re.compile(r"\.git\b[^\n]*Read-only file system|Read-only file system[^\n]*\.git\b")


class RunShellArguments(Arguments):
    """A command to run, or a background job to look at or to stop."""

    command: str = ""
    timeout_s: int = Field(default=30, ge=1, le=MAX_TIMEOUT_S)
    background: bool = False
    job: str | None = None
    action: Literal["log", "stop"] | None = None


@tool("run_shell", RunShellArguments, reads_only=False, needs=frozenset({"exec"}))
async def run_shell(arguments: RunShellArguments, ctx: ToolContext) -> Output:
    """Run a bash command; no stdin. The directory persists between calls, variables do not.

    background=true returns a job id: see its log or stop it with job and action. .git is read-only here.
    """
    if arguments.job is not None or arguments.action is not None:
        return await _on_job(arguments, ctx)
    if not arguments.command.strip():
        raise ToolFailed("`command` is empty; give a command, or `job` and `action`.")
    if "\0" in arguments.command:
        raise ToolFailed("`command` contains a NUL character, which no command can.")
    note = await _settle_cwd(ctx)
    ctx.check("run_shell", {"command": arguments.command, "background": arguments.background})
    if arguments.background:
        return await _start_job(arguments.command, ctx, note)
    return await _run(arguments, ctx, note)


async def _run(arguments: RunShellArguments, ctx: ToolContext, note: str) -> Output:
    await _forget_cwd(ctx)
    spool = Spool(ctx.outputs / f"{ctx.call_id}.txt")
    ended = await ctx.surface.exec(
        _argv(arguments.command, ctx),
        cwd=ctx.state.cwd,
        timeout_s=arguments.timeout_s,
        on_output=spool.feed,
    )
    spool.finish()
    remarks = [f"[{remark}]" for remark in ended.remarks]
    notes = [note, _hint(spool.text_seen), await _keep_cwd(ctx), _strays(ended), *remarks, _end(ended, arguments.timeout_s)]
    text = spool.render(ctx.call_id)
    if not text:
        text = "(no output)\n"
    elif not text.endswith("\n"):
        text += "\n"
    return Output(
        text + "\n".join(part for part in notes if part),
        exit_code=ended.exit_code,
        ok=not ended.timed_out,
        stored=spool.stored,
        truncated=spool.stored is not None,
    )


def _argv(command: str, ctx: ToolContext) -> list[str]:
    """The command in a fresh bash that says where it ended. On one line, so that bash's own line numbers stay right."""
    file = shlex.quote(f"{ctx.surface.root}/{CWD_FILE}")
    return ["bash", "-c", f"trap 'pwd -P 2>/dev/null >'{shlex.quote(file)} EXIT; {command}"]


def _hint(text: str) -> str:
    if READ_ONLY_GIT.search(text):
        return "[.git is read-only for commands: use the git tool]"
    return ""


def _strays(ended: ExecResult) -> str:
    if not ended.strays:
        return ""
    count = f"{ended.strays} process{'es' * (ended.strays != 1)}"
    return (
        f"[{count} left running by the command {'were' if ended.strays != 1 else 'was'} ended; use background=true to keep one]"
    )


def _end(ended: ExecResult, timeout_s: int | None) -> str:
    if ended.timed_out:
        return (
            f"[timed out after {timeout_s} s, all its processes were ended; timeout_s up to {MAX_TIMEOUT_S}, or background=true]"
        )
    if ended.exit_code is None:
        return "[stopped]"
    return f"[exit code {ended.exit_code}]"


async def _settle_cwd(ctx: ToolContext) -> str:
    """Fall back to the root when the directory of the last command is gone; says so."""
    gone = ctx.state.cwd
    try:
        if gone == "." or (await ctx.surface.stat(gone)).kind == "dir":
            return ""
    except ToolFailed:
        pass
    ctx.state.cwd = "."
    return f"[the working directory {shown(gone)} is gone; this ran in the repository's root]"


async def _forget_cwd(ctx: ToolContext) -> None:
    """Empty the file, so that a command that never gets to write it leaves the directory as it was."""
    try:
        await put_state(ctx.surface, CWD_FILE, b"")
    except ToolFailed:
        return  # something else is in its place: then the directory does not persist


async def _keep_cwd(ctx: ToolContext) -> str:
    """Take over where the command ended; says so when that can't be kept. The file's content is the command's, so not trusted."""
    try:
        said = decode((await ctx.surface.read(CWD_FILE, 0, 4_096)).data).removesuffix("\n")
    except ToolFailed:
        return ""
    if not said.startswith("/"):
        return ""
    root = ctx.surface.root.rstrip("/")
    before, ctx.state.cwd = ctx.state.cwd, "."
    try:
        if said != root and not said.startswith(root + "/"):
            raise ToolFailed("outside")
        cwd = normalise(said[len(root) + 1 :] or ".")
        if (await ctx.surface.stat(cwd)).kind != "dir":
            raise ToolFailed("no folder")
    except ToolFailed:
        return f"[{shown(said)} can't be kept as the working directory; the next command starts in the repository's root]"
    ctx.state.cwd = cwd
    return f"[working directory: {shown(cwd)}]" if cwd != before else ""


async def _start_job(command: str, ctx: ToolContext, note: str) -> Output:
    job = f"job-{len(ctx.state.job_logs) + 1}"
    file = ctx.outputs / f"{job}.txt"
    log = JobLog(file)
    ctx.state.job_logs[job] = file
    cwd, ended = ctx.state.cwd, anyio.Event()

    async def body() -> None:
        said = "[stopped]"
        try:
            said = _end(await ctx.surface.exec(["bash", "-c", command], cwd=cwd, timeout_s=None, on_output=log.feed), None)
        except SurfaceLost:
            said = "[the sandbox is gone]"
        except (SurfaceError, ToolFailed, OSError) as error:
            said = f"[failed: {error}]"
        finally:
            log.finish(said)
            ended.set()

    ctx.jobs.start(job, body)
    with anyio.move_on_after(FIRST_LOOK_S):
        await ended.wait()
    state = "has ended already" if ended.is_set() else "runs in the background"
    first = await anyio.to_thread.run_sync(tail_of, file)
    return Output("\n".join(part for part in (note, f'{job} {state}; job="{job}" with action="log" or "stop".', first) if part))


async def _on_job(arguments: RunShellArguments, ctx: ToolContext) -> Output:
    job, action = arguments.job, arguments.action or "log"
    if arguments.command.strip():
        raise ToolFailed("`command` goes without `job` and `action`: those look at a job that was started before.")
    if job is None or job not in ctx.state.job_logs:
        known = ", ".join(ctx.state.job_logs) or "none was started"
        raise ToolFailed(f"`job` {shown(job or '')} is not a background job; the jobs are: {known}.")
    if action == "stop":
        stopped = await ctx.jobs.stop(job)
        head = f"{job} was stopped." if stopped else f"{job} had ended by itself."
    else:
        head = f"{job} {'still runs' if job in ctx.jobs.running() else 'has ended'}."
    log = await anyio.to_thread.run_sync(tail_of, ctx.state.job_logs[job])
    return Output(f"{head}\n{log}" if log.strip() else f"{head}\n(no output)")
