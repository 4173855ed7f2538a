"""A task in, a pull request out: the whole job, with every outcome it can have."""

from __future__ import annotations

import hashlib
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest

from agent_harness.demo.script import ChatRequest, Gate, ScriptedReply, call, error, in_order, raw, say
from agent_harness.events import JsonValue
from agent_harness.task import Limits
from tests.sessions.rig import Rig, git, kinds

pytestmark = pytest.mark.anyio

POLITE: dict[str, JsonValue] = {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"}
EDIT_AND_STOP = (call("edit_file", POLITE), say("The greeting is polite now."))


async def test_an_edit_ends_in_a_pushed_branch_and_a_pull_request(rig: Rig) -> None:
    ended = await rig.run(in_order(*EDIT_AND_STOP))
    assert (ended.outcome, ended.exit_code, ended.turns) == ("succeeded", 0, 2)
    branch = rig.pushed()
    assert rig.show(branch, "greet.py") == "def greet(name):\n    return 'Good day, ' + name"
    assert rig.show("main", "greet.py") == "def greet(name):\n    return 'hey ' + name"
    assert git(rig.origin, "log", "-1", "--format=%an|%s", branch) == "agent-harness|Make the greeting polite."
    assert ended.pull_request is not None
    assert ended.pull_request["branch"] == branch
    url = str(ended.pull_request["url"])
    body = Path(url.removeprefix("file://")).read_text(encoding="utf-8")
    for part in ("Make the greeting polite.", "The greeting is polite now.", "greet.py", "Not verified by the harness"):
        assert part in body
    assert "edit_file" in body


async def test_the_trace_is_numbered_chained_and_holds_the_whole_story(rig: Rig) -> None:
    ended = await rig.run(in_order(*EDIT_AND_STOP))
    lines = Path(ended.trace_path).read_bytes().splitlines()
    prev = None
    for number, line in enumerate(lines, 1):
        record = json.loads(line)
        assert list(record)[:5] == ["seq", "time", "session", "type", "prev"]
        assert (record["seq"], record["prev"]) == (number, prev)
        prev = hashlib.sha256(line).hexdigest()
    told = kinds(rig.trace)
    assert told[0] == "session_started"
    assert told[-1] == "session_ended"
    assert [kind for kind in told if kind in ("user_message", "turn_started", "tool_call", "verdict", "tool_result")] == [
        "user_message", "turn_started", "tool_call", "verdict", "tool_result", "turn_started",
    ]  # fmt: skip
    assert told.count("reservation") == told.count("usage") == 2
    assert [record["state"] for record in rig.of("surface")] == ["preparing", "ready", "closed"]


async def test_nothing_changed_opens_no_pull_request_and_pushes_nothing(rig: Rig) -> None:
    ended = await rig.run(in_order(call("read_file", {"path": "greet.py"}), say("It is polite enough.")))
    assert (ended.outcome, ended.exit_code, ended.pull_request) == ("no_changes", 0, None)
    assert set(rig.branches()) == {"main"}


async def test_without_a_pull_request_the_work_is_kept_as_a_bundle_that_git_can_read(rig: Rig) -> None:
    ended = await rig.run(in_order(*EDIT_AND_STOP), pull_request=False)
    assert (ended.outcome, ended.pull_request) == ("succeeded", None)
    assert set(rig.branches()) == {"main"}
    (notice,) = [record for record in rig.of("notice") if record["kind"] == "bundle_kept"]
    command = str(notice["detail"]).split("git fetch ")[1].split()
    git(rig.folder / "seed", "fetch", "-q", *command)
    assert "Good day" in git(rig.folder / "seed", "show", "FETCH_HEAD:greet.py")


async def test_the_models_own_commits_are_kept_and_the_rest_becomes_one_commit(rig: Rig) -> None:
    ended = await rig.run(
        in_order(
            call("edit_file", POLITE),
            call("git", {"command": "commit", "args": ["-m", "Greet politely"]}),
            call("edit_file", {"path": "NOTES.md", "old_text": "", "new_text": "polite\n"}),
            say("Done."),
        )
    )
    assert ended.outcome == "succeeded", ended.summary
    subjects = git(rig.origin, "log", "--format=%s", f"main..{rig.pushed()}").splitlines()
    assert subjects == ["Make the greeting polite.", "Greet politely"]


async def test_the_guards_refuse_and_the_session_goes_on(rig: Rig) -> None:
    ended = await rig.run(
        in_order(
            call("run_shell", {"command": "rm -rf ~"}),
            call("run_shell", {"command": "git push origin main"}),
            call("git", {"command": "push", "args": ["origin", "main"]}),
            *EDIT_AND_STOP,
        )
    )
    assert ended.outcome == "succeeded"
    denied = [(record["decision"], record["by"]) for record in rig.of("verdict")][:3]
    assert denied == [("deny", "guard:rm"), ("deny", "guard:push"), ("deny", "guard:push")]
    assert all("Refused by guard:" in result for result in rig.results()[:3])
    assert all("Instead:" in result for result in rig.results()[:3])


async def test_every_call_gets_one_result_when_a_tool_breaks_in_a_way_nobody_expected(rig: Rig) -> None:
    """The stored-output folder is replaced by a file, so that keeping a long output fails inside the harness."""

    def script(request: ChatRequest) -> ScriptedReply:
        if request.turn == 0:
            assert rig.session is not None
            (rig.session.folder / "outputs").rmdir()
            (rig.session.folder / "outputs").write_text("")
            long = call("run_shell", {"command": "seq 100000"}, id="a")
            return long + call("read_file", {"path": "greet.py"}, id="b")
        return say("Something is broken here.")

    ended = await rig.run(script)
    assert ended.outcome == "no_changes"
    results = rig.requests[-1].answers
    assert [result.call_id for result in results] == ["a", "b"]
    assert "Internal error of the harness" in results[0].content
    assert "return 'hey '" in results[1].content
    assert any(record["kind"] == "bug" for record in rig.of("notice"))


@pytest.mark.parametrize(
    ("limits", "reason", "flag"),
    [
        (Limits(max_turns=3), "max_turns", "--max-turns"),
        (Limits(max_tokens=30_000), "max_tokens", "--max-tokens"),
        (Limits(max_cost_usd=Decimal("0.03")), "max_cost", "--max-cost"),
        (Limits(compact_at=9_000), "compact_at", "--compact-at"),
    ],
)
async def test_a_ceiling_ends_the_session_in_words_without_being_crossed(
    rig: Rig, limits: Limits, reason: str, flag: str
) -> None:
    def script(request: ChatRequest) -> ScriptedReply:
        if request.tool_names:
            return call("run_shell", {"command": f"echo {request.number} >> log.txt; seq 300"})
        return say("I was stopped half-way.")

    ended = await rig.run(script, limits=limits)
    assert (ended.outcome, ended.reason, ended.exit_code) == ("over_budget", reason, 3)
    assert flag in ended.summary
    assert "I was stopped half-way." in ended.summary
    assert rig.endpoint is not None
    assert ended.tokens == rig.endpoint.used_tokens <= limits.max_tokens
    assert ended.turns <= limits.max_turns
    assert ended.cost_usd is not None
    assert limits.max_cost_usd is not None
    assert ended.cost_usd <= limits.max_cost_usd
    assert set(rig.branches()) == {"main"}
    assert any(record["kind"] == "bundle_kept" for record in rig.of("notice"))


async def test_a_session_whose_time_is_up_ends_over_budget(rig: Rig) -> None:
    limits = Limits(max_seconds=1.5)
    ended = await rig.run(in_order(call("run_shell", {"command": "sleep 60"})), limits=limits)
    assert (ended.outcome, ended.reason, ended.exit_code) == ("over_budget", "max_seconds", 3)
    (result,) = rig.of("tool_result")
    assert result["ok"] is False


async def test_a_provider_that_never_answers_is_named_when_the_time_is_up(rig: Rig) -> None:
    ended = await rig.run(in_order(say("never", gate=Gate())), limits=Limits(max_seconds=1.5))
    assert (ended.outcome, ended.reason, ended.exit_code) == ("over_budget", "max_seconds", 3)
    assert rig.endpoint is not None
    assert re.search(rf"model endpoint '{rig.endpoint.base_url}' .* sent nothing for [01]\.\d s", ended.summary)
    assert "--max-seconds" in ended.summary


async def test_a_ceiling_that_a_tool_used_up_blames_no_endpoint(rig: Rig) -> None:
    sleep = call("run_shell", {"command": "sleep 60"})
    ended = await rig.run(in_order(sleep), limits=Limits(max_seconds=1.5))
    assert ended.reason == "max_seconds"
    assert "endpoint" not in ended.summary


async def test_answers_that_broke_off_are_told_once_and_counted_at_the_end(rig: Rig) -> None:
    cut = raw(b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"half"},"finish_reason":null}]}\n\n')
    ended = await rig.run(in_order(cut, cut, say("Done.")))
    assert ended.outcome == "no_changes"
    first, total = [str(record["detail"]) for record in rig.of("notice") if record["kind"] == "charged_at_worst"]
    spent = [record for record in rig.of("usage") if record["estimated"]]
    assert len(spent) == 2
    (one, two) = [cast("int", record["input_tokens"]) + cast("int", record["output_tokens"]) for record in spent]
    assert f"its worst case is charged: {one:,} tokens, $" in first
    assert f"2 answers broke off and are charged at their worst case: {one + two:,} tokens, $" in total


