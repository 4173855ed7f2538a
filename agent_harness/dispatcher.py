"""ToolCall -> guards -> PreToolUse hooks -> guards again after a rewrite -> run -> PostToolUse hooks -> ToolResult.

The only caller of tools. Every call gets exactly one result, whatever happens; nobody can turn the guards off.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import anyio.to_thread

from agent_harness.clip import clip
from agent_harness.errors import SurfaceError, SurfaceLost, ToolFailed
from agent_harness.events import CallJudged, JsonValue, Notice, ToolCalled, ToolReturned
from agent_harness.guards.base import Guard
from agent_harness.hooks import NO_OBJECTION, Hooks
from agent_harness.hooks.payload import after_call, as_ours, before_call
from agent_harness.messages import ToolCall, ToolResult
from agent_harness.tasks import task_group
from agent_harness.tools.base import RESULT_CHARS, Arguments, Output, Tool, ToolContext
from agent_harness.tools.registry import parameters, read_call
from agent_harness.trace import Trace
from agent_harness.verdict import Decision, Verdict, strictest

CANCELLED = "Cancelled before it was finished. Nothing is known of its effect."
CUT = (
    "Not run: the reply was cut off by the output limit, so this call may be incomplete. "
    "Send it again in smaller parts, for example several edits instead of one."
)
LONG_COMMAND = 20_000  # characters of arguments from which judging leaves the event loop's thread


@dataclass(frozen=True, slots=True)
class _Denied(Exception):
    verdict: Verdict


class _InOrder:
    """Records the answers of one reply in the order of their calls, whichever is ready first."""

    def __init__(self, calls: Sequence[ToolCall], trace: Trace) -> None:
        self.results: dict[str, ToolResult] = {}
        self._waiting = [call.id for call in reversed(calls)]
        self._took_ms: dict[str, int] = {}
        self._trace = trace

    def add(self, result: ToolResult, duration_ms: int) -> None:
        """The answer to one call."""
        self.results[result.id] = result
        self._took_ms[result.id] = duration_ms
        while self._waiting and self._waiting[-1] in self.results:
            self._record(self.results[self._waiting.pop()])

    def _record(self, result: ToolResult) -> None:
        self._trace.emit(
            ToolReturned(
                id=result.id,
                name=result.name,
                ok=not result.is_error,
                content=result.content,
                truncated=result.truncated,
                duration_ms=self._took_ms[result.id],
                exit_code=result.exit_code,
                stored=result.stored,
            )
        )


class Dispatcher:
    """Runs the calls of one session.

    Args:
        tools: what the surface can offer, in their fixed order.
        guards: judge every call, before the hooks, after a rewrite and right before a command runs.
        hooks: the person's own policies.
        context: what tools may touch.
        trace: where calls, verdicts and results are recorded.

    Attributes:
        stop_reason: why a hook wants the run to end; empty while none does.
        unread: why no call of the last reply could be read as one of a tool; empty when at least one could.
    """

    def __init__(
        self, tools: Sequence[Tool[Arguments]], guards: Sequence[Guard], hooks: Hooks, context: ToolContext, trace: Trace
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._guards = tuple(guards)
        self._hooks = hooks
        self._trace = trace
        self._context = dataclasses.replace(context, check=self.check)
        self.stop_reason = ""
        self.unread = ""
        self._read = 0

    def check(self, name: str, arguments: Mapping[str, object]) -> None:
        """The guards once more, for a tool that is about to run a command.

        Raises:
            ToolFailed: denied.
        """
        call = ToolCall(self._context.call_id, name, cast("dict[str, JsonValue]", dict(arguments)))
        verdict = self._judge(call)
        if verdict.decision is not Decision.ALLOW:
            raise ToolFailed(_refusal(verdict))

    def _judge(self, call: ToolCall) -> Verdict:
        world = self._context.surface.world(self._context.state.cwd)
        verdicts: list[Verdict] = []
        for guard in self._guards:
            try:
                verdicts.append(guard.judge(call, world))
            except Exception as error:  # noqa: BLE001 - a guard that fails must deny, whatever its fault is
                reason = f"this call could not be analysed ({type(error).__name__}), so it is refused"
                verdicts.append(
                    Verdict(Decision.DENY, guard.name, reason, "split it into plain commands", f"{guard.name}.unanalysed")
                )
        return strictest(verdicts)

    async def run(self, turn: int, calls: Sequence[ToolCall], *, cut: bool = False) -> list[ToolResult]:
        """Run the calls of one reply; one result each, in the order asked.

        Reads that follow each other run together, anything else runs alone. When a call raises what ends the session, or the
        session is cancelled, the others still get a result first.

        Args:
            turn: number of the turn.
            calls: from `read_calls`.
            cut: the reply was cut off by the output limit: nothing is run.

        Raises:
            SurfaceLost: the surface is gone.
        """
        for call in calls:
            self._trace.emit(ToolCalled(turn, call.id, call.name, call.arguments))
        answers = _InOrder(calls, self._trace)
        read_before = self._read
        self.unread = ""
        try:
            for group in self._groups(calls):
                async with task_group() as tasks:
                    for call in group:
                        tasks.start_soon(self._finish, call, answers, cut)
        finally:
            for call in calls:
                if call.id not in answers.results:
                    answers.add(ToolResult(call.id, call.name, CANCELLED, is_error=True), 0)
        results = [answers.results[call.id] for call in calls]
        if results and not cut and self._read == read_before:
            self.unread = results[-1].content.split("\n", 1)[0]
        return results

    def _groups(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        groups: list[list[ToolCall]] = []
        together = False
        for call in calls:
            tool = self._tools.get(call.name)
            reads = tool is not None and tool.reads_only
            if reads and together:
                groups[-1].append(call)
            else:
                groups.append([call])
            together = reads
        return groups

    async def _finish(self, call: ToolCall, answers: _InOrder, cut: bool) -> None:
        started = time.monotonic()
        lost: SurfaceLost | None = None
        try:
            result = self._clip(call, Output(CUT, ok=False)) if cut else await self._run_one(call)
        except SurfaceLost as error:
            lost = error
            result = ToolResult(call.id, call.name, f"The sandbox is gone: {error}", is_error=True)
        answers.add(result, round((time.monotonic() - started) * 1000))
        if lost is not None:
            raise lost

    async def _run_one(self, call: ToolCall) -> ToolResult:
        """Judge one call, run it if allowed, and answer the model whatever happens."""
        notes: list[str] = []
        result = await self._judge_and_run(call, notes)
        return _noted(result, notes)

    async def _judge_and_run(self, call: ToolCall, notes: list[str]) -> ToolResult:
        """The result, and in `notes` what hooks say to the model before the call."""
        try:
            tool = self._find(call)
            arguments = read_call(tool, _object(call, tool))
            self._read += 1
            call, arguments = await self._permit(call, tool, arguments, notes)
            output = await tool.body(arguments, dataclasses.replace(self._context, call_id=call.id))
        except ToolFailed as failure:
            return self._clip(call, Output(str(failure), ok=False))
        except _Denied as denied:
            return self._clip(call, Output(_refusal(denied.verdict), ok=False))
        except SurfaceLost:
            raise
        except SurfaceError as error:
            text = f"The sandbox failed, so it is not known whether this took effect: {error}"
            return self._clip(call, Output(text, ok=False))
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one call, not the session
            self._trace.emit(Notice("bug", traceback.format_exc(limit=-8)))
            text = (
                f"Internal error of the harness ({type(error).__name__}: {error}). It was recorded. "
                "Whether the call took effect is not known: look before you repeat it."
            )
            return self._clip(call, Output(text, ok=False))
        result = self._clip(call, output)
        return await self._feed_back(call, result)

    def _find(self, call: ToolCall) -> Tool[Arguments]:
        tool = self._tools.get(call.name)
        if tool is None:
            near = difflib.get_close_matches(call.name, self._tools, n=1, cutoff=0.5)
            nearest = f" Nearest: {near[0]!r}." if near else ""
            found = f"There is no tool {call.name[:80]!r}." if call.name.strip() else "Not run: the call names no tool."
            raise ToolFailed(f"{found}{nearest} The tools are: {', '.join(self._tools)}.")
        return tool

    async def _permit(
        self, call: ToolCall, tool: Tool[Arguments], arguments: Arguments, notes: list[str]
    ) -> tuple[ToolCall, Arguments]:
        """The call as it may run: unchanged, or as a hook rewrote it (and then judged anew).

        Raises:
            _Denied: a guard or a hook refuses it.
        """
        await self._guard(call)
        answer = NO_OBJECTION
        if self._hooks.listen("PreToolUse"):
            told = await self._tell(call)
            answer = await self._hooks.fire("PreToolUse", told, partial(self._revise, call))
        if answer.context:
            notes.append(f"[from {answer.by or 'a hook'}] {answer.context}")
        self.stop_reason = self.stop_reason or (f"{answer.by}: {answer.reason}" if answer.stop else "")
        if answer.blocked or answer.stop:
            self._deny(call, Verdict(Decision.DENY, answer.by, answer.reason))
        if answer.updated_input is None:
            self._trace.emit(CallJudged(call.id, "allow", "guards and hooks"))
            return call, arguments
        updated = as_ours(call, answer.updated_input, *self._roots())
        rewritten = dataclasses.replace(call, arguments=updated)
        arguments = read_call(tool, updated)
        await self._guard(rewritten)
        self._trace.emit(CallJudged(call.id, "rewrite", answer.by, json.dumps(updated, ensure_ascii=False)))
        return rewritten, arguments

    def _roots(self) -> tuple[str, ...]:
        """The worktree's folder as hooks find it, and as the agent sees it."""
        surface = self._context.surface
        return (surface.root,) if surface.host_root is None else (str(surface.host_root), surface.root)

    async def _tell(self, call: ToolCall) -> dict[str, JsonValue]:
        """What hooks are told before the call."""
        world = self._context.surface.world(self._context.state.cwd)
        told = partial(before_call, call, world, self._roots()[0])
        return await anyio.to_thread.run_sync(told) if len(str(call.arguments)) > LONG_COMMAND else told()

    async def _revise(self, call: ToolCall, updated: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """What they are told of the call as one of them rewrote it."""
        told = await self._tell(dataclasses.replace(call, arguments=as_ours(call, updated, *self._roots())))
        return {**told, "tool_input": updated}

    async def _guard(self, call: ToolCall) -> None:
        long = len(str(call.arguments)) > LONG_COMMAND
        verdict = await anyio.to_thread.run_sync(self._judge, call) if long else self._judge(call)
        if verdict.decision is not Decision.ALLOW:
            self._deny(call, verdict)

    def _deny(self, call: ToolCall, verdict: Verdict) -> None:
        self._trace.emit(CallJudged(call.id, "deny", verdict.by, verdict.reason, verdict.instead))
        raise _Denied(verdict)

    async def _feed_back(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """What PostToolUse hooks say is added to the result; they cannot undo it."""
        if not self._hooks.listen("PostToolUse"):
            return result
        answer = await self._hooks.fire("PostToolUse", after_call(await self._tell(call), result))
        self.stop_reason = self.stop_reason or (f"{answer.by}: {answer.reason}" if answer.stop else "")
        said = "\n".join(text for text in (answer.reason if answer.blocked else "", answer.context) if text)
        return _noted(result, [f"[from {answer.by or 'a hook'}] {said}"] if said else [])

    def _clip(self, call: ToolCall, output: Output) -> ToolResult:
        content, cut = (output.text, False) if output.window else clip(output.text, RESULT_CHARS)
        stored = output.stored
        if cut and stored is None:
            stored = self._context.outputs / f"{call.id}.txt"
            stored.write_text(self._trace.redactor.text(output.text), encoding="utf-8", errors="backslashreplace")
        if cut and stored is not None:
            hint = f'[the whole output: read_file path="output:{call.id}"]'
            content, _ = clip(output.text, RESULT_CHARS - len(hint) - 1)
            content += ("" if content.endswith("\n") else "\n") + hint
        return ToolResult(
            call.id,
            call.name,
            content,
            is_error=not output.ok,
            truncated=cut or output.truncated,
            exit_code=output.exit_code,
            stored=None if stored is None else str(stored),
        )


def _noted(result: ToolResult, notes: Sequence[str]) -> ToolResult:
    """The result with what hooks say behind it, within what the model reads of one."""
    if not notes:
        return result
    note, _ = clip("\n" + "\n".join(notes), RESULT_CHARS // 2)
    content = result.content
    if len(content) + len(note) > RESULT_CHARS:
        content, _ = clip(content, RESULT_CHARS - len(note))
    return dataclasses.replace(result, content=content + note)


def _object(call: ToolCall, tool: Tool[Arguments]) -> dict[str, JsonValue]:
    if isinstance(call.arguments, str):
        wanted = json.dumps(parameters(tool), ensure_ascii=False)
        raise ToolFailed(f"Not run: {call.problem}.\n{tool.name} takes: {clip(wanted, 1_000)[0]}")
    return call.arguments


def _refusal(verdict: Verdict) -> str:
    said_by = f"Refused by {verdict.by}" if verdict.by else "Refused"
    parts = [f"{said_by}: {verdict.reason.rstrip('.')}."]
    if verdict.words:
        parts.append(f"Because of: {clip(' '.join(verdict.words), 200)[0]}" + (f" -> {verdict.target}" if verdict.target else ""))
    if verdict.instead:
        parts.append(f"Instead: {verdict.instead}")
    return "\n".join(parts)
