"""The demo as a person starts it, with three seeds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from agent_harness.demo.repository import make_repository
from agent_harness.trace import Record, read
from tests.sessions.rig import git

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    """The seed, what was printed, and the folder that the demo kept."""
    seed = cast("int", request.param)
    temporary = tmp_path_factory.mktemp("demo")
    environ = {"PATH": os.environ["PATH"], "HOME": str(temporary), "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "agent_harness", "demo", "--seed", str(seed)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = temporary.glob("agent-harness-demo-*")
    return seed, done.stdout, folder


def trace_of(folder: Path) -> list[Record]:
    (trace,) = folder.glob("state/sessions/*/trace.jsonl")
    return list(read(trace))


def test_it_says_that_no_llm_is_involved_and_names_what_came_of_it(shown: tuple[int, str, Path]) -> None:
    _, out, folder = shown
    assert "No LLM is involved" in out
    assert re.search(r"branch +agent/", out)
    for label in ("pull request", "trace", "all of it"):
        (line,) = [line for line in out.splitlines() if re.match(rf"  {label}  ", line)]
        path = re.search(re.escape(str(folder)) + r"\S*", line)
        assert path is not None, line
        assert Path(path[0]).exists()


def test_the_pushed_branch_mends_the_line_and_nothing_else(shown: tuple[int, str, Path]) -> None:
    seed, _, folder = shown
    repository = make_repository(seed)
    origin = folder / f"{repository.package}.git"
    (branch,) = [name for name in git(origin, "for-each-ref", "--format=%(refname:short)").splitlines() if name != "main"]
    diff = git(origin, "diff", "main", branch, "--unified=0").splitlines()
    changed = [line for line in diff if re.match(r"[-+](?![-+]{2} )", line)]
    assert changed == [f"-{repository.wrong}", f"+{repository.right}"]


def test_the_trace_has_each_thing_that_the_demo_promises(shown: tuple[int, str, Path]) -> None:
    seed, _, folder = shown
    repository = make_repository(seed)
    trace = trace_of(folder)
    called = [record for record in trace if record["type"] == "tool_call"]
    assert {"TodoWrite", "ripgrep", "read_file", "run_shell", "edit_file", "git"} <= {str(record["name"]) for record in called}
    by_command = {json.dumps(record["arguments"]): str(record["id"]) for record in called}
    denied = {
        str(record["call_id"]): str(record["by"])
        for record in trace
        if record["type"] == "verdict"
        if record["decision"] == "deny"
    }
    assert denied == {
        by_command['{"command": "rm -rf ~"}']: "guard:rm",
        by_command['{"command": "git push origin main"}']: "guard:push",
    }
    tests = [
        str(r["content"])
        for r in trace
        if r["type"] == "tool_result" and "Ran " in str(r["content"]) and r["name"] == "run_shell"
    ]
    assert [bool(re.search(rf"^(?:FAIL|ERROR): {repository.failing}", content, re.M)) for content in tests] == [True, False]
    said = " ".join(str(record["text"]) for record in trace if record["type"] == "assistant_text")
    assert repository.failing in said
    assert repository.wrong.strip() in said
    assert trace[-1]["outcome"] == "succeeded"
    assert cast("float", trace[-1]["cost_usd"]) > 0


def test_another_seed_is_another_repository() -> None:
    assert len({make_repository(seed).buggy for seed in SEEDS}) == len(SEEDS)
