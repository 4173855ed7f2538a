"""What an answer of GitHub that is no success means, and what a person can do about it. Pure; knows no client library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from agent_harness.events import JsonValue

MAX_SAID_CHARS = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: its status, header names in lower case, and its JSON (or text, or None)."""

    status: int
    headers: Mapping[str, str]
    data: JsonValue


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a request failed.

    Attributes:
        code: a stable word.
        said: what GitHub said, on one line.
        advice: what to do.
        retryable: the same request may work later.
        unclear: it may have been carried out all the same.
        wait_s: how long GitHub asks to be left alone, in seconds; None when it does not say.
    """

    code: str
    said: str
    advice: str
    retryable: bool = False
    unclear: bool = False
    wait_s: float | None = None

    def __str__(self) -> str:
        return f"{self.said}; {self.advice}"


# Told apart by field and code first and by text second, in this order: the texts are GitHub's and may change.
REFUSED: tuple[tuple[str, str, str], ...] = (
    (r"pull request already exists", "exists", "look for it on GitHub"),
    (r"no commits between", "no_commits", "the base branch has this work already; nothing is left to propose"),
    (r"no history in common|history in common", "unrelated", "the base branch was replaced; start a new session from it"),
    (r"draft pull requests are not supported", "no_drafts", "this repository has no drafts; publish again without --draft"),
    (r"\bbase:invalid", "bad_base", "the base branch is not there any more; give another one with --base in a new session"),
    (r"\bhead:invalid", "head_invalid", "GitHub does not see the branch yet; publish again in a minute"),
    (r"\b(body|title):\S* .*(too long|maximum)|is too long", "too_long", "title or body is longer than GitHub takes"),
)
AGAIN = "try again in a while"


def no_answer(said: str) -> Trouble:
    """The connection failed before a whole answer arrived."""
    return Trouble("unreachable", said, f"check the network and GITHUB_API_URL, then {AGAIN}", retryable=True, unclear=True)


def classify(answer: Answer, now_s: float) -> Trouble:
    """What an answer from 300 up means.

    Args:
        answer: what came back.
        now_s: the time, in seconds since 1970, to which GitHub's reset time is compared.
    """
    said = describe(answer)
    if limit := _rate_limit(answer, said, now_s):
        return limit
    if answer.status == 401:
        return Trouble("bad_credentials", said, "the token is wrong, expired or revoked; set a new one, then try again")
    if answer.status == 403:
        return _forbidden(answer, said)
    if answer.status in (404, 410):
        advice = "it does not exist, or the token may not see it; check name and number, and that the token covers it"
        return Trouble("not_found", said, advice)
    if 300 <= answer.status < 400:
        return Trouble("moved", said, "the repository was renamed or moved; use its new name")
    if answer.status == 409:
        empty = "empty" in said.lower()
        return Trouble("empty" if empty else "conflict", said, "push a first commit" if empty else AGAIN, retryable=not empty)
    if answer.status >= 500 or answer.status == 408:
        return Trouble("server_error", said, f"GitHub could not do it now; {AGAIN}", retryable=True, unclear=True)
    for pattern, code, advice in REFUSED:
        if re.search(pattern, said, re.IGNORECASE):
            return Trouble(code, said, advice, retryable=code == "head_invalid")
    return Trouble("refused", said, "read what GitHub said")


def describe(answer: Answer) -> str:
    """Status, message and every error of an answer on one line, whatever shape it has."""
    message, errors = "", list[JsonValue]()
    if isinstance(answer.data, dict):
        message = str(answer.data.get("message") or "")
        listed = answer.data.get("errors")
        errors = listed if isinstance(listed, list) else [listed] if listed else []
    words = [f"GitHub answered {answer.status}"]
    details = [message, *(_detail(error) for error in errors)]
    said = " / ".join(" ".join(detail.split()) for detail in details if detail)
    return ": ".join(words + ([said[:MAX_SAID_CHARS]] if said else []))


def _detail(error: JsonValue) -> str:
    if not isinstance(error, dict):
        return str(error)
    place = ":".join(str(error[key]) for key in ("field", "code") if error.get(key))
    return f"{place} {error.get('message') or ''}".strip()


def _rate_limit(answer: Answer, said: str, now_s: float) -> Trouble | None:
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    told = "rate limit" in said.lower() or "retry-after" in answer.headers or spent
    if answer.status != 429 and not (answer.status == 403 and told):
        return None
    wait_s = 60.0  # what GitHub asks for where it gives no figure
    if (after := _number(answer.headers.get("retry-after"))) is not None:
        wait_s = after
    elif spent and (reset := _number(answer.headers.get("x-ratelimit-reset"))) is not None:
        wait_s = max(0.0, reset - now_s) + 1
    advice = f"too many requests were made with this token; {AGAIN}, in {wait_s:.0f} s at the earliest"
    return Trouble("rate_limit", said, advice, retryable=True, wait_s=wait_s)


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\d{1,12}", text) else None


def _forbidden(answer: Answer, said: str) -> Trouble:
    if "archived" in said.lower():
        return Trouble("archived", said, "the repository is archived; unarchive it first")
    needed = answer.headers.get("x-accepted-github-permissions", "")
    # The header is data of the server: only what a permission looks like is repeated.
    wanted = (
        f"it needs {needed}" if re.fullmatch(r"[a-z_=,; ]{1,200}", needed) else "it needs pull_requests=write, contents=write"
    )
    advice = f"the token may not do this; {wanted}: change the token's permissions (or the App's, and have them approved)"
    if answer.headers.get("x-github-sso", "").startswith("required"):
        advice = "the organisation wants single sign-on; authorise the token for it"
    return Trouble("no_permission", said, advice)


def as_json(value: object) -> JsonValue:
    """What a client library calls data: JSON as it is, bytes and anything else as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, str | int | float | dict | list):
        return cast("JsonValue", value)
    return str(value)
