"""The tools over the real sandbox: what only it can show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from agent_harness.events import JsonValue
from agent_harness.inert_git import Git
from agent_harness.surfaces.local import CloneSource, LocalSurface
from agent_harness.transport import Transport
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio


async def git(root: Path, *args: str) -> str:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    return (await anyio.run_process(["git", *identity, *args], cwd=root)).stdout.decode().strip()


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[Bench]:
    origin = tmp_path / "origin"
    (origin / "src").mkdir(parents=True)
    await git(origin, "init", "-q", "-b", "main")
    (origin / "src" / "a.py").write_text("def f():\n    return 1\n", encoding="utf-8")
    (origin / ".env").write_text("K=COMMITTED\n", encoding="utf-8")
    await git(origin, "add", "-A")
    await git(origin, "commit", "-q", "-m", "base")
    folder = tmp_path / "session"
    folder.mkdir()
    source = CloneSource(Transport(str(origin)), "main", await git(origin, "rev-parse", "HEAD"), "main")
    surface = LocalSurface(folder, Git(tmp_path / "scratch", str), source, "agent/test")
    try:
        await surface.open()
        async with anyio.create_task_group() as tasks:
            yield Bench(surface, tmp_path / "outputs", tasks)
            tasks.cancel_scope.cancel()
    finally:
        await surface.close()


async def test_a_whole_piece_of_work(tools: Bench) -> None:
    assert "src/a.py" in await tools.text("list_files")
    assert await tools.text("ripgrep", query="return 1") == "src/a.py:2:    return 1"
    assert "def f" in await tools.text("tree_sitter_symbols", path="src/a.py")
    await tools.text("edit_file", path="src/a.py", old_text="return 1", new_text="return 2")
    assert (await tools.text("run_shell", command="cd src && python3 -c 'import a; print(a.f())'")).startswith("2\n")
    assert tools.context.state.cwd == "src"
    status = await tools.text("git", command="status", args=["--short"])
    assert " M src/a.py" in status
    assert ".env" not in status
    refused = await tools.text("run_shell", command="git add -A")
    assert "use the git tool" in refused
    committed = await tools.run("git", command="commit", args=["-m", "Return two"])
    assert committed.ok, committed.text
    assert (await tools.text("git", command="log", args=["--format=%an %s", "-1"])) == "agent-harness Return two\n[exit code 0]"
    assert (await tools.text("git", command="show", args=["--name-only", "--format="])) == "src/a.py\n[exit code 0]"


async def test_the_denied_file_is_nowhere(tools: Bench) -> None:
    calls: tuple[tuple[str, dict[str, JsonValue]], ...] = (
        ("ripgrep", {"query": "COMMITTED", "include_ignored": True}),
        ("run_shell", {"command": "cat .env; grep -r COMMITTED . "}),
        ("git", {"command": "log", "args": ["-p"]}),
        ("git", {"command": "show", "args": ["HEAD"]}),
    )
    for name, arguments in calls:
        text = await tools.text(name, **arguments)
        assert "K=COMMITTED" not in text, name


async def test_background_jobs_and_timeouts_end_their_trees(tools: Bench) -> None:
    with anyio.fail_after(30):
        text = await tools.text("run_shell", command="sleep 61 & echo done")
        assert text.startswith("done\n")
        assert "1 process left running" in text
        assert "[timed out after 1 s" in await tools.text("run_shell", command="setsid sleep 62 & sleep 63", timeout_s=1)
        await tools.text("run_shell", command="echo up; sleep 64", background=True)
        assert "job-1 was stopped" in await tools.text("run_shell", job="job-1", action="stop")
        assert "sleep 6" not in await tools.text("run_shell", command="ps ax -o args | grep 'sleep [6]'")
