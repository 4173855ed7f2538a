"""One suite over every surface. What differs between them is a line of data in `SURFACES`, never a skip."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_harness.errors import SurfaceError, ToolFailed
from agent_harness.surfaces.base import Surface
from tests.fakes.host_checkout import make_checkout, opened_host
from tests.fakes.local_origin import opened_local, shell
from tests.fakes.memory_surface import MemorySurface
from tests.sessions.rig import git

pytestmark = pytest.mark.anyio

FILES: Mapping[str, bytes] = {
    "a.txt": b"one\ntwo\n",
    "lib/deep/b.py": b"x = 1\n",
    "bytes.bin": bytes(range(256)),
    "empty": b"",
    "-dash": b"dash\n",
    "line\nbreak": b"break\n",
    "with blank": b"blank\n",
    ".env.example": b"EXAMPLE=1\n",
    ".github/ci.yml": b"on: push\n",
}
LINKS: Mapping[str, str] = {
    "inner": "a.txt",
    "up": "../outside",
    "abs": "/etc/passwd",
    "envlink": ".env",
    "folder": "lib",
    "circle": "circle",
}
DENY = ("lib/private/**", "*.{secret,hidden}")
DENIED = (
    ".env",
    ".ENV.production",
    ".git",
    ".git/config",
    ".GIT/HEAD",
    "lib/.git/hooks/x",
    "deploy/key.pem",
    "ID_RSA",
    ".ssh/known_hosts",
    "lib/.env.local",
    "lib/../.env",
    ".env.example/.envrc",
    "lib/private",
    "lib/Private/x",
    "folder/private/x",
    "any/where/x.SECRET",
    "x.hidden",
)
OUTSIDE = ("..", "../missing", "../outside", "lib/../../x", "/", "/etc/passwd", "//etc", "a/b/../../../c")
ABSENT = ("missing", "lib/missing/x", "a.txt/b", "-", "~", "*", "n" * 150, "c:\\x")
REFUSED: Mapping[str, str] = {
    **{path: f'"{path}" is outside the repository.' for path in OUTSIDE},
    **{path: f'"{path}" is not readable by this agent.' for path in (*DENIED, "envlink")},
    **{path: f'"{path}" links outside the readable area.' for path in ("up", "up/x", "abs", "abs/x", "lib/../up")},
    **{path: f'"{path}" does not exist.' for path in ABSENT},
    "gone\udcff\n": '"gone\\xff\\n" does not exist.',
    "": '`path` is empty; give a path relative to the repository ("." is its root).',
    "a\0b": '"a\\x00b" contains a NUL byte, which no file name can; check `path`.',
    "a\ud800": '"a\\ud800" contains a lone surrogate, which no file name can; check `path`.',
    "circle": '"circle" is a link that leads back to itself.',
}


@dataclass(frozen=True)
class Case:
    """A surface and what it has. `opened` gives it with FILES and LINKS in it."""

    name: str
    opened: Callable[[Path], AbstractAsyncContextManager[Surface]]
    runs_commands: bool
    branch: str = "agent/test"
    """What is checked out."""
    read_only_git: bool = True
    """The model's commands cannot write `.git`."""
    commits: bool = True
    """The harness's own can."""


@asynccontextmanager
async def memory(folder: Path) -> AsyncGenerator[Surface]:
    del folder
    surface = MemorySurface(dict(FILES), dict(LINKS), DENY)
    await surface.open()
    yield surface
    await surface.close()


@asynccontextmanager
async def local(folder: Path) -> AsyncGenerator[Surface]:
    async with opened_local(folder, FILES, DENY) as surface:
        for name, target in LINKS.items():
            assert surface.host_root is not None
            (surface.host_root / name).symlink_to(target)
        yield surface


@asynccontextmanager
async def host(folder: Path, *, confined: bool = True) -> AsyncGenerator[Surface]:
    async with opened_host(make_checkout(folder, FILES), DENY, confined=confined) as surface:
        for name, target in LINKS.items():
            assert surface.host_root is not None
            (surface.host_root / name).symlink_to(target)
        yield surface


