from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_harness.errors import SurfaceError, SurfaceLost, ToolFailed
from agent_harness.surfaces.beneath import (
    FOLDER,
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    Beneath,
    OpenAt2,
    Opener,
    best_opener,
    no_opener,
)
from agent_harness.surfaces.bwrap import candidates
from agent_harness.surfaces.files import HostFiles

OPENERS: dict[str, Opener] = {"openat2": OpenAt2(), "walk": no_opener}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A worktree beside a secret."""
    (tmp_path / "secret").write_bytes(b"SECRET")
    root = tmp_path / "root"
    (root / "lib" / "deep").mkdir(parents=True)
    (root / ".ssh").mkdir()
    for name in ("a.txt", "lib/b.txt", "lib/deep/c.txt", ".env", ".ssh/known"):
        (root / name).write_text(name, encoding="utf-8")
    return root


@pytest.fixture
def files(root: Path, opener: Opener) -> Generator[HostFiles]:
    made = HostFiles(root, ["lib/private.txt"], seen_as="/workspace", opener=opener)
    yield made
    made.close()


def refusal(files: HostFiles, path: str, what: str = "read") -> str:
    with pytest.raises(ToolFailed) as caught:
        getattr(files, what)(path)
    return str(caught.value)


def left(root: Path) -> set[str]:
    return {p.relative_to(root).as_posix() for p in root.rglob("*")}


LINKS = {
    "inner": ("lib/deep/c.txt", None),
    "around": ("lib/../lib/./deep//c.txt", None),
    "through": ("folder/c.txt", None),
    "up": ("../secret", '"up" links outside the readable area.'),
    "far": ("lib/../../secret", '"far" links outside the readable area.'),
    "absolute": ("/etc/passwd", '"absolute" links outside the readable area.'),
    "magic": ("/proc/self/root/etc/passwd", '"magic" links outside the readable area.'),
    "chain": ("up", '"chain" links outside the readable area.'),
    "up/x": (None, '"up/x" links outside the readable area.'),
    "notes": (".env", '"notes" is not readable by this agent.'),
    "notes2": ("lib/../notes", '"notes2" is not readable by this agent.'),
    "keys": (".ssh", '"keys" is not readable by this agent.'),
    "keys/known": (None, '"keys/known" is not readable by this agent.'),
    "folder/../../.ssh/known": (None, '"folder/../../.ssh/known" is outside the repository.'),
    "private": ("lib/private.txt", '"private" is not readable by this agent.'),
    "library/private.txt": (None, '"library/private.txt" is not readable by this agent.'),
    "nowhere": ("missing", '"nowhere" does not exist.'),
    "loop": ("loop2", '"loop" is a link that leads back to itself.'),
}


@pytest.mark.parametrize("path", LINKS)
def test_a_link_is_followed_inside_and_refused_for_where_it_leads(root: Path, files: HostFiles, path: str) -> None:
    for name, (target, _) in LINKS.items():
        if target is not None:
            (root / name).symlink_to(target)
    (root / "loop2").symlink_to("loop")
    (root / "folder").symlink_to("lib/deep")
    (root / "library").symlink_to("lib")
    expected = LINKS[path][1]
    if expected is None:
        assert files.read(path).data == b"lib/deep/c.txt"
        assert files.stat(path).kind == "file"
    else:
        assert refusal(files, path) == refusal(files, path, "stat") == refusal(files, path, "list") == expected


def test_a_denied_file_is_left_out_of_a_listing_also_through_a_link(root: Path, files: HostFiles) -> None:
    (root / "lib" / "private.txt").write_text("p", encoding="utf-8")
    (root / "library").symlink_to("lib")
    assert {e.name for e in files.list("library")} == {e.name for e in files.list("lib")} == {"b.txt", "deep"}
    assert {e.name for e in files.list(".")} == {"a.txt", "lib", "library"}


def test_a_denied_file_is_not_created_through_a_link(root: Path, files: HostFiles) -> None:
    (root / "library").symlink_to("lib")
    before = left(root)
    for path in ("library/private.txt", "library/.env", "library/.ssh/x", "library/new/.git/config"):
        with pytest.raises(ToolFailed, match="is not readable by this agent"):
            files.write(path, b"x", create=True)
    assert left(root) == before


def test_a_name_of_bytes_that_are_no_text_is_listed_read_and_written(root: Path, files: HostFiles) -> None:
    (root / os.fsdecode(b"caf\xe9\n")).write_bytes(b"old")
    (name,) = {e.name for e in files.list(".")} - {"a.txt", "lib"}
    assert files.read(name).data == b"old"
    files.write(name, b"new")
    assert files.read(name).data == b"new"
    assert refusal(files, name + "x") == '"caf\\xe9\\nx" does not exist.'


def test_what_is_no_regular_file_is_neither_waited_for_nor_read(root: Path, files: HostFiles) -> None:
    os.mkfifo(root / "pipe")
    (root / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name in ("pipe", "socket"):
            assert files.stat(name).kind == "other"
            assert refusal(files, name) == f'"{name}" is not a regular file.'
            with pytest.raises(ToolFailed, match="is not a regular file"):
                files.write(name, b"x")
    assert refusal(files, "lib") == '"lib" is a folder.'
    assert refusal(files, "a.txt", "list") == '"a.txt" is not a folder.'
    assert refusal(files, "a.txt/x", "list") == '"a.txt/x" does not exist.'
    assert refusal(files, "n" * 300) == refusal(files, "n" * 300, "stat")
    assert refusal(files, "/workspace/lib") == '"/workspace/lib" is an absolute path; use "lib".'


def test_the_folder_stays_the_same_when_its_path_leads_elsewhere(root: Path, files: HostFiles) -> None:
    root.rename(root.parent / "moved")
    root.mkdir()
    (root / "a.txt").write_text("other", encoding="utf-8")
    assert files.read("a.txt").data == b"a.txt"


def test_a_part_of_a_file_is_read_with_its_whole_size(files: HostFiles) -> None:
    chunk = files.read("a.txt", 2, 2)
    assert (chunk.data, chunk.size) == (b"tx", 5)
    assert files.read("a.txt", 99).data == files.read("a.txt", 0, 0).data == b""
    assert chunk.token == files.stat("a.txt").token


def test_a_file_without_a_size_of_its_own_is_read_to_its_end() -> None:
    files = HostFiles(Path("/proc/self"))
    assert files.stat("status").size == 0
    assert files.read("status").data.startswith(b"Name:")
    files.close()


def test_the_token_changes_with_every_write_even_of_as_many_bytes(root: Path, files: HostFiles) -> None:
    tokens = {files.stat("a.txt").token}
    for number in range(20):
        files.write("a.txt", b"%05d" % number)
        tokens.add(files.stat("a.txt").token)
    assert len(tokens) == 21


def test_the_token_changes_although_the_time_was_put_back(root: Path, files: HostFiles) -> None:
    before, found = files.stat("a.txt").token, (root / "a.txt").stat()
    (root / "a.txt").write_text("A.TXT", encoding="utf-8")
    os.utime(root / "a.txt", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert files.stat("a.txt").token != before


def test_a_write_keeps_the_mode_and_leaves_nothing_beside_it(root: Path, files: HostFiles) -> None:
    (root / "a.txt").chmod(0o751)
    before = left(root)
    files.write("a.txt", b"new")
    assert ((root / "a.txt").read_bytes(), (root / "a.txt").stat().st_mode & 0o7777) == (b"new", 0o751)
    assert left(root) == before


def test_a_file_with_two_names_stays_one_file(root: Path, files: HostFiles) -> None:
    os.link(root / "a.txt", root / "twin")
    files.write("a.txt", b"much longer than before")
    assert (root / "twin").read_bytes() == b"much longer than before"
    files.write("twin", b"short")
    assert (root / "a.txt").read_bytes() == b"short"


def test_a_link_is_written_through_and_stays_a_link(root: Path, files: HostFiles) -> None:
    (root / "alias").symlink_to("lib/deep/c.txt")
    files.write("alias", b"new")
    assert (root / "alias").is_symlink()
    assert (root / "lib/deep/c.txt").read_bytes() == b"new"


def test_a_new_file_appears_with_its_folders_and_its_mode(root: Path, files: HostFiles) -> None:
    files.write("n/e/w/run", b"#!", mode=0o755, create=True)
    files.write("n/e/plain", b"", create=True)
    umask = os.umask(0)
    os.umask(umask)
    assert (root / "n/e/w/run").stat().st_mode & 0o7777 == 0o755
    assert (root / "n/e/plain").stat().st_mode & 0o7777 == 0o644 & ~umask


def test_nothing_is_created_over_anything(root: Path, files: HostFiles) -> None:
    (root / "dangling").symlink_to("missing")
    (root / "out").symlink_to("../planted")
    before = left(root.parent)
    for path in ("a.txt", "lib", "dangling", "out", "."):
        with pytest.raises(ToolFailed, match="exists already"):
            files.write(path, b"x", create=True)
    with pytest.raises(ToolFailed, match='"dangling" is a link that leads nowhere'):
        files.write("dangling/x", b"x", create=True)
    with pytest.raises(ToolFailed, match="links outside the readable area"):
        files.write("out/x/y", b"x", create=True)
    with pytest.raises(ToolFailed, match="a folder on its way is a file"):
        files.write("a.txt/x", b"x", create=True)
    with pytest.raises(ToolFailed, match="the name is too long"):
        files.write("new/" + "n" * 300, b"x", create=True)
    with pytest.raises(ToolFailed, match='"gone" does not exist'):
        files.write("gone", b"x")
    assert left(root.parent) == before


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """The kernel refuses to write a file past that size, as it does on a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_write_that_fails_in_the_middle_changes_nothing_and_leaves_nothing(root: Path, files: HostFiles) -> None:
    os.link(root / "lib/b.txt", root / "twin")
    before = left(root)
    with largest_file(1_000):
        for path, create in (("a.txt", False), ("twin", False), ("x/y/z", True)):
            with pytest.raises(SurfaceError, match=f'"{path}" could not be written'):
                files.write(path, b"x" * 5_000, create=create)
    assert left(root) == before
    assert (root / "a.txt").read_bytes() == b"a.txt"
    assert (root / "twin").read_bytes() == b"lib/b.txt"


