"""`publish SESSION`: pushes a finished session's work and opens its pull request, or finds both. Does nothing twice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import cast

from agent_harness.archive import StoredSession, find_session
from agent_harness.assignment import forge_of, reach, renewal_of
from agent_harness.budget import Budget
from agent_harness.build import credentials_in, make_publisher
from agent_harness.errors import ConfigError
from agent_harness.events import JsonValue, SessionEnded
from agent_harness.github_settings import GitHubAccess, access_from, parse_github_url
from agent_harness.inert_git import Git, Transport
from agent_harness.origins import is_path, of_path
from agent_harness.publishing.bundle import read_header
from agent_harness.publishing.github_app import before_a_session
from agent_harness.redact import Redactor
from agent_harness.reporting import heads_pushed, make_report
from agent_harness.surfaces.base import ExportedWork
from agent_harness.surfaces.changes import Changeable
from agent_harness.task import IssueLink, Limits, Permits, Task, Wishes
from agent_harness.trace import Trace


async def publish_session(
    home: Path, wanted: str, environ: Mapping[str, str], more: Wishes, permits: Permits | None = None
) -> SessionEnded:
    """Publish again, or for the first time, what a session kept; its trace goes on and ends anew.

    Args:
        home: where sessions are kept.
        wanted: the session's id, the start of it, or `last`.
        environ: tokens, and which GitHub.
        more: what is wanted beyond what the session was started with.
        permits: what is let through beyond what the session was given.

    Raises:
        ConfigError: no such session, or it kept no work; nothing was done.
        PublishError: refused; says what to do and where the work lies.
    """
    stored = find_session(home, wanted)
    bundle = stored.folder / "work.bundle"
    if not bundle.exists():
        state = (stored.ended or {}).get("outcome", "broken off")
        in_place = stored.started.get("surface") == "host"
        where = "what it changed is in the checkout: commit and push it there, or restore it and run with --pr; " * in_place
        raise ConfigError(
            f"session {stored.id} ({state}) kept no work to publish; {where}read it with: agent-harness show {stored.id}"
        )
    task = _task(stored, more, permits or Permits())
    Changeable(task.permits)  # a glob that cannot be read is told before anything is done
    branch = str(stored.started["branch"])
    access = access_from(environ)
    known = [*credentials_in(environ), *access.secrets]
    git = Git(stored.folder, Redactor(known).text)
    target = await _target(git, task, access)
    trace = Trace(stored.trace_path, stored.id, Redactor([*known, *target.secrets]))
    try:
        budget = _spent(stored, task.limits)
        ended = stored.ended or {}
        summary = str(ended.get("summary") or "The session was broken off before it could say what it did.")
        model = str(stored.started["model"])
        report = make_report(trace.path, stored.id, task, summary, budget, model, str(stored.started["surface"]))
        forge, renew = forge_of(access, target, stored.folder), renewal_of(access, target)
        publisher = make_publisher(git, stored.folder, target, forge, trace, renew)
        work = ExportedWork(bundle, read_header(bundle, f"refs/heads/{branch}").head)
        publisher.pushed = heads_pushed(stored.records())
        opened = await publisher.publish(work, task, branch, report, task.wishes.draft)
        again = SessionEnded(
            outcome="no_changes" if opened is None else "succeeded",
            reason="no_changes" if opened is None else "pull_request",
            exit_code=0,
            turns=budget.turns,
            tokens=budget.tokens,
            cost_usd=budget.cost_usd,
            pull_request=None if opened is None else {"url": opened.url, "number": opened.number, "branch": opened.branch},
            summary=summary,
            trace_path=str(trace.path),
        )
        trace.emit(again)
        return again
    finally:
        trace.close()


def _task(stored: StoredSession, more: Wishes, permits: Permits) -> Task:
    task = cast("dict[str, JsonValue]", stored.started["task"])
    base, number = str(task["base"]), task.get("issue")
    issue = None
    if isinstance(number, int):
        issue = IssueLink(number, str(task.get("issue_author", "")), str(task.get("issue_url", "")))
    return Task(
        repo=str(task["repo"]),
        text=str(task["text"]),
        base=base,
        base_commit=str(task["base_commit"]),
        default_branch=base,
        issue=issue,
        wishes=_wishes(task, more),
        permits=_permits(task) | permits,
    )


def _wishes(task: Mapping[str, JsonValue], more: Wishes) -> Wishes:
    """What the session was started with, and more."""

    def names(field: str, added: tuple[str, ...]) -> tuple[str, ...]:
        found = task.get(field)
        return tuple(dict.fromkeys([*(str(each) for each in (found if isinstance(found, list) else ())), *added]))

    return Wishes(
        draft=more.draft or task.get("draft") is True,
        labels=names("labels", more.labels),
        reviewers=names("reviewers", more.reviewers),
        co_authors=names("co_authors", more.co_authors),
    )


def _permits(task: dict[str, JsonValue]) -> Permits:
    """What the session was given, as its trace has it."""
    recorded = cast("dict[str, JsonValue]", task.get("permits") or {})

    def globs(name: str) -> tuple[str, ...]:
        return tuple(str(glob) for glob in cast("list[JsonValue]", recorded.get(name) or []))

    return Permits(globs("scope"), bool(recorded.get("workflows")), bool(recorded.get("submodules")), globs("secrets"))


def _spent(stored: StoredSession, limits: Limits) -> Budget:
    """What the session cost, from its last `usage` record and its turns."""
    budget = Budget(limits, None)
    for record in stored.records():
        if record["type"] == "usage":
            cost = record["total_cost_usd"]
            budget.tokens = cast("int", record["total_tokens"])
            budget.cost_usd = None if cost is None else Decimal(repr(cost))
        elif record["type"] == "turn_started":
            budget.turns = cast("int", record["turn"])
    return budget


async def _target(git: Git, task: Task, access: GitHubAccess) -> Transport:
    async def transport_of(url: str) -> Transport:
        repository = parse_github_url(url, access.api_url)
        looking = access if repository is None else await before_a_session(access, repository, publishes=True, issue=False)
        return reach(looking, url, publishes=True)

    if not is_path(task.repo, Path(os.sep)):
        return reach(access, task.repo, publishes=True)
    origin = await of_path(git, Path(task.repo), None, transport_of, publishes=True)
    assert origin.target is not None
    return origin.target
