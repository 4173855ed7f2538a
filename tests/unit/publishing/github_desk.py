"""A publisher of one session's work and the stand-in for GitHub that it publishes to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from agent_harness.assignment import renewal_of
from agent_harness.errors import PublishError
from agent_harness.events import Event, Notice, PublishStep
from agent_harness.github_settings import App, GitHubAccess, Repository
from agent_harness.inert_git import Git
from agent_harness.publishing.base import ChangedFile, PullRequest, Report
from agent_harness.publishing.github import GitHubForge
from agent_harness.publishing.publisher import Publisher
from agent_harness.surfaces.base import ExportedWork
from agent_harness.task import Task, Wishes
from tests.fakes.github_forge import GitHubStandIn
from tests.fakes.github_forge_app import App as ForgeApp
from tests.fakes.github_forge_state import Level, Repo
from tests.unit.publishing.reports import report
from tests.unit.publishing.repos import BRANCH, Origin, git, make_origin

DEMO = Repository("octo", "demo")
WRITES: dict[str, Level] = {"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write"}
FILES = {"README.md": "# Demo\n", "src/app.py": "def add(a, b):\n    return a - b\n"}
FIXED = {"src/app.py": "def add(a, b):\n    return a + b\n"}


@dataclass
class Desk:
    """`waits` are the pauses that were asked for; none of them is slept."""

    folder: Path
    forge: GitHubStandIn
    repo: Repo
    origin: Origin
    token: str | None
    app: ForgeApp | None = None
    waits: list[float] = field(default_factory=list[float])
    events: list[Event] = field(default_factory=list[Event])

    @property
    def access(self) -> GitHubAccess:
        app = None if self.app is None else App(str(self.app.id), self.app.private_key)
        return GitHubAccess(self.forge.api_url, self.token, "GITHUB_TOKEN" if self.token else "", app)

    async def pause(self, wait_s: float) -> None:
        self.waits.append(wait_s)

    async def publish(
        self,
        make: Callable[[tuple[ChangedFile, ...]], Report] = lambda changes: report(changes=changes),
        *,
        base: str = "main",
        wishes: Wishes = Wishes(),  # noqa: B008 - frozen
        head: str | None = None,
    ) -> PullRequest:
        """Publish what is committed on the session's branch, else one commit that mends the program."""
        if head is None and git("rev-parse", "HEAD", cwd=self.origin.clone) == self.origin.base:
            self.origin.commit(FIXED)
        head = head or git("rev-parse", "HEAD", cwd=self.origin.clone)
        target = self.access.transport(DEMO)
        publisher = Publisher(
            Git(self.folder, lambda text: text),
            self.folder / "base.git",
            self.folder / "quarantine.git",
            target,
            GitHubForge(self.access, DEMO, self.pause),
            self.events.append,
            lambda: None,
            lambda text: text,
            renewal_of(self.access, target),
        )
        task = Task(target.safe_url, "Mend add", base, self.origin.base, base, wishes=wishes)
        work = ExportedWork(self.origin.bundle(self.folder / "work.bundle"), head)
        with anyio.fail_after(60):
            opened = await publisher.publish(work, task, BRANCH, make, wishes.draft)
        assert opened is not None
        return opened

    async def refused(self) -> PublishError:
        """The refusal, which names the work and how to take it further."""
        with pytest.raises(PublishError) as raised:
            await self.publish()
        said = str(raised.value)
        assert str(self.folder / "work.bundle") in said or "is pushed" in said
        assert "by hand: " in said
        return raised.value

    @property
    def steps(self) -> list[str]:
        return [event.step for event in self.events if isinstance(event, PublishStep)]

    @property
    def notes(self) -> list[str]:
        return [event.detail for event in self.events if isinstance(event, Notice)]

    def posts(self, path: str) -> int:
        return len(self.forge.asked("POST", path))


@contextmanager
def desk_in(folder: Path) -> Generator[Desk]:
    origin = make_origin(folder / "source", FILES)
    (folder / "forge").mkdir()
    (folder / "session").mkdir()
    git("clone", "-q", "--bare", str(origin.bare), str(folder / "session" / "base.git"), cwd=folder)
    with GitHubStandIn(folder / "forge") as forge:
        repo = forge.add_repository("octo/demo", origin.bare)
        yield Desk(folder / "session", forge, repo, origin, forge.token(permissions=WRITES))
