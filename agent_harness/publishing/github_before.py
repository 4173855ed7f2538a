"""What is asked of GitHub before a session exists: can the repository be worked on, and what does the issue say."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from agent_harness.errors import ConfigError, HarnessError, SurfaceError
from agent_harness.github_settings import TOKEN_VARIABLES, GitHubAccess, Repository
from agent_harness.publishing.github import DEADLINE_S, get_repository, maybe
from agent_harness.publishing.github_client import GitHubClient, GitHubFailed, Pause
from agent_harness.publishing.github_failures import Trouble
from agent_harness.publishing.issue_text import WRITERS, Comment, Issue

if TYPE_CHECKING:
    from github.Issue import Issue as GitHubIssue
    from github.Repository import Repository as GitHubRepository

MAX_COMMENTS = 500  # that are looked at; the newest of those who may write are kept
KEPT_COMMENTS = 50


async def check_repository(
    access: GitHubAccess, repository: Repository, *, publishes: bool, pause: Pause = anyio.sleep, deadline_s: float = DEADLINE_S
) -> str:
    """The default branch of a repository that can be worked on; found out before anything is spent.

    Args:
        access: which GitHub, and the token.
        repository: what is asked about.
        publishes: a branch and a pull request will be wanted, so it must be writable.
        pause: waits that many seconds between attempts.
        deadline_s: seconds after which this gives up.

    Raises:
        ConfigError: missing, renamed, or (when publishing) archived, or the token is wrong or may only read.
        SurfaceError: GitHub cannot be reached just now.
    """
    with _before_a_session(access, repository.full_name):
        with anyio.move_on_after(deadline_s), GitHubClient(access, pause) as client:
            repo = await client.read(lambda github: get_repository(github, repository))
            if publishes and repo.archived:
                raise GitHubFailed(Trouble("archived", "it is archived", "unarchive it first, or give --no-pr"))
            # Without permissions in the answer nothing is known; the push itself will tell. An App's token only reads until then.
            granted = maybe(repo.permissions)
            if publishes and access.app is None and granted is not None and granted.push is False:
                raise GitHubFailed(
                    Trouble(
                        "no_permission",
                        f"the token of {access.source or TOKEN_VARIABLES[0]} may only read there",
                        "give it contents: write and pull requests: write, or give --no-pr",
                    )
                )
            return repo.default_branch
        raise _too_late(deadline_s)


async def read_issue(
    access: GitHubAccess, repository: Repository, number: int, *, pause: Pause = anyio.sleep, deadline_s: float = DEADLINE_S
) -> Issue:
    """The issue that is delegated as `owner/name#N`.

    Args:
        access: which GitHub, and the token, if any.
        repository: where the issue is.
        number: its number.
        pause: waits that many seconds between attempts.
        deadline_s: seconds after which this gives up.

    Raises:
        ConfigError: there is none, it is a pull request, it was moved elsewhere, or the token may not read it.
        SurfaceError: GitHub cannot be reached just now.
    """
    with _before_a_session(access, f"{repository.full_name}#{number}"):
        with anyio.move_on_after(deadline_s), GitHubClient(access, pause) as client:
            repo = await client.read(lambda github: get_repository(github, repository))
            return await client.read(lambda _: _issue(repo, number))
        raise _too_late(deadline_s)


@contextmanager
def _before_a_session(access: GitHubAccess, what: str) -> Generator[None]:
    """Failures as errors of the configuration, or of the moment."""
    try:
        yield
    except GitHubFailed as failure:
        trouble = failure.trouble
        hint = "" if access.token is not None else f" (no token is set: {' or '.join(TOKEN_VARIABLES)})"
        kind: type[HarnessError] = SurfaceError if trouble.retryable else ConfigError
        raise kind(f"{what!r} cannot be read from GitHub: {trouble}{hint}", reason=f"github_{trouble.code}") from failure


def _too_late(deadline_s: float) -> GitHubFailed:
    said = f"no answer within {deadline_s:g} s"
    return GitHubFailed(Trouble("unreachable", said, "check the network, then try again", retryable=True))


def _issue(repo: GitHubRepository, number: int) -> Issue:
    issue = repo.get_issue(number)
    if issue.pull_request is not None:
        raise GitHubFailed(Trouble("not_an_issue", f"number {number} is a pull request", "give the number of an issue"))
    if issue.repository_url.casefold() != repo.url.casefold():
        raise GitHubFailed(Trouble("moved", f"the issue was transferred to {issue.html_url}", "use its new place"))
    author = maybe(issue.user)  # none when the account was deleted; GitHub shows it under this name
    name = "ghost" if author is None else author.login
    comments = _comments(issue) if issue.comments else ()
    return Issue(issue.title, maybe(issue.body) or "", name, issue.html_url, comments)


def _comments(issue: GitHubIssue) -> tuple[Comment, ...]:
    """What people who may write to the repository said below it, oldest first; others cannot add to the task."""
    found: list[Comment] = []
    for _, comment in zip(range(MAX_COMMENTS), issue.get_comments(), strict=False):
        role, author = maybe(comment.author_association), maybe(comment.user)
        if role in WRITERS and author is not None:
            found.append(Comment(author.login, maybe(comment.body) or ""))
    return tuple(found[-KEPT_COMMENTS:])
