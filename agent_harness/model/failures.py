"""From what went wrong at an endpoint to a `ModelError` that says what to do. Knows HTTP and JSON, no SDK."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from agent_harness.errors import ModelError
from agent_harness.settings import Endpoint

SHOWN = 300  # characters of the provider's own words
# Beside every 5xx: timeout, conflict, rate limit. Anthropic's 529 (overloaded) is a 5xx.
RETRYABLE = frozenset({408, 409, 429})
GATEWAY_GAVE_UP = frozenset({504, 524})  # the model behind it may still be working, and is paid for
NO_CREDIT = re.compile(r"insufficient_quota|billing|credit balance|not enough credits|insufficient (balance|credits|funds)", re.I)
TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum context|(prompt|input) is too long|exceed\w* .{0,30}context"
    r"|too many (input )?tokens",
    re.I,
)
FINAL_TYPES = re.compile(r"invalid_request|authentication|permission|not_found|context_length|content_filter", re.I)


@dataclass(frozen=True, slots=True)
class Problem:
    """The error object of an answer, in one shape: OpenAI's, Anthropic's, a bare string, or no JSON at all."""

    message: str
    type: str
    status: int | None

    @classmethod
    def read(cls, body: object) -> Problem:
        """From a decoded body or the `error` in it; text is taken as the message."""
        if not isinstance(body, dict):
            return cls(body if isinstance(body, str) else "", "", None)
        data = cast("dict[str, object]", body)
        inner = data.get("error")
        if isinstance(inner, dict | str):
            return cls.read(cast("object", inner))
        code = data.get("code")
        word = next((w for w in (data.get("type"), code) if isinstance(w, str) and w and not w.isdigit()), "")
        message = data.get("message", data.get("detail", ""))
        return cls(message if isinstance(message, str) else str(message), word, _status(code))


@dataclass(frozen=True, slots=True)
class Failures:
    """Words failures for one endpoint; its key never appears in them."""

    endpoint: Endpoint

    def refused(self, status: int, body: object, headers: Mapping[str, str]) -> ModelError:
        """The endpoint answered with that status instead of a stream."""
        problem = Problem.read(body)
        request_id = headers.get("x-request-id", "")
        final = self._final(status, problem)
        return ModelError(
            self._one_line(self._words(status, problem), problem.message, request_id),
            retryable=not final and (status in RETRYABLE or status >= 500),
            status=status,
            error_type=problem.type,
            request_id=request_id,
            retry_after_s=retry_after_s(headers, datetime.now(UTC)),
            charged=status in GATEWAY_GAVE_UP,
        )

    def broke_off(self, body: object, request_id: str) -> ModelError:
        """An error event in the stream: the partial reply is lost and may be billed."""
        problem = Problem.read(body)
        status = problem.status
        final = bool(FINAL_TYPES.search(problem.type) or TOO_LONG.search(problem.message))
        if status is not None:
            final = final or not (status in RETRYABLE or status >= 500)
        words = f"broke its answer off with an error ({_named(status, problem.type)})"
        return ModelError(
            self._one_line(words, problem.message, request_id),
            retryable=not final,
            status=status,
            error_type=problem.type,
            request_id=request_id,
            charged=True,
        )

    def lost(self, error_type: str, detail: str, *, request_id: str = "", charged: bool = True) -> ModelError:
        """No answer, or half of one: the network, a timeout, a cut or unreadable stream."""
        return ModelError(
            self._one_line(detail, "", request_id), retryable=True, error_type=error_type, request_id=request_id, charged=charged
        )

    def silence(self, seconds: float) -> str:
        """What it was waited for when the person's own ceiling, or a cancellation, ended the waiting."""
        return self._one_line(f"had not completed its answer and had sent nothing for {seconds:.1f} s", "", "")

    def unusable(self, detail: str) -> ModelError:
        """The endpoint's address can't even be tried."""
        return ModelError(
            self._one_line(f"has no usable address ({detail}); check OPENAI_BASE_URL", "", ""),
            retryable=False,
            error_type="bad_address",
        )

    def no_stream(self, content_type: str, request_id: str) -> ModelError:
        """The endpoint answered 200 with something that is no event stream."""
        words = (
            f"answered with {content_type or 'nothing'!r} and no event stream; OPENAI_BASE_URL must name an OpenAI-compatible "
            "chat-completions endpoint, usually ending in /v1"
        )
        return ModelError(
            self._one_line(words, "", request_id),
            retryable=False,
            status=200,
            error_type="no_event_stream",
            request_id=request_id,
        )

    def _final(self, status: int, problem: Problem) -> bool:
        """Whether a retryable status says something that waiting does not mend."""
        return status == 429 and bool(NO_CREDIT.search(f"{problem.type} {problem.message}"))

    def _words(self, status: int, problem: Problem) -> str:
        named = _named(status, problem.type)
        model = self.endpoint.model
        if self._final(status, problem) or status == 402:
            return f"says that the account has no credit left ({named}); add credit, or use another key than {self.source}"
        if status == 413 or (status in (400, 422) and TOO_LONG.search(f"{problem.type} {problem.message}")):
            return (
                f"says that the request is too long for {model!r} ({named}); use a model with a larger context window, or a "
                "task that needs fewer files at once"
            )
        match status:
            case 401:
                return f"refused the key ({named}); check the key from {self.source}"
            case 403:
                return f"does not let this key use {model!r} ({named}); check what the key from {self.source} may do"
            case 404:
                return (
                    f"does not know the model {model!r}, or has no chat completions there ({named}); check AGENT_MODEL or "
                    "--model, and OPENAI_BASE_URL (it usually ends in /v1)"
                )
            case 429:
                return f"limits the rate of requests ({named})"
            case 503 | 529:
                return f"is overloaded ({named})"
            case _ if 300 <= status < 400:
                return f"points to another address ({named}); set OPENAI_BASE_URL to where it really is"
            case _ if status >= 500 or status in RETRYABLE:
                return f"failed ({named})"
            case _:
                return f"refused the request ({named})"

    @property
    def source(self) -> str:
        """Where the key was read from."""
        return self.endpoint.source or "OPENAI_API_KEY"

    def _one_line(self, words: str, said: str, request_id: str) -> str:
        url = urlsplit(self.endpoint.base_url)
        where = urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path.rstrip("/"), "", ""))
        line = f"the model endpoint {where!r} {words}"
        said = " ".join(said.split())
        if said:
            line += f": {said[:SHOWN]}" + ("..." if len(said) > SHOWN else "")
        if request_id:
            line += f" [request {request_id[:80]}]"
        key = self.endpoint.api_key
        return line.replace(key, "[REDACTED:key]") if len(key) >= 8 else line


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that an answer asks to wait: `retry-after-ms`, or `Retry-After` as seconds or a date; None if it doesn't say."""
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            asked = float(headers.get(name, "")) / divisor
        except ValueError:
            continue
        if math.isfinite(asked):
            return max(asked, 0.0)
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max((date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds(), 0.0)


def _status(code: object) -> int | None:
    """An HTTP status that travels as the error's code, as a number or as text."""
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599 else None


def _named(status: int | None, error_type: str) -> str:
    return ", ".join(word for word in ("" if status is None else str(status), error_type) if word) or "no code given"
