"""The hostile-repository kit: 13 commands that plain git runs, and none of them on this machine by anything of ours."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agent_harness.cli import run_command_line
from agent_harness.demo.script import call, in_order, say
from tests.fakes.hostile_repository import PLANTED, USUAL_SWITCHES, HostileRepository
from tests.sessions.rig import Rig


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextlib.contextmanager
def refusing() -> Generator[str]:
    """A server that wants credentials: git then asks its helpers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/x.git"
        server.shutdown()
        thread.join()


@pytest.fixture
def hostile(tmp_path: Path) -> HostileRepository:
    return HostileRepository(tmp_path / "hostile")


def test_the_control_plain_git_runs_all_thirteen_and_the_usual_switches_leave_some(
    hostile: HostileRepository, tmp_path: Path
) -> None:
    with refusing() as url:
        assert hostile.everyday(url) == PLANTED
        assert len(PLANTED) == 13
        again = HostileRepository(tmp_path / "again")
        assert again.everyday(url, USUAL_SWITCHES) >= {"clean", "smudge", "textconv"}


@pytest.mark.anyio
async def test_a_session_on_it_runs_none_of_them_on_this_machine(rig: Rig, hostile: HostileRepository) -> None:
    change = call("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "three"})
    commit = call("git", {"command": "commit", "args": ["-m", "Three"]})
    look = call("git", {"command": "log", "args": ["-p"]})
    attributes = call("edit_file", {"path": "sub/.gitattributes", "old_text": "", "new_text": "* filter=evil diff=evil\n"})
    rig.origin = hostile.work / ".git"
    ended = await rig.run(in_order(change, commit, look, attributes, say("Done.")))
    assert ended.outcome == "succeeded", ended.summary
    assert hostile.ran() == set()
    assert "Three" in rig.results()[2]
    assert rig.session is not None
    assert (hostile.work / ".git" / "refs" / "heads" / rig.session.branch).exists(), "the work was pushed there"


def test_inspect_names_every_one_and_runs_none(
    hostile: HostileRepository, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile.folder)
    assert run_command_line(["inspect", "work", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    commands = " ".join(f"{each['name']} {each['command']}" for each in said["findings"])
    for name in PLANTED:
        assert f"marks/{name}" in commands or f"{name}.sh" in commands, name
    assert hostile.ran() == set()
    with refusing() as url:
        assert hostile.everyday(url) == PLANTED, "what was inspected was alive"
