"""Who does what takes a while says so, whoever watches; git's own progress becomes a step's detail."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.inert_git import Git, Transport
from agent_harness.progress import GitProgress, Step, doing, watcher
from tests.sessions.rig import make_origin

SAID = (
    b"remote: Enumerating objects: 9, done.        \n"
    b"remote: Counting objects:  11% (1/9)        \rremote: Counting objects: 100% (9/9), done.        \n"
    b"remote: welcome to the forge\n"
    b"Receiving objects:  50% (4/8), 1.00 MiB | 2.00 MiB/s\r"
    b"warning: Receiving objects is fine\n"
    b"Resolving deltas: 100% (2/2), done.\n"
    b"fatal: the end without an end of line"
)
REST = b"remote: welcome to the forge\nwarning: Receiving objects is fine\nfatal: the end without an end of line"


class Log:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def begin(self, step: Step) -> None:
        self.seen.append(f"begin {step.what}")

    def end(self, step: Step, *, done: bool) -> None:
        self.seen.append(f"end {step.what} {done}")


def fail() -> None:
    with doing("b"):
        raise ValueError("no")


def test_steps_are_told_to_who_watches_also_when_they_fail() -> None:
    log = Log()
    token = watcher.set(log)
    try:
        with doing("a"), pytest.raises(ValueError, match="no"):
            fail()
    finally:
        watcher.reset(token)
    assert log.seen == ["begin a", "begin b", "end b False", "end a True"]


def test_without_anybody_watching_nothing_happens() -> None:
    with doing("a") as step:
        step.detail = "half"


@pytest.mark.anyio
async def test_two_sessions_side_by_side_have_their_own_watchers() -> None:
    logs = {name: Log() for name in "ab"}

    async def session(name: str) -> None:
        watcher.set(logs[name])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deep, name)

    async def deep(name: str) -> None:
        with doing(name):
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for name in logs:
            tasks.start_soon(session, name)
    assert {name: log.seen for name, log in logs.items()} == {
        "a": ["begin a", "end a True"],
        "b": ["begin b", "end b True"],
    }


@given(st.lists(st.integers(0, len(SAID)), max_size=8))
def test_git_s_progress_is_taken_out_however_it_is_cut_into_pieces(cuts: list[int]) -> None:
    step = Step("fetching")
    progress = GitProgress(step)
    places = [0, *sorted(cuts), len(SAID)]
    kept = b"".join(progress.take(SAID[a:b]) for a, b in pairwise(places)) + progress.close()
    assert kept == REST
    assert step.detail == "resolving deltas 100%"


def test_the_detail_follows_what_git_says() -> None:
    step = Step("fetching")
    progress = GitProgress(step)
    progress.take(b"Receiving objects:  50% (4/8), 1.00 MiB | 2.00 MiB/s\r")
    assert step.detail == "receiving objects 50%"
    progress.take(b"remote: Enumerating objects: 7, done.\n")
    assert step.detail == "enumerating objects 7"


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    progress = GitProgress(Step("fetching"))
    assert sum(len(progress.take(b"x" * 1_000)) for _ in range(50)) >= 45_000


@pytest.mark.anyio
async def test_a_real_fetch_says_how_far_it_is_and_a_failing_one_why(tmp_path: Path) -> None:
    origin = make_origin(tmp_path, {f"{n}.txt": f"{n}\n" for n in range(40)})
    git = Git(tmp_path / "scratch", str)
    bare = tmp_path / "to.git"
    await git.run("init", "-q", "--bare", str(bare))
    step = Step("fetching")
    transport = Transport(origin.as_uri())
    words = ("fetch", "-q", "--no-tags", "--", transport.safe_url)
    result = await git.run(*words, "+refs/heads/*:refs/heads/*", git_dir=bare, transport=transport, step=step)
    assert "objects" in step.detail
    assert "objects" not in result.stderr
    failed = await git.run(*words, "refs/heads/none", git_dir=bare, transport=transport, step=step, ok=(128,))
    assert failed.stderr.startswith("fatal: ")
