"""Fires a session's hooks: all of an event side by side, the strictest answer counts, a broken one never passes unseen."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from agent_harness.errors import ConfigError
from agent_harness.events import Event, HookRan, JsonValue
from agent_harness.hooks.answer import NO_OBJECTION, HookAnswer, interpret
from agent_harness.hooks.process import run_hook
from agent_harness.settings import HookEvent, HookSetting

MUST_ANSWER: tuple[HookEvent, ...] = ("PreToolUse", "UserPromptSubmit")
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
    name: str


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
        self._hooks = [_One(setting, _name(setting.command)) for setting in settings]
        self._started_in = started_in
        self._path = environ.get("PATH", os.defpath)
        self._env = {name: environ[name] for name in PASSED_ON if name in environ}
        self._emit = emit
        self._common = dict(common)
        about = common.get("agent")
        worktree = about.get("worktree") if isinstance(about, dict) else None
        if isinstance(worktree, str):
            self._env |= {"CLAUDE_PROJECT_DIR": worktree, "AGENT_WORKTREE": worktree}

    def check(self, worktree: Path | None) -> None:
        """Look at every configured program before anything is spent.

        Args:
            worktree: the agent's folder; a hook in it could be changed by the agent.

        Raises:
            ConfigError: a program does not exist, is not executable, or lies in the worktree.
        """
        for hook in self._hooks:
            program = _program(hook.setting.command)
            if program is None or "/" not in program:
                if program is not None and not _is_shell_word(program) and shutil.which(program, path=self._path) is None:
                    raise ConfigError(
                        f"the hook {program!r} (from {hook.setting.source}) is not on PATH; give its path, or install it"
                    )
                continue
            path = self._started_in / Path(program).expanduser()
            self._check_file(hook, path, worktree)

    def _check_file(self, hook: _One, path: Path, worktree: Path | None) -> None:
        source = hook.setting.source
        if not path.is_file():
            raise ConfigError(f"the hook {str(path)!r} (from {source}) does not exist; correct the path, or unset it")
        if not os.access(path, os.X_OK):
            raise ConfigError(f"the hook {str(path)!r} (from {source}) is not executable; run: chmod +x {shlex.quote(str(path))}")
        if worktree is not None and path.resolve().is_relative_to(worktree.resolve()):
            raise ConfigError(
                f"the hook {str(path)!r} (from {source}) lies in the agent's worktree, where the agent can change it; move it out"
            )

    async def fire(self, event: HookEvent, payload: Mapping[str, JsonValue]) -> HookAnswer:
        """Run every hook of that event and return what they want together.

        Any refusal counts and all reasons are joined. A broken hook refuses on PreToolUse and UserPromptSubmit unless it is
        configured to fail open; on other events it is recorded and does nothing.
        """
        hooks = [hook for hook in self._hooks if hook.setting.event == event]
        if not hooks:
            return NO_OBJECTION
        sent: dict[str, JsonValue] = {**self._common, **payload, "hook_event_name": event}
        answers: dict[int, HookAnswer] = {}

        async def ask(number: int, hook: _One) -> None:
            answers[number] = await self._ask(hook, sent)

        async with anyio.create_task_group() as tasks:
            for number, hook in enumerate(hooks):
                tasks.start_soon(ask, number, hook)
        return _together([answers[number] for number in range(len(hooks))])

    async def _ask(self, hook: _One, sent: dict[str, JsonValue]) -> HookAnswer:
        setting = hook.setting
        started = time.monotonic()
        line = (json.dumps(sent, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        env = {**self._env, "AGENT_HOOK_EVENT": setting.event}
        finished = await run_hook(setting.command, line, self._started_in, env, setting.timeout_s)
        if finished.problem:
            answer = HookAnswer(broken=finished.problem)
        else:
            answer = interpret(setting.event, finished.exit_code or 0, finished.stdout, finished.stderr, sent)
        answer = _settle_broken(answer, setting)
        if answer.blocked or answer.stop or answer.updated_input is not None or answer.context:
            answer = replace(answer, by=f"hook:{hook.name}")
        self._emit(
            HookRan(
                event=setting.event,
                hook=hook.name,
                exit_code=finished.exit_code,
                duration_ms=round((time.monotonic() - started) * 1000),
                decision=_decision(answer),
                reason=answer.reason or answer.broken,
            )
        )
        return answer


def _settle_broken(answer: HookAnswer, setting: HookSetting) -> HookAnswer:
    if not answer.broken or setting.fail_open or setting.event not in MUST_ANSWER:
        return answer
    return replace(answer, blocked=True, reason=f"hook broken: {answer.broken} ({setting.command})", updated_input=None)


def _decision(answer: HookAnswer) -> str:
    if answer.blocked:
        return "block"
    if answer.stop:
        return "stop"
    if answer.broken:
        return "broken"
    return "rewrite" if answer.updated_input is not None else "allow"


def _together(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Any refusal wins; a later rewrite replaces an earlier one; contexts and reasons are joined in configuration order."""
    blocked = any(answer.blocked for answer in answers)
    deciding = [answer for answer in answers if answer.blocked or answer.stop] or [answer for answer in answers if answer.by]
    rewrites = [answer for answer in answers if answer.updated_input is not None]
    return HookAnswer(
        blocked=blocked,
        reason="; ".join(dict.fromkeys(answer.reason for answer in deciding if answer.reason)),
        context="\n".join(answer.context for answer in answers if answer.context),
        updated_input=None if blocked or not rewrites else rewrites[-1].updated_input,
        stop=any(answer.stop for answer in answers),
        by=deciding[0].by if deciding else "",
        broken="; ".join(answer.broken for answer in answers if answer.broken),
    )


def _program(command: str) -> str | None:
    """The first word of a command line that is no assignment; None when a shell would have to say."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return next((word for word in words if not _is_assignment(word)), None)


def _is_assignment(word: str) -> bool:
    name, separator, _ = word.partition("=")
    return bool(separator) and name.isidentifier()


def _is_shell_word(word: str) -> bool:
    """Builtins and syntax that `sh` understands by itself."""
    return word in {
        "exit",
        "echo",
        "printf",
        "test",
        "[",
        ":",
        "true",
        "false",
        "if",
        "case",
        "for",
        "while",
        "{",
        "exec",
        "read",
        "set",
        "cd",
        "!",
    } or any(sign in word for sign in "$`(){};|&<>")


def _name(command: str) -> str:
    """A short name for verdicts: the program's file name."""
    program = _program(command) or command
    return Path(program).name[:60] or "hook"
