"""What a person sees of a session."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agent_harness.events import (
    AssistantText,
    CallJudged,
    Event,
    HookRan,
    Notice,
    PlanChanged,
    Reserved,
    Retried,
    SessionEnded,
    SessionStarted,
    ToolCalled,
    ToolReturned,
    TurnStarted,
    UsageSettled,
    UserMessage,
)
from agent_harness.sinks.console import Console
from agent_harness.trace import Delta

STARTED = SessionStarted(
    {"repo": "file:///r.git", "base": "main", "base_commit": "0123456789abcdef", "text": "fix it", "issue": None},
    "local",
    "m",
    {"max_turns": 50, "max_tokens": 200_000, "max_cost_usd": 5.0, "max_seconds": None},
    "agent/s1",
    {},
)
ENDED = SessionEnded(
    "succeeded",
    "pull_request",
    0,
    3,
    1234,
    Decimal("0.0123"),
    {"url": "file:///pr.md", "branch": "agent/s1"},
    "Done.",
    "/t.jsonl",
)


ASKED = Reserved("turn", 4_000, None)


def shown(*events: Event | Delta, width: int = 100, colours: bool = False) -> str:
    console = Console(width, colours)
    return b"".join(
        console.render(event if isinstance(event, Delta) else {"type": event.type, "session": "s1", **event.payload()})
        for event in events
    ).decode()


def test_the_first_lines_are_the_session_and_its_trace() -> None:
    first = Console().opening("s1", "/home/t.jsonl").decode().splitlines()
    assert [line.split() for line in first] == [["session", "s1"], ["trace", "/home/t.jsonl"]]


def test_the_task_and_the_ceilings_are_shown_at_the_start() -> None:
    text = shown(STARTED, UserMessage("fix it", "person"))
    assert "file:///r.git, main at 0123456789ab" in text
    assert "50 turns, 200,000 tokens, $5.00" in text
    assert text.count("fix it") == 1


def test_a_call_and_its_result_are_a_line_each() -> None:
    text = shown(
        ToolCalled(1, "c1", "run_shell", {"command": "python -m unittest\n-v", "timeout_s": 30}),
        ToolReturned("c1", "run_shell", True, "ran\nFAILED (failures=1)\n[exit code 1]", duration_ms=210, exit_code=1),
    )
    assert text.splitlines() == ["  > run_shell python -m unittest -v", "    exit 1, 0.21 s, 2 lines: FAILED (failures=1)"]


def test_the_line_of_an_edit_says_what_was_edited() -> None:
    content = 'Edited "a.py": 1 replacement, line 9.\n@@ -7 +7 @@\n-x\n+y\n tail'
    text = shown(ToolCalled(1, "c1", "edit_file", {"path": "a.py"}), ToolReturned("c1", "edit_file", True, content))
    assert '5 lines: Edited "a.py": 1 replacement, line 9.' in text


def test_results_of_calls_that_ran_together_name_their_tool() -> None:
    text = shown(
        ToolCalled(1, "c1", "read_file", {"path": "a.py"}),
        ToolCalled(1, "c2", "ripgrep", {"query": "x"}),
        ToolReturned("c1", "read_file", True, "1\tx"),
        ToolReturned("c2", "ripgrep", True, "no match"),
    )
    assert "    read_file, ok, 0.00 s, 1 x" in text.splitlines()


def test_a_refusal_is_shown_whole_with_its_reason_and_what_to_do_instead() -> None:
    reason = "it would delete the home folder, which lies outside the worktree, " * 3
    text = shown(
        ToolCalled(1, "c1", "run_shell", {"command": "rm -rf ~"}),
        CallJudged("c1", "deny", "guard:rm", reason.strip(), "delete inside the worktree"),
        ToolReturned("c1", "run_shell", False, "refused"),
    )
    assert f"refused by guard:rm: {reason.strip()}" in text
    assert "instead: delete inside the worktree" in text
    assert len(text.splitlines()) == 3


def test_spend_is_shown_against_the_ceilings() -> None:
    usage = UsageSettled("turn", 900, 100, 0, 0, 0, Decimal("0.0042"), False, 1000, Decimal("0.0042"))
    assert "turn 2 of 50 -- 1,000 of 200,000 tokens, $0.0042 of $5.00" in shown(STARTED, ASKED, usage, TurnStarted(1), ASKED)


def test_an_unknown_cost_is_not_shown_as_zero() -> None:
    usage = UsageSettled("turn", 900, 100, 0, 0, 0, None, False, 1000, None)
    assert "cost unknown" in shown(STARTED, ASKED, usage, TurnStarted(1), ASKED)


def test_streamed_text_is_not_repeated_when_it_is_recorded() -> None:
    assert shown(Delta("Look"), Delta("ing."), AssistantText(1, "Looking."), ASKED).count("Looking.") == 1


def test_text_that_was_not_streamed_or_only_in_part_is_shown_whole() -> None:
    assert shown(AssistantText(1, "Looking.")) == "Looking.\n"
    assert shown(Delta("Loo"), AssistantText(1, "Looking.")) == "Loo\nLooking.\n"


def test_a_broken_stream_is_followed_by_the_second_attempt_from_its_start() -> None:
    text = shown(Delta("Loo"), Retried(1, 503, "overloaded", "r", 2.0), Delta("Looking."), AssistantText(1, "Looking."))
    assert text.splitlines() == [
        "Loo",
        "the model's endpoint failed: overloaded (HTTP 503); asking again in 2.0 s (attempt 1)",
        "Looking.",
    ]


def test_a_turn_begins_with_its_line_and_what_follows_its_text_is_on_a_new_one() -> None:
    call = ToolCalled(1, "c1", "ripgrep", {"query": "x"})
    text = shown(ASKED, Delta("Looking."), TurnStarted(1), AssistantText(1, "Looking."), call, ASKED)
    assert text.splitlines() == ["-- turn 1", "Looking.", "  > ripgrep x", "-- turn 2"]


def test_a_request_that_is_sent_again_and_one_for_another_purpose_begin_no_turn() -> None:
    other = Reserved("compaction", 4_000, None)
    assert shown(ASKED, ASKED, other).splitlines() == ["-- turn 1"]


def test_the_plan_is_shown_when_it_changes_only() -> None:
    plan = PlanChanged(
        [{"content": "find", "status": "done"}, {"content": "fix", "status": "in_progress"}, {"content": "test"}], []
    )
    assert shown(plan, plan).splitlines() == ["plan", "  [x] find", "  [>] fix", "  [ ] test"]


def test_control_characters_from_the_model_or_a_file_do_not_reach_the_terminal() -> None:
    bad = "\x1b[2J\x1b]52;c;aGk=\x07"
    text = shown(
        Delta(bad),
        AssistantText(1, bad + "x"),
        ToolCalled(1, "c1", "run_shell", {"command": bad}),
        ToolReturned("c1", "run_shell", True, bad),
        Notice("k", bad),
        HookRan("PreToolUse", bad, 2, 1, "deny", bad),
        PlanChanged([{"content": bad, "status": "done"}], []),
        ENDED,
    )
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\x1b" in bad  # control: it was there


def test_a_line_is_clipped_to_the_width() -> None:
    text = shown(ToolCalled(1, "c1", "run_shell", {"command": "echo " + "漢" * 100}), width=40)
    assert text.rstrip("\n").endswith("...")
    assert len(text) < 40


def test_colours_are_used_only_when_asked_for() -> None:
    assert "\x1b[" not in shown(STARTED, ENDED)
    assert "\x1b[32m" in shown(STARTED, ENDED, colours=True)


def test_the_closing_lines_say_outcome_spend_branch_pull_request_session_and_trace() -> None:
    text = shown(STARTED, ENDED)
    assert "succeeded (pull_request): 3 turns, 1,234 tokens, $0.0123" in text
    for line in ("Done.", "branch       agent/s1", "pull request file:///pr.md", "session      s1", "trace        /t.jsonl"):
        assert line in text.splitlines()


def test_a_record_of_another_version_is_shown_as_far_as_it_can_be() -> None:
    console = Console()
    assert console.render({"type": "something_new"}) == b""
    for kind in ("session_started", "usage", "turn_started", "tool_result", "plan", "session_ended", "verdict", "retry"):
        console.render({"type": kind})
        console.render({"type": kind, "limits": 3, "task": [], "todos": "x", "cost_usd": "y"})


@pytest.mark.parametrize(
    ("error_type", "status", "told"),
    [
        ("overloaded", 529, "failed: overloaded (HTTP 529); asking"),
        ("", 503, "failed (HTTP 503); asking"),
        ("cut_stream", None, "failed: cut_stream; asking"),
        ("", None, "failed; asking"),
    ],
)
def test_a_retry_says_what_is_known_of_its_cause_and_no_more(error_type: str, status: int | None, told: str) -> None:
    assert told in shown(Retried(1, status, error_type, "", 1.0))
