"""A path with `--surface local`: a clone of its HEAD, uncommitted work left out, the work published to its `origin`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness import build
from agent_harness.demo.script import call, in_order, say
from agent_harness.demo.server import ScriptedEndpoint
from agent_harness.errors import ConfigError
from tests.sessions.rig import Rig, git

pytestmark = pytest.mark.anyio

EDIT = call("edit_file", {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"})


@pytest.fixture
def checkout(rig: Rig) -> Path:
    """A person's checkout of the origin, on a branch of its own, with work that is not committed."""
    path = rig.folder / "work"
    git(rig.folder, "clone", "-q", str(rig.origin), str(path))
    git(path, "checkout", "-q", "-b", "topic")
    (path / "README.md").write_text("# changed, not committed\n")
    (path / "new.txt").write_text("untracked\n")
    return path


def base_of(rig: Rig) -> object:
    task = rig.of("session_started")[0]["task"]
    assert isinstance(task, dict)
    return task["base"]


async def test_the_work_starts_from_head_and_goes_to_the_origin(rig: Rig, checkout: Path) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    script = in_order(call("run_shell", {"command": "cat README.md; ls"}), EDIT, say("Done."))
    ended = await rig.run(script, repo=str(checkout), surface="local")
    assert ended.outcome == "succeeded", ended.summary
    assert "not committed" not in rig.results()[0]
    assert "new.txt" not in rig.results()[0]
    branch = rig.pushed()
    assert git(rig.origin, "diff", "--name-only", "main", branch) == "greet.py"
    assert base_of(rig) == "main", "topic is not on the origin"
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


async def test_a_folder_in_a_checkout_and_a_relative_path_mean_the_checkout(rig: Rig, checkout: Path) -> None:
    (checkout / "sub").mkdir()
    ended = await rig.run(in_order(EDIT, say("Done.")), repo="work/sub", surface="local")
    assert ended.outcome == "succeeded", ended.summary


async def test_a_branch_that_the_origin_has_is_the_one_proposed_to(rig: Rig, checkout: Path) -> None:
    git(checkout, "push", "-q", "origin", "topic")
    await rig.run(in_order(EDIT, say("Done.")), repo=str(checkout), surface="local")
    assert base_of(rig) == "topic"


async def test_without_an_origin_the_work_can_still_be_kept(rig: Rig, checkout: Path) -> None:
    git(checkout, "remote", "remove", "origin")
    with ScriptedEndpoint(in_order()) as endpoint, pytest.raises(ConfigError) as refused:
        await build.prepare(rig.settings(endpoint, repo=str(checkout), surface="local"), lambda _text: None)
    assert "--no-pr" in str(refused.value)
    ended = await rig.run(in_order(EDIT, say("Done.")), repo=str(checkout), surface="local", pull_request=False)
    assert ended.reason == "no_pull_request"
    assert any(record["kind"] == "bundle_kept" for record in rig.of("notice"))


def hide(path: Path) -> None:
    (path / ".git").rename(path.parent / "gone")


def detach(path: Path) -> None:
    git(path, "checkout", "-q", "--detach")


def empty(path: Path) -> None:
    git(path, "checkout", "-q", "--orphan", "none")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (hide, "not a git repository"),
        (detach, "detached"),
        (empty, "no commits"),
    ],
)
async def test_what_cannot_be_started_from_is_told(rig: Rig, checkout: Path, spoil: Callable[[Path], object], told: str) -> None:
    spoil(checkout)
    with ScriptedEndpoint(in_order()) as endpoint, pytest.raises(ConfigError) as refused:
        await build.prepare(rig.settings(endpoint, repo=str(checkout), surface="local"), lambda _text: None)
    assert told in str(refused.value)
    assert not list(rig.folder.glob("home/sessions/*"))


async def test_the_work_that_is_left_out_is_named_at_the_start(rig: Rig, checkout: Path) -> None:
    await rig.run(in_order(say("Nothing to do.")), repo=str(checkout), surface="local")
    (notice,) = [record for record in rig.of("notice") if record["kind"] == "uncommitted_left_out"]
    assert notice["seq"] == 2
    assert '"README.md", "new.txt" (1 changed, 1 untracked)' in str(notice["detail"])
    assert b"new.txt" not in rig.requests[0].raw


async def test_another_base_branch_is_no_uncommitted_work(rig: Rig, checkout: Path) -> None:
    git(checkout, "commit", "-q", "-a", "-m", "more")
    (checkout / "new.txt").unlink()
    await rig.run(in_order(say("Nothing to do.")), repo=str(checkout), surface="local", base="main")
    assert [record for record in rig.of("notice") if record["kind"] == "uncommitted_left_out"] == []
