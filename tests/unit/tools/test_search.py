from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from tests.fakes.host_surface import PROGRAMS, HostSurface
from tests.fakes.memory_surface import MemorySurface
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio

FILES: dict[str, bytes | str] = {
    ".gitignore": "ignored/\n*.log\n",
    ".github/flow.yml": "hidden needle\n",
    ".env": "needle SECRET\n",
    "sub/prod.key": "needle SECRET\n",
    "src/a.py": "x = 1\nneedle = a->b\r\nz = --flag\n",
    "src/a file [1].py": "needle two\n",
    "src/long.js": "s" * 30_000 + " needle_long " + "t" * 30_000 + "\n" + "needle_long too\n",
    "src/nul.js": b"\0\0\0\nneedle_nul\n",
    "ignored/x.txt": "needle_ignored\n",
    "debug.log": "needle_ignored\n",
    "node_modules/m/i.js": "needle_module\n",
    "many.txt": "many hits\n" * 180,
    "cp.txt": "NEEDLE upper\n",
}


def on_disk(root: Path) -> Path:
    for path, data in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".git" / "hint").write_text("needle_gitdir\n", encoding="utf-8")
    (root / "outside").symlink_to("/etc")
    return root


@pytest.fixture(params=["rg", "grep", "walk"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """The same search in the three ways it can be done."""
    way = str(request.param)
    if way == "walk":
        return Bench(MemorySurface(FILES, {"outside": "/etc"}), tmp_path / "outputs")
    programs = {**PROGRAMS, "rg": "" if way == "grep" else PROGRAMS["rg"]}
    return Bench(HostSurface(on_disk(tmp_path / "w"), programs=programs), tmp_path / "outputs")


async def lines_of(tools: Bench, **arguments: bool | str) -> list[str]:
    text = await tools.text("ripgrep", **arguments)
    return [line for line in text.split("\n") if not line.startswith(("[", "..."))]


async def test_matches_come_by_path_and_line_without_denied_and_ignored_files(tools: Bench) -> None:
    assert await lines_of(tools, query="needle") == [
        ".github/flow.yml:1:hidden needle",
        "src/a file [1].py:1:needle two",
        "src/a.py:2:needle = a->b",
        *(await lines_of(tools, query="needle_long")),
    ]


async def test_a_query_that_begins_with_a_dash_is_text(tools: Bench) -> None:
    assert await lines_of(tools, query="--flag") == ["src/a.py:3:z = --flag"]
    assert await lines_of(tools, query="->") == ["src/a.py:2:needle = a->b"]


async def test_a_long_line_is_previewed_around_the_match(tools: Bench) -> None:
    first, second = await lines_of(tools, query="needle_long")
    assert "needle_long" in first
    assert "[from a line of 60,013 bytes, match at column 30,002]" in first
    assert len(first) < 400
    assert second == "src/long.js:2:needle_long too"


async def test_no_match_says_that_ignored_files_do(tools: Bench) -> None:
    text = await tools.text("ripgrep", query="needle_ignored")
    assert text.startswith('No matches for "needle_ignored".')
    assert '"ignored/x.txt"' in text
    assert "`include_ignored`=true" in text
    found = await lines_of(tools, query="needle_ignored", include_ignored=True)
    assert found == ["debug.log:1:needle_ignored", "ignored/x.txt:1:needle_ignored"]


async def test_folders_left_out_by_name_are_said(tools: Bench) -> None:
    assert "node_modules/m/i.js" in await tools.text("ripgrep", query="needle_module")
    assert "[not searched: node_modules" in await tools.text("ripgrep", query="needle two")
    assert await lines_of(tools, query="needle_module", path="node_modules") == ["node_modules/m/i.js:1:needle_module"]


async def test_a_binary_file_that_matches_is_said(tools: Bench) -> None:
    text = await tools.text("ripgrep", query="needle_nul")
    assert 'Binary files match, their lines are not shown: "src/nul.js"' in text


async def test_git_and_denied_files_are_never_found(tools: Bench) -> None:
    for ignored in (False, True):
        text = await tools.text("ripgrep", query="needle_gitdir", include_ignored=ignored)
        assert text.startswith("No matches")
        assert "hint" not in text
        assert "SECRET" not in await tools.text("ripgrep", query="needle", include_ignored=ignored)
        assert "SECRET" not in await tools.text("ripgrep", query="needle", glob="*.key", include_ignored=ignored)
    assert ".env" in await tools.refused("ripgrep", query="needle", path=".env")


async def test_nothing_anywhere_is_no_error(tools: Bench) -> None:
    text = await tools.text("ripgrep", query="no_such_words_here")
    assert text == 'No matches for "no_such_words_here". Ignored files do not match either.'


async def test_a_bad_expression_is_told_apart_from_no_match(tools: Bench) -> None:
    assert "regular expression" in await tools.refused("ripgrep", query="f(", regex=True)
    assert await lines_of(tools, query=r"need\w+ = .->", regex=True) == ["src/a.py:2:needle = a->b"]
    assert "literally" in await tools.text("ripgrep", query=r"need\w+")


async def test_a_glob_narrows_and_does_not_bring_ignored_files_back(tools: Bench) -> None:
    assert (await tools.text("ripgrep", query="needle_ignored", glob="*.log")).startswith("No matches")
    assert await lines_of(tools, query="needle", glob="*.yml") == [".github/flow.yml:1:hidden needle"]
    assert await lines_of(tools, query="needle", glob="src/*.py") == [
        "src/a file [1].py:1:needle two",
        "src/a.py:2:needle = a->b",
    ]
    assert await lines_of(tools, query="needle =", glob="*.{py,pyi}") == ["src/a.py:2:needle = a->b"]
    assert await lines_of(tools, query="needle =", glob="!*.py") == [
        'No matches for "needle =". Ignored files do not match either.'
    ]


async def test_case_matters_unless_it_should_not(tools: Bench) -> None:
    assert await lines_of(tools, query="NEEDLE") == ["cp.txt:1:NEEDLE upper"]
    assert len(await lines_of(tools, query="needle upper", ignore_case=True)) == 1


async def test_one_file_can_be_searched(tools: Bench) -> None:
    assert await lines_of(tools, query="needle", path="src/a.py") == ["src/a.py:2:needle = a->b"]
    assert await lines_of(tools, query="needle_ignored", path="debug.log") == ["debug.log:1:needle_ignored"]


async def test_at_most_fifty_matches_and_how_many_more(tools: Bench) -> None:
    output = await tools.run("ripgrep", query="many hits")
    lines = output.text.split("\n")
    assert output.truncated
    assert lines[49] == "many.txt:50:many hits"
    assert lines[50].startswith("... 130 more matches")


async def test_the_answer_stays_whole_within_its_window(tools: Bench) -> None:
    output = await tools.run("ripgrep", query="s", regex=False)
    assert len(output.text) < 4_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"query": ""}, "`query` is empty"), ({"query": "a\nb"}, "line end"), ({"query": "a", "path": "/etc"}, "outside")],
)
async def test_what_cannot_be_searched_is_refused(tools: Bench, arguments: dict[str, str], said: str) -> None:
    assert said in await tools.refused("ripgrep", **arguments)
    assert "links outside" in await tools.refused("ripgrep", query="root", path="outside")
    assert "does not exist" in await tools.refused("ripgrep", query="root", path="no")
    assert "`glob`" in await tools.refused("ripgrep", query="root", glob="../*")


