from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest

from agent_harness.surfaces.base import ExecResult, OnOutput
from tests.fakes.host_surface import HostSurface
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[Bench]:
    root = tmp_path / "w"
    (root / "sub").mkdir(parents=True)
    async with anyio.create_task_group() as tasks:
        yield Bench(HostSurface(root), tmp_path / "outputs", tasks)
        tasks.cancel_scope.cancel()


async def test_output_and_exit_code_come_back(tools: Bench) -> None:
    output = await tools.run("run_shell", command="echo out; echo err >&2; exit 7")
    assert output.text == "out\nerr\n[exit code 7]"
    assert (output.exit_code, output.ok, output.stored) == (7, True, None)


async def test_no_output_is_said(tools: Bench) -> None:
    assert await tools.text("run_shell", command="exit 3") == "(no output)\n[exit code 3]"


async def test_the_directory_persists_and_variables_do_not(tools: Bench) -> None:
    assert '[working directory: "sub"]' in await tools.text("run_shell", command="cd sub; export X=1")
    assert (await tools.text("run_shell", command='echo "$PWD:$X"')).split("\n")[0].endswith("/w/sub:")
    await tools.text("run_shell", command="cd ..; exit 4")
    assert tools.context.state.cwd == "."


async def test_a_directory_that_is_gone_is_reset_and_said(tools: Bench) -> None:
    await tools.text("run_shell", command="mkdir gone; cd gone && rmdir ../gone; echo bye")
    text = await tools.text("run_shell", command="pwd && echo alive")
    assert "alive" in text
    await tools.text("run_shell", command="mkdir a && cd a")
    await tools.text("run_shell", command="rmdir ../a")
    text = await tools.text("run_shell", command="basename $PWD")
    assert '[the working directory "a" is gone; this ran in the repository\'s root]' in text
    assert text.startswith("w\n")


@pytest.mark.parametrize("target", ["/", "../..", "/tmp/.", "link"])
async def test_a_directory_outside_is_not_kept(tools: Bench, target: str) -> None:
    (Path(tools.context.surface.root) / "link").symlink_to("/usr")
    text = await tools.text("run_shell", command=f"cd {target}")
    assert "can't be kept as the working directory" in text
    assert tools.context.state.cwd == "."


async def test_a_forged_directory_is_not_believed(tools: Bench) -> None:
    root = tools.context.surface.root
    for said in (f"{root}/../x", f"{root}/.git", f"{root}x", f"{root}/missing", "sub"):
        await tools.text("run_shell", command=f"trap - EXIT; printf %s {said} > .agent/tmp/cwd")
        assert tools.context.state.cwd == "."
    await tools.text("run_shell", command=f"rm -r .agent; ln -s {root}/sub .agent; cd sub")
    assert tools.context.state.cwd == "."


async def test_line_numbers_of_bash_are_those_of_the_command(tools: Bench) -> None:
    assert "line 1: nope_nope" in await tools.text("run_shell", command="nope_nope")


async def test_a_timeout_ends_the_tree_and_says_what_to_do(tools: Bench) -> None:
    with anyio.fail_after(8):
        output = await tools.run("run_shell", command="echo begun; sleep 63 & sleep 63", timeout_s=1)
    assert output.text.startswith("begun\n[timed out after 1 s")
    assert "background=true" in output.text
    assert not output.ok


async def test_a_flood_is_bounded_and_kept_up_to_a_cap(tools: Bench, tmp_path: Path) -> None:
    output = await tools.run("run_shell", command="yes line-of-output | head -c 20000000; echo the end")
    assert len(output.text) < 4_000
    assert output.text.startswith("line-of-output\n")
    assert output.text.endswith("the end\n[exit code 0]")
    assert 'characters left out, of which the first 10 MB are kept; read_file path="output:call-1"' in output.text
    assert output.truncated
    assert output.stored == tmp_path / "outputs" / "call-1.txt"
    assert output.stored is not None
    assert output.stored.stat().st_size == 10 << 20
    assert output.stored.stat().st_mode & 0o777 == 0o600
    assert "5\tline-of-output" in await tools.text("read_file", path="output:call-1", offset=5, limit=2)


