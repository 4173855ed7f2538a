from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.github_forge import GitHubStandIn
from tests.fakes.github_wire import World
from tests.unit.publishing.repos import make_origin


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    origin = make_origin(tmp_path / "source")
    folder = tmp_path / "forge"
    folder.mkdir()
    with GitHubStandIn(folder) as forge:
        repo = forge.add_repository("octo/demo", origin.bare)
        yield World(forge, repo, origin, forge.token())
