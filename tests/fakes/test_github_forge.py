"""The stand-in for GitHub refuses what GitHub refuses: raw HTTP and raw git, without any client of ours."""

from __future__ import annotations

import base64
import os
import time
from http.client import HTTPConnection, RemoteDisconnected
from typing import cast
from urllib.parse import urlsplit

import pytest

from tests.fakes.github_forge import html_bad_gateway, loses_the_answer, server_error
from tests.fakes.github_forge_rest import Json
from tests.fakes.github_forge_state import Level, Shape
from tests.fakes.github_wire import World
from tests.unit.publishing.repos import BRANCH, REF, git

SHAPES: tuple[Shape, ...] = ("installation", "installation_jwt", "fine_grained", "classic")
READER: dict[str, Level] = {"metadata": "read", "contents": "read", "pull_requests": "read", "issues": "read"}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_token_reads_pushes_and_opens(world: World, shape: Shape) -> None:
    world.token = world.forge.token(shape)
    head = world.pushed()
    reply = world.pull()
    assert (reply.status, reply.json["number"], cast("Json", reply.json["head"])["sha"]) == (201, 1, head)
    assert world.git("ls-remote", world.url, "refs/pull/1/head") == (0, f"{head}\trefs/pull/1/head\n")


def test_the_newer_installation_token_is_long_and_has_dots(world: World) -> None:
    token = world.forge.token("installation_jwt")
    assert len(token) > 400
    assert token.count(".") == 2


def test_the_repository_is_described_as_the_git_repository_is(world: World) -> None:
    found = world.ask("GET", "/repos/OCTO/demo").json
    assert (found["full_name"], found["default_branch"], found["archived"]) == ("octo/demo", "main", False)
    assert found["clone_url"] == world.url
    assert found["permissions"] == {"admin": False, "maintain": False, "push": True, "triage": True, "pull": True}
    assert cast("Json", world.ask("GET", "/repos/octo/demo/branches/main").json["commit"])["sha"] == world.origin.base
    assert world.ask("GET", "/repos/octo/demo/git/ref/heads/main").status == 200
    assert world.ask("GET", f"/repos/octo/demo/commits/{world.origin.base}").status == 200


@pytest.mark.parametrize("kind", ["unknown", "expired", "revoked"])
def test_a_wrong_token_is_refused_over_rest_and_over_git(world: World, kind: str) -> None:
    token = "ghs_" + "x" * 36
    if kind == "expired":
        token = world.forge.token(expires_at=time.time() - 1)
    if kind == "revoked":
        token = world.forge.token()
        world.forge.revoke(token)
    reply = world.ask("GET", "/repos/octo/demo", token=token)
    assert (reply.status, reply.message) == (401, "Bad credentials")
    code, said = world.git("ls-remote", world.url, token=token)
    assert code != 0
    assert "Authentication failed" in said or "could not read Username" in said


def test_a_private_repository_is_missing_for_nobody_and_for_a_token_of_another(world: World) -> None:
    other = world.forge.token(repositories=frozenset({1}))
    for reply in (world.ask("GET", "/repos/octo/demo", anonymous=True), world.ask("GET", "/repos/octo/demo", token=other)):
        assert (reply.status, reply.message) == (404, "Not Found")
    assert world.git("ls-remote", world.url, token=other)[1].startswith("remote: Repository not found.")
    assert "could not read Username" in world.git("ls-remote", world.url, token="")[1]


def test_a_public_repository_is_read_by_anybody_and_written_by_nobody(world: World) -> None:
    world.repo.private = False
    assert world.ask("GET", "/repos/octo/demo", anonymous=True).status == 200
    assert world.git("ls-remote", world.url, token="")[0] == 0
    assert world.ask("POST", "/repos/octo/demo/pulls", {}, anonymous=True).status == 401
    world.origin.commit({"a.py": "two\n"})
    assert world.git("push", world.url, f"HEAD:{REF}", token="")[0] != 0


