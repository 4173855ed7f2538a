"""What a hook said, as one decision: tables for our own dialect and for scripts written for Claude Code."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.events import JsonValue
from agent_harness.hooks.answer import TEXT_CHARS, HookAnswer, interpret
from agent_harness.settings import HOOK_EVENTS, HookEvent

SENT: dict[str, JsonValue] = {
    "session_id": "s1",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "agent": {"permission": "none"},
}


@dataclass(frozen=True)
class Said:
    """One way of answering, and what it means before a call."""

    stdout: str
    means: str  # allow, block, broken, stop, rewrite, context
    reason: str = ""
    exit_code: int = 0
    stderr: str = ""


def said(stdout: object, means: str, reason: str = "", exit_code: int = 0, stderr: str = "") -> Said:
    return Said(stdout if isinstance(stdout, str) else json.dumps(stdout), means, reason, exit_code, stderr)


def meaning(answer: HookAnswer) -> str:
    if answer.stop:
        return "stop"
    if answer.blocked:
        return "block"
    if answer.broken:
        return "broken"
    if answer.updated_input is not None:
        return "rewrite"
    return "context" if answer.context else "allow"


def nested(**fields: JsonValue) -> dict[str, JsonValue]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}


OWN = {
    "nothing": said("", "allow"),
    "empty object": said({}, "allow"),
    "blanks": said("\n  \n", "allow"),
    "block": said({"block": True, "reason": "no"}, "block", "no"),
    "block without a reason": said({"block": True}, "block", "it gave no reason"),
    "no block": said({"block": False, "reason": "looked fine"}, "allow"),
    "null": said({"block": None}, "allow"),
    "block as a word cannot be read": said({"block": "false"}, "block"),
    "block as a number cannot be read": said({"block": 0}, "block"),
    "unknown fields beside a refusal": said({"x": 1, "block": True, "reason": "no", "version": []}, "block", "no"),
    "a byte order mark": said('\ufeff {"block": true}', "block"),
    "context": said({"additionalContext": "read CONTRIBUTING"}, "context"),
    "text decides nothing": said("looks good to me", "allow"),
}
CLAUDE = {
    "deny": said(nested(permissionDecision="deny", permissionDecisionReason="no"), "block", "no"),
    "allow": said(nested(permissionDecision="allow", permissionDecisionReason="fine"), "allow"),
    "ask wants a person": said(nested(permissionDecision="ask", permissionDecisionReason="sure?"), "block", "sure?"),
    "defer": said(nested(permissionDecision="defer"), "block"),
    "an unknown word": said(nested(permissionDecision="maybe"), "block"),
    "a wrong kind": said(nested(permissionDecision=["deny"]), "block"),
    "at the top": said({"permissionDecision": "deny", "permissionDecisionReason": "no"}, "block", "no"),
    "the old block": said({"decision": "block", "reason": "old"}, "block", "old"),
    "the old approve": said({"decision": "approve"}, "allow"),
    "deny as others write it": said({"decision": "deny", "reason": "g"}, "block", "g"),
    "permission": said({"permission": "deny", "agent_message": "c"}, "block", "c"),
    "permission to ask": said({"permission": "ask"}, "block"),
    "the end of the run": said({"continue": False, "stopReason": "enough"}, "stop", "enough"),
    "going on": said({"continue": True, "suppressOutput": True, "systemMessage": "hi"}, "allow"),
    "going on, unreadably": said({"continue": "no"}, "block"),
    "rewrite": said(nested(permissionDecision="allow", updatedInput={"command": "ls -l"}), "rewrite"),
    "rewrite as others write it": said({"modifiedArgs": {"command": "ls -l"}}, "rewrite"),
    "a rewrite that is no object": said(nested(updatedInput="ls -l"), "block"),
    "a rewrite beside a deny": said(nested(permissionDecision="deny", updatedInput={"command": "ls"}), "block"),
    "context of the event": said(nested(additionalContext="hm"), "context"),
    "another event's deny is one": said({"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "deny"}}, "block"),
    "another event's rewrite": said({"hookSpecificOutput": {"hookEventName": "Stop", "updatedInput": {"command": "x"}}}, "allow"),
    "another event's context": said({"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "x"}}, "allow"),
}
EXITS = {
    "2 blocks, stderr says why": said("", "block", "policy", 2, "policy\n"),
    "2 with nothing to say": said("", "block", "it gave no reason (exit code 2)", 2),
    "2 beats an allow": said({"decision": "allow", "reason": "fine"}, "block", "why", 2, "why"),
    "2 with the JSON's reason": said({"decision": "block", "reason": "json"}, "block", "json", 2, "stderr"),
    "1 is broken": said("", "broken", "it exited with 1: oh", 1, "trace\noh\n"),
    "1 with a deny is a deny": said({"block": True, "reason": "no"}, "block", "no", 1),
    "1 with an allow is broken": said({"decision": "allow"}, "broken", "it exited with 1", 1),
    "not found": said("", "broken", "it exited with 127", 127),
    "a signal": said("", "broken", "it was ended by signal 9", -9),
}
NOISE = {
    "noise before": said('profile loaded\n{"block": true, "reason": "no"}', "block", "no"),
    "noise with a brace before": said('[{debug}] {"block": true, "reason": "no"}', "block", "no"),
    "noise after": said('{"block": true, "reason": "no"}\nbye {name}', "block", "no"),
    "an allow, then a deny": said('{"decision": "allow"}{"decision": "deny", "reason": "no"}', "block", "no"),
    "a deny, then an allow": said('{"decision": "deny", "reason": "no"}\n{"decision": "allow"}', "block", "no"),
    "two reasons": said('{"block": true, "reason": "a"}\n{"block": true, "reason": "b"}', "block", "a; b"),
    "in a list": said('[{"block": true}]', "block"),
    "half an object": said('{"decision": "all', "broken"),
    "half an object behind noise": said('hello\n{"decision": "deny", "reas', "broken"),
    "half an object in a line": said('hello {"decision": "deny", "reas', "broken"),
    "an object and half of one": said('{"decision": "allow"}\n{"decision": "den', "broken"),
    "nothing but braces": said("{" * 100_000, "broken"),
    "a brace in prose": said("I saw {nothing} wrong", "allow"),
    "an echo of the event": said(SENT, "allow"),
    "an echo with a timestamp": said({**SENT, "time": 1}, "allow"),
    "an echo with a decision": said({**SENT, "decision": "deny", "reason": "no"}, "block", "no"),
    "an echo and an answer": said(json.dumps(SENT) + '\n{"block": true}', "block"),
}


@pytest.mark.parametrize(
    "case", [*OWN.values(), *CLAUDE.values(), *EXITS.values(), *NOISE.values()], ids=[*OWN, *CLAUDE, *EXITS, *NOISE]
)
def test_an_answer_before_a_call_means(case: Said) -> None:
    answer = interpret("PreToolUse", case.exit_code, case.stdout, case.stderr, SENT)
    assert meaning(answer) == case.means
    assert case.reason in (answer.reason or answer.broken)
    assert bool(answer.reason) == (case.means in ("block", "stop"))


@pytest.mark.parametrize("event", HOOK_EVENTS)
@pytest.mark.parametrize("case", [said({"block": True, "reason": "no"}, "block", "no"), said("", "block", "no", 2, "no")])
def test_a_refusal_is_one_on_every_event(event: HookEvent, case: Said) -> None:
    answer = interpret(event, case.exit_code, case.stdout, case.stderr, SENT)
    assert (answer.blocked, answer.reason) == (True, "no")


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_plain_text_is_context_only_at_the_start_and_beside_a_prompt(event: HookEvent) -> None:
    answer = interpret(event, 0, "on\nFridays {we} rest\n", "", {})
    expected = "on\nFridays {we} rest" if event in ("SessionStart", "UserPromptSubmit") else ""
    assert (answer.context, answer.broken) == (expected, "")
    assert bool(answer.note) is not bool(expected)


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_only_a_call_can_be_rewritten(event: HookEvent) -> None:
    answer = interpret(event, 0, '{"modifiedArgs": {"command": "x"}}', "", {})
    assert (answer.updated_input is not None) == (event == "PreToolUse")


def test_long_words_are_cut() -> None:
    answer = interpret("PreToolUse", 2, "", "x" * 1_000_000, {})
    assert len(answer.reason) == TEXT_CHARS
    answer = interpret("SessionStart", 0, "x" * 1_000_000, "", {})
    assert len(answer.context) == TEXT_CHARS


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from([0, 1, 2, 3, -9, 127]))
@settings(max_examples=150, deadline=None)
def test_noise_around_a_refusal_never_loses_it(before: str, after: str, exit_code: int) -> None:
    answer = interpret("PreToolUse", exit_code, before + '\n{"block": true, "reason": "no"}\n' + after, "", SENT)
    # Noise that opens a string or an object around it makes it unreadable, which is no permission either.
    assert answer.blocked or answer.broken


@given(st.text(max_size=200), st.integers(-15, 130))
@settings(max_examples=150, deadline=None)
def test_no_output_is_an_error_of_ours(stdout: str, exit_code: int) -> None:
    answer = interpret("PreToolUse", exit_code, stdout, stdout, SENT)
    assert exit_code == 0 or answer.blocked or answer.broken
