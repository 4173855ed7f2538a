"""Signals at any moment, and a reader of the output that goes away: nothing is lost, and the last line says where it is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_harness.demo.script import ScriptedReply, call, in_order, say
from agent_harness.demo.server import ScriptedEndpoint
from agent_harness.events import JsonValue
from agent_harness.trace import Record, read
from tests.sessions.process import DEADLINE_S, started
from tests.sessions.rig import Rig

POLITE: dict[str, JsonValue] = {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"}
LONG: ScriptedReply = call("run_shell", {"command": "sleep 300", "timeout_s": 120})


def only_trace(rig: Rig) -> Path:
    (path,) = (rig.folder / "home" / "sessions").glob("*/trace.jsonl")
    return path


def until(process: subprocess.Popen[str], mark: str) -> None:
    """Read the process's stdout up to a line that holds the mark."""
    assert process.stdout is not None
    for line in process.stdout:
        if mark in line:
            return
    raise AssertionError(f"no line with {mark!r}")


@pytest.mark.parametrize("output", ["--json", "--plain"])
def test_a_reader_that_goes_away_ends_the_showing_and_not_the_session(rig: Rig, output: str) -> None:
    script = in_order(call("edit_file", POLITE), say("Done."))
    with started(rig, script, output) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        code = process.wait(DEADLINE_S)
    assert code == 0, err
    records = list(read(only_trace(rig)))
    assert records[-1]["outcome"] == "succeeded"
    assert str(only_trace(rig)) in err.splitlines()[-1]
    assert str(records[-1]["session"]) in err.splitlines()[-1]
    assert len(rig.branches()) == 2


def test_sigterm_ends_a_session_like_ctrl_c(rig: Rig) -> None:
    with started(rig, in_order(LONG), "--json") as process:
        until(process, '"tool_call"')
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, err
    ended: Record = list(read(only_trace(rig)))[-1]
    assert (ended["type"], ended["outcome"]) == ("session_ended", "cancelled")


def test_a_second_ctrl_c_does_not_wait_for_what_the_first_one_started(rig: Rig) -> None:
    slow = "cat > /dev/null; exec sleep 300"
    with started(rig, in_order(LONG), "--json", AGENT_HOOK_SESSION_END=slow) as process:
        assert process.stderr is not None
        until(process, '"tool_call"')
        process.send_signal(signal.SIGINT)
        while "once more" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S / 2) == 130
        err = process.stderr.read()
    records = list(read(only_trace(rig)))
    assert "tool_call" in [record["type"] for record in records]
    assert "hook" not in [record["type"] for record in records]  # control: the end was really not waited for
    assert (records[-1]["type"], records[-1]["outcome"], records[-1]["exit_code"]) == ("session_ended", "cancelled", 130)
    assert "not saved" in str(records[-1]["summary"])
    assert f"session {records[0]['session']} cancelled without waiting" in err
    assert str(only_trace(rig)) in err


def test_ctrl_c_after_the_end_changes_no_exit_code(rig: Rig) -> None:
    """Nobody reads the output, so the process cannot leave although its session has ended."""
    one = call("run_shell", {"command": "seq 1 100000"})
    long = ScriptedReply(calls=one.calls * 30)
    roomy = ("--max-tokens", "9000000", "--max-cost", "none")
    with started(rig, in_order(long, say("Done.")), "--json", *roomy) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("session ")
        trace = only_trace(rig)
        deadline = time.monotonic() + DEADLINE_S
        while b'"session_ended"' not in trace.read_bytes():
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        assert "ended already" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S / 2) == 0
        assert "had ended" in process.stderr.read()
    assert [record["type"] for record in read(trace)].count("session_ended") == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_the_last_moment_changes_no_exit_code(rig: Rig, name: str) -> None:
    program = (
        "import os, signal, sys\n"
        "import agent_harness.__main__ as program\n"
        "leave = program.leave\n"
        f"program.leave = lambda code: (os.kill(os.getpid(), signal.{name}), leave(code))\n"
        f"sys.argv = ['agent-harness', 'run', {rig.url!r}, 'x', '--price-in', '1', '--price-out', '1']\n"
        "program.main()\n"
    )
    with ScriptedEndpoint(in_order(call("edit_file", POLITE), say("Done."))) as endpoint:
        env = {"PATH": os.environ["PATH"], "HOME": str(rig.folder), "AGENT_MODEL": "m", "OPENAI_BASE_URL": endpoint.base_url}
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, env={**env, "OPENAI_API_KEY": endpoint.key}, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "succeeded (pull_request)" in done.stdout


def test_ctrl_c_between_the_pull_request_and_the_end_does_not_call_it_cancelled(rig: Rig) -> None:
    slow = f"cat > {rig.folder}/told; exec sleep 300"
    script = in_order(call("edit_file", POLITE), say("Done."))
    with started(rig, script, "--json", AGENT_HOOK_SESSION_END=slow) as process:
        assert process.stderr is not None
        until(process, '"closed"')
        process.send_signal(signal.SIGINT)
        while "once more" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S / 2) == 0
    ended = list(read(only_trace(rig)))[-1]
    assert (ended["type"], ended["outcome"], ended["exit_code"]) == ("session_ended", "succeeded", 0)
    assert isinstance(ended["pull_request"], dict)


def test_ctrl_c_while_the_remote_keeps_silent_leaves_nothing_behind(rig: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_S)
        port = silent.getsockname()[1]
        with started(rig, in_order(), repo=f"http://127.0.0.1:{port}/r.git") as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, ""), err
    assert "nothing was spent" in err.splitlines()[-1]
    assert not (rig.folder / "home").exists()


def test_ctrl_c_before_anything_has_begun_is_one_line(rig: Rig) -> None:
    program = (
        "import os, signal, sys\n"
        "class PressCtrlC:\n"
        "    @staticmethod\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'agent_harness.headless':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, PressCtrlC)\n"
        "sys.argv = ['agent-harness', 'run', '.', 'x']\n"
        "from agent_harness.__main__ import main\n"
        "main()\n"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(rig.folder), "OPENAI_API_KEY": "k", "AGENT_MODEL": "m"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=rig.folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (done.returncode, done.stderr) == (130, "agent-harness: cancelled\n")


def test_a_module_in_the_current_folder_is_never_imported(rig: Rig) -> None:
    planted = rig.folder / "planted"
    planted.mkdir()
    for name in ("anyio", "openai", "json", "agent_harness"):
        (planted / f"{name}.py").write_text("raise SystemExit('planted code ran')\n", "utf-8")
    env = {"PATH": os.environ["PATH"], "HOME": str(rig.folder), "OPENAI_API_KEY": "k", "AGENT_MODEL": "m"}

    def run(*arguments: str) -> str:
        done = subprocess.run(arguments, env=env, cwd=planted, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        return done.stderr

    assert "planted code ran" in run(sys.executable, "-c", "import anyio")  # control
    command = Path(sys.executable).with_name("agent-harness")
    assert "planted code ran" not in run(str(command), "run", "/nonexistent.git", "x")
    (planted / "agent_harness.py").unlink()
    assert "planted code ran" not in run(sys.executable, "-m", "agent_harness", "run", "/nonexistent.git", "x")
