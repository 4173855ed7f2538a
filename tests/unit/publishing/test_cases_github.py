"""The handed cases `tests/cases/github/cases.md`, and each refusal of a push: with the real publisher and real git."""

from __future__ import annotations

import base64
import time

import pytest

from agent_harness.publishing.base import ChangedFile, Report
from tests.fakes.github_forge import loses_the_answer
from tests.fakes.github_forge_state import Ruleset
from tests.unit.publishing.github_desk import Desk
from tests.unit.publishing.reports import report
from tests.unit.publishing.repos import BRANCH, git

pytestmark = pytest.mark.anyio


def one_pull(desk: Desk) -> None:
    (pull,) = desk.repo.pulls.values()
    assert desk.repo.sha(BRANCH) == pull.sha


async def test_d1_a_lost_answer_is_one_post_and_one_pull_request(github: Desk) -> None:
    github.repo.protected = ("main",)
    github.forge.plan("POST", "/pulls$", loses_the_answer)
    assert (await github.publish()).number == 1
    one_pull(github)
    assert github.posts("/pulls$") == 1


async def test_d2_the_base_is_the_repositorys_own_default_branch(github: Desk) -> None:
    git("branch", "-m", "main", "trunk", cwd=github.repo.bare)
    git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=github.repo.bare)
    await github.publish(base=github.repo.default_branch)
    assert github.repo.pulls[1].base == "trunk"


@pytest.mark.parametrize("letters", ["x", "\U0001f600"])
async def test_d4_long_texts_are_shortened_as_github_counts_and_keep_the_session(github: Desk, letters: str) -> None:
    def long(changes: tuple[ChangedFile, ...]) -> Report:
        return report("T" * 900, summary=letters * 200_000, changes=changes)

    await github.publish(long)
    pull = github.repo.pulls[1]
    assert len(pull.title) <= 256
    assert "\n" not in pull.title
    body = str(pull.body)
    assert len(body.encode("utf-16-le")) // 2 <= 65_536
    assert "session `s1`" in body


async def test_d5_a_dead_token_fails_at_once_and_is_seen_nowhere(github: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    token = str(github.token)
    github.forge.revoke(token)
    begun = time.monotonic()
    error = await github.refused()
    assert time.monotonic() - begun < 20
    assert "token is wrong, expired or revoked" in str(error)
    assert "credentials" in str(error).lower()
    assert github.posts("git-receive-pack") == 0
    said = "".join(capfd.readouterr()) + str(error) + repr(github.events)
    for secret in (token, base64.b64encode(f"x-access-token:{token}".encode()).decode().rstrip("=")):
        assert secret not in said


async def test_each_refusal_of_a_push_says_what_to_do_and_where_the_work_lies(github: Desk) -> None:
    async def reason(advice: str) -> str:
        error = await github.refused()
        assert advice in str(error)
        assert github.repo.pulls == {}
        assert github.repo.sha(BRANCH) is None
        assert not error.retryable
        return error.reason

    github.repo.protected = ("agent/*",)
    assert await reason("leave agent/* unprotected") == "push_protected_branch"
    github.repo.protected, github.repo.rulesets = (), (Ruleset("agent/*"),)
    assert await reason("Commits must have verified signatures") == "push_ruleset"
    github.repo.rulesets, github.repo.push_protection = (), ("return a + b",)
    assert await reason("do not use its unblock link") == "push_secret"
    github.repo.push_protection, github.repo.max_blob_bytes = (), 16
    assert await reason("leave it out of every commit") == "push_blob_too_big"
    github.repo.max_blob_bytes = 100 << 20
    github.repo.archived = True
    assert await reason("unarchive it first") == "github_archived"
    github.repo.archived = False
    token, github.token = github.token, github.forge.token(permissions={"metadata": "read", "contents": "read"})
    assert await reason("give it") == "github_no_permission"
    github.token = github.forge.token(repositories=frozenset({1}))
    assert await reason("may not see it") == "github_not_found"
    github.token = token
    git("branch", "agent", "main", cwd=github.repo.bare)
    assert await reason("stands in the way") == "push_branch_blocked"
    git("branch", "-D", "agent", cwd=github.repo.bare)
    github.forge.rename(github.repo, "octo/renamed")
    assert await reason("'octo/renamed'") == "github_moved"
    github.forge.rename(github.repo, "octo/demo")
    await github.publish()
    one_pull(github)


async def test_a_pull_request_that_a_person_closed_gets_no_new_branch(github: Desk) -> None:
    await github.publish()
    github.repo.pulls[1].state = "closed"
    git("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=github.repo.bare)
    assert (await github.refused()).reason == "github_pr_closed"
    assert github.repo.sha(BRANCH) is None
    assert github.posts("git-receive-pack") == 1
