"""GitHub as a forge: the pull request of a pushed branch is opened once, and found again by whoever asks a second time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import anyio

from agent_harness.errors import ConfigError, HarnessError, PublishError, SurfaceError
from agent_harness.github_settings import TOKEN_VARIABLES, GitHubAccess, Repository
from agent_harness.publishing.base import Proposal, PullRequest
from agent_harness.publishing.github_client import GitHubClient, GitHubFailed, Pause
from agent_harness.publishing.github_failures import Trouble

if TYPE_CHECKING:
    from github import Github
    from github.PullRequest import PullRequest as GitHubPullRequest
    from github.Repository import Repository as GitHubRepository

T = TypeVar("T")

DEADLINE_S = 150.0  # of everything that one call does
HEAD_WAITS_S = (1.0, 2.0, 4.0, 8.0)  # while GitHub does not see the branch that was pushed a moment ago


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue as its author wrote it; untrusted text. `url` is its web page."""

    title: str
    body: str
    author: str
    url: str


@dataclass(frozen=True, slots=True)
class _Found:
    """A pull request that is there already. `state` is `open`, `closed` or `merged`."""

    number: int
    url: str
    state: str
    base: str


class GitHubForge:
    """Opens pull requests in one repository of GitHub.

    Args:
        access: which GitHub, and a token that may write contents and pull requests.
        repository: where the branch was pushed to.
        pause: waits that many seconds between attempts.
        deadline_s: seconds after which a call gives up.
    """

    def __init__(
        self, access: GitHubAccess, repository: Repository, pause: Pause = anyio.sleep, deadline_s: float = DEADLINE_S
    ) -> None:
        self._access = access
        self._repository = repository
        self._pause = pause
        self._deadline_s = deadline_s

    async def open_pull_request(self, proposal: Proposal) -> PullRequest:
        """Open the pull request of a pushed branch, or find the open one; nothing is ever sent twice that may have been done.

        Raises:
            PublishError: refused, closed by a person before, or no clear answer; says what to do and how to open it by hand.
        """
        try:
            with anyio.move_on_after(self._deadline_s), GitHubClient(self._access, self._pause) as client:
                return await self._open(client, proposal)
        except GitHubFailed as failure:
            raise self._error(proposal, failure.trouble) from failure
        said = f"no clear answer within {self._deadline_s:g} s"
        raise self._error(
            proposal, Trouble("unreachable", said, "it may have been opened: publish again, which looks first", retryable=True)
        )

    async def _open(self, client: GitHubClient, proposal: Proposal) -> PullRequest:
        repo = await client.read(lambda github: _get(github, self._repository))
        if repo.archived:
            raise GitHubFailed(Trouble("archived", f"{repo.full_name!r} is archived", "unarchive it first"))
        there = await self._look(client, repo, proposal)
        if there is None:
            there = await self._create(client, repo, proposal)
        return PullRequest(there.url, there.number, proposal.branch, proposal.head)

    async def _look(self, client: GitHubClient, repo: GitHubRepository, proposal: Proposal) -> _Found | None:
        """The open pull request of our branch; None when there never was one."""
        found = await client.read(lambda _: _pulls(repo, proposal.branch))
        opened = [each for each in found if each.state == "open"]
        if opened:
            # A person may have chosen another base for it: it is still ours.
            return next((each for each in opened if each.base == proposal.base), opened[0])
        if found:
            last = max(found, key=lambda each: each.number)
            advice = "reopen it on GitHub, or start a new session" if last.state == "closed" else "start a new session for more"
            raise GitHubFailed(Trouble(f"pr_{last.state}", f"pull request {last.url} of this branch was {last.state}", advice))
        return None

    async def _create(self, client: GitHubClient, repo: GitHubRepository, proposal: Proposal) -> _Found:
        """Ask for it once; again only after GitHub said that it does not see the branch yet, which it does for some seconds."""
        for wait_s in (*HEAD_WAITS_S, None):
            try:
                return await client.once(lambda _: _post(repo, proposal))
            except GitHubFailed as failure:
                trouble = failure.trouble
                if trouble.unclear or trouble.code == "exists":
                    there = await self._look_again(client, repo, proposal, failure)
                    if there is not None:
                        return there
                if trouble.code != "head_invalid" or wait_s is None:
                    raise
                await self._pause(wait_s)
        raise AssertionError("the last attempt returns or raises")

    async def _look_again(
        self, client: GitHubClient, repo: GitHubRepository, proposal: Proposal, first: GitHubFailed
    ) -> _Found | None:
        """Whether it is there after an answer that was no clear yes; the first failure is told when this one says less."""
        try:
            return await self._look(client, repo, proposal)
        except GitHubFailed as second:
            raise (first if second.trouble.retryable else second) from None

    def _error(self, proposal: Proposal, trouble: Trouble) -> PublishError:
        by_hand = f"{self._access.web_url}/{self._repository.full_name}/compare/{quote(proposal.base)}...{quote(proposal.branch)}"
        return PublishError(
            f"the branch {proposal.branch!r} is pushed, but there is no pull request for it in"
            f" {self._repository.full_name!r} ({trouble.code}): {trouble}. To open it by hand: {by_hand}?expand=1",
            reason=f"github_{trouble.code}",
            retryable=trouble.retryable,
        )


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
            repo = await client.read(lambda github: _get(github, repository))
            if publishes and repo.archived:
                raise GitHubFailed(Trouble("archived", "it is archived", "unarchive it first, or give --no-pr"))
            # Without permissions in the answer nothing is known; the push itself will tell.
            granted = _maybe(repo.permissions)
            if publishes and granted is not None and granted.push is False:
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
            repo = await client.read(lambda github: _get(github, repository))
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


