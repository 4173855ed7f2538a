"""A judgement of one tool call, before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Decision(IntEnum):
    """Ordered by strictness, so that `max()` over several verdicts is the one that counts."""

    ALLOW = 0
    ASK = 1
    DENY = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one guard or hook says of one call.

    Attributes:
        by: who says so: `guard:rm`, `guard:push`, `guard:path`, `hook:NAME`.
        reason: one or two sentences for the model; empty on ALLOW.
        instead: what to do instead, one sentence or command; may be empty.
        rule: a stable id of the rule that fired, such as `rm.outside`.
        words: the offending words, as written.
        target: the path or ref that they resolve to, when known.
    """

    decision: Decision
    by: str = ""
    reason: str = ""
    instead: str = ""
    rule: str = ""
    words: tuple[str, ...] = ()
    target: str = ""


ALLOW = Verdict(Decision.ALLOW)


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that counts: the strictest, the first one among equals; ALLOW when there is none."""
    return max(verdicts, key=lambda verdict: verdict.decision, default=ALLOW)
