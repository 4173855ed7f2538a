"""Fires a session's hooks: all of an event side by side, the strictest answer counts, a broken one never passes unseen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from agent_harness.errors import ConfigError
from agent_harness.events import Event, HookRan, JsonValue
from agent_harness.hooks.answer import NO_OBJECTION, HookAnswer, interpret
from agent_harness.hooks.process import run_hook
from agent_harness.hooks.programs import Program, find_program, is_shells_own, syntax_error
from agent_harness.settings import HookEvent, HookSetting
from agent_harness.tasks import task_group

MUST_ANSWER: tuple[HookEvent, ...] = ("PreToolUse", "UserPromptSubmit")
LONG_ANSWER = 65_536  # characters from which reading an answer leaves the event loop's thread
Json = dict[str, JsonValue]
Revise = Callable[[Json], Awaitable[Json]]
# Enough for a program to find its tools and its files. Nothing else of the person's environment: credentials are there.
PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
)


@dataclass(frozen=True, slots=True)
class _One:
    setting: HookSetting
    program: Program


class Hooks:
    """The hooks of one session.

    Args:
        settings: what the person configured, in order.
        started_in: the directory where the person started; hooks run there.
        environ: the person's environment, of which hooks get the harmless part only.
        emit: records an event.
        common: fields that every payload has.
    """

    def __init__(
        self,
        settings: Sequence[HookSetting],
        started_in: Path,
        environ: Mapping[str, str],
        emit: Callable[[Event], object],
        common: Mapping[str, JsonValue],
    ) -> None:
        self._started_in = started_in
        self._env = {"PATH": os.defpath, **{name: environ[name] for name in PASSED_ON if name in environ}}
        self._emit = emit
        self._common = dict(common)
        about = common.get("agent")
        worktree = about.get("worktree") if isinstance(about, dict) else None
        if isinstance(worktree, str):
            self._env |= {"CLAUDE_PROJECT_DIR": worktree, "AGENT_WORKTREE": worktree}
        self._hooks = [_One(setting, find_program(setting.command, started_in, self._env)) for setting in settings]

    def check(self, worktree: Path | None) -> None:
        """Look at every configured program before anything is spent.

        Args:
            worktree: the agent's folder; a hook in it could be changed by the agent.

        Raises:
            ConfigError: a command line cannot be read, or its program does not exist, cannot run, or lies in the worktree.
        """
        for hook in self._hooks:
            problem = self._problem(hook, worktree)
            if problem:
                raise ConfigError(f"the hook {hook.setting.command!r} (from {hook.setting.source}) cannot be used: {problem}")

    def _problem(self, hook: _One, worktree: Path | None) -> str:
        program = hook.program
        error = syntax_error(hook.setting.command)
        if error:
            return f"the shell cannot read it ({error}); correct its quotes"
        if program.word and program.path is None and not is_shells_own(program.word, self._env):
            return f"{program.word!r} is not on PATH; give its path, or install it"
        inside = program.lies_in(worktree) if worktree is not None else None
        if inside is not None:
            return f"{str(inside)!r} lies in the agent's worktree, where the agent can change it; move it out"
        return program.problem(self._env.get("PATH"))

    def listen(self, event: HookEvent) -> bool:
        """Whether any hook is told of that event."""
        return any(hook.setting.event == event for hook in self._hooks)

    async def fire(self, event: HookEvent, payload: Mapping[str, JsonValue], revise: Revise | None = None) -> HookAnswer:
        """Run every hook of that event and return what they want together.

        Any refusal counts and all reasons are joined. A broken hook refuses on PreToolUse and UserPromptSubmit unless it is
        configured to fail open; on other events it is recorded and does nothing. After a rewrite every hook is asked once more.

        Args:
            event: what happened.
            payload: its own fields.
            revise: the payload of a call whose input was rewritten; None puts the new input in the old one's place.
        """
        hooks = [hook for hook in self._hooks if hook.setting.event == event]
        if not hooks:
            return NO_OBJECTION
        answers = await self._ask_all(hooks, self._sent(event, payload))
        together = _together(answers)
        if together.updated_input is None:
            return together

        async def resend(updated: Json) -> Json:
            again = {"tool_input": updated} if revise is None else await revise(updated)
            return self._sent(event, {**payload, **again})

        return await self._rewrite(hooks, answers, resend)

    def _sent(self, event: HookEvent, payload: Mapping[str, JsonValue]) -> Json:
        """Everything that a hook reads."""
        sent: Json = {**self._common, **payload, "hook_event_name": event}
        about, more = self._common.get("agent"), payload.get("agent")
        if isinstance(about, dict) and isinstance(more, dict):
            sent["agent"] = {**about, **more}
        return sent

    async def _ask_all(self, hooks: Sequence[_One], sent: Json) -> list[HookAnswer]:
        """All side by side; their answers in the order of configuration."""
        answers: dict[int, HookAnswer] = {}

        async def ask(number: int, hook: _One) -> None:
            answers[number] = await self._ask(hook, sent)

        async with task_group() as tasks:
            for number, hook in enumerate(hooks):
                tasks.start_soon(ask, number, hook)
        return [answers[number] for number in range(len(hooks))]

    async def _rewrite(self, hooks: Sequence[_One], answers: Sequence[HookAnswer], resend: Revise) -> HookAnswer:
        """Apply rewrites one after another, each on what the one before made; then let every hook judge what came out."""
        updated: Json | None = None
        by = ""
        for hook, answer in zip(hooks, answers, strict=True):
            if answer.updated_input is None:
                continue
            again = answer if updated is None else await self._ask(hook, await resend(updated))
            if again.blocked or again.stop:
                return again
            if again.updated_input is not None:
                updated, by = again.updated_input, again.by
        assert updated is not None
        final = _together(await self._ask_all(hooks, await resend(updated)))
        if final.blocked or final.stop:
            return final
        return replace(_together(answers), updated_input=updated, by=by)

    async def _ask(self, hook: _One, sent: Json) -> HookAnswer:
        started = time.monotonic()
        exit_code: int | None = None
        answer = HookAnswer(broken="it was cut off")
        try:
            exit_code, answer = await self._run(hook, sent)
        finally:
            # Also when the session is cancelled, or SessionEnd waited long enough: what was cut off is said.
            self._emit(
                HookRan(
                    event=hook.setting.event,
                    hook=hook.program.name,
                    exit_code=exit_code,
                    duration_ms=round((time.monotonic() - started) * 1000),
                    decision=_decision(answer),
                    reason=answer.reason or answer.broken or answer.note,
                )
            )
        return answer

    async def _run(self, hook: _One, sent: Json) -> tuple[int | None, HookAnswer]:
        setting = hook.setting
        problem = hook.program.problem(self._env.get("PATH"))
        if problem:
            return None, _settled(HookAnswer(broken=problem), hook)
        line = (json.dumps(sent, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        env = {**self._env, "AGENT_HOOK_EVENT": setting.event}
        finished = await run_hook(setting.command, line, self._started_in, env, setting.timeout_s)
        if finished.problem:
            return finished.exit_code, _settled(HookAnswer(broken=finished.problem), hook)
        said = (setting.event, finished.exit_code or 0, finished.stdout, finished.stderr, sent)
        if len(finished.stdout) > LONG_ANSWER:
            return finished.exit_code, _settled(await anyio.to_thread.run_sync(interpret, *said), hook)
        return finished.exit_code, _settled(interpret(*said), hook)


def _settled(answer: HookAnswer, hook: _One) -> HookAnswer:
    """The answer with its author, and a broken hook's as what that means on its event."""
    setting = hook.setting
    if answer.broken and setting.event in MUST_ANSWER and not setting.fail_open:
        answer = replace(answer, blocked=True, reason=f"hook broken: {answer.broken} ({setting.command})", updated_input=None)
    decided = answer.blocked or answer.stop or answer.updated_input is not None or answer.context
    return replace(answer, by=f"hook:{hook.program.name}") if decided else answer


def _decision(answer: HookAnswer) -> str:
    if answer.blocked:
        return "block"
    if answer.stop:
        return "stop"
    if answer.broken:
        return "broken"
    return "rewrite" if answer.updated_input is not None else "allow"


def _together(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Any refusal wins; contexts and reasons are joined in the order of configuration."""
    blocked, stop = any(answer.blocked for answer in answers), any(answer.stop for answer in answers)
    deciding = [answer for answer in answers if answer.blocked or answer.stop] or [answer for answer in answers if answer.by]
    rewrites = [answer for answer in answers if answer.updated_input is not None]
    return HookAnswer(
        blocked=blocked,
        reason="; ".join(dict.fromkeys(answer.reason for answer in deciding if answer.reason)),
        context="\n".join(answer.context for answer in answers if answer.context),
        updated_input=None if blocked or stop or not rewrites else rewrites[0].updated_input,
        stop=stop,
        by=deciding[0].by if deciding else "",
        broken="; ".join(answer.broken for answer in answers if answer.broken),
    )
