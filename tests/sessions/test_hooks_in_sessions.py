"""Hooks around a whole session: all eight events fire, any block counts, a broken one denies."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from agent_harness.demo.script import call, in_order, say
from agent_harness.settings import HOOK_EVENTS
from agent_harness.task import Limits
from tests.sessions.rig import Rig

pytestmark = pytest.mark.anyio

WRITE = call("edit_file", {"path": "made.txt", "old_text": "", "new_text": "made\n"})


def policy(folder: Path, name: str, body: str) -> str:
    """An executable hook script outside every worktree."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def test_all_eight_events_fire_and_each_hook_is_told_its_event(rig: Rig) -> None:
    log = rig.folder / "events.jsonl"
    script = policy(rig.folder, "log.sh", f"cat >> {log}\n")
    for event in HOOK_EVENTS:
        rig.hook(event, script)
    ended = await rig.run(in_order(WRITE, say("Stopped by the ceiling.")), limits=Limits(compact_at=1_000))
    assert ended.reason == "compact_at"
    rig2 = Rig(rig.folder, rig.origin, rig.hooks)
    ended = await rig2.run(in_order(WRITE, say("Done.")))
    assert ended.outcome == "succeeded"
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert {payload["hook_event_name"] for payload in told} == set(HOOK_EVENTS)
    assert all(payload["session_id"] and payload["cwd"] == str(rig.folder) for payload in told)
    ran = {str(record["event"]) for record in [*rig.of("hook"), *rig2.of("hook")]}
    assert ran == set(HOOK_EVENTS)
    assert told[-1]["hook_event_name"] == "SessionEnd"


@pytest.mark.parametrize(
    "body",
    ['echo \'{"block": true, "reason": "not on a Friday"}\'\n', 'echo "not on a Friday" >&2\nexit 2\n'],
)
async def test_a_blocking_hook_stops_the_call_and_the_model_reads_why(rig: Rig, body: str) -> None:
    rig.hook("PreToolUse", policy(rig.folder, "friday.sh", body))
    ended = await rig.run(in_order(WRITE, say("I was not allowed to.")))
    assert ended.outcome == "no_changes"
    assert "not on a Friday" in rig.results()[0]
    assert rig.of("verdict")[0]["decision"] == "deny"


async def test_without_the_hook_the_same_call_is_made(rig: Rig) -> None:
    assert (await rig.run(in_order(WRITE, say("Made.")))).outcome == "succeeded"


@pytest.mark.parametrize("body", ["exit 1\n", "kill -9 $$\n", "echo '{\"block\": tru'\n", "sleep 600\n"])
async def test_a_broken_hook_denies_and_says_that_it_is_broken(rig: Rig, body: str) -> None:
    rig.hook("PreToolUse", policy(rig.folder, "broken.sh", body), timeout_s=0.5)
    ended = await rig.run(in_order(WRITE, say("I was not allowed to.")))
    assert ended.outcome == "no_changes"
    assert "hook broken" in rig.results()[0]


async def test_a_hook_may_fail_open_when_the_person_says_so(rig: Rig) -> None:
    rig.hook("PreToolUse", policy(rig.folder, "broken.sh", "exit 1\n"), fail_open=True)
    assert (await rig.run(in_order(WRITE, say("Made.")))).outcome == "succeeded"


async def test_no_hook_answer_overrules_a_guard(rig: Rig) -> None:
    rig.hook("PreToolUse", policy(rig.folder, "yes.sh", 'echo \'{"permissionDecision": "allow", "block": false}\'\n'))
    await rig.run(in_order(call("run_shell", {"command": "rm -rf /"}), say("Refused.")))
    assert "Refused by guard:rm" in rig.results()[0]


async def test_a_rewrite_is_judged_again_by_the_guards(rig: Rig) -> None:
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "rm -rf ~"}}})
    rig.hook("PreToolUse", policy(rig.folder, "rewrite.sh", f"echo '{answer}'\n"))
    await rig.run(in_order(call("run_shell", {"command": "echo hello"}), say("Refused.")))
    assert "Refused by guard:rm" in rig.results()[0]


async def test_a_rewrite_that_passes_is_what_runs(rig: Rig) -> None:
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo rewritten"}}})
    rig.hook("PreToolUse", policy(rig.folder, "rewrite.sh", f"echo '{answer}'\n"))
    await rig.run(in_order(call("run_shell", {"command": "echo original"}), say("Fine.")))
    assert "rewritten" in rig.results()[0]
    assert "original" not in rig.results()[0]
    assert "rewrite" in {str(record["decision"]) for record in rig.of("verdict")}


