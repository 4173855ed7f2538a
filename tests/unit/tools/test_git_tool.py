from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_harness.events import JsonValue
from agent_harness.surfaces.changes import Changeable
from agent_harness.task import Permits
from tests.fakes.host_surface import HostSurface
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio


def git(root: Path, *args: str) -> str:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    return subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    (folder / ".env").write_text("K=COMMITTED\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "checkout", "-q", "-b", "agent/test")
    return folder


@pytest.fixture
def surface(root: Path) -> HostSurface:
    return HostSurface(root)


@pytest.fixture
def tools(surface: HostSurface, tmp_path: Path) -> Bench:
    return Bench(surface, tmp_path / "outputs")


async def test_reading_commands_show_the_repository(tools: Bench, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    assert " M a.txt" in await tools.text("git", command="status", args=["--short"])
    assert "+two" in await tools.text("git", command="diff")
    assert "1 file changed" in await tools.text("git", command="diff", args=["--stat", "a.txt"])
    assert "base" in await tools.text("git", command="log", args=["--oneline", "-n", "5"])
    assert "+one" in await tools.text("git", command="show", args=["HEAD"])
    assert (await tools.text("git", command="show", args=["HEAD:a.txt"])) == "one\n[exit code 0]"
    assert "base" in await tools.text("git", command="log", args=["--format=%s", "--follow", "--", "a.txt"])


async def test_a_commit_stages_and_commits_everything_but_denied_files(tools: Bench, root: Path, surface: HostSurface) -> None:
    (root / "new.txt").write_text("x\n", encoding="utf-8")
    (root / "prod.key").write_text("secret\n", encoding="utf-8")
    (root / ".env").write_text("K=changed\n", encoding="utf-8")
    (root / "a.txt").unlink()
    (root / ".agent" / "state.json").write_text("{}", encoding="utf-8")
    output = await tools.run("git", command="commit", args=["-m", "Add new", "-m", "Because."])
    assert output.ok, output.text
    assert git(root, "show", "--format=%an <%ae>%n%B", "--name-status").split("\n") == [
        "agent-harness <agent-harness@localhost>",
        "Add new",
        "",
        "Because.",
        "",
        "",
        "D\ta.txt",
        "A\tnew.txt",
        "",
    ]
    ran = list(zip((words[0] for words in surface.ran), surface.writable, strict=True))
    assert ran == [("git", False), ("git", True), ("git", False), ("git", True)]


async def test_a_commit_of_named_paths_leaves_the_rest(tools: Bench, root: Path) -> None:
    (root / "b [x].txt").write_text("x\n", encoding="utf-8")
    (root / "c.txt").write_text("x\n", encoding="utf-8")
    await tools.text("git", command="commit", args=["-m", "b", "b [x].txt"])
    assert git(root, "show", "--format=", "--name-only").strip() == "b [x].txt"
    assert "c.txt" in await tools.text("git", command="status", args=["-s"])


async def test_what_cannot_be_staged_is_said(tools: Bench, root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n.agent\n", encoding="utf-8")
    (root / "x.log").touch()
    git(root, "init", "-q", "inner")
    git(root / "inner", "commit", "-q", "--allow-empty", "-m", "x")
    output = await tools.run("git", command="commit", args=["-m", "x", "x.log", "inner"])
    assert not output.ok
    assert 'nothing to stage at "x.log": it is unchanged, ignored or not there' in output.text
    assert 'a git repository of its own: "inner/"' in output.text
    assert (await tools.run("git", command="commit", args=["-m", "x"])).ok
    assert git(root, "show", "--format=", "--name-only").strip() == ".gitignore"


async def test_the_configured_identity_is_used(tools: Bench, root: Path) -> None:
    git(root, "config", "user.name", "Ann")
    git(root, "config", "user.email", "ann@example.org")
    (root / "b.txt").touch()
    await tools.text("git", command="commit", args=["-m", "b"])
    assert git(root, "log", "-1", "--format=%an <%ae>").strip() == "Ann <ann@example.org>"


async def test_nothing_to_commit_is_an_answer(tools: Bench) -> None:
    output = await tools.run("git", command="commit", args=["-m", "x"])
    assert (output.ok, output.exit_code) == (False, 1)
    assert "nothing" in output.text


async def test_no_program_of_the_repository_runs(tools: Bench, root: Path) -> None:
    mark = root.parent / "ran"
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
    hook.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.editor", "diff.evil.textconv", "gpg.program"):
        git(root, "config", key, f"touch {mark}; true")
    git(root, "config", "commit.gpgSign", "true")
    (root / ".gitattributes").write_text("*.txt diff=evil\n", encoding="utf-8")
    (root / "a.txt").write_text("two\n", encoding="utf-8")
    subprocess.run(["git", "diff"], cwd=root, check=False, capture_output=True)  # noqa: ASYNC221
    assert mark.exists()
    mark.unlink()
    await tools.text("git", command="status")
    await tools.text("git", command="diff")
    await tools.text("git", command="log", args=["-p"])
    await tools.text("git", command="show")
    assert (await tools.run("git", command="commit", args=["-m", "x"])).ok
    assert not mark.exists()


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("diff", ["--ext-diff"]),
        ("diff", ["--textconv"]),
        ("diff", ["--no-index", "/etc/passwd", "a.txt"]),
        ("diff", ["--output=x"]),
        ("diff", ["--outp=x"]),
        ("diff", ["-Ofile"]),
        ("log", ["--output", "x"]),
        ("log", ["-L1,5:a.txt"]),
        ("show", ["--ext-diff"]),
        ("status", ["--git-dir=/x"]),
        ("log", ["-c", "core.pager=x"]),
        ("commit", ["-m", "x", "--amend"]),
        ("commit", ["-m", "x", "-F", "/etc/passwd"]),
        ("commit", ["-m", "x", "-S"]),
        ("commit", ["-m", "x", "--template=a"]),
    ],
)
async def test_options_that_are_not_listed_are_refused(tools: Bench, surface: HostSurface, command: str, args: list[str]) -> None:
    assert "is not offered here" in await tools.refused("git", command=command, args=[*args])
    assert surface.ran == []


@pytest.mark.parametrize(
    ("command", "args", "said"),
    [
        ("diff", ["/etc/passwd", "a.txt"], "outside"),
        ("diff", ["--", "../x"], "outside"),
        ("show", ["HEAD:../x"], "outside"),
        ("show", ["HEAD:.env"], "not readable"),
        ("show", [":.env"], "not readable"),
        ("diff", [".env"], "not readable"),
        ("log", ["-p", "--", ".env"], "not readable"),
        ("commit", ["-m", "x", ".env"], "not readable"),
        ("commit", ["-m", "x", "/etc/passwd"], "outside"),
        ("commit", ["a.txt"], "needs a message"),
        ("commit", ["-m"], "lacks its message"),
        ("commit", ["-m", " "], "needs a message"),
    ],
)
async def test_what_is_outside_or_denied_is_refused(tools: Bench, command: str, args: list[str], said: str) -> None:
    assert said in await tools.refused("git", command=command, args=[*args])


async def test_denied_files_are_in_no_diff(tools: Bench, root: Path) -> None:
    (root / ".env").write_text("K=CHANGED\n", encoding="utf-8")
    (root / "a.txt").write_text("two\n", encoding="utf-8")
    assert "CHANGED" in git(root, "diff")
    assert "COMMITTED" in git(root, "log", "-p")
    for command, args in (
        ("diff", []),
        ("diff", ["HEAD"]),
        ("show", ["HEAD"]),
        ("log", ["-p"]),
        ("log", ["-S", "COMMITTED", "-p"]),
        ("diff", ["--", "."]),
    ):
        text = await tools.text("git", command=command, args=[*args])
        assert "CHANGED" not in text
        assert "COMMITTED\n" not in text
    assert "two" in await tools.text("git", command="diff")


@pytest.mark.parametrize(
    "args", [[], ["origin"], ["origin", "HEAD"], ["-u", "origin", "agent/test"], ["origin", "HEAD:refs/heads/agent/test"]]
)
async def test_a_push_of_the_own_branch_is_done_by_the_harness(tools: Bench, surface: HostSurface, args: list[str]) -> None:
    await tools.text("git", command="commit", args=["-m", "all"])
    tools.checked.clear()
    assert await tools.text("git", command="push", args=[*args]) == "Pushed."
    assert tools.pushes == 1
    assert tools.checked == [("git", {"command": "push", "args": args})]
    assert not any("push" in argv for argv in surface.ran), "the sandbox itself pushes nothing"


async def test_a_push_takes_whole_commits_and_names_what_is_left(tools: Bench, surface: HostSurface) -> None:
    await tools.text("git", command="commit", args=["-m", "all"])
    (Path(surface.root) / "left over.txt").write_text("x\n")
    (Path(surface.root) / ".env").write_text("x\n")
    text = await tools.refused("git", command="push")
    assert '"left over.txt"' in text
    assert ".env" not in text
    assert tools.pushes == 0


async def test_what_lies_outside_the_scope_is_neither_edited_nor_staged(tools: Bench, surface: HostSurface) -> None:
    tools.context.changeable = Changeable(Permits(scope=("src/**",)))
    await tools.run("edit_file", path="src/in.py", old_text="", new_text="x\n")
    said = await tools.refused("edit_file", path="out.py", old_text="", new_text="x\n")
    assert '"out.py" is outside what this session may change: "src/**"' in said
    assert not (Path(surface.root) / "out.py").exists()
    workflow = await tools.refused("edit_file", path="src/../.github/workflows/ci.yml", old_text="", new_text="x\n")
    assert "outside" in workflow
    (Path(surface.root) / "shell.py").write_text("x\n")
    text = await tools.text("git", command="commit", args=["-m", "work"])
    assert 'not staged: "shell.py" is outside' in text
    assert "src/in.py" in await tools.text("git", command="show", args=["--stat"])
    assert "shell.py" not in await tools.text("git", command="show", args=["--stat"])


async def test_a_workflow_file_is_not_edited_unless_the_person_permits_it(tools: Bench, surface: HostSurface) -> None:
    asked: dict[str, JsonValue] = {"path": ".github/workflows/ci.yml", "old_text": "", "new_text": "on: push\n"}
    assert "runs on the forge" in await tools.refused("edit_file", **asked)
    tools.context.changeable = Changeable(Permits(workflows=True))
    assert "Created" in await tools.text("edit_file", **asked)


@pytest.mark.parametrize(
    "args",
    [
        ["origin", "main"],
        ["origin", "HEAD:main"],
        ["origin", "agent/test:main"],
        ["origin", "+agent/test"],
        ["origin", ":agent/test"],
        ["--force", "origin", "agent/test"],
        ["--all"],
        ["--mirror", "origin"],
        ["origin", "--delete", "agent/test"],
        ["origin", "agent/other"],
        ["origin", "agent/test", "main"],
        ["https://example.org/x.git", "agent/test"],
        ["--receive-pack=touch x", "origin"],
        ["origin", "--", "main"],
        ["origin", "refs/tags/agent/test"],
    ],
)
async def test_any_other_push_is_refused_and_says_what_to_do(tools: Bench, surface: HostSurface, args: list[str]) -> None:
    text = await tools.refused("git", command="push", args=[*args])
    assert "is refused" in text
    assert "Commit your work" in text
    assert surface.ran == []


async def test_a_bare_push_from_another_branch_is_refused(tools: Bench, surface: HostSurface) -> None:
    surface.branch = "main"
    assert "the branch main" in await tools.refused("git", command="push")


async def test_a_refusal_of_the_guards_stops_every_command(tools: Bench, surface: HostSurface) -> None:
    tools.refuse = "no"
    for command in ("status", "commit", "push"):
        args: list[str] = ["-m", "x"] if command == "commit" else []
        assert await tools.refused("git", command=command, args=[*args]) == "no"
    assert surface.ran == []
