"""`publish SESSION` finishes what a session could not, and does nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_harness.demo.script import call, in_order, say
from tests.sessions.rig import Rig, git
from tests.sessions.test_looking_back import look

pytestmark = pytest.mark.anyio

EDIT = call("edit_file", {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"})


def refuse_pushes(origin: Path) -> Path:
    hook = origin / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho closed for maintenance >&2\nexit 1\n")
    hook.chmod(0o755)
    return hook


async def test_a_refused_push_is_told_and_finished_later(rig: Rig) -> None:
    hook = refuse_pushes(rig.origin)
    ended = await rig.run(in_order(EDIT, say("Done.")))
    assert (ended.outcome, ended.exit_code) == ("failed", 1)
    assert "work.bundle" in ended.summary
    assert rig.session is not None
    still = look(rig, "publish", rig.session.id)
    assert still.returncode == 1
    assert "work.bundle" in still.stderr
    hook.unlink()
    done = look(rig, "publish", rig.session.id)
    assert done.returncode == 0, done.stderr
    branch = rig.pushed()
    assert branch in done.stdout
    assert "Good day" in rig.show(branch, "greet.py")
    records = rig.trace
    assert records[-1]["type"] == "session_ended"
    assert records[-1]["outcome"] == "succeeded"
    assert branch in look(rig, "sessions", "--json").stdout or "pull-request.md" in look(rig, "sessions", "--json").stdout


async def test_publishing_twice_pushes_and_opens_once(rig: Rig) -> None:
    ended = await rig.run(in_order(EDIT, say("Done.")))
    assert ended.pull_request is not None
    head = rig.branches()[rig.pushed()]
    body = Path(str(ended.pull_request["url"]).removeprefix("file://"))
    before = body.read_bytes()
    assert rig.session is not None
    again = look(rig, "publish", rig.session.id)
    assert again.returncode == 0, again.stderr
    assert rig.branches()[rig.pushed()] == head
    assert body.read_bytes() == before
    steps = [record["step"] for record in rig.of("publish_step")]
    assert steps.count("pushed") == 1
    assert "already_pushed" in steps


async def test_work_that_was_kept_without_a_pull_request_can_be_published(rig: Rig) -> None:
    await rig.run(in_order(EDIT, say("Done.")), pull_request=False)
    assert set(rig.branches()) == {"main"}
    assert look(rig, "publish", "last").returncode == 0
    assert git(rig.origin, "log", "-1", "--format=%s", rig.pushed()) == "Make the greeting polite."


async def test_a_session_without_work_is_one_line_and_exit_2(rig: Rig) -> None:
    await rig.run(in_order(say("Nothing to do.")))
    done = look(rig, "publish", "last")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "kept no work" in done.stderr
