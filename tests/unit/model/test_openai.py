from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from agent_harness.demo.script import Gate, Script, ScriptedReply, call, error, in_order, raw, say
from agent_harness.demo.server import KEY, ScriptedEndpoint
from agent_harness.errors import ModelError
from agent_harness.messages import Message
from agent_harness.model.base import RawCall, Reply, Request, ToolSchema
from agent_harness.model.openai import Body, OpenAIModel
from agent_harness.settings import Endpoint

pytestmark = pytest.mark.anyio

CASES = Path(__file__).parents[2] / "cases" / "peers"
TOOLS: list[ToolSchema] = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
MESSAGES: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Read a.txt"}]


@pytest.fixture(scope="module")
def cut_streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("d05") / "out"
    subprocess.run([sys.executable, str(CASES / "d05-cut-streams" / "build.py"), str(out)], check=True)
    return out


@asynccontextmanager
async def asking(base_url: str, key: str = KEY, name: str = "m") -> AsyncGenerator[OpenAIModel]:
    model = OpenAIModel(Endpoint(base_url, key, name, "OPENAI_API_KEY"))
    try:
        with anyio.fail_after(30):
            yield model
    finally:
        await model.close()


async def ask(model: OpenAIModel, shown: list[str] | None = None, cap: int = 500) -> Reply:
    deltas: list[str] = [] if shown is None else shown
    return await model.reply(Request(MESSAGES, TOOLS, cap), deltas.append)


async def ask_once(script: Script | ScriptedReply) -> Reply:
    with ScriptedEndpoint(in_order(script) if isinstance(script, ScriptedReply) else script) as endpoint:
        async with asking(endpoint.base_url) as model:
            return await ask(model)


async def failure_of(reply: ScriptedReply, key: str = KEY, name: str = "m", known: str | None = None) -> ModelError:
    with ScriptedEndpoint(in_order(reply), model=known) as endpoint:
        async with asking(endpoint.base_url, key, name) as model:
            with pytest.raises(ModelError) as caught:
                await ask(model)
    assert key not in str(caught.value)
    return caught.value