SURFACES = (
    Case("memory", memory, runs_commands=False),
    Case("local", local, runs_commands=True),
    Case("host", host, runs_commands=True, branch="main", commits=False),
    Case("unconfined", partial(host, confined=False), runs_commands=True, branch="main", read_only_git=False, commits=False),
)


@pytest.fixture(params=SURFACES, ids=lambda case: case.name)
async def surface(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Surface]:
    case: Case = request.param
    async with case.opened(tmp_path) as opened:
        yield opened


@pytest.fixture(params=[case for case in SURFACES if case.runs_commands], ids=lambda case: case.name)
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Surface]:
    case: Case = request.param
    async with case.opened(tmp_path) as opened:
        yield opened


# --- files


SPELLINGS = {
    "./a.txt": "a.txt",
    "lib/../a.txt": "a.txt",
    "lib//deep/b.py": "lib/deep/b.py",
    "lib/./deep/b.py": "lib/deep/b.py",
    "inner": "a.txt",
    "folder/deep/b.py": "lib/deep/b.py",
}


async def test_a_file_is_read_byte_for_byte_in_every_spelling(surface: Surface) -> None:
    for path in [*FILES, *SPELLINGS]:
        chunk = await surface.read(path)
        assert (path, chunk.data) == (path, FILES[SPELLINGS.get(path, path)])
        assert (chunk.size, chunk.token) == (len(chunk.data), (await surface.stat(path)).token)


async def test_a_part_of_a_file_is_read_from_an_offset(surface: Surface) -> None:
    chunk = await surface.read("bytes.bin", 250, 4)
    assert (chunk.data, chunk.size) == (bytes([250, 251, 252, 253]), 256)
    assert (await surface.read("bytes.bin", 1_000, 4)).data == b""


async def refusal(act: Callable[[], Awaitable[object]]) -> str:
    """The words of a refusal, or that there was none."""
    try:
        return f"not refused: {await act()!r}"
    except ToolFailed as refused:
        return str(refused)


async def test_what_may_not_be_read_is_refused_in_the_same_words(surface: Surface) -> None:
    for act in (surface.read, surface.stat, surface.list):
        assert {path: await refusal(partial(act, path)) for path in REFUSED} == REFUSED


async def test_an_absolute_path_below_the_root_is_refused_with_its_relative_spelling(surface: Surface) -> None:
    for path, relative in {"/lib/deep/b.py": "lib/deep/b.py", "": ".", "/.env": ".env", "/missing/../a.txt": "a.txt"}.items():
        absolute = surface.root + path
        assert await refusal(partial(surface.read, absolute)) == f'"{absolute}" is an absolute path; use "{relative}".'
    assert await refusal(partial(surface.read, f"{surface.root}2/x")) == f'"{surface.root}2/x" is outside the repository.'


async def test_nothing_is_written_where_nothing_may_be_read(surface: Surface) -> None:
    kept = {path: said for path, said in REFUSED.items() if not said.endswith("does not exist.")}
    assert {path: await refusal(partial(surface.write, path, b"evil")) for path in kept} == kept
    assert await refusal(partial(surface.write, "missing", b"x")) == '"missing" does not exist.'
    below_links = {"up/x", "abs/x"}
    links = {path for path in kept if path.rpartition("/")[2] in LINKS} - below_links
    expected = {path: f'"{path}" exists already.' if path in links else said for path, said in kept.items()}
    assert {path: await refusal(partial(surface.write, path, b"evil", create=True)) for path in kept} == expected
    assert await refusal(partial(surface.write, "a.txt/x/y", b"evil", create=True)) == (
        '"a.txt/x/y" can\'t be written: a folder on its way is a file.'
    )


async def test_a_hostile_name_is_created_listed_read_and_replaced(surface: Surface) -> None:
    names = ["raw\udcff\udc80", "-rf", "new\nline", "*", " ", "caf\u00e9", "\U0001f600", '"quoted"', "$(id)", "\\", "..."]
    for name in names:
        await surface.write(f"hostile/{name}", b"1", create=True)
        await surface.write(f"hostile/{name}", b"2")
    assert {entry.name for entry in await surface.list("hostile")} == set(names)
    assert {name: (await surface.read(f"hostile/{name}")).data for name in names} == dict.fromkeys(names, b"2")


