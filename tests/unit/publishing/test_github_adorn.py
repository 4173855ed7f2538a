"""Labels, reviewers and limits: what is wanted beside the pull request never fails it, and no limit is pushed against."""

from __future__ import annotations

import pytest

from agent_harness.task import Wishes
from tests.fakes.github_forge import drops_the_request, forbidden, primary_limit, secondary_limit
from tests.unit.publishing.github_desk import Desk

pytestmark = pytest.mark.anyio
WISHES = Wishes(draft=True, labels=("agent", "bug"), reviewers=("ann", "octo/core"))


async def test_labels_and_reviewers_are_set_once_however_often_it_is_published(github: Desk) -> None:
    github.repo.collaborators, github.repo.teams = frozenset({"ann"}), frozenset({"core"})
    for _ in range(2):
        await github.publish(wishes=WISHES)
    pull = github.repo.pulls[1]
    assert (pull.draft, pull.labels, pull.reviewers, pull.team_reviewers) == (True, ["agent", "bug"], ["ann"], ["core"])
    assert github.posts("/labels$") == github.posts("/requested_reviewers$") == 1
    pull.reviewers, pull.reviews = [], [("ann", "APPROVED")]
    await github.publish(wishes=WISHES)
    assert pull.reviewers == [], "who has reviewed is not asked again"
    assert github.notes == []


async def test_who_cannot_review_is_noted_and_the_others_are_asked(github: Desk) -> None:
    github.repo.collaborators = frozenset({"ann"})
    await github.publish(wishes=Wishes(reviewers=("agent[bot]", "stranger", "ann")))
    assert github.repo.pulls[1].reviewers == ["ann"]
    assert [note.split(" ")[0] for note in github.notes] == ["'agent[bot]'", "'stranger'"]


async def test_a_refused_label_fails_nothing(github: Desk) -> None:
    github.forge.plan("POST", "/labels$", forbidden("issues=write"))
    assert (await github.publish(wishes=Wishes(labels=("x",)))).number == 1
    assert "it needs issues=write" in github.notes[0]
    github.forge.plan("GET", "/pulls/1$", drops_the_request, 9)
    assert (await github.publish(wishes=Wishes(labels=("x",)))).number == 1


@pytest.mark.parametrize("status", [403, 429])
async def test_a_limit_on_opening_is_waited_for_as_told_and_asked_again(github: Desk, status: int) -> None:
    github.forge.plan("POST", "/pulls$", secondary_limit(status, 7))
    github.forge.plan("POST", "/pulls$", secondary_limit(status))
    assert (await github.publish()).number == 1
    assert github.waits == [7.0, 60.0]
    assert github.posts("/pulls$") == 3


@pytest.mark.parametrize("status", [403, 429])
async def test_a_limit_that_lasts_ends_with_the_time_and_one_request(github: Desk, status: int) -> None:
    github.forge.plan("POST", "/pulls$", primary_limit(status, 3000))
    error = await github.refused()
    assert (error.reason, error.retryable) == ("github_rate_limit", True)
    assert "s at the earliest" in str(error)
    assert (github.waits, github.posts("/pulls$")) == ([], 1)
    assert (await github.publish()).number == 1, "the branch waits there for the next publish"
    assert github.posts("git-receive-pack") == 1
