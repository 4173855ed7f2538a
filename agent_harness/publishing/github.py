"""GitHub as a forge: the pull request of a pushed branch is opened once, and found again by whoever asks a second time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import anyio

from agent_harness.errors import PublishError
from agent_harness.github_settings import GitHubAccess, Repository
from agent_harness.publishing.base import Proposal, PullRequest
from agent_harness.publishing.github_adorn import adorn
from agent_harness.publishing.github_client import MAX_WAIT_S, GitHubClient, GitHubFailed, Pause
from agent_harness.publishing.github_failures import Trouble
from agent_harness.task import Wishes

if TYPE_CHECKING:
    from github import Github
    from github.PullRequest import PullRequest as GitHubPullRequest
    from github.Repository import Repository as GitHubRepository

T = TypeVar("T")

DEADLINE_S = 150.0  # of everything that one call does
ADORN_S = 60.0  # labels and reviewers are not worth more
LATE_S = 2.0  # after an answer that was no clear yes, what was asked for may still appear
LIMITED_TIMES = 2  # that a rate limit is waited for
HEAD_WAITS_S = (1.0, 2.0, 4.0, 8.0)  # while GitHub does not see the branch that was pushed a moment ago


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

    async def look(self, branch: str) -> str:
        """Look whether the repository can be published to, and for a pull request of that branch, before anything is pushed.

        Raises:
            PublishError: renamed, archived, not writable, not reachable, or a person closed the pull request.
        """
        try:
            with anyio.move_on_after(self._deadline_s), GitHubClient(self._access, self._pause) as client:
                repo = await self._repository_of(client)
                there = await self._look(client, repo, branch)
                return f"{repo.full_name} can be written" + (f", {there.url} is open" if there else ", no pull request yet")
        except GitHubFailed as failure:
            raise self._not_yet(failure.trouble) from failure
        said = f"no answer within {self._deadline_s:g} s"
        raise self._not_yet(Trouble("unreachable", said, "check the network, then publish again", retryable=True))

    async def adorn(self, opened: PullRequest, wishes: Wishes) -> tuple[str, ...]:
        """Labels and reviewers that are not there yet, as far as they can be had; returns what could not, a sentence each."""
        if opened.number is None or not (wishes.labels or wishes.reviewers):
            return ()
        with anyio.move_on_after(ADORN_S), GitHubClient(self._access, self._pause) as client:
            return await adorn(client, self._repository.full_name, opened.number, wishes)
        return ("labels and reviewers: GitHub did not answer in time; set them by hand",)

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
        repo = await self._repository_of(client)
        there = await self._look(client, repo, proposal.branch, proposal.base)
        if there is None:
            there = await self._create(client, repo, proposal)
        return PullRequest(there.url, there.number, proposal.branch, proposal.head)

    async def _repository_of(self, client: GitHubClient) -> GitHubRepository:
        repo = await client.read(lambda github: get_repository(github, self._repository))
        if repo.archived:
            raise GitHubFailed(Trouble("archived", f"{repo.full_name!r} is archived", "unarchive it first"))
        # Without permissions in the answer nothing is known; and what an App's token may do, its installation said.
        granted = maybe(repo.permissions)
        if self._access.app is None and granted is not None and granted.push is False:
            said = f"the token of {self._access.source or 'GitHub'} may only read {repo.full_name!r}"
            raise GitHubFailed(Trouble("no_permission", said, "give it contents: write and pull requests: write"))
        return repo

    async def _look(self, client: GitHubClient, repo: GitHubRepository, branch: str, base: str | None = None) -> _Found | None:
        """The open pull request of our branch; None when there never was one."""
        found = await client.read(lambda _: _pulls(repo, branch))
        opened = [each for each in found if each.state == "open"]
        if opened:
            # A person may have chosen another base for it: it is still ours.
            return next((each for each in opened if each.base == base), opened[0])
        if found:
            last = max(found, key=lambda each: each.number)
            advice = "reopen it on GitHub, or start a new session" if last.state == "closed" else "start a new session for more"
            raise GitHubFailed(Trouble(f"pr_{last.state}", f"pull request {last.url} of this branch was {last.state}", advice))
        return None

    async def _create(self, client: GitHubClient, repo: GitHubRepository, proposal: Proposal) -> _Found:
        """Ask for it once; again only after GitHub said that it did nothing: it does not see the branch yet, or not so fast."""
        lags, limits = iter(HEAD_WAITS_S), LIMITED_TIMES
        while True:
            try:
                return await client.once(lambda _: _post(repo, proposal))
            except GitHubFailed as failure:
                trouble = failure.trouble
                if trouble.unclear or trouble.code == "exists":
                    there = await self._look_again(client, repo, proposal, failure)
                    if there is not None:
                        return there
                wait_s = None
                if trouble.code == "head_invalid":
                    wait_s = next(lags, None)
                elif trouble.code == "rate_limit" and limits and (trouble.wait_s or 0) <= MAX_WAIT_S:
                    limits -= 1
                    wait_s = trouble.wait_s
                if wait_s is None:
                    raise
                await self._pause(wait_s)

    async def _look_again(
        self, client: GitHubClient, repo: GitHubRepository, proposal: Proposal, first: GitHubFailed
    ) -> _Found | None:
        """Whether it is there after an answer that was no clear yes; the first failure is told when this one says less."""
        try:
            there = await self._look(client, repo, proposal.branch, proposal.base)
            if there is None and first.trouble.unclear:
                await self._pause(LATE_S)
                there = await self._look(client, repo, proposal.branch, proposal.base)
        except GitHubFailed as second:
            raise (first if second.trouble.retryable else second) from None
        return there

    def _not_yet(self, trouble: Trouble) -> PublishError:
        return PublishError(
            f"nothing can be published to {self._repository.full_name!r} on GitHub now ({trouble.code}): {trouble}",
            reason=f"github_{trouble.code}",
            retryable=trouble.retryable,
        )

    def _error(self, proposal: Proposal, trouble: Trouble) -> PublishError:
        by_hand = f"{self._access.web_url}/{self._repository.full_name}/compare/{quote(proposal.base)}...{quote(proposal.branch)}"
        return PublishError(
            f"the branch {proposal.branch!r} is pushed, but there is no pull request for it in"
            f" {self._repository.full_name!r} ({trouble.code}): {trouble}. To open it by hand: {by_hand}?expand=1",
            reason=f"github_{trouble.code}",
            retryable=trouble.retryable,
        )


def get_repository(github: Github, wanted: Repository) -> GitHubRepository:
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
    source = maybe(pull.head.repo)
    return "" if source is None else source.full_name


def maybe(value: T) -> T | None:
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
