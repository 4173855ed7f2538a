"""`agent-harness demo`: the whole job on a repository made for it, against a script that stands in for a model."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import anyio

from agent_harness.demo.model import demo_model
from agent_harness.demo.repository import DemoRepository, make_origin, make_repository
from agent_harness.demo.server import ScriptedEndpoint
from agent_harness.events import JsonValue
from agent_harness.headless import Output, run_session
from agent_harness.inert_git import Git
from agent_harness.settings import Endpoint, Settings

MODEL = "scripted-stand-in"
TASK = "A test of this repository fails. Find out why, mend the program (not the test), see that all tests pass, and commit."


def run_demo(seed: int, output: Output = Output.PLAIN) -> int:
    """Make the repository of that seed, run a session on it and say what came of it; returns the exit code.

    That is the session's, but never 0 unless there is a pull request. Everything is in one temporary folder, which is kept and
    named at the end.

    Raises:
        HarnessError: no session came about: no git, no working bubblewrap; says what to do.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"agent-harness-demo-{seed}-"))
    repository = make_repository(seed)
    origin = folder / f"{repository.package}.git"
    anyio.run(make_origin, Git(folder / "git", str), repository, origin)
    with ScriptedEndpoint(demo_model, model=MODEL) as endpoint:
        _say(_opening(seed, repository, origin, endpoint), output)
        settings = Settings(
            repo=origin.as_uri(),
            text=TASK,
            endpoint=Endpoint(endpoint.base_url, endpoint.key, MODEL, "the demo"),
            home=folder / "state",
            started_in=Path.cwd(),
            surface="local",
            price_in=Decimal("1.25"),
            price_out=Decimal(10),
            environ=dict(os.environ),
        )
        code = run_session(settings, output)
    ended = _ended(folder)
    _say(_closing(ended, folder, origin), output)
    return code if ended.get("outcome") == "succeeded" else code or 1


def _say(text: str, output: Output) -> None:
    """For people; with JSON on stdout it goes to stderr."""
    stream = sys.stdout if output is Output.PLAIN else sys.stderr
    stream.write(text)
    stream.flush()


def _opening(seed: int, repository: DemoRepository, origin: Path, endpoint: ScriptedEndpoint) -> str:
    return (
        f"Demo, seed {seed}. No LLM is involved: a script on {endpoint.base_url} stands in for the model.\n"
        "The sandbox, the guards, the edits, the tests, git and the pull request are real; the prices are made up.\n"
        f"Repository: {repository.package}, {len(repository.files)} files, bare at {origin}\n\n"
    )


def _closing(ended: dict[str, JsonValue], folder: Path, origin: Path) -> str:
    lines = ["", "What came of it" if ended.get("outcome") == "succeeded" else "The demo did not come to its pull request"]
    pull_request = ended.get("pull_request")
    if isinstance(pull_request, dict):
        branch = pull_request.get("branch")
        lines += [
            f"  branch        {branch} on {origin}",
            f"  pull request  {str(pull_request.get('url')).removeprefix('file://')}",
            f"  the change    git --git-dir={origin} diff main {branch}",
        ]
    if ended:
        lines.append(f"  trace         {ended.get('trace_path')}")
    lines.append(f"  all of it     {folder} (kept; delete it when you have seen enough)")
    return "\n".join([*lines, ""])


def _ended(folder: Path) -> dict[str, JsonValue]:
    """The session's last event; empty when there is none."""
    for trace in folder.glob("state/sessions/*/trace.jsonl"):
        for record in _records(trace):
            if record.get("type") == "session_ended":
                return record
    return {}


def _records(trace: Path) -> Iterator[dict[str, JsonValue]]:
    with trace.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
