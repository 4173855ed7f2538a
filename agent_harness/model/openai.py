"""Any OpenAI-compatible chat-completions endpoint as a `Model`. The SDK itself is in `sdk.py`, loaded in a thread."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from agent_harness.errors import ModelError
from agent_harness.messages import Message
from agent_harness.model.assembly import Assembly
from agent_harness.model.base import OnDelta, Reply, Request
from agent_harness.model.failures import Failures
from agent_harness.settings import Endpoint

if TYPE_CHECKING:
    from agent_harness.model.sdk import Answer, Connection

Cap = Literal["max_tokens", "max_completion_tokens"]


class OpenAIModel:
    """Asks one model at one endpoint.

    Args:
        endpoint: where it is, its name and the key.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.model
        self.silence = ""
        self._heard_at = 0.0
        self._endpoint = endpoint
        self._failures = Failures(endpoint)
        host = urlsplit(endpoint.base_url).hostname or ""
        self._official = host == "api.openai.com" or host.endswith(".api.openai.com")
        self._cap: Cap = "max_completion_tokens" if self._official else "max_tokens"
        self._may_switch = True
        self._body = Body(endpoint.model, reports_cost=host == "openrouter.ai" or host.endswith(".openrouter.ai"))
        self._loading: Future[Connection] | None = None

    def warm(self) -> None:
        """Begin to import the SDK and to make the client, in a thread; `reply` waits for the rest of it."""
        if self._loading is None:
            loading: Future[Connection] = Future()
            self._loading = loading
            # A daemon, so that a session that is refused meanwhile ends at once.
            Thread(target=_connect, args=(self._endpoint, self._official, loading), name="load-sdk", daemon=True).start()

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        """Ask once; a refusal that names the parameter of the completion cap is asked once more with the other one.

        Raises:
            ModelError: see its attributes; nothing is retried here.
        """
        try:
            return await self._once(request, on_delta)
        except ModelError as error:
            if not (self._may_switch and error.status == 400 and self._cap in str(error)):
                raise
        self._may_switch = False
        self._cap = "max_tokens" if self._cap == "max_completion_tokens" else "max_completion_tokens"
        return await self._once(request, on_delta)

    async def close(self) -> None:
        """Give connections back."""
        if self._loading is not None and self._loading.done() and self._loading.exception() is None:
            await self._loading.result().close()

    async def _once(self, request: Request, on_delta: OnDelta) -> Reply:
        self.silence, self._heard_at = "", time.monotonic()
        answer: Answer | None = None
        try:
            connection = await self._connected()
            answer = await connection.stream(self._body.of(request, self._cap))
            return await self._read(answer, on_delta)
        except anyio.get_cancelled_exc_class():
            self.silence = self._failures.silence(time.monotonic() - self._heard_at)
            raise
        finally:
            if answer is not None:
                await answer.close()

    async def _read(self, answer: Answer, on_delta: OnDelta) -> Reply:
        assembly = Assembly()
        async for chunk in answer:
            self._heard_at = time.monotonic()
            text = assembly.take(chunk)
            if text:
                on_delta(text)
        if not (assembly.finish_reason or answer.done):
            raise self._failures.lost(
                "cut_stream", "ended its answer before it was complete", request_id=answer.request_id or assembly.id
            )
        return assembly.reply(answer.request_id)

    async def _connected(self) -> Connection:
        self.warm()
        assert self._loading is not None
        if not self._loading.done():
            await anyio.to_thread.run_sync(wait, [self._loading], abandon_on_cancel=True)
        return self._loading.result()


def _connect(endpoint: Endpoint, official: bool, loading: Future[Connection]) -> None:
    try:
        from agent_harness.model.sdk import Connection

        loading.set_result(Connection(endpoint, official=official))
    except BaseException as error:  # noqa: BLE001 - a thread's error belongs to whoever waits for its result
        loading.set_exception(error)


class Body:
    """Makes request bodies. The history only grows, so each message is encoded once, however many requests carry it.

    Args:
        model: its name.
        reports_cost: the endpoint tells what a request cost when it is asked to (OpenRouter).
    """

    def __init__(self, model: str, *, reports_cost: bool) -> None:
        self._model = model
        self._reports_cost = reports_cost
        self._encoded: list[tuple[Message, bytes]] = []

    def of(self, request: Request, cap: Cap) -> bytes:
        """The JSON of one request; the same messages give the same bytes."""
        rest: dict[str, object] = {
            cap: request.max_completion_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._reports_cost:
            rest["usage"] = {"include": True}
        if request.tools:
            rest = {"tools": request.tools, **rest}
        head = b'{"model":' + _json(self._model) + b',"messages":['
        return head + b",".join(self._messages(request.messages)) + b"]," + _json(rest)[1:]

    def _messages(self, messages: Sequence[Message]) -> list[bytes]:
        known = self._encoded
        same = 0
        while same < len(known) and same < len(messages) and known[same][0] is messages[same]:
            same += 1
        del known[same:]
        known.extend((message, _json(message)) for message in messages[same:])
        return [encoded for _, encoded in known]


def _json(value: object) -> bytes:
    # Half of a surrogate pair is no character and would make the whole body invalid.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
