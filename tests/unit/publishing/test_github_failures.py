"""What GitHub's refusals mean."""

from __future__ import annotations

import pytest

from agent_harness.events import JsonValue
from agent_harness.publishing.github_failures import Answer, as_json, classify, describe

NOW_S = 1_800_000_000.0


def invalid(*errors: JsonValue) -> JsonValue:
    return {"message": "Validation Failed", "errors": list(errors)}


def says(message: str) -> JsonValue:
    return {"resource": "PullRequest", "code": "custom", "message": message}


@pytest.mark.parametrize(
    ("status", "data", "code", "retryable", "unclear"),
    [
        (401, {"message": "Bad credentials"}, "bad_credentials", False, False),
        (403, {"message": "Resource not accessible by integration"}, "no_permission", False, False),
        (403, {"message": "Repository was archived so is read-only."}, "archived", False, False),
        (403, {"message": "API rate limit exceeded for installation"}, "rate_limit", True, False),
        (403, {"message": "You have exceeded a secondary rate limit"}, "rate_limit", True, False),
        (429, None, "rate_limit", True, False),
        (404, {"message": "Not Found"}, "not_found", False, False),
        (410, {"message": "This issue was deleted"}, "not_found", False, False),
        (307, {"message": "Moved Permanently"}, "moved", False, False),
        (409, {"message": "Git Repository is empty."}, "empty", False, False),
        (500, {"message": "Server Error"}, "server_error", True, True),
        (502, {"data": "<html>"}, "server_error", True, True),
        (422, invalid(says("A pull request already exists for o:b.")), "exists", False, False),
        (422, invalid("A pull request already exists for o:b."), "exists", False, False),
        (422, invalid(says("No commits between main and b")), "no_commits", False, False),
        (422, invalid(says("The b branch has no history in common with main")), "unrelated", False, False),
        (422, invalid({"field": "base", "code": "invalid"}), "bad_base", False, False),
        (422, invalid({"field": "head", "code": "invalid"}), "head_invalid", True, False),
        (422, invalid({"field": "body", "code": "custom", "message": "body is too long"}), "too_long", False, False),
        (422, {"message": "Draft pull requests are not supported in this repository."}, "no_drafts", False, False),
        (422, {"message": "Invalid request."}, "refused", False, False),
        (418, "short and stout", "refused", False, False),
    ],
)  # fmt: skip
def test_each_refusal_is_told_from_the_others(status: int, data: JsonValue, code: str, retryable: bool, unclear: bool) -> None:
    found = classify(Answer(status, {}, data), NOW_S)
    assert (found.code, found.retryable, found.unclear) == (code, retryable, unclear)
    assert str(status) in found.said
    assert found.advice


def test_the_wait_that_github_asks_for_is_read_from_its_headers() -> None:
    assert classify(Answer(403, {"retry-after": "7"}, None), NOW_S).wait_s == 7
    spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW_S) + 30)}
    assert classify(Answer(429, spent, None), NOW_S).wait_s == 31
    assert classify(Answer(429, {"retry-after": "soon"}, None), NOW_S).wait_s == 60


def test_a_missing_permission_is_named_and_only_what_looks_like_one() -> None:
    headers = {"x-accepted-github-permissions": "pull_requests=write"}
    assert "it needs pull_requests=write:" in classify(Answer(403, headers, None), NOW_S).advice
    odd = {"x-accepted-github-permissions": "write\x1b[31m"}
    assert "\x1b" not in classify(Answer(403, odd, None), NOW_S).advice


def test_an_answer_of_any_shape_is_described_on_one_line() -> None:
    assert describe(Answer(422, {}, {"message": "a\nb", "errors": "c"})) == "GitHub answered 422: a b / c"
    assert describe(Answer(502, {}, as_json(b"\xff"))) == "GitHub answered 502"
    assert len(describe(Answer(422, {}, {"message": "x" * 9999}))) < 500
    assert as_json(object) == str(object)