async def test_a_written_file_keeps_its_mode_and_changes_its_token(surface: Surface) -> None:
    await surface.write("run.sh", b"#!/bin/sh\n", mode=0o755, create=True)
    before = await surface.stat("run.sh")
    await surface.write("run.sh", b"#!/bin/bash\n")
    after = await surface.stat("run.sh")
    assert (before.kind, before.mode & 0o777, after.mode & 0o777) == ("file", 0o755, 0o755)
    assert before.token != after.token
    assert (await surface.read("run.sh")).token == after.token


async def test_a_file_is_created_with_its_folders_and_never_over_another(surface: Surface) -> None:
    await surface.write("new/folder/x.txt", b"x", create=True)
    assert (await surface.read("new/folder/x.txt")).data == b"x"
    with pytest.raises(ToolFailed):
        await surface.write("a.txt", b"over", create=True)
    assert (await surface.read("a.txt")).data == FILES["a.txt"]


async def test_writing_through_an_inner_link_changes_its_target(surface: Surface) -> None:
    await surface.write("inner", b"changed\n")
    assert (await surface.read("a.txt")).data == b"changed\n"
    assert {entry.name: entry.kind for entry in await surface.list(".")}["inner"] == "link"


async def test_a_folder_lists_its_names_without_what_is_denied(surface: Surface) -> None:
    await surface.write("lib/shown.txt", b"x", create=True)
    entries = {entry.name: entry.kind for entry in await surface.list(".")}
    assert entries["a.txt"] == "file"
    assert entries["lib"] == "dir"
    assert entries["up"] == "link"
    assert {"line\nbreak", "-dash", ".github", ".env.example"} <= set(entries)
    assert not {".git", ".env"} & set(entries)
    assert {entry.name: (entry.kind, entry.size) for entry in await surface.list("lib/deep")} == {"b.py": ("file", 6)}
    assert {entry.name for entry in await surface.list("folder")} == {"deep", "shown.txt"}


async def test_a_folder_is_no_file_and_a_file_no_folder(surface: Surface) -> None:
    assert (await surface.stat("lib")).kind == "dir"
    with pytest.raises(ToolFailed):
        await surface.read("lib")
    with pytest.raises(ToolFailed):
        await surface.list("a.txt")


@given(data=st.binary(max_size=3_000))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_bytes_come_back_as_they_were_written(surface: Surface, data: bytes) -> None:
    await surface.write("empty", data)
    assert (await surface.read("empty")).data == data


@given(
    path=st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "lib", "up", "abs", "", "~", "a.txt", ".env"])).map("/".join)
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_path_leads_to_anything_but_a_known_file_or_a_refusal(surface: Surface, path: str) -> None:
    try:
        found = (await surface.read(path)).data
    except ToolFailed:
        return
    assert found in FILES.values()


async def test_closing_twice_does_nothing_and_nothing_works_afterwards(surface: Surface) -> None:
    await surface.close()
    await surface.close()
    with pytest.raises(SurfaceError):
        await surface.read("a.txt")


async def test_capabilities_are_what_the_table_says_and_what_is_not_there_is_refused(
    surface: Surface, request: pytest.FixtureRequest
) -> None:
    case: Case = request.node.callspec.params["surface"]
    assert surface.capabilities.exec == surface.capabilities.git == case.runs_commands
    refused = {await refusal(partial(surface.exec, ["true"])), await refusal(partial(surface.export, "work"))}
    assert all(said.startswith("not refused") for said in refused) == case.runs_commands


# --- commands


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("no-such-program", 127)])
async def test_a_command_ends_with_its_own_code(running: Surface, command: str, code: int) -> None:
    result, _ = await shell(running, command)
    assert (result.exit_code, result.timed_out, result.stopped, result.strays) == (code, False, False, 0)


async def test_a_program_that_is_missing_says_so(running: Surface) -> None:
    said: list[bytes] = []
    result = await running.exec(["no-such-program"], on_output=lambda data: said.append(data) is not None)
    assert result.exit_code == 127
    assert b"no-such-program" in b"".join(said)


