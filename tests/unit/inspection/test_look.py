"""What `inspect` finds beside git's own drivers, and what it never shows or opens."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agent_harness.cli import run_command_line
from agent_harness.errors import ConfigError
from agent_harness.inert_git import Git
from agent_harness.inspection.base import Finding
from agent_harness.inspection.config import judge
from agent_harness.inspection.look import in_path

pytestmark = pytest.mark.anyio
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def git(where: Path, *args: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    return subprocess.run(
        ["git", *identity, *args], cwd=where, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


FILES = {
    ".envrc": "export X=$(curl evil)\n",
    ".gitattributes": "*.psd filter=lfs -text\n*.c diff=cpp2\n*.md merge=union\n",
    ".gitmodules": '[submodule "a"]\n\tpath = a\n\turl = --upload-pack=evil\n\tupdate = !evil\n[include]\n\tpath = /etc/passwd\n',
    ".vscode/tasks.json": '{ // a comment\n "tasks": [{"label": "go", "command": "evil", "args": ["-x"],'
    ' "runOptions": {"runOn": "folderOpen"}},] }\n',
    ".devcontainer/devcontainer.json": '{"initializeCommand": ["evil", "http://x"]}\n',
    "web/package.json": '{"scripts": {"postinstall": "node evil.js", "test": "jest", "prepare": "husky"}}\n',
    "web/.husky/pre-commit": "evil\n",
    ".pre-commit-config.yaml": "repos: []\n",
    ".claude/settings.json": '{"hooks": {}}\n',
    "lib/setup.py": "import evil\n",
    ".yarnrc.yml": "yarnPath: .yarn/evil.cjs\n",
    "Makefile": "all:\n\tevil\n",
    "node_modules/x/package.json": '{"scripts": {"postinstall": "inner"}}\n',
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def inert(tmp_path: Path) -> Git:
    return Git(tmp_path / "scratch", str)


def told(found: list[Finding]) -> set[tuple[str, str, str]]:
    return {(each.kind, each.where, each.command) for each in found}


EXPECTED = {
    ("direnv", ".envrc", ""),
    ("attribute", ".gitattributes", ""),
    ("submodule-url", ".gitmodules", "--upload-pack=evil"),
    ("submodule-update", ".gitmodules", "!evil"),
    ("editor-task", ".vscode/tasks.json", "evil -x"),
    ("container", ".devcontainer/devcontainer.json", '["evil", "http://x"]'),
    ("install-script", "web/package.json", "node evil.js"),
    ("install-script", "web/package.json", "husky"),
    ("hook", "web/.husky/pre-commit", ""),
    ("pre-commit", ".pre-commit-config.yaml", ""),
    ("agent-settings", ".claude/settings.json", ""),
    ("install-script", "lib/setup.py", ""),
    ("install-script", ".yarnrc.yml", ".yarn/evil.cjs"),
}


async def test_files_that_run_by_everyday_commands_are_listed_and_a_makefile_is_not(checkout: Path, inert: Git) -> None:
    assert told(await in_path(inert, checkout)) == EXPECTED
    assert told(await in_path(inert, checkout / "web")) == EXPECTED


async def test_a_bare_repository_is_read_from_its_commit(checkout: Path, inert: Git, tmp_path: Path) -> None:
    git(checkout, "add", "-A", "-f")
    git(checkout, "commit", "-qm", "all")
    git(tmp_path, "clone", "-q", "--bare", str(checkout), "bare.git")
    (tmp_path / "bare.git" / "hooks" / "post-receive").write_text("#!/bin/sh\nevil\n")
    (tmp_path / "bare.git" / "hooks" / "post-receive").chmod(0o755)
    hook = ("hook", "./hooks/post-receive", "evil")
    assert told(await in_path(inert, tmp_path / "bare.git")) == EXPECTED | {hook}


def test_a_url_is_read_without_its_configuration(checkout: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    git(checkout, "config", "alias.x", "!evil")
    (checkout / ".gitmodules").unlink()
    git(checkout, "add", "-A", "-f")
    git(checkout, "commit", "-qm", "all")
    assert run_command_line(["inspect", checkout.as_uri()]) == 0
    said = capsys.readouterr().out
    assert "direnv             .envrc" in said
    assert "alias" not in said
    assert "12 things in file://" in said


async def test_includes_worktrees_and_submodules_are_followed(checkout: Path, inert: Git, tmp_path: Path) -> None:
    extra = checkout / ".git" / "extra"
    extra.write_text('[alias]\n\tst = "!evil"\n\tok = status -s\n[include]\n\tpath = extra\n')
    module = checkout / ".git" / "modules" / "a"
    git(tmp_path, "init", "-q", "--bare", str(module))
    git(module, "config", "core.fsmonitor", "evil2")
    git(checkout, "add", "Makefile")
    git(checkout, "commit", "-qm", "x")
    git(checkout, "worktree", "add", "-q", str(tmp_path / "linked"))
    with (checkout / ".git" / "config").open("a") as config:
        config.write('[include]\n\tpath = extra\n[includeIf "gitdir:/x/"]\n\tpath = /missing\n')
    for place in (checkout, tmp_path / "linked"):
        kinds = [(each.kind, each.name, each.command) for each in await in_path(inert, place)]
        assert kinds.count(("alias", "alias.st", "!evil")) == 1
        assert ("fsmonitor", "core.fsmonitor", "evil2") in kinds
        assert len([kind for kind, _, _ in kinds if kind == "include"]) == 3


async def test_pipes_links_and_broken_files_are_neither_waited_for_nor_followed(
    checkout: Path, inert: Git, tmp_path: Path
) -> None:
    (checkout / ".gitattributes").unlink()
    os.mkfifo(checkout / ".gitattributes")
    (tmp_path / "outside.json").write_text('{"scripts": {"install": "outside"}}')
    (checkout / "sub").mkdir()
    (checkout / "sub" / "package.json").symlink_to(tmp_path / "outside.json")
    (checkout / "broken").mkdir()
    (checkout / "broken" / "package.json").write_text("[" * 100_000)
    (checkout / ".git" / "config").write_text("[core\n")
    found = told(await in_path(inert, checkout))
    assert ("unreadable", ".git/config", "") in found
    assert not any("outside" in command for _, _, command in found)


def test_credentials_are_not_shown(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(checkout, "config", "credential.helper", f"!echo password={TOKEN}")
    git(checkout, "config", f"url.https://x:{TOKEN}@forge.invalid/.insteadOf", "https://forge.invalid/")
    assert run_command_line(["inspect", str(checkout)]) == 0
    said = capsys.readouterr().out
    assert "credential-helper" in said
    assert "instead-of" in said
    assert TOKEN not in said
    assert TOKEN in (checkout / ".git" / "config").read_text(), "the control: it is there to be shown"
    assert run_command_line(["inspect", str(checkout), "--json"]) == 0
    assert TOKEN not in json.dumps(json.loads(capsys.readouterr().out))


async def test_what_is_no_repository_is_named(tmp_path: Path, inert: Git) -> None:
    with pytest.raises(ConfigError, match="no git repository"):
        await in_path(inert, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("core.fsmonitor", "true", None),
        ("core.fsmonitor", "/x/y", "fsmonitor"),
        ("alias.st", "status", None),
        ("core.pager", "false", None),
        ("filter.a.b.process", "x", "filter"),
        ("gpg.ssh.program", "x", "gpg-program"),
        ("remote.origin.url", "https://forge.invalid/x.git", None),
        ("remote.origin.url", "ext::sh -c evil", "remote-helper"),
        ("remote.origin.uploadpack", "evil", "remote-program"),
        ("submodule.a.update", "rebase", None),
        ("user.name", "evil", None),
        ("diff.evil.command", "x", "diff-driver"),
        ("merge.evil.driver", "x", "merge-driver"),
    ],
)
def test_a_configuration_key_counts_only_when_it_runs_something(key: str, value: str, kind: str | None) -> None:
    found = judge("config", key, value)
    assert (found.kind if found else None) == kind