async def test_a_search_that_finds_thousands_is_stopped(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (root / "a.txt").write_text("hit\n" * 200_000, encoding="utf-8")
    output = await Bench(HostSurface(root), tmp_path / "outputs").run("ripgrep", query="hit")
    assert "... more than 950 more matches" in output.text


async def test_a_variable_and_a_query_run_no_program(tmp_path: Path) -> None:
    root = on_disk(tmp_path / "w")
    (root / "pre.sh").write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    (root / "pre.sh").chmod(0o755)
    (root / "rgrc").write_text(f"--pre={root}/pre.sh\n", encoding="utf-8")
    control = [PROGRAMS["rg"], "needle", "src"]
    environ = {"RIPGREP_CONFIG_PATH": str(root / "rgrc"), "PATH": "/usr/bin:/bin"}
    await anyio.run_process(control, cwd=root, env=environ, check=False)
    assert (root / "ran").exists()
    (root / "ran").unlink()
    programs = {"rg": str(tmp_path / "rg")}
    wrapper = f'#!/bin/sh\nexport RIPGREP_CONFIG_PATH={root}/rgrc\nexec {PROGRAMS["rg"]} "$@"\n'
    (tmp_path / "rg").write_text(wrapper, encoding="utf-8")
    (tmp_path / "rg").chmod(0o755)
    tools = Bench(HostSurface(root, programs=programs), tmp_path / "outputs")
    await tools.text("ripgrep", query="needle")
    await tools.text("ripgrep", query=f"--pre={root}/pre.sh")
    assert not (root / "ran").exists()
