from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_harness.demo.script import Json, ScriptedReply, call, echo, in_order, say
from agent_harness.demo.server import KEY, ScriptedEndpoint
from agent_harness.events import JsonValue

CALL: Json = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
ASKED: Json = {"role": "user", "content": "go"}
CALLED: Json = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: Json = {"role": "tool", "tool_call_id": "c1", "content": "text"}
TOOL: Json = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}


def body(*messages: JsonValue, **other: JsonValue) -> Json:
    return {"model": "m", "messages": list(messages or (ASKED,)), "stream": True, **other}


def send(base_url: str, request: Json | bytes, key: str = KEY, path: str = "/chat/completions") -> tuple[int, str]:
    url = urlsplit(base_url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    try:
        raw = request if isinstance(request, bytes) else json.dumps(request).encode("utf-8", "surrogatepass")
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        connection.request("POST", url.path + path, raw, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(lambda _: say("Hello")) as endpoint:
        yield endpoint


GOOD = {
    "a question": body(),
    "a whole turn": body(ASKED, CALLED, RESULT, tools=[TOOL], max_tokens=5),
    "calls in the history without tools": body(ASKED, CALLED, RESULT),
    "parts": body({"role": "user", "content": [{"type": "text", "text": "go"}]}),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_a_provider_takes_is_answered(endpoint: ScriptedEndpoint, name: str) -> None:
    status, text = send(endpoint.base_url, GOOD[name])
    assert status == 200, text
    assert text.endswith("data: [DONE]\n\n")


BAD: dict[str, tuple[Json | bytes, str]] = {
    "no JSON": (b"{", "could not parse"),
    "no object": (b"[]", "must be a JSON object"),
    "no messages": ({"model": "m", "stream": True, "messages": []}, "at least one"),
    "no model": ({"stream": True, "messages": [ASKED]}, "model"),
    "an unknown parameter": (body(thinking=1), "Unrecognized request argument supplied: thinking"),
    "both caps": (body(max_tokens=1, max_completion_tokens=1), "at the same time"),
    "a cap of nothing": (body(max_tokens=0), "max_tokens"),
    "an unknown role": (body({"role": "robot", "content": "x"}), "robot"),
    "no content": (body({"role": "user", "content": ""}), "content"),
    "an empty reply": (body(ASKED, {"role": "assistant", "content": None}), "content or tool_calls"),
    "a call without its result": (body(ASKED, CALLED), "no response"),
    "a call answered too late": (body(ASKED, CALLED, ASKED, RESULT), "must be followed"),
    "a result without its call": (body(ASKED, RESULT), "no preceding message"),
    "two results of one call": (body(ASKED, CALLED, RESULT, RESULT), "no preceding message"),
    "an id twice in a reply": (body(ASKED, {**CALLED, "tool_calls": [CALL, CALL]}, RESULT, RESULT), "twice"),
    "an id twice in a history": (body(ASKED, CALLED, RESULT, CALLED, RESULT), "twice"),
    "no id": (body(ASKED, {**CALLED, "tool_calls": [{**CALL, "id": ""}]}), "needs an id"),
    "arguments that are no JSON": (
        body(ASKED, {**CALLED, "tool_calls": [{**CALL, "function": {"name": "read_file", "arguments": "{"}}]}, RESULT),
        "no JSON object",
    ),
    "arguments that are no text": (
        body(ASKED, {**CALLED, "tool_calls": [{**CALL, "function": {"name": "read_file", "arguments": {}}}]}, RESULT),
        "no JSON object",
    ),
    "a name with a dot": (
        body(ASKED, {**CALLED, "tool_calls": [{**CALL, "function": {"name": "a.b", "arguments": "{}"}}]}, RESULT),
        "a.b",
    ),
    "an empty list of tools": (body(tools=[]), "too short"),
    "a tool without a name": (body(tools=[{"type": "function", "function": {"parameters": {"type": "object"}}}]), "name"),
    "a tool without a schema": (body(tools=[{"type": "function", "function": {"name": "f"}}]), "schema"),
    "a tool twice": (body(tools=[TOOL, TOOL]), "twice"),
    "a choice without tools": (body(tool_choice="auto"), "tool_choice"),
    "half a character": (body({"role": "user", "content": "\ud800"}), "could not parse|surrogate"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_provider_refuses_is_refused_with_400(endpoint: ScriptedEndpoint, name: str) -> None:
    request, expected = BAD[name]
    status, text = send(endpoint.base_url, request)
    assert status == 400
    message = json.loads(text)["error"]["message"]
    assert any(words in message for words in expected.split("|")), message
    assert endpoint.refused == [message]
    assert endpoint.requests == []


def test_a_wrong_key_a_wrong_path_and_a_wrong_model_are_refused() -> None:
    with ScriptedEndpoint(lambda _: say("x"), model="other") as endpoint:
        assert send(endpoint.base_url, body(), key="wrong")[0] == 401
        assert send(endpoint.base_url, body(), path="/completions")[0] == 404
        status, text = send(endpoint.base_url, body())
        assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")


def usage_of(text: str) -> dict[str, JsonValue] | None:
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return next((event["usage"] for event in events if "usage" in event), None)


def test_usage_is_counted_with_what_the_cache_held() -> None:
    options: Json = {"stream_options": {"include_usage": True}}
    long: Json = {"role": "user", "content": "x" * 10_000}
    with ScriptedEndpoint(lambda _: say("Hello")) as endpoint:
        first = usage_of(send(endpoint.base_url, body(long, **options))[1])
        grown = body(long, {"role": "assistant", "content": "Hello"}, ASKED, **options)
        second = usage_of(send(endpoint.base_url, grown)[1])
        assert usage_of(send(endpoint.base_url, body())[1]) is None
    assert first is not None
    assert second is not None
    assert first["prompt_tokens_details"] == {"cached_tokens": 0}
    assert second["prompt_tokens_details"] == {"cached_tokens": 10_000 // 4 // 128 * 128}
    assert second["prompt_tokens"] == -(-len(json.dumps(grown)) // 4)


@pytest.mark.parametrize("reply", [say("word " * 100), call("read_file", {"path": "x" * 400})])
def test_a_reply_over_the_cap_is_cut_there(reply: ScriptedReply) -> None:
    with ScriptedEndpoint(in_order(reply)) as endpoint:
        _, text = send(endpoint.base_url, body(max_tokens=10, stream_options={"include_usage": True}))
    usage = usage_of(text)
    assert usage is not None
    assert usage["completion_tokens"] == 10
    assert '"finish_reason": "length"' in text


def test_a_script_that_is_over_refuses(endpoint: ScriptedEndpoint) -> None:
    with ScriptedEndpoint(in_order(say("only one"))) as short:
        assert send(short.base_url, body())[0] == 200
        assert send(short.base_url, body())[0] == 400


def test_the_echo_script_calls_the_first_tool_then_ends() -> None:
    with ScriptedEndpoint(echo(1)) as endpoint:
        _, first = send(endpoint.base_url, body(tools=[TOOL]))
        _, last = send(endpoint.base_url, body(ASKED, CALLED, RESULT, tools=[TOOL]))
    assert '"name": "read_file"' in first
    assert "Done after 1 commands." in last


def test_as_a_program_it_prints_its_address_and_logs_exchanges(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "agent_harness.demo.server", "--script", "echo", "--turns", "1", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        request = body(tools=[TOOL])
        assert send(base_url, request)[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    (line,) = log.read_text().splitlines()
    served = json.loads(line)
    assert served["number"] == 1
    assert served["bytes_in"] == len(json.dumps(request))
    assert served["arrived"] < served["answered"]