async def test_words_and_calls_arrive_whole_with_their_usage() -> None:
    shown: list[str] = []
    reply = say("I will look. ") + call("read_file", {"path": "a.txt"}, id="t1") + call("read_file", {"path": "b.txt"}, id="t2")
    with ScriptedEndpoint(in_order(reply)) as endpoint:
        async with asking(endpoint.base_url) as model:
            got = await ask(model, shown)
    assert got.text == "".join(shown) == "I will look. "
    assert got.calls == (RawCall("t1", "read_file", '{"path": "a.txt"}'), RawCall("t2", "read_file", '{"path": "b.txt"}'))
    assert got.finish_reason == "tool_calls"
    assert got.request_id == "req_1"
    assert got.usage is not None
    assert got.usage.input_tokens == -(-len(endpoint.requests[0].raw) // 4)
    assert endpoint.refused == []


async def test_a_request_carries_what_an_endpoint_needs_and_nothing_about_this_machine() -> None:
    with ScriptedEndpoint(in_order(say("ok"))) as endpoint:
        async with asking(endpoint.base_url) as model:
            await ask(model, cap=123)
    request = endpoint.requests[0]
    assert request.body == {
        "model": "m",
        "messages": MESSAGES,
        "tools": TOOLS,
        "max_tokens": 123,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert not {name for name in request.headers if re.fullmatch(r"x-stainless-(os|arch|runtime.*)|openai-.*", name)}
    assert request.headers["user-agent"].startswith("agent-harness/")


async def test_no_tools_are_sent_when_there_are_none() -> None:
    with ScriptedEndpoint(in_order(say("ok"))) as endpoint:
        async with asking(endpoint.base_url) as model:
            await model.reply(Request(MESSAGES, [], 100), lambda _: None)
    assert "tools" not in endpoint.requests[0].body


def test_a_longer_history_begins_with_the_same_bytes_and_changes_are_seen() -> None:
    body = Body("m", reports_cost=False)
    first = body.of(Request(MESSAGES, TOOLS, 10), "max_tokens")
    longer = body.of(Request([*MESSAGES, {"role": "user", "content": "more"}], TOOLS, 10), "max_tokens")
    other = body.of(Request([MESSAGES[0], {"role": "user", "content": "anew"}], TOOLS, 10), "max_tokens")
    stop = first.index(b"],")
    assert longer.startswith(first[:stop])
    assert json.loads(longer)["messages"][2] == {"role": "user", "content": "more"}
    assert json.loads(other)["messages"] == [MESSAGES[0], {"role": "user", "content": "anew"}]


def test_only_openrouter_is_asked_for_the_cost() -> None:
    asked = Body("m", reports_cost=True).of(Request(MESSAGES, TOOLS, 10), "max_tokens")
    assert json.loads(asked)["usage"] == {"include": True}
    assert "usage" not in json.loads(Body("m", reports_cost=False).of(Request(MESSAGES, TOOLS, 10), "max_tokens"))


def test_half_a_surrogate_pair_does_not_make_the_body_invalid() -> None:
    body = Body("m", reports_cost=False).of(Request([{"role": "user", "content": "a\ud800b"}], [], 10), "max_tokens")
    assert json.loads(body.decode())["messages"] == [{"role": "user", "content": "a?b"}]


async def test_a_refusal_that_names_the_cap_switches_it_once_and_for_good() -> None:
    with ScriptedEndpoint(in_order(say("one"), say("two")), cap="max_completion_tokens") as endpoint:
        async with asking(endpoint.base_url) as model:
            assert [(await ask(model)).text, (await ask(model)).text] == ["one", "two"]
    assert len(endpoint.refused) == 1
    assert all("max_completion_tokens" in request.body for request in endpoint.requests)


async def test_a_cap_that_no_name_fits_is_refused_after_one_switch() -> None:
    with ScriptedEndpoint(in_order(say("never")), cap="output_limit") as endpoint:
        async with asking(endpoint.base_url) as model:
            for _ in range(2):
                with pytest.raises(ModelError):
                    await ask(model)
    assert len(endpoint.refused) == 3


# The rows of case d05 that are decided at this level.


async def test_characters_split_between_packets_are_read_whole(cut_streams: Path) -> None:
    got = await ask_once(raw((cut_streams / "g_split_bytes.sse").read_bytes(), dribble=True))
    assert got.text == "café 😀"


async def test_interleaved_calls_are_told_apart(cut_streams: Path) -> None:
    got = await ask_once(raw((cut_streams / "f_interleaved.sse").read_bytes()))
    assert [(c.id, json.loads(c.arguments)) for c in got.calls] == [("t1", {"path": "a.txt"}), ("t2", {"path": "b.txt"})]


async def test_a_finished_reply_without_done_is_complete(cut_streams: Path) -> None:
    got = await ask_once(raw((cut_streams / "i_no_done.sse").read_bytes()))
    assert (got.text, got.finish_reason) == ("All done.", "stop")


async def test_a_reply_without_a_reason_but_with_done_is_complete() -> None:
    got = await ask_once(raw(b'data: {"choices":[{"index":0,"delta":{"content":"Fine."}}]}\n\ndata: [DONE]\n\n'))
    assert (got.text, got.finish_reason) == ("Fine.", "")


async def test_an_error_in_the_stream_keeps_its_status_and_type(cut_streams: Path) -> None:
    failure = await failure_of(raw((cut_streams / "e_error_event.sse").read_bytes()))
    assert (failure.status, failure.error_type) == (529, "overloaded_error")
    assert failure.retryable
    assert failure.charged
    assert "Overloaded" in str(failure)


async def test_a_cut_stream_is_no_reply_and_may_be_billed(cut_streams: Path) -> None:
    failure = await failure_of(raw((cut_streams / "a_dropped.sse").read_bytes()))
    assert failure.retryable
    assert failure.charged
    assert failure.error_type == "cut_stream"


@pytest.mark.parametrize("name", ["b_length", "c_false_stop", "d_second_cut", "j_length_text", "h_empty"])
async def test_other_odd_ends_are_handed_on_unrepaired(cut_streams: Path, name: str) -> None:
    got = await ask_once(raw((cut_streams / f"{name}.sse").read_bytes()))
    assert got.finish_reason
    assert got.usage is not None
    if got.calls:
        with pytest.raises(ValueError, match="Unterminated string"):
            json.loads(got.calls[-1].arguments)


async def test_a_stream_of_no_json_can_be_asked_again() -> None:
    failure = await failure_of(raw(b"data: {half\n\n"))
    assert failure.retryable
    assert failure.charged
    assert failure.error_type == "unreadable_stream"


async def test_a_connection_that_ends_before_the_answer_may_be_billed() -> None:
    gate = Gate()
    with ScriptedEndpoint(in_order(say("never", gate=gate))) as endpoint:
        async with asking(endpoint.base_url) as model, anyio.create_task_group() as tasks:

            async def drop() -> None:
                await anyio.to_thread.run_sync(gate.reached.wait, 20)
                endpoint.drop_connections()

            tasks.start_soon(drop)
            with pytest.raises(ModelError) as caught:
                await ask(model)
            assert caught.value.retryable
            assert caught.value.charged


async def test_an_endpoint_that_nobody_serves_was_not_charged() -> None:
    with ScriptedEndpoint(in_order()) as endpoint:
        gone = endpoint.base_url
    async with asking(gone) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model)
    assert caught.value.retryable
    assert not caught.value.charged
    assert gone in str(caught.value)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_retryable(status: int) -> None:
    reply = error(status, "Try later", type="some_error", headers={"retry-after": "7", "x-request-id": "req_abc"})
    failure = await failure_of(reply)
    assert failure.retryable
    assert (failure.status, failure.error_type, failure.request_id) == (status, "some_error", "req_abc")
    assert failure.retry_after_s == 7
    assert failure.charged is (status == 504)
    assert "req_abc" in str(failure)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "bad value", r"refused the request \(400"),
        (400, "This model's maximum context length is 8192 tokens.", "too long for 'm'"),
        (413, "Payload too large", "too long for 'm'"),
        (402, "More credits are needed", "add credit"),
        (403, "Country not supported", "OPENAI_API_KEY"),
        (422, "Unprocessable", r"refused the request \(422"),
    ],
)
async def test_what_will_not_pass_is_not_retried_and_says_what_to_do(status: int, message: str, expected: str) -> None:
    failure = await failure_of(error(status, message))
    assert not failure.retryable
    assert not failure.charged
    assert re.search(expected, str(failure))
    assert message in str(failure)


