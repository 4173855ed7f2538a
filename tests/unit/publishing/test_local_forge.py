from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_harness.errors import PublishError
from agent_harness.publishing.base import Proposal
from agent_harness.publishing.local_forge import LocalForge

pytestmark = pytest.mark.anyio
PROPOSAL = Proposal("Fix <b> it", "body\n", "agent/s1", "main", "0" * 40)


async def test_the_pull_request_is_a_text_and_its_data(tmp_path: Path) -> None:
    opened = await LocalForge(tmp_path).open_pull_request(PROPOSAL)
    assert opened.url == (tmp_path / "pull-request.md").as_uri()
    text = (tmp_path / "pull-request.md").read_text(encoding="utf-8")
    assert text == f"# Fix &lt;b&gt; it\n\n`agent/s1` into `main` at `{'0' * 40}`\n\nbody\n"
    data = json.loads((tmp_path / "pull-request.json").read_text(encoding="utf-8"))
    assert data == {
        "url": opened.url, "number": None, "state": "open", "draft": False, "title": "Fix <b> it", "branch": "agent/s1",
        "base": "main", "head": "0" * 40, "body": "body\n",
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pull-request.json", "pull-request.md"]


async def test_a_half_written_pull_request_of_a_crash_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / ".pull-request.md.part").write_text("half")
    (tmp_path / "pull-request.json").write_text("{")
    await LocalForge(tmp_path).open_pull_request(PROPOSAL)
    assert json.loads((tmp_path / "pull-request.json").read_text(encoding="utf-8"))["state"] == "open"
    assert not (tmp_path / ".pull-request.md.part").exists()


async def test_a_folder_that_is_gone_is_said_and_that_the_branch_is_pushed(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="is pushed, but its pull request cannot be written"):
        await LocalForge(tmp_path / "gone").open_pull_request(PROPOSAL)
