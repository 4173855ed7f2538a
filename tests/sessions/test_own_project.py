"""Real input: a session on a clone of this very project mends a real bug, and the project's own test tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.demo.script import ChatRequest, ScriptedReply, call, say
from tests.sessions.rig import Rig, git

pytestmark = pytest.mark.anyio

PROJECT = Path(__file__).resolve().parents[2]
BROKEN = ("tail = text[len(text) - (room - room // 2) :]", "tail = text[len(text) - room :]")
NAMED_TEST = "tests/unit/test_clip.py"


def passes(checkout: Path) -> bool:
    """Whether the named test passes on that checkout, by its own code and not the installed one."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", NAMED_TEST]
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, check=False).returncode == 0


def check_out(origin: Path, branch: str, to: Path) -> Path:
    git(to.parent, "clone", "-q", "--branch", branch, str(origin), str(to))
    return to


async def test_a_named_test_fails_on_the_base_and_passes_on_the_branch(tmp_path: Path) -> None:
    origin = tmp_path / "project.git"
    git(tmp_path, "clone", "-q", "--bare", str(PROJECT), str(origin))
    git(origin, "update-ref", "refs/heads/main", git(PROJECT, "rev-parse", "HEAD"))
    git(origin, "symbolic-ref", "HEAD", "refs/heads/main")
    seed = check_out(origin, "main", tmp_path / "seed")
    module = seed / "agent_harness" / "clip.py"
    source = module.read_text()
    assert BROKEN[0] in source
    module.write_text(source.replace(*BROKEN))
    git(seed, "commit", "-q", "-am", "A bug, for the agent to find")
    git(seed, "push", "-q", "origin", "HEAD:main")
    assert not passes(seed), "the control: the bug is found by the named test"

    def script(request: ChatRequest) -> ScriptedReply:
        match request.turn:
            case 0:
                return call("ripgrep", {"query": "tail = text[", "glob": "*.py"})
            case 1:
                return call("read_file", {"path": "agent_harness/clip.py"})
            case 2:
                line = next(text for text in request.answers[-1].content.splitlines() if "tail = text[" in text)
                return call(
                    "edit_file",
                    {"path": "agent_harness/clip.py", "old_text": line.split("\t")[-1].strip(), "new_text": BROKEN[0]},
                )
            case 3:
                return call("tree_sitter_symbols", {"path": "agent_harness/clip.py"})
            case _:
                return say("The tail is as long as what is left of the window again.")

    rig = Rig(tmp_path, origin)
    ended = await rig.run(script, text="Text that is cut keeps too long a tail. Mend clip().")
    assert ended.outcome == "succeeded", ended.summary
    assert ended.pull_request is not None
    branch = str(ended.pull_request["branch"])
    assert git(origin, "diff", "--name-only", f"main..{branch}") == "agent_harness/clip.py"
    assert passes(check_out(origin, branch, tmp_path / "branch"))
