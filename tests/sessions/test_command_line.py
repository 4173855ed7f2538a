"""The command as people and machines run it: a process of its own, signals, exit codes, one event a line."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import fields
from pathlib import Path
from threading import Event

from agent_harness.demo.script import ChatRequest, ScriptedReply, call, in_order, say
from agent_harness.events import EVENT_TYPES, JsonValue
from agent_harness.trace import COMMON_FIELDS, read
from tests.sessions.process import DEADLINE_S, started
from tests.sessions.rig import Rig

POLITE: dict[str, JsonValue] = {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"}


def test_json_gives_every_event_a_line_and_ends_with_a_whole_session_ended(rig: Rig) -> None:
    script = in_order(call("edit_file", POLITE), say("Done."))
    with started(rig, script, "--json") as process:
        out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    records = [json.loads(line) for line in out.splitlines()]
    for record in records:
        names = {field.name for field in fields(EVENT_TYPES[record["type"]])}
        assert set(record) == names | set(COMMON_FIELDS), record["type"]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    ended = records[-1]
    assert (ended["type"], ended["outcome"], ended["exit_code"]) == ("session_ended", "succeeded", 0)
    assert ended["pull_request"]["branch"].startswith("agent/")
    assert list(read(Path(ended["trace_path"]))) == records
    assert ended["session"] in err


def test_plain_output_tells_the_story_and_where_everything_is(rig: Rig) -> None:
    plan = call("TodoWrite", {"todos": [{"content": "Change the word", "status": "in_progress"}], "notes": []})
    script = in_order(plan, call("run_shell", {"command": "rm -rf ~"}), call("edit_file", POLITE), say("Polite now."))
    with started(rig, script) as process:
        out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    for part in (
        "Change the word",
        "run_shell",
        "guard:rm",
        "edit_file",
        "Polite now.",
        "agent/",
        "pull-request.md",
        "trace.jsonl",
    ):
        assert part in out, part
    assert re.search(r"\$0\.0\d+.*5\.00", out), "what was spent, against the ceiling"


def test_the_first_ctrl_c_stops_the_tool_and_the_turn_and_leaves_a_whole_trace(rig: Rig) -> None:
    log = rig.folder / "ended.json"
    hook = f"cat > {log}"
    script = in_order(call("edit_file", POLITE), call("run_shell", {"command": "touch running; sleep 300", "timeout_s": 120}))
    with started(rig, script, "--json", AGENT_HOOK_SESSION_END=hook) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not any('"run_shell"' in line for line in lines):
            lines.append(process.stdout.readline())
        sandboxed = children(process.pid)
        assert sandboxed, "the control: something runs"
        process.send_signal(signal.SIGINT)
        rest, err = process.stdout.read(), process.stderr.read() if process.stderr else ""
        process.wait(DEADLINE_S)
    assert process.returncode == 130, err
    records = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    ended = records[-1]
    assert (ended["type"], ended["outcome"], ended["reason"]) == ("session_ended", "cancelled", "cancelled")
    calls = [record["id"] for record in records if record["type"] == "tool_call"]
    results = [record["id"] for record in records if record["type"] == "tool_result"]
    assert calls == results
    assert list(read(Path(ended["trace_path"]))) == records
    assert json.loads(log.read_text())["hook_event_name"] == "SessionEnd"
    assert not any(alive(pid) for pid in sandboxed)
    assert any(record.get("kind") == "bundle_kept" for record in records), "the work so far is not lost"


def children(pid: int) -> list[int]:
    """Every process below that one."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(status.parent.name)
            found += [child, *children(child)]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_memory_stays_flat_while_commands_print_megabytes(rig: Rig) -> None:
    peaks: dict[int, int] = {}
    known = Event()
    pids: list[int] = []

    def script(request: ChatRequest) -> ScriptedReply:
        known.wait(DEADLINE_S)
        status = Path(f"/proc/{pids[0]}/status").read_text(encoding="utf-8")
        peaks[request.turn] = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        if request.turn == 50:
            return say("Enough.")
        return call("run_shell", {"command": "seq 1000000 | head -c 4000000"})

    options = ("--max-turns", "60", "--max-tokens", "100000000", "--max-cost", "none", "--compact-at", "100000000", "--json")
    with started(rig, script, *options) as process:
        pids.append(process.pid)
        known.set()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (peaks[50] - peaks[5]) / 1024 < 20, f"{peaks[5]} KiB after turn 5, {peaks[50]} KiB after turn 50"
