"""Case d06: malformed tool calls in whole sessions. The endpoint refuses every history that a provider would refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from agent_harness.demo.script import Json, ScriptedReply, ToolAnswer, in_order, obj, objects, raw, say, text
from agent_harness.events import JsonValue
from tests.sessions.rig import Rig, make_origin

pytestmark = pytest.mark.anyio

BUILD = Path(__file__).parents[1] / "cases" / "peers" / "d06-malformed-calls" / "build.py"
USAGE: Json = {"prompt_tokens": 900, "completion_tokens": 90, "total_tokens": 990}


HELLO = r"1\thello"
NO_TOOL = r"(?s)There is no tool 'readfile'.*'read_file'.*The tools are: .*edit_file"
# What the result of each call looks like; a read that worked is HELLO.
CASES: dict[str, tuple[str, ...]] = {
    "not_json": (r"(?s)no valid JSON.*line 1, column 1.*read_file takes: \{",),
    "raw_newline": (r"(?s)no valid JSON.*line 1, column.*as \\n\..*edit_file takes: \{",),
    "array": (r"(?s)one JSON object, but they are an array.*read_file takes: \{",),
    "null": (r"(?s)one JSON object, but they are null.*read_file takes: \{",),
    "empty_string": (r"(?s)empty.*read_file takes: \{",),
    "double_encoded": (r"(?s)one JSON object, but they are a string.*read_file takes: \{",),
    "object_not_string": (HELLO,),
    "trailing_words": (r"(?s)no valid JSON: Extra data.*read_file takes: \{",),
    "duplicate_keys": (r"(?s)'path' is there twice.*read_file takes: \{",),
    "unknown_tool": (NO_TOOL,),
    "odd_name": (r"There is no tool 'functions.read_file'.*'read_file'",),
    "missing_id": (HELLO,),
    "duplicate_ids": (HELLO, HELLO),
    "bad_then_good": (r"(?s)no valid JSON.*edit_file takes: \{", HELLO),
    "extra_key": (r"colour",),
    "wrong_type": (r"path",),
    "huge_bad": (r"(?s)no valid JSON.*edit_file takes: \{",),
    "nul_path": (r"NUL",),
    "lone_surrogate": (r"(?s)surrogate.*edit_file takes: \{",),
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Case -> the assistant's message."""
    out = tmp_path_factory.mktemp("d06") / "out"
    subprocess.run([sys.executable, str(BUILD), str(out)], check=True)
    lines = (out / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [cast("Json", json.loads(line)) for line in lines]
    return {text(row["case"]): obj(row["message"]) for row in rows}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, make_origin(tmp_path, {"a.txt": "hello\n"}))


def streamed(message: Json) -> ScriptedReply:
    """The message as a provider would stream it, nothing mended."""
    calls: list[JsonValue] = [{**call, "index": index} for index, call in enumerate(objects(message["tool_calls"]))]
    choice: Json = {"index": 0, "delta": {**message, "tool_calls": calls}, "finish_reason": "tool_calls"}
    events: list[Json] = [{"choices": [choice]}, {"choices": [], "usage": USAGE}]
    return raw("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + b"data: [DONE]\n\n")


async def answers_to(rig: Rig, message: Json) -> list[ToolAnswer]:
    """What the next request carries after that turn; the session ended well and changed nothing."""
    ended = await rig.run(in_order(streamed(message), say("done")))
    assert (ended.outcome, ended.turns) == ("no_changes", 2), ended.summary
    assert rig.endpoint is not None
    assert rig.endpoint.refused == []
    assert not [record for record in rig.of("notice") if record["kind"] == "bug"]
    assert set(rig.branches()) == {"main"}
    return rig.requests[-1].answers


def test_every_line_of_the_case_is_expected_here(messages: dict[str, Json]) -> None:
    assert set(messages) == set(CASES)


@pytest.mark.parametrize("name", CASES)
async def test_each_call_gets_its_one_answer_in_order(rig: Rig, messages: dict[str, Json], name: str) -> None:
    answers = await answers_to(rig, messages[name])
    assert len(answers) == len(CASES[name])
    for answer, expected in zip(answers, CASES[name], strict=True):
        assert re.search(expected, answer.content), answer.content
        assert len(answer.content) < 2_000
    assert len({answer.call_id for answer in answers}) == len(answers)
    assert all(answer.call_id for answer in answers)
    results = rig.of("tool_result")
    assert [record["id"] for record in results] == [answer.call_id for answer in answers]
    assert [record["ok"] for record in results] == [expected == HELLO for expected in CASES[name]]
    for called, answer, expected in zip(rig.of("tool_call"), answers, CASES[name], strict=True):
        if "takes:" in expected:  # arguments that could not be read: kept as they came, never replaced by none, and bounded
            assert isinstance(called["arguments"], str)
            assert json.loads(answer.arguments) != {}
    assert len(rig.requests[-1].raw) < 20_000


async def test_the_ids_of_a_missing_and_of_a_repeated_one_stay_the_same_in_later_requests(
    rig: Rig, messages: dict[str, Json]
) -> None:
    missing, repeated = messages["missing_id"], messages["duplicate_ids"]
    ended = await rig.run(in_order(streamed(missing), streamed(repeated), streamed(repeated), say("done")))
    assert (ended.outcome, ended.turns) == ("no_changes", 4)
    assert rig.endpoint is not None
    assert rig.endpoint.refused == []
    seen = [[answer.call_id for answer in request.answers] for request in rig.requests]
    assert [len(ids) for ids in seen] == [0, 1, 3, 5]
    assert seen[3][:3] == seen[2]
    assert len(set(seen[3])) == 5


NAMELESS: Json = {
    "role": "assistant",
    "tool_calls": [{"id": "", "type": "function", "function": {"name": "", "arguments": "{}"}}],
}


def named(name: str, arguments: str = "{}") -> Json:
    return {
        "role": "assistant",
        "tool_calls": [{"id": "", "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


@pytest.mark.parametrize(
    "message", [NAMELESS, named("readfile"), named("read_file", "{path"), named("read_file", '{"colour": 1}')]
)
async def test_a_model_that_never_makes_a_readable_call_is_stopped_after_five_replies(rig: Rig, message: Json) -> None:
    ended = await rig.run(in_order(*[streamed(message)] * 5, say("never asked for")))
    assert (ended.outcome, ended.reason, ended.turns) == ("failed", "malformed_calls", 5), ended.summary
    assert "5 replies in a row" in ended.summary
    assert rig.endpoint is not None
    assert rig.endpoint.refused == []
    assert set(rig.branches()) == {"main"}


async def test_a_call_without_a_name_is_answered_with_the_tools_that_there_are(rig: Rig) -> None:
    (answer,) = await answers_to(rig, NAMELESS)
    assert "the call names no tool" in answer.content
    assert "read_file" in answer.content


async def test_one_readable_call_begins_the_count_anew(rig: Rig) -> None:
    good = named("read_file", '{"path": "a.txt"}')
    bad = [streamed(named("readfile"))] * 4
    ended = await rig.run(in_order(*bad, streamed(good), *bad, say("done")))
    assert (ended.outcome, ended.turns) == ("no_changes", 10), ended.summary
