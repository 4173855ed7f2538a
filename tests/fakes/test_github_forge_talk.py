"""Labels, reviewers, comments and planned faults of the stand-in for GitHub; raw HTTP, without any client of ours."""

from __future__ import annotations

from http.client import IncompleteRead, RemoteDisconnected
from threading import Event, Thread
from typing import cast

import pytest

from tests.fakes import github_forge as forge
from tests.fakes.github_forge_rest import Json
from tests.fakes.github_wire import World

HERE = "/repos/octo/demo"


def opened(world: World) -> None:
    world.pushed()
    assert world.pull().status == 201


def names(found: object) -> list[object]:
    return [each["name"] for each in cast("list[Json]", found)]


def test_labels_are_added_made_when_missing_and_never_doubled(world: World) -> None:
    opened(world)
    assert names(world.ask("POST", f"{HERE}/issues/1/labels", {"labels": ["agent", "bug"]}).json["list"]) == ["agent", "bug"]
    assert names(world.ask("POST", f"{HERE}/issues/1/labels", {"labels": ["bug"]}).json["list"]) == ["agent", "bug"]
    assert names(world.ask("GET", f"{HERE}/pulls/1").json["labels"]) == ["agent", "bug"]
    assert world.ask("POST", f"{HERE}/labels", {"name": "bug"}).error["code"] == "already_exists"
    assert world.ask("POST", f"{HERE}/labels", {"name": "new", "color": "ff0000"}).json["color"] == "ff0000"
    assert world.ask("POST", f"{HERE}/issues/1/labels", {"labels": ["x" * 51]}).status == 422
    assert world.ask("POST", f"{HERE}/issues/1/labels", {"labels": "x"}).status == 422
    assert names(world.ask("DELETE", f"{HERE}/issues/1/labels/bug").json["list"]) == ["agent"]
    reader = world.forge.token(permissions={"metadata": "read", "pull_requests": "read", "issues": "read"})
    assert world.ask("POST", f"{HERE}/issues/1/labels", {"labels": ["x"]}, token=reader).status == 403


def test_reviewers_are_asked_all_or_none(world: World) -> None:
    opened(world)
    world.repo.collaborators, world.repo.teams = frozenset({"ann", "agent[bot]"}), frozenset({"core"})
    place = f"{HERE}/pulls/1/requested_reviewers"
    author = world.ask("POST", place, {"reviewers": ["ann", "agent[bot]"]})
    assert (author.status, author.message) == (422, "Review cannot be requested from pull request author.")
    assert "not a collaborator" in world.ask("POST", place, {"reviewers": ["ann", "bob"]}).message
    assert "the teams" in world.ask("POST", place, {"reviewers": ["ann"], "team_reviewers": ["none"]}).message
    assert world.repo.pulls[1].reviewers == []
    assert world.ask("POST", place, {"reviewers": ["ann"], "team_reviewers": ["core"]}).status == 201
    found = world.ask("GET", f"{HERE}/pulls/1").json
    assert [each["login"] for each in cast("list[Json]", found["requested_reviewers"])] == ["ann"]
    assert [each["slug"] for each in cast("list[Json]", found["requested_teams"])] == ["core"]
    world.repo.pulls[1].reviews.append(("ann", "APPROVED"))
    assert cast("list[Json]", world.ask("GET", f"{HERE}/pulls/1/reviews").json["list"])[0]["state"] == "APPROVED"


def test_comments_come_oldest_first_in_pages_with_what_their_authors_are(world: World) -> None:
    issue = world.forge.add_issue(world.repo, "Slow", "It is.", "ann")
    for number in range(5):
        world.forge.comment(issue, f"comment {number}", "bob", "MEMBER" if number else "NONE")
    found = world.ask("GET", f"{HERE}/issues/1/comments?per_page=2")
    assert [each["body"] for each in cast("list[Json]", found.json["list"])] == ["comment 0", "comment 1"]
    assert 'rel="next"' in found.headers["link"]
    assert 'page=3>; rel="last"' in found.headers["link"]
    last = world.ask("GET", f"{HERE}/issues/1/comments?per_page=2&page=3")
    assert [each["author_association"] for each in cast("list[Json]", last.json["list"])] == ["MEMBER"]
    assert world.ask("GET", f"{HERE}/issues/1").json["comments"] == 5
    assert world.ask("POST", f"{HERE}/issues/1/comments", {"body": " "}).status == 422
    assert world.ask("POST", f"{HERE}/issues/1/comments", {"body": "x" * 65_537}).status == 422
    assert world.ask("POST", f"{HERE}/issues/1/comments", {"body": "Done"}).status == 201
    assert issue.comments[-1].author == "agent[bot]"


@pytest.mark.parametrize("status", [403, 429])
def test_limits_come_with_and_without_a_figure(world: World, status: int) -> None:
    world.forge.plan("GET", "/demo$", forge.secondary_limit(status))
    world.forge.plan("GET", "/demo$", forge.secondary_limit(status, 7))
    world.forge.plan("GET", "/demo$", forge.primary_limit(status, 60))
    plain, told, spent = (world.ask("GET", HERE) for _ in range(3))
    assert (plain.status, "retry-after" in plain.headers) == (status, False)
    assert "secondary rate limit" in plain.message
    assert told.headers["retry-after"] == "7"
    assert spent.headers["x-ratelimit-remaining"] == "0"
    assert "API rate limit exceeded" in spent.message


def test_refusals_can_be_planned_for_any_request(world: World) -> None:
    faults = (
        forge.expired(),
        forge.forbidden(),
        forge.not_found(),
        forge.invalid("odd"),
        forge.answers(200, "no json", "text/x"),
    )
    for fault in faults:
        world.forge.plan("GET", "/demo$", fault)
    replies = [world.ask("GET", HERE) for _ in faults]
    assert [each.status for each in replies] == [401, 403, 404, 422, 200]
    assert replies[1].headers["x-accepted-github-permissions"] == "pull_requests=write"
    assert replies[3].json["errors"] == ["odd"]


def test_connections_end_before_the_work_after_it_and_in_the_middle_of_the_answer(world: World) -> None:
    world.pushed()
    world.forge.plan("POST", "/pulls$", forge.drops_the_request)
    with pytest.raises(RemoteDisconnected):
        world.pull()
    assert world.repo.pulls == {}
    world.forge.plan("POST", "/pulls$", forge.cuts_the_answer)
    with pytest.raises(IncompleteRead):
        world.pull()
    assert list(world.repo.pulls) == [1]
    world.repo.pulls[1].state = "closed"
    world.forge.plan("POST", "/pulls$", forge.fails_after_the_work)
    assert world.pull().status == 502
    assert list(world.repo.pulls) == [1, 2]


def test_an_answer_is_as_slow_as_the_test_wants(world: World) -> None:
    free = Event()
    world.forge.plan("GET", "/branches/main$", forge.waits_for(free))
    found: list[int] = []
    asking = Thread(target=lambda: found.append(world.ask("GET", f"{HERE}/branches/main").status))
    asking.start()
    assert world.ask("GET", HERE).status == 200
    assert found == []
    free.set()
    asking.join(10)
    assert found == [200]