@pytest.mark.parametrize(("shape", "who"), [("installation", "integration"), ("fine_grained", "personal access token")])
def test_a_token_that_may_only_read_is_told_what_it_lacks(world: World, shape: Shape, who: str) -> None:
    world.pushed()
    world.token = world.forge.token(shape, READER)
    reply = world.pull()
    assert (reply.status, reply.message) == (403, f"Resource not accessible by {who}")
    assert reply.headers["x-accepted-github-permissions"] == "pull_requests=write"
    code, said = world.git("push", world.url, "HEAD:refs/heads/agent/other")
    assert code != 0
    assert "remote: Permission to octo/demo.git denied to agent[bot]." in said
    assert "403" in said


def test_an_installation_token_is_no_user(world: World) -> None:
    assert world.ask("GET", "/user").status == 403
    assert world.ask("GET", "/user", token=world.forge.token("classic", login="ann")).json["login"] == "ann"


def test_a_request_without_a_user_agent_is_refused(world: World) -> None:
    connection = HTTPConnection("127.0.0.1", world.forge.port, timeout=20)
    connection.request("GET", "/api/v3/repos/octo/demo")
    assert connection.getresponse().status == 403
    connection.close()


def test_a_protected_branch_takes_no_push_and_an_unprotected_one_does(world: World) -> None:
    world.repo.protected = ("main", "release/*")
    head = world.origin.commit({"a.py": "two\n"})
    code, said = world.git("push", world.url, "HEAD:refs/heads/main")
    assert code != 0
    assert "remote: error: GH006: Protected branch update failed for refs/heads/main." in said
    assert "[remote rejected] HEAD -> main (protected branch hook declined)" in said
    assert world.repo.sha("main") == world.origin.base
    assert world.git("push", world.url, f"HEAD:{REF}")[0] == 0
    assert world.repo.sha(BRANCH) == head


def test_a_push_to_a_pull_request_s_own_ref_is_refused(world: World) -> None:
    world.origin.commit({"a.py": "two\n"})
    code, said = world.git("push", world.url, "HEAD:refs/pull/7/head")
    assert code != 0
    assert "deny updating a hidden ref" in said


def test_a_large_push_in_chunks_arrives(world: World) -> None:
    world.origin.commit({"big.txt": os.urandom(1_500_000).hex()})
    assert world.git("push", world.url, f"HEAD:{REF}")[0] == 0


def test_a_second_open_pull_request_for_the_same_head_and_base_is_refused(world: World) -> None:
    world.pushed()
    assert world.pull().status == 201
    reply = world.pull()
    assert (reply.status, reply.message) == (422, "Validation Failed")
    assert reply.error == {
        "resource": "PullRequest",
        "code": "custom",
        "message": f"A pull request already exists for octo:{BRANCH}.",
    }
    assert world.ask("PATCH", "/repos/octo/demo/pulls/1", {"state": "closed"}).json["state"] == "closed"
    assert world.pull().json["number"] == 2


@pytest.mark.parametrize(
    ("change", "field"), [({"head": "nowhere"}, "head"), ({"base": "nowhere"}, "base"), ({"head": "b:x"}, "head")]
)
def test_a_branch_that_is_not_there_is_invalid(world: World, change: dict[str, str], field: str) -> None:
    world.pushed()
    reply = world.pull(**change)
    assert (reply.status, reply.error) == (422, {"resource": "PullRequest", "field": field, "code": "invalid"})


def test_a_branch_may_be_seen_late(world: World) -> None:
    world.pushed()
    world.repo.head_lag = 1
    assert world.pull().error["field"] == "head"
    assert world.pull().status == 201


def test_nothing_to_merge_and_a_strange_history_are_refused(world: World) -> None:
    assert world.git("push", world.url, f"{world.origin.base}:{REF}")[0] == 0
    assert world.pull().error["message"] == f"No commits between main and {BRANCH}"
    git("checkout", "-q", "--orphan", "alone", cwd=world.origin.clone)
    world.origin.commit({"a.py": "three\n"})
    assert world.git("push", world.url, "HEAD:refs/heads/alone")[0] == 0
    assert world.pull(head="alone").error["message"] == "The alone branch has no history in common with main"