def test_the_file_that_names_the_repository_is_not_written_under_another_name(root: Path, files: HostFiles) -> None:
    (root / ".git").write_text("gitdir: /repo.git\n", encoding="utf-8")
    os.link(root / ".git", root / "alias")
    with pytest.raises(ToolFailed, match='"alias" is not readable by this agent'):
        files.write("alias", b"gitdir: /evil\n")
    assert (root / ".git").read_text(encoding="utf-8") == "gitdir: /repo.git\n"


def test_the_repository_is_not_written_where_it_shows_up_under_another_name(root: Path) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("old", encoding="utf-8")
    (root / "alias").mkdir()
    script = (
        "import sys; from pathlib import Path; from agent_harness.surfaces.files import HostFiles\n"
        "Path(sys.argv[1], 'alias', 'control').write_text('')\n"
        "files = HostFiles(Path(sys.argv[1]))\n"
        "for path, create in (('alias/config', False), ('alias/hooks/x', True), ('alias/new/x', True)):\n"
        "    try: files.write(path, b'evil', create=create); print('written')\n"
        "    except Exception as refused: print(refused)\n"
    )
    program = next(each for each in candidates() if Path(each).exists())
    bwrap = [program, "--bind", "/", "/", "--bind", str(root / ".git"), str(root / "alias")]
    ran = subprocess.run([*bwrap, sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        f'"{path}" is not readable by this agent.' for path in ("alias/config", "alias/hooks/x", "alias/new/x")
    ]
    assert left(root / ".git") == {"hooks", "config", "control"}
    assert (root / ".git" / "config").read_text(encoding="utf-8") == "old"


def test_no_descriptor_is_left_open(root: Path, files: HostFiles) -> None:
    for name, target in {"up": "../secret", "inner": "lib/deep/c.txt", "notes": ".env", "loop": "loop", "folder": "lib"}.items():
        (root / name).symlink_to(target)
    before = len(list(Path("/proc/self/fd").iterdir()))

    def overwrite(path: str) -> None:
        files.write(path, b"x")

    def create(path: str) -> None:
        files.write(path, b"x", create=True)

    acts: list[Callable[[str], object]] = [files.read, files.stat, files.list, overwrite, create]
    for path in ("up", "inner", "notes", "loop", "folder/b.txt", "folder/x", "missing/x", "lib", "a.txt", "a.txt/x"):
        for act in acts:
            with suppress(ToolFailed):
                act(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_closed_folder_says_so(files: HostFiles) -> None:
    files.close()
    files.close()
    with pytest.raises(SurfaceLost):
        files.read("a.txt")


def test_a_folder_that_is_not_there_is_a_failure_of_the_surface(tmp_path: Path) -> None:
    with pytest.raises(SurfaceError, match="can't be opened"):
        HostFiles(tmp_path / "missing")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.E2BIG, errno.EAGAIN])
