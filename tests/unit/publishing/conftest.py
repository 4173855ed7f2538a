from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_harness.inert_git import Git
from tests.unit.publishing.github_desk import Desk, desk_in
from tests.unit.publishing.repos import Origin, git, make_origin


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return make_origin(tmp_path / "remote")


@pytest.fixture
def inert(tmp_path: Path) -> Git:
    return Git(tmp_path / "scratch", lambda text: text)


@pytest.fixture
def base_git(tmp_path: Path, origin: Origin) -> Path:
    """The trusted bare clone that the work started from."""
    git("clone", "-q", "--bare", str(origin.bare), str(tmp_path / "base.git"), cwd=tmp_path)
    return tmp_path / "base.git"


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """One session's work, and the stand-in for GitHub that it goes to."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with desk_in(tmp_path) as desk:
        yield desk