def _get(github: Github, wanted: Repository) -> GitHubRepository:
    """The repository, unless it answers to another name: reads follow a rename, writes do not."""
    repo = github.get_repo(wanted.full_name)
    if repo.full_name.casefold() != wanted.full_name.casefold():
        said = f"{wanted.full_name!r} was renamed or moved to {repo.full_name!r}"
        raise GitHubFailed(Trouble("moved", said, "use the new name"))
    return repo


def _pulls(repo: GitHubRepository, branch: str) -> list[_Found]:
    """Every pull request from that branch, whatever its base and state."""
    # The filter of the server does not count when it cannot read it, and then everything comes back.
    listed = repo.get_pulls(state="all", head=f"{repo.owner.login}:{branch}")
    ours = repo.full_name.casefold()
    return [_found(pull) for pull in _bounded(listed) if pull.head.ref == branch and _from(pull).casefold() in (ours, "")]


def _bounded(pulls: Iterable[GitHubPullRequest]) -> Iterator[GitHubPullRequest]:
    """The first thousand: our branch has one or two, so more means that the filter did not count."""
    for _, pull in zip(range(1000), pulls, strict=False):
        yield pull


def _from(pull: GitHubPullRequest) -> str:
    """Full name of the repository that the branch is in; empty when that was deleted."""
    source = _maybe(pull.head.repo)
    return "" if source is None else source.full_name


def _maybe(value: T) -> T | None:
    """The same value: the library's types do not say that GitHub may leave it out."""
    return value


def _found(pull: GitHubPullRequest) -> _Found:
    state = "merged" if pull.merged_at is not None else pull.state
    return _Found(pull.number, pull.html_url, state, pull.base.ref)


def _post(repo: GitHubRepository, proposal: Proposal) -> _Found:
    pull = repo.create_pull(
        base=proposal.base, head=proposal.branch, title=proposal.title, body=proposal.body, draft=proposal.draft
    )
    # The type says that it is a number; a redirected write comes back as an object without one.
    if not isinstance(pull.number, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GitHubFailed(
            Trouble(
                "moved", "GitHub sent the request elsewhere and opened nothing", "use the repository's new name", unclear=True
            )
        )
    return _found(pull)


def _issue(repo: GitHubRepository, number: int) -> Issue:
    issue = repo.get_issue(number)
    if issue.pull_request is not None:
        raise GitHubFailed(Trouble("not_an_issue", f"number {number} is a pull request", "give the number of an issue"))
    if issue.repository_url.casefold() != repo.url.casefold():
        raise GitHubFailed(Trouble("moved", f"the issue was transferred to {issue.html_url}", "use its new place"))
    author = _maybe(issue.user)  # none when the account was deleted; GitHub shows it under this name
    return Issue(issue.title, _maybe(issue.body) or "", "ghost" if author is None else author.login, issue.html_url)
