"""What guards see of a worktree: as commands would, and never anything of this machine outside it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_harness.surfaces.world import MAX_MATCHES, MAX_TEXT_BYTES, HostWorld
from agent_harness.world import GitFacts


@pytest.fixture
def world(tmp_path: Path) -> HostWorld:
    folder = tmp_path / "worktree"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("x = 1\n", encoding="utf-8")
    (folder / ".hidden").write_text("h", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    for name, target in {
        "in": "src",
        "abs": "/workspace/src/deep",
        "up": "../secret.txt",
        "out": str(tmp_path),
        "loop": "loop",
        "src/back": "..",
    }.items():
        (folder / name).symlink_to(target)
    return HostWorld(folder, "/workspace", "/workspace", "/home/agent", {}, GitFacts("b", "b", "main"))


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/workspace", "/workspace"),
        ("/workspace/", "/workspace"),
        ("/workspace/./src/../src/a.py", "/workspace/src/a.py"),
        ("/workspace/in/a.py", "/workspace/src/a.py"),
        ("/workspace/abs", "/workspace/src/deep"),
        ("/workspace/abs/..", "/workspace/src"),
        ("/workspace/in/back/src", "/workspace/src"),
        ("/workspace/up", "/secret.txt"),
        ("/workspace/src/missing/x", "/workspace/src/missing/x"),
        ("/workspace/loop", "/workspace/loop"),
        ("/workspace/../etc", "/etc"),
        ("/workspaces/x", "/workspaces/x"),
        ("/", "/"),
    ],
)
def test_links_are_resolved_as_a_command_inside_would(world: HostWorld, path: str, real: str) -> None:
    assert world.realpath(path) == real


def test_links_and_folders_are_told_apart(world: HostWorld) -> None:
    assert [world.is_link(f"/workspace/{name}") for name in ("in", "up", "in/", "src", "src/a.py", "missing")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert [world.is_dir(f"/workspace/{name}") for name in ("", "src", "in", "abs", "src/a.py", "out", "loop")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip
    assert not world.is_dir("/usr"), "nothing outside is looked at"


def test_globs_match_as_a_shell_would_and_only_inside(world: HostWorld, tmp_path: Path) -> None:
    assert list(world.glob("/workspace/s*")) == ["/workspace/src"]
    assert sorted(world.glob("/workspace/*/a.py")) == ["/workspace/in/a.py", "/workspace/src/a.py"]
    assert list(world.glob("/workspace/.h*")) == ["/workspace/.hidden"]
    assert "/workspace/.hidden" not in world.glob("/workspace/*")
    assert list(world.glob("/work*/src/*.py")) == ["/workspace/src/a.py"]
    for outside in ("/workspace/out/*", "/etc/*", f"{tmp_path}/*", "/workspace/../*/secret.txt", "/workspace/up*/x"):
        assert not any("secret" in match or match.startswith("/etc") for match in world.glob(outside)), outside


def test_a_glob_is_bounded(world: HostWorld) -> None:
    for number in range(MAX_MATCHES + 50):
        (world.folder / "src" / f"f{number}").touch()
    assert len(world.glob("/workspace/src/f*")) == MAX_MATCHES


def test_only_small_regular_files_of_the_worktree_are_read(world: HostWorld, tmp_path: Path) -> None:
    assert world.read_text("/workspace/in/a.py") == "x = 1\n"
    assert Path(os.path.realpath(world.folder / "out" / "secret.txt")).read_text(encoding="utf-8") == "secret", "the control"
    for path in (
        "/workspace/up",
        "/workspace/out/secret.txt",
        f"{tmp_path}/secret.txt",
        "/etc/passwd",
        "/workspace/src",
        "/workspace/no",
    ):
        assert world.read_text(path) is None, path
    os.mkfifo(world.folder / "pipe")
    assert world.read_text("/workspace/pipe") is None
    (world.folder / "big").write_bytes(b"x" * (MAX_TEXT_BYTES + 1))
    assert world.read_text("/workspace/big") is None


PARTS = st.lists(st.sampled_from(["src", "in", "abs", "deep", "back", "a.py", "..", ".", "", "no", "up"]), max_size=7)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=PARTS)
def test_a_resolved_path_has_no_links_and_is_the_one_that_realpath_of_the_system_finds(
    world: HostWorld, parts: list[str]
) -> None:
    path = "/workspace/" + "/".join(parts)
    real = world.realpath(path)
    assert world.realpath(real) == real
    root = world.folder.parent / "root"
    if not root.exists():
        root.mkdir()
        subprocess.run(["cp", "-a", str(world.folder), str(root / "workspace")], check=True)
        (root / "workspace" / "abs").unlink()
        (root / "workspace" / "abs").symlink_to("src/deep")
    expected = os.path.realpath(f"{root}{path}")
    if expected.startswith(f"{root}/workspace"):
        assert f"{root}{real}" == expected
