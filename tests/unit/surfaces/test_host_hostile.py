"""What a session can lay into a checkout so that a restore does harm, and that it does none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_harness.errors import ConfigError
from agent_harness.surfaces.checkout import find_checkout
from tests.fakes.host_checkout import make_checkout, opened_host, restore, state
from tests.fakes.local_origin import shell
from tests.sessions.rig import git

pytestmark = pytest.mark.anyio
FILES: dict[str, str | bytes] = {"a.txt": "aaa\n", "b.txt": "bbb\n", "d/x": "xxx\n", "empty": ""}


async def wreck(checkout: Path, command: str) -> None:
    async with opened_host(checkout) as surface:
        await shell(surface, command)


async def test_a_restore_writes_through_no_hard_link_that_the_agent_laid(tmp_path: Path) -> None:
    checkout, outside = make_checkout(tmp_path, FILES), tmp_path / "outside"
    outside.write_text("OUT\n")
    outside.chmod(0o640)
    (checkout / "linked").hardlink_to(outside)
    whole = state(checkout)
    await wreck(checkout, "rm a.txt d/x; ln b.txt a.txt; ln linked d/x")
    assert (checkout / "d" / "x").samefile(outside), "the control: the link is there"
    assert await restore(checkout) == 0
    assert (state(checkout), outside.read_text()) == (whole, "OUT\n")


async def test_a_hard_link_that_was_there_is_written_through_so_that_its_other_name_is_mended_too(tmp_path: Path) -> None:
    checkout, outside = make_checkout(tmp_path, FILES), tmp_path / "outside"
    outside.hardlink_to(checkout / "a.txt")
    await wreck(checkout, "echo agent > a.txt")
    assert outside.read_text() == "agent\n"
    assert await restore(checkout) == 0
    assert outside.read_text() == "aaa\n"


async def test_pipes_and_sockets_in_the_place_of_files_and_folders_give_way(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    whole = state(checkout)
    await wreck(checkout, "rm -r empty d; mkfifo empty d; mkdir n; mkfifo n/p")
    assert await restore(checkout) == 0
    assert state(checkout) == whole


async def test_what_a_person_wrote_after_a_restore_survives_its_undoing(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    await wreck(checkout, "echo agent > a.txt")
    assert await restore(checkout) == 0
    (checkout / "a.txt").write_text("precious\n")
    assert await restore(checkout, undo=True) == 0
    assert (checkout / "a.txt").read_text() == "agent\n"
    assert await restore(checkout, undo=True) == 0
    assert (checkout / "a.txt").read_text() == "precious\n"


async def test_a_repository_that_was_moved_is_never_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout = make_checkout(tmp_path, FILES)
    git(tmp_path, "init", "-q", str(checkout / "vendor" / "lib"))
    whole = state(checkout / "vendor" / "lib" / ".git")
    await wreck(checkout, "mv vendor vendor2")
    assert await restore(checkout) == 1
    assert state(checkout / "vendor2" / "lib" / ".git") == whole
    assert "move it back" in capsys.readouterr().out


async def test_a_file_that_git_converted_by_a_setting_that_is_gone_is_given_back(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    (checkout / "a.txt").unlink()
    git(checkout, "-c", "core.autocrlf=true", "checkout", "a.txt")
    assert (checkout / "a.txt").read_bytes() == b"aaa\r\n"
    later = (checkout / ".git" / "index").stat().st_mtime_ns + 10**10
    os.utime(checkout / ".git" / "index", ns=(later, later))  # so that git trusts its stat data
    whole = state(checkout)
    await wreck(checkout, "rm a.txt")
    assert await restore(checkout) == 0
    assert state(checkout) == whole


async def test_a_restore_runs_no_git_that_lies_in_the_checkout(tmp_path: Path) -> None:
    checkout, ran = make_checkout(tmp_path, FILES), tmp_path / "ran"
    (checkout / "bin").mkdir()
    await wreck(checkout, f"printf '#!/bin/sh\\ntouch {ran}\\nexit 1\\n' > bin/git; chmod +x bin/git; rm a.txt")
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{checkout}/bin:{before}"
    try:
        assert await restore(checkout) == 0
    finally:
        os.environ["PATH"] = before
    assert not ran.exists()


def test_a_repository_among_the_files_is_refused_because_commands_could_write_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "work" / "own.git"), str(tmp_path / "work"))
    with pytest.raises(ConfigError, match="lies among the files"):
        find_checkout(tmp_path / "work")
