"""Whole publishes against a real bare origin."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from agent_harness.errors import PublishError
from agent_harness.events import Event, Intent, PublishStep
from agent_harness.inert_git import Git, Transport
from agent_harness.publishing.base import ChangedFile, Proposal, PullRequest, Report
from agent_harness.publishing.bundle import BundleRefused
from agent_harness.publishing.local_forge import LocalForge
from agent_harness.publishing.publisher import Publisher
from agent_harness.surfaces.base import ExportedWork
from agent_harness.task import Task
from tests.unit.publishing.reports import report
from tests.unit.publishing.repos import BRANCH, REF, Origin, git

pytestmark = pytest.mark.anyio


@dataclass
class Desk:
    """A publisher and everything around it, in one session's folder."""

    folder: Path
    origin: Origin
    base_git: Path
    inert: Git
    log: list[str] = field(default_factory=list[str])
    forge: LocalForge | None = None

    def emit(self, event: Event) -> None:
        if isinstance(event, Intent):
            self.log.append(f"intent {event.effect}")
        elif isinstance(event, PublishStep):
            self.log.append(event.step)

    def sync(self) -> None:
        self.log.append("sync")

    async def publish(self, head: str, bundle: Path | None, url: str | None = None) -> PullRequest | None:
        publisher = Publisher(
            self.inert,
            self.base_git,
            self.folder / "quarantine.git",
            Transport(url or self.origin.url),
            self.forge or LocalForge(self.folder),
            self.emit,
            self.sync,
            lambda text: text.replace("hunter2", "[gone]"),
        )
        task = Task(self.origin.url, "Fix the total hunter2", "main", self.origin.base, "main")

        def make(changes: tuple[ChangedFile, ...]) -> Report:
            return report("Fix the total hunter2", changes=changes)

        return await publisher.publish(ExportedWork(bundle, head), task, BRANCH, make)


class FailingForge(LocalForge):
    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))

    async def open_pull_request(self, proposal: Proposal) -> PullRequest:
        raise PublishError(f"no pull request for {proposal.branch!r}")


@pytest.fixture
def desk(tmp_path: Path, origin: Origin, base_git: Path, inert: Git) -> Desk:
    folder = tmp_path / "session"
    folder.mkdir()
    return Desk(folder, origin, base_git, inert)


WHOLE = ["imported", "scanned", "intent push", "sync", "pushed", "intent pull_request", "sync", "pull_request"]


async def test_work_becomes_a_branch_on_the_origin_and_a_local_pull_request(desk: Desk) -> None:
    template = {"docs/PULL_REQUEST_TEMPLATE.md": "## Why\n\n## Checks\n- [x] docs\n"}
    git("checkout", "-q", "main", cwd=desk.origin.clone)
    base = desk.origin.commit(template)
    git("push", "-q", str(desk.origin.bare), "main", cwd=desk.origin.clone)
    git("fetch", "-q", str(desk.origin.bare), "main:main", cwd=desk.base_git)
    git("checkout", "-q", "-B", BRANCH, cwd=desk.origin.clone)
    desk.origin = Origin(desk.origin.bare, desk.origin.clone, base)
    head = desk.origin.commit({"a.py": "two\n", ".vscode/tasks.json": "{}\n"})
    opened = await desk.publish(head, desk.origin.bundle(desk.folder / "work.bundle"))
    assert opened == PullRequest((desk.folder / "pull-request.md").as_uri(), None, BRANCH, head)
    assert desk.origin.refs() == {"refs/heads/main": base, REF: head}
    assert desk.log == WHOLE
    data = json.loads((desk.folder / "pull-request.json").read_text())
    assert data["title"] == "Fix the total [gone]"
    assert (data["base"], data["head"], data["branch"], data["state"]) == ("main", head, BRANCH, "open")
    text = (desk.folder / "pull-request.md").read_text()
    assert text.endswith(data["body"])
    assert "- `a.py` changed, +1 -1" in text
    assert "`.vscode/tasks.json`" in text
    assert "## Why" in text
    assert "- [ ] docs" in text
    assert "hunter2" not in text


async def test_a_second_publish_makes_nothing_again(desk: Desk) -> None:
    head = desk.origin.commit({"a.py": "two\n"})
    bundle = desk.origin.bundle(desk.folder / "work.bundle")
    first = await desk.publish(head, bundle)
    before = {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in desk.folder.glob("pull-request.*")}
    desk.log.clear()
    assert await desk.publish(head, bundle) == first
    assert {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in desk.folder.glob("pull-request.*")} == before
    assert desk.log == ["imported", "scanned", "already_pushed", "intent pull_request", "sync", "pull_request"]


