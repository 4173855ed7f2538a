from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.demo.model import find
from agent_harness.demo.programs import PROGRAMS
from agent_harness.demo.repository import DemoRepository, make_origin, make_repository
from agent_harness.demo.script import ToolAnswer
from agent_harness.inert_git import Git

SEEDS = [*range(1, len(PROGRAMS) + 1), 1_000]


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-B", "-m", "unittest", "-v"], cwd=folder, capture_output=True, text=True, check=False)


def as_read(repository: DemoRepository) -> list[ToolAnswer]:
    """What `read_file` shows of every Python file."""
    return [
        ToolAnswer(
            "", "read_file", f'{{"path": "{path}"}}', "\n".join(f"{n}\t{line}" for n, line in enumerate(text.splitlines(), 1))
        )
        for path, text in repository.files.items()
        if path.endswith(".py")
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_exactly_the_named_test_fails_before_and_all_pass_after_the_known_fix(seed: int, tmp_path: Path) -> None:
    repository = make_repository(seed)
    repository.write(tmp_path / "before")
    repository.write(tmp_path / "after", mended=True)
    before, after = run_tests(tmp_path / "before"), run_tests(tmp_path / "after")
    assert before.returncode == 1
    assert re.findall(r"^(?:FAIL|ERROR): (\w+)", before.stderr, re.M) == [repository.failing]
    assert after.returncode == 0, after.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_the_stand_in_finds_the_line_from_what_it_has_read(seed: int) -> None:
    repository = make_repository(seed)
    finding = find(as_read(repository))
    assert finding is not None
    assert (finding.path, finding.line, finding.mended) == (repository.buggy, repository.wrong, repository.right)
    assert repository.files[finding.path].splitlines()[finding.number - 1] == repository.wrong
    assert repository.files[finding.path].count(repository.wrong) == 1


def test_a_mended_program_gives_the_stand_in_nothing_to_find() -> None:
    repository = make_repository(1)
    files = {path: text.replace(repository.wrong, repository.right) for path, text in repository.files.items()}
    mended = DemoRepository(repository.package, files, repository.buggy, repository.wrong, repository.right, repository.failing)
    assert find(as_read(mended)) is None


def test_other_seeds_make_other_repositories() -> None:
    made = [make_repository(seed) for seed in range(1, 8)]
    assert len({repository.buggy for repository in made}) == 7
    assert len({repository.wrong for repository in made}) == 7
    assert make_repository(3) == make_repository(3)


@pytest.mark.anyio
async def test_the_origin_is_the_same_on_any_day_and_holds_the_files(tmp_path: Path) -> None:
    git = Git(tmp_path / "scratch", str)
    heads: list[str] = []
    for name in ("one.git", "two.git"):
        await make_origin(git, make_repository(5), tmp_path / name)
        heads.append((await git.run("rev-parse", "refs/heads/main", git_dir=tmp_path / name)).text)
    assert heads[0] == heads[1]
    listed = await git.run("ls-tree", "-r", "--name-only", "main", git_dir=tmp_path / "one.git")
    assert listed.text.splitlines() == sorted(make_repository(5).files)
    log = await git.run("log", "--format=%s", "main", git_dir=tmp_path / "one.git")
    assert log.text.splitlines()[-1] == "Labels for narrow columns"
    shown = await git.run("show", f"main:{make_repository(5).buggy}", git_dir=tmp_path / "one.git")
    assert make_repository(5).wrong in shown.text