def test_texts_are_taken_up_to_their_limits_in_characters(world: World) -> None:
    world.pushed()
    body = world.pull(body="x" * 65_537)
    assert (body.error["field"], body.error["message"]) == ("body", "body is too long (maximum is 65536 characters)")
    title = world.pull(title="x" * 257)
    assert (title.error["field"], title.error["code"]) == ("title", "custom")
    assert world.pull(title=" ").error["code"] == "missing_field"
    assert world.pull(body="ü" * 65_536, title="ü" * 256).status == 201


def test_a_request_without_its_parameters_is_refused(world: World) -> None:
    reply = world.ask("POST", "/repos/octo/demo/pulls", {"title": "x"})
    assert (reply.status, reply.message) == (422, 'Invalid request.\n\n"head", "base" weren\'t supplied.')
    assert "errors" not in reply.json


def test_drafts_are_refused_where_there_are_none(world: World) -> None:
    world.pushed()
    world.repo.drafts = False
    reply = world.pull(draft=True)
    assert (reply.status, reply.message) == (422, "Draft pull requests are not supported in this repository.")
    assert "errors" not in reply.json
    world.repo.drafts = True
    assert world.pull(draft=True).json["draft"] is True


def test_an_archived_repository_is_read_only(world: World) -> None:
    world.pushed()
    world.repo.archived = True
    assert world.ask("GET", "/repos/octo/demo").json["archived"] is True
    reply = world.pull()
    assert (reply.status, reply.message) == (403, "Repository was archived so is read-only.")
    assert world.git("ls-remote", world.url)[0] == 0
    code, said = world.git("push", world.url, "HEAD:refs/heads/agent/other")
    assert code != 0
    assert "remote: This repository was archived so it is read-only." in said


def test_an_empty_repository_has_no_refs_and_takes_no_pull_request(world: World) -> None:
    world.forge.add_repository("octo/empty")
    body = {"title": "x", "head": "a", "base": "main"}
    for reply in (
        world.ask("GET", "/repos/octo/empty/git/ref/heads/main"),
        world.ask("GET", "/repos/octo/empty/commits/main"),
        world.ask("POST", "/repos/octo/empty/pulls", body),
    ):
        assert (reply.status, reply.message) == (409, "Git Repository is empty.")
    assert world.git("ls-remote", f"{world.forge.url}/octo/empty.git") == (0, "")


def test_a_renamed_repository_redirects_reads_and_writes_differently(world: World) -> None:
    world.pushed()
    world.forge.rename(world.repo, "octo/renamed")
    read, write = world.ask("GET", "/repos/octo/demo/pulls?state=all"), world.pull()
    place = f"{world.forge.api_url}/repositories/{world.repo.id}/pulls"
    assert (read.status, read.headers["location"]) == (301, f"{place}?state=all")
    assert (write.status, write.headers["location"]) == (307, place)
    assert world.repo.pulls == {}
    followed = world.ask("GET", urlsplit(f"{world.forge.api_url}/repositories/{world.repo.id}").path.removeprefix("/api/v3"))
    assert followed.json["full_name"] == "octo/renamed"
    assert world.git("ls-remote", world.url)[0] == 0
    code, said = world.git("ls-remote", world.url, follow=False)
    assert code != 0
    assert "301" in said