async def test_a_refused_prompt_needs_a_person_and_costs_nothing(rig: Rig) -> None:
    rig.hook("UserPromptSubmit", policy(rig.folder, "no.sh", 'echo \'{"block": true, "reason": "no ticket"}\'\n'))
    ended = await rig.run(in_order())
    assert (ended.outcome, ended.reason, ended.exit_code, ended.tokens) == ("needs_human", "prompt_refused", 4, 0)
    assert "no ticket" in ended.summary


async def test_a_stop_hook_sends_the_model_back_at_most_eight_times(rig: Rig) -> None:
    rig.hook("Stop", policy(rig.folder, "again.sh", 'echo \'{"block": true, "reason": "run the tests"}\'\n'))
    ended = await rig.run(in_order(*[say(f"Done {n}.") for n in range(9)]))
    assert (ended.outcome, ended.turns) == ("no_changes", 9)
    assert sum("run the tests" in str(record["text"]) for record in rig.of("user_message")) == 8
    assert any(record["kind"] == "stop_hook_limit" for record in rig.of("notice"))


async def test_feedback_of_a_post_hook_is_read_by_the_model_and_cannot_block(rig: Rig) -> None:
    rig.hook("PostToolUse", policy(rig.folder, "post.sh", 'echo \'{"block": true, "reason": "format it, please"}\'\n'))
    ended = await rig.run(in_order(WRITE, say("Made.")))
    assert ended.outcome == "succeeded"
    assert "format it, please" in rig.results()[0]


async def test_context_of_start_hooks_reaches_the_model_as_information(rig: Rig) -> None:
    rig.hook("SessionStart", policy(rig.folder, "ctx.sh", "echo 'the build takes ten minutes'\n"))
    await rig.run(in_order(say("Fine.")))
    said = [message["content"] for message in rig.requests[0].messages if message["role"] == "user"]
    assert "Make the greeting polite." in str(said[0])
    assert "the build takes ten minutes" in str(said[1])


async def test_context_of_a_hook_before_a_call_stands_behind_its_result(rig: Rig) -> None:
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "deploys are on Mondays"}})
    rig.hook("PreToolUse", policy(rig.folder, "ctx.sh", f"echo '{answer}'\n"))
    await rig.run(
        in_order(call("run_shell", {"command": "echo hello"}), call("run_shell", {"command": "rm -rf /"}), say("Fine."))
    )
    ran, refused = rig.results()
    assert "hello" in ran
    assert "[from hook:ctx.sh] deploys are on Mondays" in ran
    assert "deploys" not in refused  # a guard refuses before a hook is asked


async def test_context_of_a_hook_that_refuses_is_read_as_well(rig: Rig) -> None:
    answer = json.dumps({"block": True, "reason": "not now", "additionalContext": "ask Ann"})
    rig.hook("PreToolUse", policy(rig.folder, "no.sh", f"echo '{answer}'\n"))
    await rig.run(in_order(WRITE, say("Fine.")))
    assert "not now" in rig.results()[0]
    assert "[from hook:no.sh] ask Ann" in rig.results()[0]


async def test_a_hook_finds_the_file_of_a_call_below_its_project_folder(rig: Rig) -> None:
    script = """import json, os, pathlib, sys
event = json.load(sys.stdin)
path = pathlib.Path(event["tool_input"]["file_path"])
assert str(path).startswith(os.environ["CLAUDE_PROJECT_DIR"] + "/"), path
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "it holds " + path.read_text()}}))
"""
    body = rig.folder / "look.py"
    body.write_text(script)
    rig.hook("PostToolUse", f"python3 {body}")
    await rig.run(in_order(WRITE, say("Made.")))
    assert "it holds made" in rig.results()[0]


async def test_a_policy_may_judge_the_commands_instead_of_the_text_also_after_a_rewrite(rig: Rig) -> None:
    policy_of = """import json, sys
event = json.load(sys.stdin)
programs = [command["argv"][0] for command in event["agent"]["commands"]]
if "touch" in programs:
    print(json.dumps({"block": True, "reason": "no touching"}))
elif "date" in programs:
    print(json.dumps({"updatedInput": {"command": "true; touch x"}}))
"""
    body = rig.folder / "judge.py"
    body.write_text(policy_of)
    rig.hook("PreToolUse", f"python3 {body}")
    lines = ("echo touch", "bash -c 'touch y'", "date")
    await rig.run(in_order(*[call("run_shell", {"command": line}) for line in lines], say("Done.")))
    mention, nested, rewritten = rig.results()
    assert "touch" in mention
    assert "exit code 0" in mention
    assert "no touching" in nested
    assert "no touching" in rewritten