async def test_an_overloaded_provider_is_asked_again_and_what_was_cut_is_charged(rig: Rig) -> None:
    cut = raw(b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"half"},"finish_reason":null}]}\n\n')
    again = {"retry-after-ms": "1"}
    script = in_order(error(529, "Overloaded", headers=again), error(429, "Slow down", headers=again), cut, *EDIT_AND_STOP)
    ended = await rig.run(script)
    assert ended.outcome == "succeeded"
    assert [record["status"] for record in rig.of("retry")][:2] == [529, 429]
    assert [record["estimated"] for record in rig.of("usage")] == [True, False, False]


async def test_a_refused_key_fails_at_once_and_names_the_variable(rig: Rig) -> None:
    ended = await rig.run(in_order(error(401, "Incorrect API key provided.", code="invalid_api_key")))
    assert (ended.outcome, ended.exit_code) == ("failed", 1)
    assert len(rig.requests) == 1
    assert rig.of("usage") == []


async def test_two_empty_replies_end_the_session_with_a_reason_of_their_own(rig: Rig) -> None:
    ended = await rig.run(in_order(say(""), say("")))
    assert (ended.outcome, ended.reason) == ("failed", "empty_response")


async def test_a_reply_cut_by_the_output_limit_runs_no_call(rig: Rig) -> None:
    cut = ScriptedReply(calls=call("edit_file", POLITE).calls, finish_reason="length")
    ended = await rig.run(in_order(cut, say("I could not.")))
    assert ended.outcome == "no_changes"
    assert "cut off by the output limit" in rig.results()[0]


