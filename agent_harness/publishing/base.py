"""From finished work to a pull request: the nouns and the protocol of a forge."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from agent_harness.plan import Plan
from agent_harness.task import Task, Wishes


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A proposal to merge `branch`. `number` is None where the forge has no numbers."""

    url: str
    number: int | None
    branch: str
    head: str


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One entry of the bounded trace in a pull request's body."""

    tool: str
    arguments: str
    result: str
    ok: bool


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One path that the work changes; `added`/`deleted` are lines, None for binary content."""

    path: str
    status: str
    added: int | None
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """What a pull request says of the session; everything in it is already redacted.

    Attributes:
        summary: the model's closing words, untrusted.
        checks: what the harness itself verified, one sentence each; empty means "not verified by the harness".
        remarks: what the harness found in the commits that a reviewer should look at, one sentence each.
    """

    session: str
    task: Task
    summary: str
    plan: Plan
    changes: tuple[ChangedFile, ...]
    trace: tuple[TraceLine, ...]
    turns: int
    tokens: int
    cost_usd: Decimal | None
    model: str
    surface: str
    checks: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A finished title and body for a pushed branch, ready for any forge."""

    title: str
    body: str
    branch: str
    base: str
    head: str
    draft: bool = False


class Forge(Protocol):
    """Where pull requests are opened."""

    async def look(self, branch: str) -> str:
        """Look before anything is pushed; returns what was found in a few words, empty when there is nothing to look at.

        Raises:
            PublishError: a pull request of that branch could not be opened, or a person closed it.
        """
        ...

    async def open_pull_request(self, proposal: Proposal) -> PullRequest:
        """Open the pull request, or find the one that this session opened before.

        Raises:
            PublishError: refused; says what to do and that the branch is pushed.
        """
        ...

    async def adorn(self, opened: PullRequest, wishes: Wishes) -> tuple[str, ...]:
        """Labels and reviewers, as far as they can be had and are not there yet; returns what could not, a sentence each."""
        ...
