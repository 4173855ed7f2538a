"""The only importer of the `openai` SDK. Importing it costs about 0.4 s, so it is imported in a thread, when it is needed.

The SDK's typed request path walks the whole history on every turn; its low-level `post` sends the bytes that it is given.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import lru_cache
from typing import Final, Protocol

import anyio
import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpx2Client, Omit
from openai._streaming import ServerSentEvent

from agent_harness import __version__
from agent_harness.errors import ModelError
from agent_harness.model.failures import Failures
from agent_harness.settings import Endpoint

# A model that reasons may stay silent for minutes; a connection that can't be made is known within seconds.
TIMEOUT: Final = httpx2.Timeout(connect=10, read=600, write=60, pool=10)
CLOSING_S = 2
# What the SDK tells of the machine and its Python is nobody's business.
HEADERS: Final = {
    "User-Agent": f"agent-harness/{__version__}",
    "X-Stainless-OS": Omit(),
    "X-Stainless-Arch": Omit(),
    "X-Stainless-Runtime": Omit(),
    "X-Stainless-Runtime-Version": Omit(),
}


class _Describe(Protocol):
    def __call__(self, error: Exception, *, begun: bool, request_id: str) -> ModelError: ...


class _Chunks(AsyncStream[object]):
    """The stream of one answer; knows whether the endpoint said that it is complete."""

    done = False

    async def _iter_events(self) -> AsyncIterator[ServerSentEvent]:
        async for event in super()._iter_events():
            self.done = self.done or event.data.startswith("[DONE]")
            yield event


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """One TLS context for all sessions of the process: making one takes 40 ms."""
    return httpx2.create_ssl_context()


class Connection:
    """A client for one endpoint. Made in a thread, used in the event loop, closed there.

    Args:
        endpoint: where the model is.
        official: it is OpenAI's own, which alone may see the person's organisation and project.

    Raises:
        ModelError: the endpoint's address is none.
    """

    def __init__(self, endpoint: Endpoint, *, official: bool) -> None:
        self._failures = Failures(endpoint)
        try:
            self._client = self._make_client(endpoint)
        except (httpx2.InvalidURL, openai.OpenAIError, ValueError) as error:
            raise self._failures.unusable(str(error)) from error
        if not official:
            self._client.organization = self._client.project = None

    def _make_client(self, endpoint: Endpoint) -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=endpoint.api_key,
            admin_api_key="",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=TIMEOUT,
            http_client=DefaultAsyncHttpx2Client(verify=_certificates(), timeout=TIMEOUT),
        )

    async def stream(self, body: bytes) -> Answer:
        """Send a chat-completions request; returns its answer when the headers are there.

        Raises:
            ModelError: refused, or not reached.
        """
        try:
            chunks = await self._client.post(
                "/chat/completions",
                cast_to=object,
                content=body,
                options={"headers": HEADERS, "follow_redirects": False},
                stream=True,
                stream_cls=_Chunks,
            )
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._describe(error, begun=False, request_id="") from error
        return Answer(chunks, self._failures, self._describe)

    async def close(self) -> None:
        """Give connections back."""
        await self._client.close()

    def _describe(self, error: Exception, *, begun: bool, request_id: str) -> ModelError:
        """Every way in which the SDK and the network fail, as ours."""
        if isinstance(error, openai.APIStatusError):
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            return self._failures.refused(error.status_code, error.body, headers)
        cause = error.__cause__ or error
        kind = type(cause).__name__
        if isinstance(error, openai.APITimeoutError):
            # Before a connection there was nobody to do work; after that nobody knows.
            never = isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout)
            words = "could not be reached in time" if never else "did not answer in time"
            return self._failures.lost(kind, words, request_id=request_id, charged=not never)
        if isinstance(error, openai.APIConnectionError | httpx2.HTTPError):
            never = isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol | httpx2.ProxyError) and not begun
            words = "could not be reached" if never else "broke the connection"
            return self._failures.lost(kind, f"{words} ({cause or kind})", request_id=request_id, charged=not never)
        if isinstance(error, openai.APIError):
            return self._failures.broke_off(error.body, request_id)
        if isinstance(error, ValueError):
            return self._failures.lost("unreadable_stream", f"sent something that is no JSON ({error})", request_id=request_id)
        return self._failures.lost(kind, f"could not be asked ({error})", request_id=request_id, charged=begun)


class Answer:
    """One answer that streams. Close it, however it ended."""

    def __init__(self, chunks: _Chunks, failures: Failures, describe: _Describe) -> None:
        self._chunks = chunks
        self._failures = failures
        self._describe = describe
        self.request_id = chunks.response.headers.get("x-request-id", "")

    @property
    def done(self) -> bool:
        """The endpoint said `[DONE]`."""
        return self._chunks.done

    async def __aiter__(self) -> AsyncIterator[object]:
        """The decoded chunks.

        Raises:
            ModelError: the stream broke or held an error; what came before is worth nothing.
        """
        content_type = self._chunks.response.headers.get("content-type", "")
        if content_type.startswith("text/html"):
            raise self._failures.no_stream(content_type, self.request_id)
        try:
            async for chunk in self._chunks:
                yield chunk
        except (openai.OpenAIError, httpx2.HTTPError, ValueError) as error:
            raise self._describe(error, begun=True, request_id=self.request_id) from error

    async def close(self) -> None:
        """End the HTTP exchange, so that the endpoint stops working on it; also while being cancelled."""
        with anyio.move_on_after(CLOSING_S, shield=True), suppress(httpx2.HTTPError):
            await self._chunks.close()