async def test_the_conversation_only_ever_grows(rig: Rig) -> None:
    await rig.run(in_order(*[call("run_shell", {"command": f"echo {n}"}) for n in range(5)], say("Done.")))
    for before, after in zip(rig.requests, rig.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert after.body.get("tools") == before.body.get("tools")


async def test_the_first_request_fits_the_token_bar(rig: Rig) -> None:
    await rig.run(in_order(say("Nothing to do.")))
    assert len(rig.requests[0].raw) / 4 <= 1_500


NESTED = "git init -q sub && echo x > sub/x.txt && echo y > y.txt"
COMMITTED = f"{NESTED} && git -C sub add -A && git -C sub -c user.name=a -c user.email=a@b commit -qm x"


@pytest.mark.parametrize("command", [NESTED, COMMITTED])
async def test_a_model_that_made_a_repository_inside_is_told_and_can_mend_it(rig: Rig, command: str) -> None:
    mend = call("run_shell", {"command": "rm -rf sub/.git"})
    ended = await rig.run(in_order(call("run_shell", {"command": command}), say("Done."), mend, say("Now it is.")))
    assert ended.outcome == "succeeded", ended.summary
    told = [str(record["text"]) for record in rig.of("user_message") if record["origin"] == "harness"]
    assert len(told) == 1
    assert '"sub" is a git repository of its own' in told[0]
    assert (rig.show(rig.pushed(), "sub/x.txt"), rig.show(rig.pushed(), "y.txt")) == ("x", "y")
    assert not [record for record in rig.of("notice") if record["kind"] == "nested_repository"]


@pytest.mark.parametrize("command", [NESTED, COMMITTED])
async def test_a_repository_inside_that_stays_is_left_out_and_told_and_the_work_goes_on(rig: Rig, command: str) -> None:
    ended = await rig.run(in_order(call("run_shell", {"command": command}), say("Done."), say("It stays.")))
    assert ended.outcome == "succeeded", ended.summary
    (notice,) = [str(record["detail"]) for record in rig.of("notice") if record["kind"] == "nested_repository"]
    assert '"sub" is a git repository of its own and is left out' in notice
    listed = git(rig.origin, "ls-tree", "-r", "--name-only", rig.pushed()).splitlines()
    assert listed == ["README.md", "greet.py", "y.txt"]


async def test_a_repository_inside_does_not_cost_the_work_of_a_session_that_a_ceiling_ended(rig: Rig) -> None:
    script = in_order(call("run_shell", {"command": NESTED}), say("No more turns."))
    ended = await rig.run(script, limits=Limits(max_turns=2))
    assert ended.reason == "max_turns"
    kinds_told = [record["kind"] for record in rig.of("notice")]
    assert "nested_repository" in kinds_told
    assert "bundle_kept" in kinds_told