async def test_nothing_that_differs_from_the_base_is_published_as_nothing(desk: Desk) -> None:
    assert await desk.publish(desk.origin.base, None) is None
    desk.origin.commit({"a.py": "two\n"})
    head = desk.origin.commit({"a.py": "one\n"})
    assert await desk.publish(head, desk.origin.bundle(desk.folder / "work.bundle")) is None
    assert REF not in desk.origin.refs()
    assert not list(desk.folder.glob("pull-request.*"))
    assert [step for step in desk.log if step.startswith("nothing")] == ["nothing_to_publish"] * 2


async def test_a_branch_of_somebody_else_is_named_and_never_overwritten(desk: Desk) -> None:
    head = desk.origin.commit({"a.py": "two\n"})
    bundle = desk.origin.bundle(desk.folder / "work.bundle")
    git("update-ref", REF, desk.origin.base, cwd=desk.origin.bare)
    with pytest.raises(PublishError, match=desk.origin.base) as refusal:
        await desk.publish(head, bundle)
    assert refusal.value.reason == "push_branch_taken"
    assert desk.origin.refs()[REF] == desk.origin.base
    assert "intent push" not in desk.log


def refuse_pushes(origin: Origin, words: str) -> Path:
    hook = origin.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(words)} >&2\nexit 1\n")
    hook.chmod(0o755)
    return hook


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("error: GH013: Repository rule violations found\n- GITHUB PUSH PROTECTION", "push_secret"),
        ("error: GH013: Repository rule violations found for refs/heads/agent/x.", "push_ruleset"),
        ("error: GH006: Protected branch update failed", "push_protected_branch"),
        ("error: GH001: Large files detected.", "push_blob_too_big"),
        ("refusing to allow a GitHub App to create or update workflow `x` without `workflows` permission", "push_workflow"),
        ("we do not like it", "push_hook"),
    ],
)
async def test_a_refusal_says_why_where_the_work_lies_and_a_command_that_finishes_it(desk: Desk, words: str, reason: str) -> None:
    head = desk.origin.commit({"a.py": "two\n"})
    bundle = desk.origin.bundle(desk.folder / "work.bundle")
    hook = refuse_pushes(desk.origin, words)
    with pytest.raises(PublishError) as refusal:
        await desk.publish(head, bundle)
    message = str(refusal.value)
    assert refusal.value.reason == reason
    assert words.split("\n")[0] in message
    assert str(bundle) in message
    assert "\n" not in message
    assert REF not in desk.origin.refs()
    hook.unlink()
    command = message.partition("to push it by hand: ")[2]
    await anyio.run_process(shlex.split(command))
    assert desk.origin.refs()[REF] == head


async def test_a_remote_that_is_gone_is_named(desk: Desk) -> None:
    head = desk.origin.commit({"a.py": "two\n"})
    bundle = desk.origin.bundle(desk.folder / "work.bundle")
    with pytest.raises(PublishError, match="not_found"):
        await desk.publish(head, bundle, (desk.folder / "nowhere.git").as_uri())


async def test_a_refused_bundle_or_scan_pushes_nothing_and_names_the_bundle(desk: Desk) -> None:
    head = desk.origin.commit({"a.py": "two\n"})
    bundle = desk.origin.bundle(desk.folder / "work.bundle")
    bundle.write_bytes(bundle.read_bytes()[:-30])
    with pytest.raises(BundleRefused):
        await desk.publish(head, bundle)
    git("update-index", "--add", "--cacheinfo", f"160000,{'7' * 40},vendor", cwd=desk.origin.clone)
    git("commit", "-q", "-m", "gitlink", cwd=desk.origin.clone)
    again = desk.origin.bundle(desk.folder / "again.bundle")
    with pytest.raises(PublishError, match=r"again\.bundle"):
        await desk.publish("8" * 40, again)
    assert REF not in desk.origin.refs()


async def test_a_crash_between_push_and_pull_request_is_finished_by_the_next_publish(desk: Desk) -> None:
    head = desk.origin.commit({"a.py": "two\n"})
    bundle = desk.origin.bundle(desk.folder / "work.bundle")
    desk.forge = FailingForge()
    with pytest.raises(PublishError, match="no pull request"):
        await desk.publish(head, bundle)
    assert desk.origin.refs()[REF] == head
    desk.forge = None
    opened = await desk.publish(head, bundle)
    assert opened is not None
    assert opened.head == head
