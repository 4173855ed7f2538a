"""A process swaps a folder for a link that leads out, as fast as the kernel lets it, while we read, write, create and list.

Each attack is first shown to win against the usual way: resolve the path, compare it with the root, then open it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.beneath import OpenAt2, Opener, no_opener
from agent_harness.surfaces.files import HostFiles

EXCHANGE = """
import ctypes, sys
libc = ctypes.CDLL(None)
first, second = sys.argv[1].encode(), sys.argv[2].encode()
print("swapping", flush=True)
while True:
    libc.renameat2(-100, first, -100, second, 2)
"""
PER_ATTACK_S = 0.25
PATIENCE_S = 20.0  # how long a control may look for its first win, and we for both outcomes; it takes milliseconds


@dataclass
class Scene:
    """A worktree whose `swap` is a folder at one moment and a link to `outside` at the next."""

    root: Path
    outside: Path


@pytest.fixture
def scene(tmp_path: Path) -> Generator[Scene]:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "swap", outside):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.name, encoding="utf-8")
    (outside / "only-outside").touch()
    (root / "other").symlink_to(outside)
    with swapping(root / "swap", root / "other"):
        yield Scene(root, outside)


@contextmanager
def swapping(first: Path, second: Path) -> Generator[None]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", EXCHANGE, str(first), str(second)], stdout=subprocess.PIPE
    ) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"swapping\n"
        try:
            yield
        finally:
            attacker.kill()


def checked(scene: Scene, path: str) -> Path | None:
    """The usual way: None when the path leads out at the moment of the check."""
    real = os.path.realpath(scene.root / path)
    return scene.root / path if os.path.commonpath([real, scene.root]) == str(scene.root) else None


def wins(attempt: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if attempt():
                return True
        except OSError:
            continue
    return False


def attack(attempt: Callable[[], None], refusal: str = "links outside the readable area") -> tuple[int, int]:
    """How often it worked and how often it was refused, in these words or as too restless; both happen."""
    done = refused = 0
    begun = time.monotonic()
    while time.monotonic() < begun + (PER_ATTACK_S if done and refused else PATIENCE_S):
        try:
            attempt()
        except ToolFailed as failure:
            if refusal not in str(failure) and "keeps changing" not in str(failure):
                raise
            refused += 1
        else:
            done += 1
    return done, refused


OPENERS: dict[str, Opener] = {"openat2": OpenAt2(), "walk": no_opener}


@pytest.fixture(params=OPENERS)
def files(request: pytest.FixtureRequest, scene: Scene) -> Generator[HostFiles]:
    made = HostFiles(scene.root, opener=OPENERS[request.param])
    yield made
    made.close()


def test_the_usual_check_loses_against_a_swap(scene: Scene) -> None:
    """The control."""

    def read() -> bool:
        path = checked(scene, "swap/file")
        return path is not None and path.read_text(encoding="utf-8") == "outside"

    def write() -> bool:
        path = checked(scene, "swap/file")
        if path is not None:
            path.write_text("overwritten", encoding="utf-8")
        return (scene.outside / "file").read_text(encoding="utf-8") == "overwritten"

    def names() -> bool:
        path = checked(scene, "swap")
        return path is not None and "only-outside" in os.listdir(path)  # noqa: PTH208

    for attempt in (read, names, write):
        assert wins(attempt)


def test_no_swap_leads_a_read_out(scene: Scene, files: HostFiles) -> None:
    def read() -> None:
        assert files.read("swap/file").data == b"swap"

    assert all(attack(read))


def test_no_swap_leads_a_listing_out(scene: Scene, files: HostFiles) -> None:
    def names() -> None:
        assert {entry.name for entry in files.list("swap")} == {"file"}

    assert all(attack(names))


def test_no_swap_leads_a_write_out(scene: Scene, files: HostFiles) -> None:
    numbers = count()

    def write() -> None:
        files.write("swap/file", b"%d" % next(numbers))

    assert all(attack(write))
    assert (scene.outside / "file").read_text(encoding="utf-8") == "outside"
    assert {p.name for p in scene.outside.iterdir()} == {"file", "only-outside"}


def test_no_swap_leads_a_new_file_or_folder_out(scene: Scene, files: HostFiles) -> None:
    numbers = count()

    def create() -> None:
        files.write(f"swap/new{next(numbers)}/file", b"x", create=True)

    assert all(attack(create))
    assert {p.name for p in scene.outside.iterdir()} == {"file", "only-outside"}


def test_no_swap_makes_a_denied_file_readable(tmp_path: Path) -> None:
    """A plain file is swapped for a link to `.env`."""
    (tmp_path / ".env").write_text("SECRET", encoding="utf-8")
    (tmp_path / "plain").write_text("plain", encoding="utf-8")
    (tmp_path / "link").symlink_to(".env")
    with swapping(tmp_path / "plain", tmp_path / "link"):
        assert wins(lambda: not (tmp_path / "plain").is_symlink() and (tmp_path / "plain").read_text("utf-8") == "SECRET")
        for opener in OPENERS.values():
            files = HostFiles(tmp_path, opener=opener)

            def read(files: HostFiles = files) -> None:
                assert files.read("plain").data == b"plain"

            assert all(attack(read, "is not readable by this agent"))
            files.close()
