"""How a hook's answer is understood: one interpreter for our own dialect and for scripts written for Claude Code.

The strictest of everything that a hook said counts: every JSON object on stdout, and the exit code. Unknown fields never void a
refusal; a refusal that cannot be read is one. A hook that crashed, or answered nonsense, is *broken*, which is not a decision.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import cast

from agent_harness.events import JsonValue
from agent_harness.settings import HookEvent

BLOCKING_EXIT = 2
CONTEXT_CHARS = 10_000
TEXT_IS_CONTEXT: tuple[HookEvent, ...] = ("SessionStart", "UserPromptSubmit")
Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What one hook, or all hooks of an event together, want.

    Attributes:
        blocked: refuse the call or prompt; feedback after a call; go on working at Stop.
        reason: why, for the model.
        context: text for the conversation, untrusted.
        updated_input: replaces the call's whole arguments.
        stop: end the run.
        by: `hook:NAME`, of the first that decided something.
        broken: why the hook is no policy but a broken program; empty when it is not.
    """

    blocked: bool = False
    reason: str = ""
    context: str = ""
    updated_input: Json | None = None
    stop: bool = False
    by: str = ""
    broken: str = ""


NO_OBJECTION = HookAnswer()


@dataclass
class _Said:
    """Gathers what the objects of one answer say."""

    blocked: bool = False
    stop: bool = False
    updated: Json | None = None
    reasons: list[str] = field(default_factory=list[str])
    contexts: list[str] = field(default_factory=list[str])

    def take(self, found: Json) -> None:
        nested = found.get("hookSpecificOutput")
        for each in (found, nested if isinstance(nested, dict) else {}):
            self._take(each)

    def _take(self, found: Json) -> None:
        refused = _refuses(found)
        self.blocked = self.blocked or refused
        if found.get("continue") is False:
            self.stop = True
        if refused or self.stop:
            for name in ("permissionDecisionReason", "reason", "stopReason", "message"):
                reason = found.get(name)
                if isinstance(reason, str) and reason:
                    self.reasons.append(reason)
                    break
        for name in ("updatedInput", "modifiedArgs"):
            updated = found.get(name)
            if isinstance(updated, dict):
                self.updated = updated
            elif updated is not None:
                self.blocked = True
                self.reasons.append(f"its {name} is no object, so the rewrite cannot be read")
        context = found.get("additionalContext")
        if isinstance(context, str) and context:
            self.contexts.append(context)


def _refuses(found: Json) -> bool:
    """Whether an object refuses. A value of the wrong kind in a field that decides is an unreadable decision, so it refuses."""
    block = found.get("block", False)
    if block is not False and block is not None:
        return True
    decided = (
        (found.get("permissionDecision"), ("allow", "approve")),
        (found.get("decision"), ("allow", "approve")),
        (found.get("permission"), ("allow",)),
    )
    # "ask" and "defer" want a person; nobody is there, so they refuse too.
    return any(value is not None and value not in harmless for value, harmless in decided)


def interpret(event: HookEvent, exit_code: int, stdout: str, stderr: str, sent: Json) -> HookAnswer:
    """Understand one hook's answer.

    Args:
        event: what it was asked about.
        exit_code: as the shell gave it; negative for a signal.
        stdout: what it printed.
        stderr: what it complained.
        sent: the payload; an object that repeats it is an echo and no answer.
    """
    text = stdout.strip().removeprefix("\ufeff")
    objects, whole = _objects(text)
    objects = [found for found in objects if not _is_echo(found, sent)]
    said = _Said()
    for found in objects:
        said.take(found)
    if exit_code == BLOCKING_EXIT:
        said.blocked = True
        if not said.reasons:
            said.reasons.append(stderr.strip() or "it gave no reason (exit code 2)")
    answer = HookAnswer(
        blocked=said.blocked,
        reason="; ".join(dict.fromkeys(said.reasons)) or ("it gave no reason" if said.blocked or said.stop else ""),
        context="\n".join(said.contexts)[:CONTEXT_CHARS],
        updated_input=None if said.blocked else said.updated,
        stop=said.stop,
    )
    if said.blocked or said.stop:
        return answer
    if exit_code != 0:
        how = f"it was ended by signal {-exit_code}" if exit_code < 0 else f"it exited with {exit_code}"
        complaint = stderr.strip().splitlines()
        return replace(answer, broken=how + (f": {complaint[-1]}" if complaint else ""))
    if text.startswith("{") and not whole:
        return replace(answer, broken="its answer begins like JSON and is none")
    if not objects and text and event in TEXT_IS_CONTEXT:
        return replace(answer, context=text[:CONTEXT_CHARS])
    return answer


def _objects(text: str) -> tuple[list[Json], bool]:
    """Every JSON object in the text, and whether each object that begins at a line's start could be read."""
    decoder = json.JSONDecoder()
    found: list[Json] = []
    position = 0
    whole = True
    while (start := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            if start == 0:
                whole = False
            position = text.find("\n", start) + 1
            if position == 0:
                break
            continue
        found.append(cast("Json", value))
    return found, whole


def _is_echo(found: Json, sent: Json) -> bool:
    return "hook_event_name" in found and found.get("hook_event_name") == sent.get("hook_event_name") and "session_id" in found
