from __future__ import annotations

from pathlib import Path

import pytest

from agent_harness.errors import PublishError
from agent_harness.inert_git import Git, Transport
from agent_harness.publishing.push import Delivery, classify, push_branch
from tests.unit.publishing.repos import BRANCH, REF, Origin, git

pytestmark = pytest.mark.anyio


class Log:
    def __init__(self) -> None:
        self.begun = 0
        self.steps: list[str] = []
        self.pauses: list[float] = []

    def before(self) -> None:
        self.begun += 1

    def after(self, step: str, _detail: str) -> None:
        self.steps.append(step)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def deliver(inert: Git, origin: Origin, head: str, log: Log) -> None:
    delivery = Delivery(origin.clone / ".git", Transport(origin.url), BRANCH, head, Path("/work.bundle"))
    await push_branch(inert, delivery, log.before, log.after, log.pause)


def hook(origin: Origin, name: str, script: str) -> None:
    path = origin.bare / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


async def test_a_push_whose_answer_was_lost_counts_once_it_is_seen_there(inert: Git, origin: Origin) -> None:
    head = origin.commit({"a.py": "two\n"})
    # The ref is written, then the server dies before it has answered: what a dropped connection looks like from here.
    hook(origin, "post-update", "kill -9 $(ps -o ppid= -p $PPID | tr -d ' ') $PPID")
    log = Log()
    await deliver(inert, origin, head, log)
    assert origin.refs()[REF] == head
    assert log.begun == 1
    assert log.steps == ["pushed"]
    assert log.pauses == []


async def test_a_hiccup_is_tried_again_after_another_look(inert: Git, origin: Origin, tmp_path: Path) -> None:
    head = origin.commit({"a.py": "two\n"})
    mark = tmp_path / "failed-once"
    hook(origin, "pre-receive", f"test -e {mark} && exit 0; touch {mark}; echo 'error: 503 try later' >&2; kill -9 $PPID")
    log = Log()
    await deliver(inert, origin, head, log)
    assert origin.refs()[REF] == head
    assert (log.begun, log.steps, log.pauses) == (1, ["pushed"], [1.0])


async def test_a_remote_that_never_answers_clearly_ends_after_three_attempts(inert: Git, origin: Origin) -> None:
    head = origin.commit({"a.py": "two\n"})
    hook(origin, "pre-receive", "kill -9 $PPID")
    log = Log()
    with pytest.raises(PublishError, match=r"push it by hand: git --git-dir=") as refusal:
        await deliver(inert, origin, head, log)
    assert refusal.value.reason == "push_unreachable"
    assert (log.begun, log.pauses) == (1, [1.0, 4.0])


async def test_somebody_who_was_faster_wins(inert: Git, origin: Origin) -> None:
    head = origin.commit({"a.py": "two\n"})
    # Between our look and the server's decision the ref appears.
    hook(origin, "pre-receive", f"unset GIT_QUARANTINE_PATH; git update-ref {REF} {origin.base}")
    log = Log()
    with pytest.raises(PublishError, match="already exists there at another commit"):
        await deliver(inert, origin, head, log)
    assert origin.refs()[REF] == origin.base


async def test_a_branch_named_like_a_part_of_ours_is_explained(inert: Git, origin: Origin) -> None:
    head = origin.commit({"a.py": "two\n"})
    git("branch", "agent", cwd=origin.bare)
    with pytest.raises(PublishError) as refusal:
        await deliver(inert, origin, head, Log())
    assert refusal.value.reason == "push_branch_blocked"


@pytest.mark.parametrize(
    ("said", "reason", "retryable"),
    [
        ("remote: Permission to o/r.git denied to bot.\nfatal: unable to access: The requested URL returned error: 403",
         "no_permission", False),
        ("remote: This repository was archived so it is read-only.\nerror: 403", "archived", False),
        ("remote: Repository not found.", "not_found", False),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", "credentials", False),
        ("remote: Invalid username or token.\nfatal: Authentication failed for 'https://h/'", "credentials", False),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.", "no_permission", False),
        ("Host key verification failed.\nfatal: Could not read from remote repository.", "host_key", False),
        ("! [remote rejected] x -> x (shallow update not allowed)", "shallow", False),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", "unreachable", True),
        ("fatal: the remote end hung up unexpectedly", "unreachable", True),
        ("error: RPC failed; HTTP 502", "unreachable", True),
        ("! [rejected] x -> x (stale info)", "unreachable", True),
        ("something new", "refused", False),
    ],
)  # fmt: skip
def test_refusals_are_told_apart(said: str, reason: str, retryable: bool) -> None:
    found = classify(said)
    assert (found.reason, found.retryable) == (reason, retryable)


async def further(inert: Git, origin: Origin, head: str, ours: frozenset[str], log: Log) -> None:
    delivery = Delivery(origin.clone / ".git", Transport(origin.url), BRANCH, head, Path("/work.bundle"), ours)
    await push_branch(inert, delivery, log.before, log.after, log.pause)


async def test_a_branch_of_our_own_is_moved_forward_and_never_back(inert: Git, origin: Origin) -> None:
    first, log = origin.commit({"a.py": "two\n"}), Log()
    await deliver(inert, origin, first, log)
    second = origin.commit({"a.py": "three\n"})
    with pytest.raises(PublishError) as refusal:
        await deliver(inert, origin, second, log)
    assert refusal.value.reason == "push_branch_taken", "the control: without knowing its own commit it is a stranger's"
    await further(inert, origin, second, frozenset({first}), log)
    assert origin.refs()[REF] == second
    git("reset", "-q", "--hard", origin.base, cwd=origin.clone)
    rewritten = origin.commit({"a.py": "other\n"})
    with pytest.raises(PublishError) as refusal:
        await further(inert, origin, rewritten, frozenset({first, second}), log)
    assert refusal.value.reason == "push_rewound"
    assert second in str(refusal.value)
    assert origin.refs()[REF] == second


async def test_somebody_s_commit_on_top_of_ours_ends_our_right_to_push(inert: Git, origin: Origin) -> None:
    first, log = origin.commit({"a.py": "two\n"}), Log()
    await deliver(inert, origin, first, log)
    theirs = git("commit-tree", "-p", first, "-m", "theirs", f"{first}^{{tree}}", cwd=origin.bare)
    git("update-ref", REF, theirs, cwd=origin.bare)
    second = origin.commit({"a.py": "three\n"})
    with pytest.raises(PublishError, match=theirs):
        await further(inert, origin, second, frozenset({first}), log)
    assert origin.refs()[REF] == theirs


async def test_a_refused_move_forward_says_why_and_not_that_the_branch_is_taken(inert: Git, origin: Origin) -> None:
    first, log = origin.commit({"a.py": "two\n"}), Log()
    await deliver(inert, origin, first, log)
    hook(origin, "pre-receive", "echo closed today >&2; exit 1")
    second = origin.commit({"a.py": "three\n"})
    with pytest.raises(PublishError, match="closed today") as refusal:
        await further(inert, origin, second, frozenset({first}), log)
    assert refusal.value.reason == "push_hook"
