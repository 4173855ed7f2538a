"""Faults that the stand-in for GitHub meets a request with: what a network, a tired server and its limits do to a client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from threading import Event

from tests.fakes.github_forge_git import Answer

Fault = Callable[[Callable[[], Answer]], Answer | None]
"""Stands in the place of a request's work, which it may do or not; None closes the connection without a word."""

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 1."


def answers(status: int, body: str, content_type: str = "application/json", headers: Mapping[str, str] | None = None) -> Fault:
    """That answer, and nothing done."""
    return lambda _: Answer(status, body.encode(), {"Content-Type": content_type, **(headers or {})})


def server_error() -> Fault:
    return answers(500, '{"message":"Server Error"}')


def html_bad_gateway() -> Fault:
    return answers(502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html")


def secondary_limit(status: int = 403, retry_after_s: int | None = None) -> Fault:
    """Too fast: 403 or 429, with or without a figure."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return answers(status, json.dumps({"message": SECONDARY}), headers=headers)


def primary_limit(status: int = 403, reset_in_s: float = 3600) -> Fault:
    """All requests of the hour are used up; the reset is told as a time."""
    headers = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + reset_in_s))}
    return answers(status, json.dumps({"message": PRIMARY}), headers=headers)


def expired() -> Fault:
    return answers(401, '{"message":"Bad credentials"}')


def forbidden(permission: str = "pull_requests=write", who: str = "integration") -> Fault:
    said = json.dumps({"message": f"Resource not accessible by {who}"})
    return answers(403, said, headers={"X-Accepted-GitHub-Permissions": permission})


def not_found() -> Fault:
    return answers(404, '{"message":"Not Found"}')


def invalid(*errors: object) -> Fault:
    return answers(422, json.dumps({"message": "Validation Failed", "errors": list(errors)}))


def loses_the_answer(work: Callable[[], Answer]) -> None:
    """The work is done, and the connection closed without a word of it."""
    work()


def drops_the_request(work: Callable[[], Answer]) -> None:
    """The connection is closed, and nothing was done."""
    del work


def cuts_the_answer(work: Callable[[], Answer]) -> Answer:
    """The work is done, and its answer stops in the middle."""
    found = work()
    return Answer(found.status, found.body, found.headers, cut_after=max(1, len(found.body) // 2))


def fails_after_the_work(work: Callable[[], Answer]) -> Answer:
    """The work is done, and a gateway in front says that it was not."""
    work()
    return Answer(502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", {"Content-Type": "text/html"})


def waits_for(event: Event, timeout_s: float = 30) -> Fault:
    """As slow as the test likes; the work is done once the event is set."""

    def slow(work: Callable[[], Answer]) -> Answer:
        event.wait(timeout_s)
        return work()

    return slow
