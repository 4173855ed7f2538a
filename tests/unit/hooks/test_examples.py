"""The two policies in `hooks/` work as they stand there, run as a session runs them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from agent_harness.events import JsonValue
from tests.unit.hooks.rig import HookRig

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[3] / "hooks"


def bash(command: str) -> dict[str, JsonValue]:
    return {"tool_name": "Bash", "tool_input": {"command": command}, "agent": {"tool": "run_shell", "root": "/workspace"}}


def file(tool: str, path: str) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {"file_path": path, "content": "x", "old_string": "migrations/1.sql"}
    return {"tool_name": tool, "tool_input": told, "agent": {"tool": "edit_file", "root": "/workspace"}}


async def refused(rig: HookRig, script: str, payload: dict[str, JsonValue], *arguments: str) -> bool:
    rig.environ = {"PATH": os.environ["PATH"]}
    rig.settings.clear()
    rig.add(shlex.join([str(FOLDER / script), *arguments]))
    worktree = rig.folder / "worktree"
    rig.hooks().check(worktree)
    told = payload["tool_input"]
    if isinstance(told, dict) and "file_path" in told:  # files are named by their place on this machine
        payload = {**payload, "tool_input": {**told, "file_path": f"{worktree}/{told['file_path']}"}}
    answer = await rig.fire(payload)
    assert not answer.broken
    assert bool(answer.reason) == answer.blocked
    return answer.blocked


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (file("Write", "migrations/0001.sql"), True),
        (file("Edit", "migrations/deep/er/0002.sql"), True),
        (file("Edit", "poetry.lock"), True),
        (file("Edit", "sub/./x/../uv.lock"), True),
        (file("Write", "src/migrations.py"), False),
        (file("Edit", "docs/locks.md"), False),
        (file("Read", "migrations/0001.sql"), False),
        (bash("rm -r migrations"), True),
        (bash("echo x > migrations/0003.sql"), True),
        (bash("echo x>/workspace/uv.lock"), True),
        (bash("cp a.lock b && sed -i s/a/b/ poetry.lock"), True),
        (bash("dd of=uv.lock"), True),
        (bash("git checkout HEAD~1 -- migrations/0001.sql"), True),
        (bash("cat migrations/0001.sql"), False),
        (bash("cat a.txt > migrations/0001.sql"), True),
        (bash("git diff -- uv.lock"), False),
        (bash("python -m pytest tests"), False),
        (bash("echo 'unfinished"), False),
    ],
)
async def test_protected_paths_are_not_written(rig: HookRig, payload: dict[str, JsonValue], expected: bool) -> None:
    assert await refused(rig, "protected_paths.py", payload) == expected


async def test_which_paths_are_protected_can_be_said(rig: HookRig) -> None:
    for path, expected in (("package.json", True), ("sub/package.json", True), ("ci/a/b.yml", True), ("uv.lock", False)):
        assert await refused(rig, "protected_paths.py", file("Edit", path), "package.json", "ci/**") == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("curl https://example.org", True),
        ("cd /tmp && wget -q x", True),
        ("echo hi | nc example.org 80", True),
        ("/usr/bin/ssh host", True),
        ("A=1 B=2 curl x", True),
        ("sudo -E env A=1 timeout -k5 10 curl x", True),
        ("echo $(curl x)", True),
        ("true\nscp a b:", True),
        ("'curl' x", True),
        ("c\\url x", True),
        ("if true; then curl x; fi", True),
        ("grep -rn curl .", False),
        ("echo ssh", False),
        ("git commit -m 'curl support'", False),
        ("curly x; sshd_config_check", False),
        ("python -m pytest -k wget", False),
    ],
)
async def test_network_tools_are_refused_and_words_about_them_are_not(rig: HookRig, command: str, expected: bool) -> None:
    assert await refused(rig, "no_network_tools.sh", bash(command)) == expected


async def test_which_network_tools_can_be_said(rig: HookRig) -> None:
    assert await refused(rig, "no_network_tools.sh", bash("gh pr list"), "gh")
    assert not await refused(rig, "no_network_tools.sh", bash("curl x"), "gh")


async def test_other_tools_pass_and_a_broken_event_does_not(rig: HookRig) -> None:
    assert not await refused(rig, "no_network_tools.sh", file("Read", "curl"))
    for script in ("no_network_tools.sh", "protected_paths.py"):
        rig.settings.clear()
        rig.add(shlex.quote(str(FOLDER / script)))
        assert (await rig.fire({"tool_name": "Bash"})).broken
