"""Labels and reviewers of an open pull request: wanted, never needed. What cannot be had becomes a sentence, not a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_harness.publishing.github_client import GitHubClient, GitHubFailed
from agent_harness.task import Wishes

if TYPE_CHECKING:
    from github import Github
    from github.PullRequest import PullRequest


async def adorn(client: GitHubClient, full_name: str, number: int, wishes: Wishes) -> tuple[str, ...]:
    """Add what is missing of the wishes; returns what could not be added, a sentence each.

    Asked again it adds nothing twice: who was asked already, or has reviewed, is not asked once more.
    """
    try:
        pull = await client.read(lambda github: _get(github, full_name, number))
        return (*await _label(client, pull, wishes.labels), *await _ask(client, pull, wishes.reviewers))
    except GitHubFailed as failure:
        return (f"labels and reviewers were not set: {failure.trouble}",)


def _get(github: Github, full_name: str, number: int) -> PullRequest:
    return github.get_repo(full_name).get_pull(number)


async def _label(client: GitHubClient, pull: PullRequest, wanted: Sequence[str]) -> list[str]:
    there = {label.name.casefold() for label in pull.labels}
    missing = [name for name in wanted if name.casefold() not in there]
    if not missing:
        return []
    try:
        await client.once(lambda _: pull.add_to_labels(*missing))
    except GitHubFailed as failure:
        return [f"the labels {', '.join(map(repr, missing))} were not added: {failure.trouble}"]
    return []


async def _ask(client: GitHubClient, pull: PullRequest, wanted: Sequence[str]) -> list[str]:
    """One refused name refuses a whole request, so after a refusal each is asked for alone."""
    if not wanted:
        return []
    seen = await client.read(lambda _: _seen(pull))
    author = pull.user.login.casefold()
    notes = [f"{name!r} is the author of the pull request and cannot review it" for name in wanted if name.casefold() == author]
    missing = [name for name in wanted if name.casefold() != author and _key(name) not in seen]
    if not missing:
        return notes
    try:
        await client.once(lambda _: _request(pull, missing))
    except GitHubFailed as failure:
        if failure.trouble.retryable or len(missing) == 1:
            return [*notes, f"{', '.join(map(repr, missing))} could not be asked for a review: {failure.trouble}"]
        for name in missing:
            try:
                await client.once(lambda _, name=name: _request(pull, [name]))
            except GitHubFailed as alone:
                notes.append(f"{name!r} could not be asked for a review: {alone.trouble}")
    return notes


def _seen(pull: PullRequest) -> frozenset[str]:
    """Who was asked or has answered; teams by the last part of their name."""
    people, teams = pull.get_review_requests()
    reviewed = [review.user.login for review in pull.get_reviews() if review.user is not None]  # pyright: ignore[reportUnnecessaryComparison] - the account may be gone
    return frozenset(
        name.casefold() for name in (*(each.login for each in people), *(f"/{each.slug}" for each in teams), *reviewed)
    )


def _key(name: str) -> str:
    owner, slash, team = name.casefold().partition("/")
    return f"/{team}" if slash else owner


def _request(pull: PullRequest, names: Sequence[str]) -> None:
    people = [name for name in names if "/" not in name]
    teams = [name.partition("/")[2] for name in names if "/" in name]
    pull.create_review_request(reviewers=people, team_reviewers=teams)
