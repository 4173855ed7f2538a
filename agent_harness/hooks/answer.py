"""How a hook's answer is understood: one interpreter for our own dialect and for scripts written for Claude Code.

The strictest of everything that a hook said counts: every JSON object on stdout, and the exit code. Unknown fields never void a
refusal; a refusal that cannot be read is one. A hook that crashed, or answered nonsense, is *broken*, which is not a decision.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import cast

from agent_harness.events import JsonValue
from agent_harness.settings import HookEvent

BLOCKING_EXIT = 2
TEXT_CHARS = 10_000  # of a reason or a context; a policy that wants to say more should name a file
UNREADABLE_STARTS = 1_000  # braces that begin no object, after which an answer is given up
TEXT_IS_CONTEXT: tuple[HookEvent, ...] = ("SessionStart", "UserPromptSubmit")
Json = dict[str, JsonValue]

_LOOKS_LIKE_JSON = re.compile(r'\{\s*"')
_HARMLESS: tuple[tuple[str, tuple[JsonValue, ...]], ...] = (
    ("block", (None, False)),
    ("permissionDecision", (None, "allow", "approve")),
    ("decision", (None, "allow", "approve")),
    ("permission", (None, "allow")),
    ("continue", (None, True)),
)
_REASONS = ("permissionDecisionReason", "reason", "stopReason", "agent_message", "message")


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
        note: what it said that decides nothing; for the record only.
    """

    blocked: bool = False
    reason: str = ""
    context: str = ""
    updated_input: Json | None = None
    stop: bool = False
    by: str = ""
    broken: str = ""
    note: str = ""


NO_OBJECTION = HookAnswer()


@dataclass
class _Said:
    """Gathers what the objects of one answer say."""

    event: HookEvent
    blocked: bool = False
    stop: bool = False
    updated: Json | None = None
    reasons: list[str] = field(default_factory=list[str])
    contexts: list[str] = field(default_factory=list[str])

    def take(self, found: Json) -> None:
        """One object, and the event's own part in it."""
        self._decide(found)
        self._add(found)
        nested = found.get("hookSpecificOutput")
        if nested is not None and not isinstance(nested, dict):
            self.blocked = True
            self.reasons.append("its hookSpecificOutput is no object, so its decision cannot be read")
        if isinstance(nested, dict):
            self._decide(nested)
            # What is meant for another event is not taken, except that a refusal is one wherever it stands.
            if nested.get("hookEventName", self.event) == self.event:
                self._add(nested)

    def _decide(self, found: Json) -> None:
        # A value of the wrong kind in a field that decides is an unreadable decision, so it refuses. "ask" and "defer" want a
        # person; nobody is there, so they refuse too. `in` would take 0 for False.
        decided = [(name, found[name]) for name, harmless in _HARMLESS if name in found and not _among(found[name], harmless)]
        if not decided:
            return
        if found.get("continue") is False:
            self.stop = True
        self.blocked = self.blocked or any(name != "continue" or value is not False for name, value in decided)
        reasons = [reason for name in _REASONS if isinstance(reason := found.get(name), str) and reason]
        self.reasons += reasons[:1]

    def _add(self, found: Json) -> None:
        context = found.get("additionalContext")
        if isinstance(context, str) and context:
            self.contexts.append(context)
        for name in ("updatedInput", "modifiedArgs") if self.event == "PreToolUse" else ():
            updated = found.get(name)
            if isinstance(updated, dict):
                self.updated = updated
            elif updated is not None:
                self.blocked = True
                self.reasons.append(f"its {name} is no object, so the rewrite cannot be read")


def _among(value: JsonValue, harmless: tuple[JsonValue, ...]) -> bool:
    return any(type(value) is type(each) and value == each for each in harmless)


def interpret(event: HookEvent, exit_code: int, stdout: str, stderr: str, sent: Json) -> HookAnswer:
    """Understand one hook's answer.

    Args:
        event: what it was asked about.
        exit_code: as the shell gave it; negative for a signal.
        stdout: what it printed.
        stderr: what it complained.
        sent: the payload; what an object repeats of it is an echo and no answer.
    """
    text = stdout.strip().removeprefix("\ufeff").strip()
    objects, torn = _objects(text)
    said = _Said(event)
    for found in objects:
        said.take(_without_echo(found, sent))
    if exit_code == BLOCKING_EXIT:
        said.blocked = True
        if not said.reasons:
            said.reasons.append(stderr.strip() or "it gave no reason (exit code 2)")
    context = "\n".join(said.contexts)
    if said.blocked or said.stop:
        reason = "; ".join(dict.fromkeys(said.reasons)) or "it gave no reason"
        return HookAnswer(said.blocked, reason[:TEXT_CHARS], context[:TEXT_CHARS], stop=said.stop)
    answer = HookAnswer(context=context[:TEXT_CHARS], updated_input=said.updated)
    if exit_code != 0:
        return replace(answer, broken=_how(exit_code) + _complaint(stderr))
    plain = not objects and bool(text)
    if plain and "\0" in text:
        return replace(answer, broken="its answer is no text in UTF-8")
    if torn and not (plain and event in TEXT_IS_CONTEXT and not text.startswith("{")):
        return replace(answer, broken="its answer begins like JSON and is none")
    if plain and event in TEXT_IS_CONTEXT:
        return replace(answer, context=text[:TEXT_CHARS])
    return replace(answer, note=f"it said: {text.splitlines()[0][:200]}") if plain else answer


def _how(exit_code: int) -> str:
    return f"it was ended by signal {-exit_code}" if exit_code < 0 else f"it exited with {exit_code}"


def _complaint(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {lines[-1][:500]}" if lines else ""


def _objects(text: str) -> tuple[list[Json], bool]:
    """Every JSON object in the text that is not part of another, and whether something that looks like one could not be read."""
    decoder = json.JSONDecoder(object_pairs_hook=_all_values)
    found: list[Json] = []
    position = unreadable = 0
    torn = False
    while (start := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            torn = torn or start == 0 or text[start - 1] == "\n" or _LOOKS_LIKE_JSON.match(text, start) is not None
            position = start + 1
            unreadable += 1
            if unreadable == UNREADABLE_STARTS:
                return found, True
            continue
        found.append(cast("Json", value))
    return found, torn


def _all_values(pairs: list[tuple[str, JsonValue]]) -> Json:
    """An object in which a name that is there twice has a list of its values: of two decisions neither is the one that counts."""
    values: dict[str, list[JsonValue]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: given[0] if len(given) == 1 else given for name, given in values.items()}


def _without_echo(found: Json, sent: Json) -> Json:
    """An object that repeats the event says only what it has beside it."""
    if "hook_event_name" not in found or "session_id" not in found:
        return found
    return {name: value for name, value in found.items() if name not in sent}