async def test_both_streams_arrive_in_the_order_they_were_written(running: Surface) -> None:
    _, said = await shell(running, "echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    assert said == "1\n2\n3\n4\n"


async def test_stdin_is_given_whole_and_then_ended(running: Surface) -> None:
    _, said = await shell(running, "wc -c", stdin=b"x" * 300_000)
    assert said.strip() == "300000"
    _, nothing = await shell(running, "wc -c")
    assert nothing.strip() == "0"


async def test_a_command_that_does_not_read_its_stdin_is_not_waited_for(running: Surface) -> None:
    with anyio.fail_after(20):
        result, _ = await shell(running, "true", stdin=b"x" * 5_000_000)
    assert result.exit_code == 0


async def test_a_command_starts_where_it_is_told(running: Surface) -> None:
    _, said = await shell(running, "pwd; cat b.py", cwd="lib/deep")
    assert said == f"{running.root}/lib/deep\nx = 1\n"
    for elsewhere in ("..", "up", "missing", ".git"):
        with pytest.raises(ToolFailed):
            await shell(running, "pwd", cwd=elsewhere)


async def test_when_the_time_is_up_the_whole_tree_is_ended_and_its_output_kept(running: Surface) -> None:
    with anyio.fail_after(20):
        result, said = await shell(running, "echo begun; (trap '' TERM; setsid sleep 61237 & sleep 61237)", timeout_s=0.5)
    assert (result.exit_code, result.timed_out) == (None, True)
    assert said == "begun\n"
    _, left = await shell(running, "cat /proc/[0-9]*/cmdline")
    assert "61237" not in left


async def test_cancelling_ends_the_whole_tree_before_it_returns(running: Surface) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            def begun(_data: bytes) -> None:
                tasks.cancel_scope.cancel()

            await running.exec(["bash", "-c", "setsid sleep 61237 & echo begun; sleep 61237"], on_output=begun)
        _, left = await shell(running, "cat /proc/[0-9]*/cmdline")
    assert "61237" not in left


async def test_whoever_reads_the_output_may_end_the_command(running: Surface) -> None:
    with anyio.fail_after(20):
        result = await running.exec(["yes"], on_output=lambda _data: True)
    assert (result.exit_code, result.stopped, result.timed_out) == (None, True, False)


async def test_an_error_of_whoever_reads_the_output_ends_the_command_and_is_raised(running: Surface) -> None:
    def fail(_data: bytes) -> None:
        raise RuntimeError("full")

    with anyio.fail_after(20), pytest.raises(RuntimeError, match="full"):
        await running.exec(["yes"], on_output=fail)


async def test_a_command_ends_with_its_process_and_not_with_its_output(running: Surface) -> None:
    with anyio.fail_after(20):
        result, said = await shell(running, "sleep 600 & echo started")
    assert (result.exit_code, result.strays, said) == (0, 1, "started\n")


async def test_a_flood_is_passed_on_whole(running: Surface) -> None:
    seen = 0

    def count(data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    await running.exec(["head", "-c", "30000000", "/dev/zero"], on_output=count)
    assert seen == 30_000_000


async def test_commands_run_side_by_side(running: Surface) -> None:
    """The first waits for a file that only the second makes."""
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shell, running, "until test -e go; do sleep 0.01; done")
            tasks.start_soon(shell, running, "touch go")


async def test_git_is_read_only_for_commands_and_writable_for_our_own_where_somebody_commits(
    running: Surface, request: pytest.FixtureRequest
) -> None:
    case: Case = request.node.callspec.params["running"]
    added, _ = await shell(running, "echo x > new.txt; git add new.txt")
    assert (added.exit_code != 0) == case.read_only_git
    commit = "git add new.txt && git -c user.name=a -c user.email=a@b commit -qm new"
    assert running.capabilities.commits == case.commits
    if not case.commits:
        with pytest.raises(ToolFailed, match="own checkout"):
            await shell(running, commit, writable_git=True)
        return
    allowed, _ = await shell(running, commit, writable_git=True)
    assert allowed.exit_code == 0
    _, log = await shell(running, "git log --format=%s -1; git status --short -- new.txt")
    assert log == "new\n"


async def test_what_is_left_is_exported_as_one_commit_without_what_is_denied_or_ours(running: Surface, tmp_path: Path) -> None:
    await shell(
        running, "echo 3 >> a.txt; rm -- -dash; mkdir more; echo n > more/n.txt; echo S > .env; echo s > x.pem; echo t > .agent/t"
    )
    work = await running.export("The work\n\nMore words.\n")
    assert work.bundle is not None
    seed = tmp_path / "seed"
    git(seed, "fetch", "-q", str(work.bundle), "agent/test")
    assert git(seed, "rev-parse", "FETCH_HEAD") == work.head
    assert git(seed, "log", "--format=%s|%b|%an", "main..FETCH_HEAD").strip() == "The work|More words.\n|agent-harness"
    changed = git(seed, "diff", "--name-only", "--no-renames", "main", "FETCH_HEAD").splitlines()
    assert {"a.txt", "-dash", "more/n.txt"} <= set(changed)
    assert not [name for name in changed if ".env" in name or name.endswith(".pem") or name.startswith(".agent")]


async def test_nothing_is_exported_when_nothing_was_changed(running: Surface, tmp_path: Path) -> None:
    for name in LINKS:
        await shell(running, f"rm {name}")
    await shell(running, "echo t > .agent/t; echo S > .env; echo s > x.hidden; mkdir empty-folder")
    work = await running.export("nothing")
    assert (work.bundle, work.head) == (None, git(tmp_path / "seed", "rev-parse", "main"))


async def test_a_denied_file_stays_here_although_the_repository_asks_for_it(running: Surface, tmp_path: Path) -> None:
    """A `.gitignore` in the worktree outranks every other list of what git leaves out."""
    names = (".env", "deep/er/.ENV.local", "lib/private/x", "x.secret", "y.pem", ".ssh/id")
    script = "printf '!*\\n!.env\\n!.ENV.local\\n!*.pem\\n!*.secret\\n' | tee .gitignore > lib/.gitignore; "
    await shell(running, script + "; ".join(f"mkdir -p $(dirname {name}); echo SECRET > {name}" for name in names))
    _, control = await shell(running, "git ls-files -o --exclude-standard")
    assert {".env", "y.pem", "x.secret"} <= set(control.splitlines())
    work = await running.export("work")
    assert work.bundle is not None
    seed = tmp_path / "seed"
    git(seed, "fetch", "-q", str(work.bundle), "agent/test")
    changed = git(seed, "diff", "--name-only", "--no-renames", "main", "FETCH_HEAD").splitlines()
    assert set(changed) == {".gitignore", "lib/.gitignore", *LINKS}


async def test_the_world_of_a_guard_follows_links_without_leaving(running: Surface, request: pytest.FixtureRequest) -> None:
    case: Case = request.node.callspec.params["running"]
    await shell(running, "ln -s / root; ln -s lib alias; ln -s loop loop")
    world = running.world("lib")
    root = running.root
    assert (world.worktree, world.cwd) == (root, f"{root}/lib")
    assert world.realpath(f"{root}/alias/deep") == f"{root}/lib/deep"
    assert world.realpath(f"{root}/root/etc") == "/etc"
    assert world.realpath(f"{root}/up/x").startswith("/outside") or not world.realpath(f"{root}/up/x").startswith(f"{root}/")
    assert world.is_link(f"{root}/alias")
    assert not world.is_link(f"{root}/lib")
    assert world.is_dir(f"{root}/alias/deep")
    assert not world.is_dir("/etc")
    assert world.glob(f"{root}/*/deep/*.py") == [f"{root}/alias/deep/b.py", f"{root}/folder/deep/b.py", f"{root}/lib/deep/b.py"]
    assert world.read_text(f"{root}/a.txt") == "one\ntwo\n"
    assert world.read_text("/etc/passwd") is None
    assert world.read_text(f"{root}/abs") is None
    assert world.realpath(f"{root}/loop")
    facts = world.git()
    assert (facts.branch, facts.own_branch, facts.default_branch) == (case.branch, "agent/test", "main")
