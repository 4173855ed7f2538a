"""A slow clone says what it does; a quick one says nothing."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from agent_harness.demo.script import in_order, say
from tests.sessions.process import DEADLINE_S, started
from tests.sessions.rig import Rig

SLOW = """#!/bin/sh
case " $* " in *" fetch "*) read line <'{gate}' ;; esac
exec '{git}' "$@"
"""


@pytest.mark.parametrize("output", ["--json", "--plain"])
def test_a_clone_that_takes_over_a_second_is_told_on_stderr(rig: Rig, tmp_path: Path, output: str) -> None:
    """git waits until the line is there, so the line is what lets the session go on."""
    gate, tools, git = tmp_path / "gate", tmp_path / "tools", shutil.which("git")
    os.mkfifo(gate)
    tools.mkdir()
    (tools / "git").write_text(SLOW.format(gate=gate, git=git))
    (tools / "git").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    with started(rig, in_order(say("Nothing to do.")), output, PATH=path) as process:
        watchdog = threading.Timer(DEADLINE_S, process.kill)
        watchdog.start()
        assert process.stderr is not None
        line = next((line for line in process.stderr if "cloning" in line), "it ended without the line")
        assert line == f"cloning {rig.url} (1 s)\n"
        gate.write_text("go on\n")
        out, err = process.communicate(timeout=DEADLINE_S)
        watchdog.cancel()
    assert process.returncode == 0
    assert f"cloning {rig.url}: done, " in err
    assert "cloning" not in out
