from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent_harness.model.failures import Failures, Problem, retry_after_s
from agent_harness.settings import Endpoint

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
FAILURES = Failures(Endpoint("https://user:pass@llm.example/v1", "sk-a-key-of-some-length", "m", "AGENT_KEY_SOURCE"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 12:01:30 GMT"}, 90),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon", "retry-after": "4"}, 4),
    ],
)
def test_every_form_of_retry_after_is_seconds(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, Problem("m", "t", None)),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, Problem("m", "overloaded_error", None)),
        ({"error": {"message": "m", "code": 429, "metadata": {}}}, Problem("m", "", 429)),
        ({"error": {"message": "m", "code": "502"}}, Problem("m", "", 502)),
        ({"error": "model not found"}, Problem("model not found", "", None)),
        ({"detail": "m"}, Problem("m", "", None)),
        ("<html>", Problem("<html>", "", None)),
        (None, Problem("", "", None)),
    ],
)
def test_every_shape_of_error_object_is_read(body: object, expected: Problem) -> None:
    assert Problem.read(body) == expected


@pytest.mark.parametrize(
    ("body", "retryable"),
    [
        ({"type": "overloaded_error"}, True),
        ({"code": 502}, True),
        ({"code": 400}, False),
        ({"type": "invalid_request_error"}, False),
        ({"message": "the request exceeds the available context size"}, False),
        ({"message": "something"}, True),
        ("something", True),
    ],
)
def test_an_error_in_a_stream_is_retried_unless_it_says_that_it_will_stay(body: object, retryable: bool) -> None:
    failure = FAILURES.broke_off(body, "r1")
    assert failure.retryable is retryable
    assert failure.charged


def test_a_message_is_one_bounded_line_without_credentials() -> None:
    failure = FAILURES.refused(400, {"message": "line\nline " + "x" * 5_000 + " sk-a-key-of-some-length"}, {})
    assert "\n" not in str(failure)
    assert len(str(failure)) < 600
    assert "pass" not in str(failure)
    assert "https://llm.example/v1" in str(failure)