def test_a_kernel_without_the_call_is_noticed_once_and_walked_instead(root: Path, code: int) -> None:
    calls: list[int] = []

    def failing(number: int, *rest: object) -> int:
        del rest
        calls.append(number)
        ctypes.set_errno(code)
        return -1

    fd = os.open(root, FOLDER)
    try:
        assert best_opener(fd, OpenAt2(failing)) is no_opener
        assert isinstance(best_opener(fd), OpenAt2)
    finally:
        os.close(fd)
    assert set(calls) == {437}


def test_a_tree_that_never_rests_is_walked_after_a_hundred_tries(root: Path) -> None:
    def busy(*rest: object) -> int:
        del rest
        ctypes.set_errno(errno.EAGAIN)
        return -1

    files = HostFiles(root, opener=OpenAt2(busy))
    assert files.read("lib/deep/c.txt").data == b"lib/deep/c.txt"
    files.close()


PARTS = st.sampled_from(["a", "b", "x", "l1", "l2", "l3", "..", ".", "", "f"])
TARGETS = st.lists(PARTS, min_size=1, max_size=5).map("/".join).filter(bool)


@given(links=st.dictionaries(st.sampled_from(["l1", "a/l2", "a/b/l3"]), TARGETS), path=st.lists(PARTS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_walk_arrives_where_the_kernel_does(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str], path: list[str]
) -> None:
    """The kernel's own resolution below a folder, links followed, is the oracle for ours."""
    top = tmp_path_factory.mktemp("walk")
    root = top / "a"
    (root / "a" / "b").mkdir(parents=True)
    for where in ("f", "a/f", "a/a/f", "a/a/b/f"):
        (top / where).write_text(where, encoding="utf-8")
    for name, target in links.items():
        (root / name).symlink_to(target)
    spelled = "/".join(part for part in path if part not in ("", ".", ".."))
    if not spelled:
        return
    beneath = Beneath(root, lambda _path: False, no_opener)
    kernel = OpenAt2(resolve=RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)

    def outcome(ours: bool) -> tuple[int, int] | int | None:
        try:
            fd = beneath.open(spelled, os.O_PATH)[0] if ours else kernel(beneath.root, spelled.encode(), os.O_PATH)
        except OSError as error:
            return error.errno
        if fd is None:
            return errno.ELOOP
        found = os.fstat(fd)
        os.close(fd)
        return found.st_dev, found.st_ino

    mine, kernels = outcome(True), outcome(False)
    beneath.close()
    trailing = any(target.endswith(("/", "/.")) for target in links.values())  # the kernel then insists on a folder
    assert mine == kernels or (trailing and kernels == errno.ENOTDIR)
