"""SIGKILL wherever publishing can be broken off, then `publish SESSION`: always one branch and one pull request."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import anyio
import anyio.to_thread
import pytest

from agent_harness.demo.script import call, in_order, say
from agent_harness.republish import publish_session
from agent_harness.task import Wishes
from tests.fakes.github_forge import Answer, GitHubStandIn
from tests.fakes.github_forge_state import Repo
from tests.sessions.process import started
from tests.sessions.rig import Rig, git

pytestmark = pytest.mark.anyio

DRIVER = [sys.executable, "-m", "tests.sessions.killed_at"]
EDIT = call("edit_file", {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"})
PHASES = ("before the work", "after the work", "without an answer")
CREATED = 201


@dataclass
class Stage:
    """A session whose work is not published yet, as often as it is wanted."""

    rig: Rig
    forge: GitHubStandIn
    repo: Repo
    token: str
    template: Path

    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.rig.folder / "points"

    @property
    def home(self) -> Path:
        return self.rig.folder / "home"

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "GITHUB_API_URL": self.forge.api_url, "GITHUB_TOKEN": self.token}

    def reset(self) -> None:
        """As if nobody had published."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.template, self.home, symlinks=True)
        for ref in git(self.repo.bare, "for-each-ref", "--format=%(refname)", "refs/heads/agent", "refs/pull").split():
            git(self.repo.bare, "update-ref", "-d", ref)
        self.repo.pulls.clear()
        self.repo.updates.clear()
        self.forge.forget()
        self.log.unlink(missing_ok=True)

    def start(self, number: int, *arguments: str) -> subprocess.Popen[bytes]:
        """`publish last` that is killed at that point; 0 for none."""
        env = {"HOME": str(self.rig.folder), "AGENT_HARNESS_HOME": str(self.home), "NO_PROXY": "127.0.0.1", **self.environ}
        words = [*DRIVER, str(self.log), str(number), *(arguments or ("publish", "last"))]
        return subprocess.Popen(words, env=env, cwd=Path.cwd(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def points(self) -> list[str]:
        return self.log.read_text().splitlines()

    def killed_at(self, number: int) -> None:
        self.reset()
        process = self.start(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, said

    def killed_by_request(self, number: int, phase: str) -> None:
        """Killed while the forge has its n-th request."""
        self.reset()
        there = Event()
        killer = Killer(number, phase, there)
        for method in ("GET", "POST"):
            self.forge.plan(method, ".", killer, 1000)
        process = self.start(0)
        killer.pid = process.pid
        there.set()
        _, said = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, said
        self.forge.unplan()

    async def publish(self) -> None:
        ended = await publish_session(self.home, "last", self.environ, Wishes())
        assert ended.pull_request is not None

    def check(self, where: object) -> None:
        """One branch that was made once, one pull request that was made once."""
        branches = git(self.repo.bare, "for-each-ref", "--format=%(refname:short)", "refs/heads/agent").split()
        assert len(branches) == 1, where
        assert [ref for ref, _ in self.repo.updates] == [f"refs/heads/{branches[0]}"], where
        assert [pull.head for pull in self.repo.pulls.values()] == branches, where
        # A client that is gone hears nothing, so requests are counted by what they did and not by what was answered.
        assert len([each for each in self.forge.asked("POST", "/pulls$") if each.status == CREATED]) <= 1, where


@dataclass
class Killer:
    """Ends a process while the forge has its n-th request; whatever it has started lives on, as it would."""

    number: int
    phase: str
    there: Event
    pid: int = 0
    seen: int = 0

    def __call__(self, work: Callable[[], Answer]) -> Answer | None:
        self.seen += 1
        if self.seen != self.number:
            return work()
        self.there.wait(30)
        if self.phase == "before the work":
            os.kill(self.pid, signal.SIGKILL)
            return work()
        found = work() if self.phase == "after the work" else None
        os.kill(self.pid, signal.SIGKILL)
        return found


@pytest.fixture
async def stage(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stage]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "forge").mkdir()
    with GitHubStandIn(tmp_path / "forge") as forge:
        repo, token = forge.add_repository("octo/demo", rig.origin), forge.token()
        rig.environ |= {"GITHUB_API_URL": forge.api_url, "GITHUB_TOKEN": token}
        ended = await rig.run(in_order(EDIT, say("Done.")), repo=f"{forge.url}/octo/demo.git", pull_request=False)
        assert ended.outcome == "succeeded", ended.summary
        template = rig.folder / "template"
        (rig.folder / "home").rename(template)
        yield Stage(rig, forge, repo, token, template)


def unkilled(stage: Stage) -> tuple[list[str], list[str]]:
    """The points of the process and the requests that the forge sees, of a run that nobody ends."""
    stage.reset()
    process = stage.start(0)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    stage.check("unkilled")
    return stage.points(), [f"{each.method} {each.path}" for each in stage.forge.seen]


def spread(count: int, wanted: int) -> list[int]:
    """So many numbers from 1 to `count`, evenly, both ends among them."""
    return sorted({round(1 + place * (count - 1) / (wanted - 1)) for place in range(wanted)})


async def test_killed_at_points_all_over_publishing_it_is_finished_by_the_next_publish(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    points, requests = unkilled(stage)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(points)} points of the process, {len(requests)} requests in {len(PHASES)} phases each\n")
    writes = [number for number, request in enumerate(requests, 1) if request.endswith(("/pulls", "git-receive-pack"))]
    assert len([point for point in points if "intent" in point or "push" in point]) >= 2
    for number in spread(len(points), 4):
        stage.killed_at(number)
        await stage.publish()
        stage.check(points[number - 1])
    for number in writes[-2:]:
        for phase in PHASES:
            stage.killed_by_request(number, phase)
            await stage.publish()
            stage.check((requests[number - 1], phase))


@pytest.mark.slow
async def test_killed_at_every_point_of_publishing_it_is_finished_by_the_next_publish(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    points, requests = unkilled(stage)
    with capsys.disabled():
        sys.stdout.write("\n  ".join([f"\n{len(points)} points of the process:", *points]))
        sys.stdout.write("\n  ".join([f"\n{len(requests)} requests in {len(PHASES)} phases each:", *requests]) + "\n")
    for number, point in enumerate(points, 1):
        stage.killed_at(number)
        await stage.publish()
        stage.check(point)
    for number, request in enumerate(requests, 1):
        for phase in PHASES:
            stage.killed_by_request(number, phase)
            await stage.publish()
            stage.check((request, phase))


async def test_a_run_that_is_killed_while_it_publishes_is_finished_by_publish(stage: Stage) -> None:
    """The whole command this time, killed by what the forge sees of it: the push, and the pull request."""
    for path in ("git-receive-pack$", "/pulls$"):
        stage.reset()
        there = Event()
        killer = Killer(1, "after the work", there)
        stage.forge.plan("POST", path, killer)
        shutil.rmtree(stage.home)
        with started(
            stage.rig,
            in_order(EDIT, say("Done.")),
            repo=f"{stage.forge.url}/octo/demo.git",
            **stage.environ,
            NO_PROXY="127.0.0.1",
        ) as process:
            killer.pid = process.pid
            there.set()
            assert await anyio.to_thread.run_sync(process.wait, 120) == -signal.SIGKILL
        await stage.publish()
        stage.check(path)


async def test_of_four_publishers_at_once_one_works_and_the_others_say_so(stage: Stage) -> None:
    stage.reset()
    processes = [stage.start(0) for _ in range(4)]
    said = [process.communicate(timeout=120)[1].decode() for process in processes]
    assert 0 in [process.returncode for process in processes]
    for process, words in zip(processes, said, strict=True):
        assert process.returncode == 0 or "is being worked on by another process" in words, words
    stage.check("four at once")


async def test_four_publishers_with_a_copy_each_all_end_with_the_same_pull_request(stage: Stage) -> None:
    """As four machines would: no lock of the session's keeps them apart, only the forge's answers do."""
    stage.reset()
    homes = [stage.rig.folder / f"home-{number}" for number in range(4)]
    for home in homes:
        shutil.copytree(stage.template, home, symlinks=True)
    found: list[object] = []

    async def publish(home: Path) -> None:
        ended = await publish_session(home, "last", stage.environ, Wishes())
        assert ended.pull_request is not None
        found.append(ended.pull_request["url"])

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for home in homes:
                tasks.start_soon(publish, home)
    assert len(found) == 4
    assert len(set(found)) == 1
    stage.check("four machines")