async def test_redraws_and_escapes_are_cleaned(tools: Bench) -> None:
    progress = r"for i in $(seq 1 5000); do printf '\r\033[2K%d%%' $i; done; echo; echo end"
    text = await tools.text("run_shell", command=progress)
    assert text == "5000%\nend\n[exit code 0]"
    coloured = r"printf '\033[31mred\033[0m a\bb \033]0;title\007x\r\n\377\376ok\n'"
    assert await tools.text("run_shell", command=coloured) == "red b x\n\ufffd\ufffdok\n[exit code 0]"


async def test_one_endless_line_is_bounded(tools: Bench) -> None:
    text = await tools.text("run_shell", command="head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(text) < 4_000
    assert re.search(r"2,99\d,\d{3} characters left out", text)


async def test_a_read_only_git_folder_points_to_the_git_tool(tools: Bench) -> None:
    said = "fatal: Unable to create '/repo.git/worktrees/w/index.lock': Read-only file system"
    assert "use the git tool" in await tools.text("run_shell", command=f'echo "{said}"; exit 128')
    assert "use the git tool" not in await tools.text("run_shell", command="echo 'mkdir: /x: Read-only file system'")


async def test_the_guards_are_asked_once_more_right_before(tools: Bench) -> None:
    tools.refuse = "no, because"
    assert await tools.refused("run_shell", command="touch made") == "no, because"
    assert await tools.refused("run_shell", command="touch made", background=True) == "no, because"
    assert tools.checked == [("run_shell", {"command": "touch made", "background": background}) for background in (False, True)]
    assert not (Path(tools.context.surface.root) / "made").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "  "}, "`command` is empty"),
        ({"command": "x", "timeout_s": 121}, "`timeout_s`"),
        ({"command": "x", "timeout_s": 0}, "`timeout_s`"),
        ({"command": "x", "job": "job-1"}, "without `job`"),
        ({"job": "job-7"}, "is not a background job; the jobs are: none was started"),
        ({"command": "a\0b"}, "NUL"),
    ],
)
async def test_wrong_arguments_are_refused_by_name(tools: Bench, arguments: dict[str, str | int], said: str) -> None:
    assert said in await tools.refused("run_shell", **arguments)


async def test_a_background_job_lives_until_it_is_stopped(tools: Bench) -> None:
    text = await tools.text("run_shell", command="echo serving; sleep 60", background=True)
    assert text.startswith('job-1 runs in the background; job="job-1" with action="log" or "stop".\nserving')
    assert (await tools.text("run_shell", job="job-1", action="log")) == "job-1 still runs.\nserving\n"
    assert tools.jobs.running() == ("job-1",)
    with anyio.fail_after(5):
        assert (await tools.text("run_shell", job="job-1", action="stop")) == "job-1 was stopped.\nserving\n[stopped]\n"
    assert tools.jobs.running() == ()
    assert "1\tserving" in await tools.text("read_file", path="output:job-1")


async def test_a_background_job_that_fails_at_once_says_so_at_once(tools: Bench) -> None:
    text = await tools.text("run_shell", command="echo no such thing; exit 4", background=True)
    assert text == 'job-1 has ended already; job="job-1" with action="log" or "stop".\nno such thing\n[exit code 4]\n'
    assert "had ended by itself" in await tools.text("run_shell", job="job-1", action="stop")


class Scripted(HostSurface):
    """Answers every command with the same result."""

    result = ExecResult(0)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float | None = 30,
        on_output: OnOutput | None = None,
        stdin: bytes = b"",
        writable_git: bool = False,
    ) -> ExecResult:
        return self.result


async def test_processes_left_running_are_said(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    surface = Scripted(tmp_path / "w")
    surface.result = dataclasses.replace(surface.result, strays=2)
    text = await Bench(surface, tmp_path / "outputs").text("run_shell", command="sleep 61 &")
    assert "[2 processes left running by the command were ended; use background=true to keep one]" in text
