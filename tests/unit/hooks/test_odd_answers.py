"""Refusals in unusual clothes are refusals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_harness.hooks.answer import interpret
from agent_harness.hooks.process import run_hook


@pytest.mark.parametrize(
    "stdout",
    [
        '{"block": true, "block": false}',
        '{"block": false, "block": true}',
        '{"decision": "deny", "reason": "no", "decision": "allow"}',
        '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}',
        '{"hookSpecificOutput": {"permissionDecision": "deny"}, "hookSpecificOutput": {}}',
        '{"hookSpecificOutput": "deny"}',
        '{"hookSpecificOutput": [{"permissionDecision": "deny"}]}',
    ],
)
def test_a_decision_that_cannot_be_read_for_sure_is_a_refusal(stdout: str) -> None:
    assert interpret("PreToolUse", 0, stdout, "", {}).blocked


@pytest.mark.parametrize(
    "stdout", ['{"note": 1, "note": 2}', '{"block": false, "a": {"b": 1, "b": 2}}', '{"hookSpecificOutput": {}}']
)
def test_what_stands_there_twice_and_decides_nothing_is_no_objection(stdout: str) -> None:
    answer = interpret("PreToolUse", 0, stdout, "", {})
    assert (answer.blocked, answer.broken) == (False, "")


@pytest.mark.anyio
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_an_answer_may_be_written_in_utf_16(tmp_path: Path, coding: str) -> None:
    (tmp_path / "answer").write_bytes('{"block": true, "reason": "für immer"}'.encode(coding))
    finished = await run_hook("cat answer", b"{}\n", tmp_path, {"PATH": os.environ["PATH"]}, 10)
    answer = interpret("PreToolUse", finished.exit_code or 0, finished.stdout, finished.stderr, {})
    assert (answer.blocked, answer.reason) == (True, "für immer")


@pytest.mark.anyio
@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-32"])
async def test_an_answer_in_a_coding_that_nobody_names_never_passes_as_plain_text(tmp_path: Path, coding: str) -> None:
    (tmp_path / "answer").write_bytes('{"block": true}'.encode(coding))
    finished = await run_hook("cat answer", b"{}\n", tmp_path, {"PATH": os.environ["PATH"]}, 10)
    answer = interpret("PreToolUse", finished.exit_code or 0, finished.stdout, finished.stderr, {})
    assert answer.blocked or answer.broken
