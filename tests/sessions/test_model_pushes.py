"""`git push` by the model: the harness pushes the session's branch now, and goes on from there at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_harness.demo.script import ChatRequest, Script, ScriptedReply, call, say
from agent_harness.events import JsonValue
from agent_harness.task import Permits
from tests.sessions.rig import Rig, git
from tests.sessions.test_looking_back import look

pytestmark = pytest.mark.anyio

EDIT = call("edit_file", {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"})
AGAIN = call("edit_file", {"path": "greet.py", "old_text": "Good day", "new_text": "Good evening"})
COMMIT = call("git", {"command": "commit", "args": ["-m", "Politer"]})
PUSH = call("git", {"command": "push"})  # its arguments are the session's branch, which is known when it runs
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def script(rig: Rig, *replies: ScriptedReply) -> Script:
    left = list(replies)

    def answer(_request: ChatRequest) -> ScriptedReply:
        reply = left.pop(0)
        assert rig.session is not None
        words: list[JsonValue] = ["-u", "origin", f"HEAD:refs/heads/{rig.session.branch}"]
        return call("git", {"command": "push", "args": words}) if reply is PUSH else reply

    return answer


def steps(rig: Rig) -> list[object]:
    return [record["step"] for record in rig.of("publish_step")]


async def test_the_branch_is_there_at_once_and_moves_on_at_the_end(rig: Rig) -> None:
    hook = rig.origin / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\necho "$2 $3" >> {rig.folder}/updates\n')
    hook.chmod(0o755)
    ended = await rig.run(script(rig, EDIT, COMMIT, PUSH, AGAIN, say("Done.")))
    assert ended.outcome == "succeeded", ended.summary
    branch = rig.pushed()
    told = rig.results()[2]
    assert f"Pushed {branch} at " in told
    first, last = [line.split() for line in (rig.folder / "updates").read_text().splitlines()]
    assert first[0] == "0" * 40
    assert first[1] in told
    assert last == [first[1], rig.branches()[branch]], "the second push is a fast-forward on top of the first"
    assert "Good evening" in rig.show(branch, "greet.py")
    assert steps(rig).count("pull_request") == 1
    assert steps(rig).count("pushed") == 2


async def test_a_commit_of_somebody_else_on_the_branch_is_never_overwritten(rig: Rig) -> None:
    other = git(rig.origin, "commit-tree", "-p", "main", "-m", "theirs", "main^{tree}")
    hook = rig.origin / "hooks" / "post-update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\ngit update-ref "$1" {other}\n')
    hook.chmod(0o755)
    ended = await rig.run(script(rig, EDIT, COMMIT, PUSH, say("Done.")))
    assert ended.outcome == "failed"
    assert other in ended.summary
    assert rig.branches()[rig.pushed()] == other


async def test_a_session_killed_after_the_push_is_published_on_top_of_it(rig: Rig) -> None:
    ended = await rig.run(script(rig, EDIT, COMMIT, PUSH, AGAIN, say("Done.")))
    assert ended.pull_request is not None
    assert rig.session is not None
    heads = [str(record["key"]).split()[-1] for record in rig.of("intent") if record["effect"] == "push"]
    git(rig.origin, "update-ref", f"refs/heads/{rig.session.branch}", heads[0])
    done = look(rig, "publish", rig.session.id)
    assert done.returncode == 0, done.stderr
    assert rig.branches()[rig.session.branch] == heads[1]


async def test_a_refused_push_tells_the_model_why_and_no_place_on_this_machine(rig: Rig) -> None:
    shell = call("run_shell", {"command": f"printf \"K = 'ghp_%s'\\n\" {TOKEN[4:]} > k.py"})
    ended = await rig.run(script(rig, shell, COMMIT, PUSH, say("Done.")))
    told = rig.results()[2]
    assert told.startswith('Not pushed: the commits add a credential: "k.py" line 1')
    assert str(rig.folder) not in told
    assert TOKEN not in told
    assert rig.branches().keys() == {"main"}
    assert (ended.outcome, ended.reason) == ("failed", "secret_found")
    assert "--allow-secrets" in ended.summary
    assert TOKEN not in ended.summary
    assert rig.session is not None
    unread = b"".join(path.read_bytes() for path in rig.session.folder.rglob("*.jsonl"))
    assert TOKEN.encode() not in unread
    assert not list(rig.session.folder.rglob("added.patch"))
    done = look(rig, "publish", rig.session.id, "--allow-secrets", "k.py")
    assert done.returncode == 0, done.stderr
    assert TOKEN in rig.show(rig.session.branch, "k.py"), "the control: it was in the work"
    body = next(rig.session.folder.glob("pull-request.md")).read_text()
    assert '"k.py" line 1' in body
    assert TOKEN not in body


async def test_without_a_pull_request_nothing_is_pushed_and_it_is_said(rig: Rig) -> None:
    ended = await rig.run(script(rig, EDIT, COMMIT, PUSH, say("Done.")), pull_request=False)
    assert "--no-pr" in rig.results()[2]
    assert ended.outcome == "succeeded"
    assert rig.branches().keys() == {"main"}


async def test_a_push_of_anything_else_or_of_nothing_is_refused(rig: Rig) -> None:
    main = call("git", {"command": "push", "args": ["origin", "HEAD:main"]})
    before = rig.branches()
    await rig.run(script(rig, main, PUSH, say("Done.")))
    assert "Refused by guard:push" in rig.results()[0]
    assert "no commit differs" in rig.results()[1]
    assert rig.branches() == before


async def test_the_scope_holds_for_the_tools_and_for_what_the_shell_changed(rig: Rig) -> None:
    write = call("run_shell", {"command": "echo more >> README.md"})
    ended = await rig.run(script(rig, EDIT, write, say("Done.")), permits=Permits(scope=("README.md",)))
    assert "outside what this session may change" in rig.results()[0]
    assert ended.outcome == "succeeded", ended.summary
    assert rig.show(rig.pushed(), "README.md").endswith("more")


async def test_a_change_outside_the_scope_is_refused_and_publish_can_widen_it(rig: Rig) -> None:
    write = call("run_shell", {"command": "echo more >> README.md"})
    ended = await rig.run(script(rig, write, say("Done.")), permits=Permits(scope=("*.py",)))
    assert (ended.outcome, ended.reason) == ("failed", "outside_scope")
    assert "README.md" in ended.summary
    assert rig.branches().keys() == {"main"}
    assert rig.session is not None
    assert look(rig, "publish", rig.session.id).returncode == 1
    done = look(rig, "publish", rig.session.id, "--scope", "README.md")
    assert done.returncode == 0, done.stderr
    assert Path(rig.session.folder / "pull-request.md").exists()
