"""A whole session in one call: a bare origin, a scripted endpoint, real settings, and the trace to look at afterwards."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from agent_harness import build
from agent_harness.demo.script import ChatRequest, Script
from agent_harness.demo.server import ScriptedEndpoint
from agent_harness.events import JsonValue, SessionEnded
from agent_harness.session import Session
from agent_harness.settings import Endpoint, HookEvent, HookSetting, Settings
from agent_harness.trace import Record, read

GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.invalid",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.invalid",
}


def git(where: Path, *args: str) -> str:
    """Plain git, for the test's own repositories."""
    done = subprocess.run(["git", "-C", str(where), *args], env=GIT_ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.strip()


def make_origin(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """A bare repository `folder/origin.git` with one commit of these files on main."""
    seed = folder / "seed"
    for name, content in files.items():
        path = seed / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(folder, "init", "-q", "-b", "main", str(seed))
    git(seed, "add", "-A", "-f")
    git(seed, "commit", "-q", "-m", "first")
    origin = folder / "origin.git"
    git(folder, "clone", "-q", "--bare", str(seed), str(origin))
    return origin


@dataclass
class Rig:
    """Runs sessions against one origin.

    Attributes:
        endpoint: of the last session.
        session: the last session.
    """

    folder: Path
    origin: Path
    hooks: list[HookSetting] = field(default_factory=list[HookSetting])
    environ: dict[str, str] = field(default_factory=lambda: {"PATH": os.environ["PATH"]})
    endpoint: ScriptedEndpoint | None = None
    session: Session | None = None

    @property
    def url(self) -> str:
        return f"file://{self.origin}"

    def hook(self, event: HookEvent, command: str, *, timeout_s: float = 10, fail_open: bool = False) -> None:
        self.hooks.append(HookSetting(event, command, f"AGENT_HOOK for {event}", timeout_s, fail_open))

    def settings(self, endpoint: ScriptedEndpoint, **changed: object) -> Settings:
        settings = Settings(
            repo=self.url,
            text="Make the greeting polite.",
            endpoint=Endpoint(endpoint.base_url, endpoint.key, "scripted-1", "the test"),
            home=self.folder / "home",
            started_in=self.folder,
            price_in=Decimal(1),
            price_out=Decimal(2),
            hooks=tuple(self.hooks),
            environ=self.environ,
        )
        return dataclasses.replace(settings, **changed)  # pyright: ignore[reportArgumentType]

    async def run(self, script: Script, *, key: str | None = None, **changed: object) -> SessionEnded:
        """One session, from settings to its end."""
        with ScriptedEndpoint(script) if key is None else ScriptedEndpoint(script, key=key) as self.endpoint:
            self.session = await build.prepare(self.settings(self.endpoint, **changed), lambda _text: None)
            return await self.session.run()

    @property
    def trace(self) -> list[Record]:
        assert self.session is not None
        return list(read(self.session.trace.path))

    def of(self, kind: str) -> list[Record]:
        """The records of one type."""
        return [record for record in self.trace if record["type"] == kind]

    @property
    def requests(self) -> list[ChatRequest]:
        assert self.endpoint is not None
        return self.endpoint.requests

    def results(self) -> list[str]:
        """What the model read of its calls, as the last request carried it."""
        return [answer.content for answer in self.requests[-1].answers]

    def branches(self) -> dict[str, str]:
        """The origin's branches and their commits."""
        lines = git(self.origin, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads").splitlines()
        return dict(line.split(" ") for line in lines)

    def pushed(self) -> str:
        """The one branch that the session pushed."""
        assert self.session is not None
        assert set(self.branches()) == {"main", self.session.branch}
        return self.session.branch

    def show(self, ref: str, path: str) -> str:
        """A file as a branch of the origin has it."""
        return git(self.origin, "show", f"{ref}:{path}")


def kinds(records: list[Record]) -> list[JsonValue]:
    """Their types, in order."""
    return [record["type"] for record in records]
