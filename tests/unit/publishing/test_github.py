"""Pull requests on GitHub, over the wire, against the stand-in."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from agent_harness.errors import ConfigError, HarnessError, PublishError, SurfaceError
from agent_harness.github_settings import GitHubAccess, Repository
from agent_harness.inert_git import Git
from agent_harness.publishing.base import Proposal, PullRequest
from agent_harness.publishing.github import GitHubForge
from agent_harness.publishing.github_before import check_repository, read_issue
from agent_harness.publishing.issue_text import Issue
from agent_harness.publishing.publisher import Publisher
from agent_harness.surfaces.base import ExportedWork
from agent_harness.task import Task
from tests.fakes.github_forge import Answer, GitHubStandIn, answers, html_bad_gateway, loses_the_answer, server_error
from tests.fakes.github_forge_state import Repo
from tests.unit.publishing.reports import report
from tests.unit.publishing.repos import BRANCH, REF, Origin, git, make_origin

pytestmark = pytest.mark.anyio

DEMO = Repository("octo", "demo")


@dataclass
class World:
    forge: GitHubStandIn
    repo: Repo
    origin: Origin
    token: str
    waits: list[float] = field(default_factory=list[float])

    @property
    def access(self) -> GitHubAccess:
        return GitHubAccess(self.forge.api_url, self.token, "GITHUB_TOKEN")

    def push(self) -> str:
        """The work on its branch, put there without the network."""
        head = self.origin.commit({"a.py": "two\n"})
        git("push", "-q", str(self.repo.bare), f"HEAD:{REF}", cwd=self.origin.clone)
        return head

    async def pause(self, wait_s: float) -> None:
        self.waits.append(wait_s)

    async def open(self, *, base: str = "main", draft: bool = False, deadline_s: float = 30) -> PullRequest:
        head = self.repo.sha(BRANCH) or "0" * 40
        forge = GitHubForge(self.access, DEMO, self.pause, deadline_s)
        with anyio.fail_after(30):
            return await forge.open_pull_request(Proposal("Work", "What was done", BRANCH, base, head, draft))

    async def refused(self, **options: bool | str | float) -> PublishError:
        with pytest.raises(PublishError) as raised:
            await self.open(**options)  # pyright: ignore[reportArgumentType]
        assert self.token not in str(raised.value)
        assert f"the branch {BRANCH!r} is pushed" in str(raised.value)
        assert f"{self.forge.url}/octo/demo/compare/main...agent/s1?expand=1" in str(raised.value)
        return raised.value

    @property
    def posts(self) -> int:
        return len(self.forge.asked("POST", "/pulls"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    origin = make_origin(tmp_path / "source")
    (tmp_path / "forge").mkdir()
    with GitHubStandIn(tmp_path / "forge") as forge:
        yield World(forge, forge.add_repository("octo/demo", origin.bare), origin, forge.token())


async def test_a_pull_request_is_opened_once_and_found_by_the_second_run(world: World) -> None:
    head = world.push()
    first = await world.open()
    assert first == PullRequest(f"{world.forge.url}/octo/demo/pull/1", 1, BRANCH, head)
    made = world.repo.pulls[1]
    assert (made.title, made.body, made.base, made.draft) == ("Work", "What was done", "main", False)
    assert await world.open() == first
    assert (world.posts, len(world.repo.pulls)) == (1, 1)


async def test_a_draft_and_another_base_are_asked_for(world: World) -> None:
    world.push()
    git("branch", "stable", world.origin.base, cwd=world.repo.bare)
    await world.open(base="stable", draft=True)
    assert (world.repo.pulls[1].base, world.repo.pulls[1].draft) == ("stable", True)


async def test_an_open_pull_request_that_a_person_gave_another_base_is_still_ours(world: World) -> None:
    world.push()
    git("branch", "stable", world.origin.base, cwd=world.repo.bare)
    await world.open()
    world.repo.pulls[1].base = "stable"
    assert (await world.open()).number == 1


async def test_a_lost_answer_is_looked_up_and_nothing_is_sent_twice(world: World) -> None:
    world.push()
    world.forge.plan("POST", "/pulls", loses_the_answer)
    assert (await world.open()).number == 1
    assert (world.posts, len(world.repo.pulls)) == (1, 1)


async def test_an_answer_that_is_an_error_after_the_work_was_done_is_looked_up_too(world: World) -> None:
    world.push()

    def done_but_failed(work: Callable[[], Answer]) -> Answer:
        work()
        return Answer(502, b"<html>", {"Content-Type": "text/html"})

    world.forge.plan("POST", "/pulls", done_but_failed)
    assert (await world.open()).number == 1
    assert world.posts == 1


@pytest.mark.parametrize("fault", [server_error(), html_bad_gateway()])
async def test_a_failed_write_is_not_repeated_and_the_next_run_opens_it(
    world: World, fault: Callable[[Callable[[], Answer]], Answer | None]
) -> None:
    world.push()
    world.forge.plan("POST", "/pulls", fault)
    assert (await world.refused()).reason == "github_server_error"
    assert (world.posts, world.repo.pulls) == (1, {})
    assert (await world.open()).number == 1


async def test_reads_are_repeated_twice_and_no_more(world: World) -> None:
    world.push()
    world.forge.plan("GET", "/repos/octo/demo$", server_error(), 2)
    await world.open()
    assert world.waits == [0.5, 2.0]
    world.forge.seen.clear()
    world.forge.plan("GET", "/repos/octo/demo$", loses_the_answer, 9)
    assert (await world.refused()).reason == "github_unreachable"
    assert len(world.forge.seen) == 3


async def test_a_short_rate_limit_is_waited_for_and_a_long_one_is_reported(world: World) -> None:
    world.push()
    limited = '{"message":"You have exceeded a secondary rate limit"}'
    world.forge.plan("GET", "/repos/octo/demo$", answers(429, limited, headers={"Retry-After": "3"}))
    await world.open()
    assert world.waits == [3.0]
    world.forge.plan("GET", "/repos/octo/demo$", answers(403, limited, headers={"Retry-After": "3600"}))
    assert "in 3600 s at the earliest" in str(await world.refused())
    assert world.waits == [3.0]


async def test_two_publishers_at_once_end_with_one_pull_request(world: World) -> None:
    world.push()
    found: list[PullRequest] = []

    async def publish() -> None:
        found.append(await world.open())

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(publish)
    assert [each.number for each in found] == [1, 1, 1]
    assert len(world.repo.pulls) == 1


async def test_a_branch_that_is_seen_late_is_asked_for_again(world: World) -> None:
    world.push()
    world.repo.head_lag = 2
    assert (await world.open()).number == 1
    assert world.waits == [1.0, 2.0]
    assert len(world.repo.pulls) == 1


async def test_a_branch_that_never_arrives_is_given_up(world: World) -> None:
    assert (await world.refused()).reason == "github_head_invalid"
    assert world.waits == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("merged", [False, True])
async def test_a_pull_request_that_a_person_closed_is_not_opened_again(world: World, merged: bool) -> None:
    world.push()
    await world.open()
    world.repo.pulls[1].state, world.repo.pulls[1].merged = "closed", merged
    error = await world.refused()
    assert error.reason == ("github_pr_merged" if merged else "github_pr_closed")
    assert "octo/demo/pull/1" in str(error)
    assert world.posts == 1


async def test_a_base_that_is_gone_is_named(world: World) -> None:
    world.push()
    git("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}", cwd=world.repo.bare)
    git("branch", "-D", "main", cwd=world.repo.bare)
    error = await world.refused()
    assert error.reason == "github_bad_base"
    assert "--base" in str(error)


async def test_work_that_the_base_has_already_is_said_to_be_there(world: World) -> None:
    git("push", "-q", str(world.repo.bare), f"{world.origin.base}:{REF}", cwd=world.origin.clone)
    assert (await world.refused()).reason == "github_no_commits"


async def test_an_unrelated_history_is_said_to_be_one(world: World) -> None:
    git("checkout", "-q", "--orphan", "alone", cwd=world.origin.clone)
    world.push()
    assert (await world.refused()).reason == "github_unrelated"


async def test_a_repository_without_drafts_names_the_option(world: World) -> None:
    world.push()
    world.repo.drafts = False
    assert "publish again without --draft" in str(await world.refused(draft=True))


async def test_a_wrong_token_is_refused_at_the_first_request(world: World) -> None:
    world.push()
    world.forge.revoke(world.token)
    assert (await world.refused()).reason == "github_bad_credentials"
    assert len(world.forge.seen) == 1


async def test_a_token_that_may_only_read_is_told_which_permission_it_lacks(world: World) -> None:
    world.push()
    world.token = world.forge.token(permissions={"metadata": "read", "contents": "write", "pull_requests": "read"})
    assert "it needs pull_requests=write:" in str(await world.refused())


async def test_an_archived_repository_gets_no_request_to_write(world: World) -> None:
    world.push()
    world.repo.archived = True
    assert (await world.refused()).reason == "github_archived"
    assert world.posts == 0


async def test_a_renamed_repository_is_refused_with_its_new_name(world: World) -> None:
    world.push()
    world.forge.rename(world.repo, "octo/renamed")
    error = await world.refused()
    assert error.reason == "github_moved"
    assert "'octo/renamed'" in str(error)
    assert world.posts == 0


async def test_a_rename_in_the_last_moment_opens_nothing_and_is_noticed(world: World) -> None:
    world.push()

    def rename(work: Callable[[], Answer]) -> Answer:
        world.forge.rename(world.repo, "octo/renamed")
        return work()

    world.forge.plan("POST", "/pulls", rename)
    assert (await world.refused()).reason == "github_moved"
    assert (world.posts, world.repo.pulls) == (1, {})


async def test_a_filter_that_the_server_ignores_finds_no_other_s_pull_request(world: World) -> None:
    world.push()
    git("branch", "agent/other", BRANCH, cwd=world.repo.bare)
    other = GitHubForge(world.access, DEMO, world.pause)
    await other.open_pull_request(Proposal("Other", "", "agent/other", "main", ""))

    def everything(_: Callable[[], Answer]) -> Answer:
        return world.forge.handle("GET", "/api/v3/repos/octo/demo/pulls?state=all", headers, b"") or Answer(500)

    headers = {"user-agent": "x", "authorization": f"token {world.token}"}
    world.forge.plan("GET", "head=octo", everything)
    assert (await world.open()).number == 2


async def test_a_server_that_never_answers_is_given_up_and_the_loop_runs_on(world: World) -> None:
    world.push()
    free = threading.Event()

    def stuck(work: Callable[[], Answer]) -> Answer:
        free.wait(20)
        return work()

    world.forge.plan("POST", "/pulls", stuck)
    try:
        error = await world.refused(deadline_s=1.0)
    finally:
        free.set()
    assert error.reason == "github_unreachable"
    assert "it may have been opened" in str(error)
    with anyio.fail_after(20):
        while 1 not in world.repo.pulls:
            await anyio.lowlevel.checkpoint()
    assert (await world.open()).number == 1
    assert world.posts == 1


async def test_an_address_where_nothing_listens_is_the_network_s_fault(world: World) -> None:
    dead = GitHubAccess("http://127.0.0.1:9/api/v3", world.token)
    with pytest.raises(PublishError, match="check the network and GITHUB_API_URL") as raised:
        await GitHubForge(dead, DEMO, world.pause).open_pull_request(Proposal("t", "b", BRANCH, "main", ""))
    assert raised.value.reason == "github_unreachable"


async def test_an_issue_is_read_with_its_author_and_its_page(world: World) -> None:
    number = world.forge.add_issue(world.repo, "It is slow", "Since **Monday**.", "ann").number
    url = f"{world.forge.url}/octo/demo/issues/{number}"
    assert await read_issue(world.access, DEMO, number) == Issue("It is slow", "Since **Monday**.", "ann", url)
    gone = world.forge.add_issue(world.repo, "Empty", None, None).number
    found = await read_issue(world.access, DEMO, gone)
    assert (found.body, found.author) == ("", "ghost")


async def failing(call: Callable[[], object]) -> HarnessError:
    with pytest.raises(HarnessError) as raised:
        await call()  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
    return raised.value


async def test_what_is_no_issue_here_is_refused_before_a_session_exists(world: World) -> None:
    world.push()
    await world.open()
    moved = world.forge.add_issue(world.repo, "Moved", None)
    there = world.forge.add_repository("octo/there")
    moved.transferred_to = f"octo/there/issues/{world.forge.add_issue(there, 'Moved', None).number}"
    for number, words in ((1, "is a pull request"), (moved.number, "octo/there/issues/1"), (99, "does not exist")):
        error = await failing(lambda n=number: read_issue(world.access, DEMO, n, pause=world.pause))
        assert isinstance(error, ConfigError)
        assert words in str(error)
        assert f"'octo/demo#{number}'" in str(error)


async def test_without_a_token_a_public_issue_is_read_and_a_private_one_names_the_variables(world: World) -> None:
    number = world.forge.add_issue(world.repo, "It is slow", None).number
    nobody = GitHubAccess(world.forge.api_url)
    error = await failing(lambda: read_issue(nobody, DEMO, number))
    assert "no token is set: AGENT_GITHUB_INSTALLATION_TOKEN or GITHUB_TOKEN" in str(error)
    world.repo.private = False
    assert (await read_issue(nobody, DEMO, number)).title == "It is slow"


async def test_a_repository_is_looked_at_before_anything_is_spent(world: World) -> None:
    assert await check_repository(world.access, DEMO, publishes=True) == "main"
    world.repo.archived = True
    assert await check_repository(world.access, DEMO, publishes=False) == "main"
    assert "archived" in str(await failing(lambda: check_repository(world.access, DEMO, publishes=True)))
    world.repo.archived = False
    world.token = world.forge.token(permissions={"metadata": "read", "contents": "read"})
    error = await failing(lambda: check_repository(world.access, DEMO, publishes=True))
    assert "GITHUB_TOKEN may only read" in str(error)
    world.forge.plan("GET", "/repos/octo/demo$", server_error(), 9)
    assert isinstance(
        await failing(lambda: check_repository(world.access, DEMO, publishes=True, pause=world.pause)), SurfaceError
    )


async def test_the_token_is_in_no_argv_no_file_and_no_error(world: World, tmp_path: Path) -> None:
    spellings = (world.token, base64.b64encode(f"x-access-token:{world.token}".encode()).decode().rstrip("="))
    argvs: set[str] = set()

    def looking_around(work: Callable[[], Answer]) -> Answer:
        """While a client waits for this answer, its processes are there to be seen."""
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                argvs.add(place.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue  # it ended meanwhile
        return work()

    def caught() -> list[str]:
        return [argv for argv in argvs if any(spelling in argv for spelling in spellings)]

    for method in ("GET", "POST"):
        world.forge.plan(method, r"/octo/demo\.git/", looking_around, 1000)
    naive = f"http://x-access-token:{world.token}@127.0.0.1:{world.forge.port}/octo/demo.git"
    git("remote", "add", "naive", naive, cwd=world.origin.clone)
    head = world.origin.commit({"a.py": "two\n"})
    await anyio.to_thread.run_sync(lambda: git("push", "-q", "naive", "HEAD:refs/heads/naive", cwd=world.origin.clone))
    assert caught(), "the control: a token in the URL is seen"
    assert world.token in (world.origin.clone / ".git" / "config").read_text("utf-8")
    argvs.clear()

    session = tmp_path / "session"
    session.mkdir()
    git("clone", "-q", "--bare", str(world.origin.bare), str(session / "base.git"), cwd=tmp_path)
    transport = world.access.transport(DEMO)
    said: list[str] = []
    publisher = Publisher(
        Git(session, lambda text: text),
        session / "base.git",
        session / "quarantine.git",
        transport,
        GitHubForge(world.access, DEMO, world.pause),
        lambda event: said.append(repr(event)),
        lambda: None,
        lambda text: text,
    )
    task = Task(transport.safe_url, "Change a", "main", world.origin.base, "main")
    work = ExportedWork(world.origin.bundle(session / "work.bundle"), head)
    first = await publisher.publish(work, task, BRANCH, lambda changes: report(changes=changes))
    again = await publisher.publish(work, task, BRANCH, lambda changes: report(changes=changes))
    assert first == again == PullRequest(f"{world.forge.url}/octo/demo/pull/1", 1, BRANCH, head)
    assert (world.posts, len(world.forge.asked("POST", "git-receive-pack"))) == (1, 2)  # the naive push and ours
    assert any("push" in argv and transport.safe_url in argv for argv in argvs), "our push was looked at"
    assert caught() == []
    kept = [path.read_bytes() for path in session.rglob("*") if path.is_file()]
    assert not any(spelling.encode() in content for spelling in spellings for content in kept)
    world.forge.revoke(world.token)
    with pytest.raises(HarnessError) as raised:
        await publisher.publish(work, task, BRANCH, lambda changes: report(changes=changes))
    assert not any(spelling in text for spelling in spellings for text in (*said, str(raised.value)))