async def test_a_quota_that_is_used_up_is_not_waited_for() -> None:
    failure = await failure_of(error(429, "You exceeded your current quota", type="insufficient_quota"))
    assert not failure.retryable
    assert "credit" in str(failure)


async def test_a_wrong_key_is_named_by_its_variable_and_never_shown() -> None:
    failure = await failure_of(say("never"), key="sk-wrong-key-1234567890")
    assert (failure.status, failure.retryable, failure.error_type) == (401, False, "invalid_request_error")
    assert "OPENAI_API_KEY" in str(failure)


async def test_a_key_in_the_providers_own_words_is_taken_out() -> None:
    failure = await failure_of(error(400, f"bad key {KEY} given"))
    assert "[REDACTED:key]" in str(failure)


async def test_an_unknown_model_is_named_with_the_variables_that_set_it() -> None:
    failure = await failure_of(say("never"), name="gpt-99", known="gpt-5")
    assert not failure.retryable
    assert all(word in str(failure) for word in ("'gpt-99'", "AGENT_MODEL", "OPENAI_BASE_URL"))


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    failure = await failure_of(ScriptedReply(status=307, headers={"location": "http://127.0.0.1:9/v1"}))
    assert not failure.retryable
    assert "another address" in str(failure)


async def test_a_web_page_is_told_from_an_event_stream() -> None:
    page = ScriptedReply(raw=b"<html>log in</html>", headers={"content-type": "text/html"})
    failure = await failure_of(page)
    assert not failure.retryable
    assert "/v1" in str(failure)


async def test_cancelling_in_the_middle_ends_the_exchange() -> None:
    gate = Gate(after_bytes=400)
    with ScriptedEndpoint(in_order(say("word " * 50_000, gate=gate), say("next"))) as endpoint:
        async with asking(endpoint.base_url) as model:
            async with anyio.create_task_group() as tasks:

                async def stop() -> None:
                    await anyio.to_thread.run_sync(gate.reached.wait, 20)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(stop)
                await model.reply(Request(MESSAGES, TOOLS, 90_000), lambda _: None)
            gate.opened.set()
            assert (await ask(model)).text == "next"
        assert await anyio.to_thread.run_sync(endpoint.wait_served, 2)
    assert [served.complete for served in sorted(endpoint.served, key=lambda served: served.number)] == [False, True]


async def test_an_address_that_is_none_is_told_before_anything_is_sent() -> None:
    async with asking("http://127.0.0.1:port/v1") as model:
        with pytest.raises(ModelError) as caught:
            await ask(model)
    assert not caught.value.retryable
    assert "OPENAI_BASE_URL" in str(caught.value)


def test_making_a_model_imports_no_sdk() -> None:
    code = (
        "import sys; from agent_harness.model.openai import OpenAIModel; from agent_harness.settings import Endpoint;"
        "OpenAIModel(Endpoint('http://127.0.0.1:1/v1', 'k', 'm', 's')); import agent_harness.model.prices;"
        "print([m for m in ('openai', 'httpx', 'httpx2', 'genai_prices', 'pydantic') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == "[]"


def test_a_message_is_read_once_however_many_requests_carry_it() -> None:
    body = Body("m", reports_cost=False)
    message: Message = {"role": "user", "content": "as sent"}
    first = body.of(Request([message], TOOLS, 10), "max_tokens")
    message["content"] = "looked at again"
    assert body.of(Request([message], TOOLS, 10), "max_tokens") == first
