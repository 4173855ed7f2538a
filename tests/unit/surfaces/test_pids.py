"""Where a control group for processes can be made, as the kernel's own files tell it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_harness.surfaces.pids import PREFIX, places, sweep


def machine(folder: Path, membership: str, *folders: str, hands_on: str = "") -> list[str]:
    mounts = folder / "mounts"
    for name in folders:
        (mounts / name).mkdir(parents=True, exist_ok=True)
        (mounts / name / "cgroup.subtree_control").write_text("cpu pids\n" if name == hands_on else "cpu\n")
    (folder / "cgroup").write_text(membership)
    return [str(place.relative_to(mounts)) for place in places(mounts, folder / "cgroup")]


@pytest.mark.parametrize(
    ("membership", "folders", "hands_on", "found"),
    [
        ("8:pids:/\n4:memory:/x\n0::/\n", ("pids",), "", ["pids"]),
        ("8:pids:/docker/1\n", ("pids/docker/1",), "", ["pids/docker/1", "pids"]),
        ("8:pids:/docker/1\n", ("pids",), "", ["pids"]),
        (
            "0::/user.slice/app.slice/me.scope\n",
            ("user.slice/app.slice/me.scope",),
            "user.slice/app.slice/me.scope",
            ["user.slice/app.slice/me.scope"],
        ),
        ("0::/user.slice/me.scope\n", ("user.slice", "user.slice/me.scope"), "user.slice", ["user.slice"]),
        ("0::/user.slice/me.scope\n", ("user.slice", "user.slice/me.scope"), "", []),
        ("nonsense\n", (), "", []),
    ],
)
def test_the_nearest_group_that_hands_the_controller_on_is_taken(
    tmp_path: Path, membership: str, folders: tuple[str, ...], hands_on: str, found: list[str]
) -> None:
    assert machine(tmp_path, membership, *folders, hands_on=hands_on) == found


def test_a_machine_without_control_groups_has_none(tmp_path: Path) -> None:
    assert places(tmp_path, tmp_path / "missing") == []


def test_only_groups_of_sessions_that_are_gone_are_swept_away(tmp_path: Path) -> None:
    """One of a living session may be empty: it was made a moment ago, and is entered in the next."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    mine, left = tmp_path / f"{PREFIX}{os.getpid()}-aa", tmp_path / f"{PREFIX}{gone.pid}-bb"
    for folder in (mine, left, tmp_path / "other"):
        folder.mkdir()
    sweep(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {mine.name, "other"}