def test_pull_requests_are_listed_by_state_head_and_base_in_pages(world: World) -> None:
    world.pushed()
    world.git("push", world.url, "HEAD:refs/heads/agent/other", f"{world.origin.base}:refs/heads/old")
    assert [world.pull(**each).status for each in ({}, {"base": "old"}, {"head": "agent/other"})] == [201] * 3
    world.ask("PATCH", "/repos/octo/demo/pulls/1", {"state": "closed"})

    def numbers(query: str) -> list[object]:
        found = world.ask("GET", f"/repos/octo/demo/pulls?{query}")
        return [each["number"] for each in cast("list[Json]", found.json["list"])]

    assert numbers("") == [3, 2]
    assert numbers(f"state=all&head=octo:{BRANCH}") == [2, 1]
    assert numbers(f"state=all&head=octo:{BRANCH}&base=main") == [1]
    assert numbers("state=all&head=nobody:x") == []
    assert numbers(f"state=all&head={BRANCH}") == [3, 2, 1]  # a filter without an owner does not count
    first = world.ask("GET", "/repos/octo/demo/pulls?state=all&per_page=2")
    following = first.headers["link"].partition(">")[0].removeprefix("<")
    assert world.forge.api_url in following
    assert numbers(urlsplit(following).query) == [1]


def test_an_open_pull_request_follows_its_branch(world: World) -> None:
    world.pushed()
    world.pull()
    head = world.origin.commit({"a.py": "three\n"})
    world.git("push", world.url, f"HEAD:{REF}")
    assert cast("Json", world.ask("GET", "/repos/octo/demo/pulls/1").json["head"])["sha"] == head
    world.git("push", world.url, "HEAD:refs/heads/main")
    merged = world.ask("GET", "/repos/octo/demo/pulls/1").json
    assert merged["state"] == "closed"
    assert merged["merged_at"] is not None
    world.origin.commit({"a.py": "four\n"})
    world.git("push", world.url, "HEAD:refs/heads/agent/gone")
    world.pull(head="agent/gone")
    world.git("push", world.url, ":refs/heads/agent/gone")
    assert world.ask("GET", "/repos/octo/demo/pulls/2").json["state"] == "closed"
    assert world.ask("PATCH", "/repos/octo/demo/pulls/2", {"state": "open"}).status == 422


def test_issues_are_read_and_share_their_numbers_with_pull_requests(world: World) -> None:
    issue = world.forge.add_issue(world.repo, "It is slow", None)
    found = world.ask("GET", f"/repos/octo/demo/issues/{issue.number}").json
    assert (found["title"], found["body"], cast("Json", found["user"])["login"]) == ("It is slow", None, "reporter")
    world.pushed()
    assert world.pull().json["number"] == 2
    assert "pull_request" in world.ask("GET", "/repos/octo/demo/issues/2").json
    assert world.ask("GET", "/repos/octo/demo/issues/9").status == 404
    issue.transferred_to = "octo/other/issues/4"
    moved = world.ask("GET", "/repos/octo/demo/issues/1")
    assert (moved.status, moved.headers["location"]) == (301, f"{world.forge.api_url}/repos/octo/other/issues/4")
    assert world.ask("GET", "/repos/octo/demo/issues/1", token=world.forge.token(permissions={"metadata": "read"})).status == 403


def test_planned_faults_come_as_often_as_planned_and_work_may_be_done_before_its_answer_is_lost(world: World) -> None:
    world.pushed()
    world.forge.plan("GET", "/repos/octo/demo$", server_error())
    world.forge.plan("GET", "/repos/octo/demo$", html_bad_gateway())
    assert [world.ask("GET", "/repos/octo/demo").status for _ in range(3)] == [500, 502, 200]
    world.forge.plan("POST", "/pulls", loses_the_answer)
    with pytest.raises(RemoteDisconnected):
        world.pull()
    assert list(world.repo.pulls) == [1]


def test_the_log_has_every_request_and_no_token(world: World) -> None:
    world.pushed()
    world.ask("GET", "/repos/octo/demo")
    assert [(each.path, each.status) for each in world.forge.asked("GET", "/api/")] == [("/api/v3/repos/octo/demo", 200)]
    assert [each.status for each in world.forge.asked("POST", "git-receive-pack")] == [200]
    log = repr(world.forge.seen)
    pair = base64.b64encode(f"x-access-token:{world.token}".encode()).decode()
    assert world.token not in log
    assert pair not in log
