"""The local surface: nothing of the host inside, nothing denied in the history, nothing left when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agent_harness.errors import SurfaceError, SurfaceLost, ToolFailed
from agent_harness.surfaces.local import remove_trees
from tests.fakes.local_origin import BRANCH, opened_local, shell
from tests.sessions.rig import git

pytestmark = pytest.mark.anyio

SECRET = "sesame-planted-4711"
FILES = {"a.txt": "one\n", "lib/b.py": "x = 1\n"}
WITH_DENIED = {
    **FILES,
    ".env": f"PASSWORD={SECRET}\n",
    "deploy/server.pem": f"{SECRET}\n",
    "copy.txt": "same\n",
    "same.key": "same\n",
}


def bare(command: str, where: Path) -> str:
    """What a command prints without any sandbox."""
    done = subprocess.run(["bash", "-c", command], cwd=where, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


async def test_the_worktree_is_the_base_commit_on_the_sessions_branch(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        _, said = await shell(local, "git status --short --branch; git rev-parse HEAD; cat a.txt lib/b.py; pwd")
        assert said.splitlines() == [
            f"## {BRANCH}",
            git(tmp_path / "origin.git", "rev-parse", "main"),
            "one",
            "x = 1",
            "/workspace",
        ]


async def test_denied_files_are_neither_in_the_worktree_nor_in_the_history(tmp_path: Path) -> None:
    async with opened_local(tmp_path, WITH_DENIED) as local:
        _, status = await shell(local, "git status --short")
        assert status == ""
        for command in ("cat .env deploy/server.pem", "git show HEAD:.env", "git log -p", "git grep -a sesame HEAD"):
            _, said = await shell(local, command)
            assert SECRET not in said, command
        everything = "git cat-file --batch-all-objects --batch-check='%(objectname)' | git cat-file --batch"
        _, objects = await shell(local, everything)
        assert "x = 1" in objects
        assert SECRET not in objects
        _, same = await shell(local, "cat copy.txt")
        assert same == "same\n", "content that is also under an allowed name stays"
    assert SECRET in bare(everything, tmp_path / "seed"), "the control: a plain clone has it"


async def test_work_on_top_keeps_the_denied_files_of_the_base_as_they_are(tmp_path: Path) -> None:
    async with opened_local(tmp_path, WITH_DENIED) as local:
        await local.write("a.txt", b"two\n")
        await local.write("new.txt", b"new\n", create=True)
        await shell(local, "echo mine > .env; echo mine > new.pem; rm lib/b.py")
        work = await local.export("The work")
        assert work.bundle is not None
        git(tmp_path / "seed", "fetch", "-q", str(work.bundle), BRANCH)
    changed = git(tmp_path / "seed", "diff", "--name-status", "main", "FETCH_HEAD").splitlines()
    assert changed == ["M\ta.txt", "D\tlib/b.py", "A\tnew.txt"]
    assert git(tmp_path / "seed", "rev-parse", "FETCH_HEAD") == work.head
    git(tmp_path / "seed", "fsck", "--strict")


async def test_nothing_changed_exports_nothing(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        await shell(local, "touch .agent/tmp/x; echo 1 > .agent-traces/y")
        work = await local.export("Nothing")
    assert work.bundle is None
    assert work.head == git(tmp_path / "origin.git", "rev-parse", "main")


@pytest.mark.parametrize("extra", ["src/**", "*.secret"])
async def test_the_persons_own_globs_are_denied_too(tmp_path: Path, extra: str) -> None:
    files = {**FILES, "src/plan.txt": SECRET, "x.secret": SECRET}
    async with opened_local(tmp_path, files, deny=("src/**", "*.secret")) as local:
        _, said = await shell(local, f"cat {extra.replace('**', '*')}; git show HEAD:src/plan.txt HEAD:x.secret")
        assert SECRET not in said


# Each attempt prints REACHED when it got what it must not; the control runs it without a sandbox, where harmless.
ATTEMPTS: dict[str, tuple[str, bool]] = {
    "read the real home": ("ls {home}/private 2>/dev/null | grep -q marker && echo REACHED", True),
    "read a secret in the environment": ("env | grep -q SESAME && echo REACHED", True),
    "read the environment bubblewrap had": ("cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -q SESAME && echo REACHED", True),
    "write the host's tmp": ("touch {tmp}/made && test -e {tmp}/made && echo REACHED", True),
    "connect to a server on the host": ("exec 3<>/dev/tcp/127.0.0.1/{port} && echo REACHED", True),
    "connect to a socket in a folder of the host": (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{socket}')\" && echo REACHED",
        True,
    ),
    "see the harness's process": ("kill -0 {pid} && echo REACHED", True),
    "write .git": ("touch .git/x || echo x >> .git; git config user.name evil && echo REACHED", False),
    "write a hook": ("mkdir -p /repo.git/hooks && touch /repo.git/hooks/pre-commit && echo REACHED", False),
    "add to the index": ("echo 1 > new; git add new && echo REACHED", False),
    "move .git away": ("mv .git .git2 && echo REACHED", False),
    "write the system": ("touch /usr/bin/evil && echo REACHED", False),
    "write the root": ("touch /evil && echo REACHED", False),
    "write a device": ("echo > /dev/sda && echo REACHED; mknod disk b 8 0 && echo REACHED", False),
    "write a sysctl": ("echo x > /proc/sys/kernel/core_pattern && echo REACHED", False),
    "write sysrq": (
        "test -w /proc/sysrq-trigger && echo h > /proc/sysrq-trigger && cat /proc/sysrq-trigger | grep -q . && echo REACHED",
        False,
    ),
    "mount": ("mount -t tmpfs none /tmp && echo REACHED", False),
    "make a user namespace": ("unshare -U true && echo REACHED", False),
    "change root": ("chroot / true && echo REACHED", False),
    "trace process 1": (
        'python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(16, 1, 0, 0) != 0)" && echo REACHED',
        False,
    ),
    "interrupt process 1": ("kill -INT 1; sleep 0; kill -0 1 || echo REACHED", False),
    "read the memory of process 1": (
        "head -c 1 /proc/1/mem && echo REACHED; cat /proc/1/maps | grep -q . && echo REACHED",
        False,
    ),
    "write a controller of interrupts": ("echo 1 > /proc/irq/default_smp_affinity && echo REACHED", False),
    "write a control group": ("find /sys/fs/cgroup -name cgroup.procs -writable | grep -q . && echo REACHED", False),
    "read private keys of the machine": ("ls /etc/ssl/private && echo REACHED", True),
    "put a program of its own before the system's": ("cp /bin/true /tools/git && echo REACHED", False),
    "see the host's processes": ("test $(ls -d /proc/[0-9]* | wc -l) -gt 12 && echo REACHED", True),
    "leave by the root of a process": ("ls /proc/self/root{tmp}/agent.sock && echo REACHED", True),
    "leave by dots": ("ls ../../../../../..{tmp}/agent.sock && echo REACHED", True),
    "use the sockets of the host's services": ("find /run /var/run/ -type s 2>/dev/null | grep -q . && echo REACHED", False),
    "share memory with the host": ("test -e /dev/shm/{shared} && echo REACHED", True),
    "kill process 1": ("kill -9 1; sleep 0; kill -0 1 || echo REACHED", False),
    "have capabilities": ("grep -q 'CapEff:\t0000000000000000' /proc/self/status || echo REACHED", True),
    "gain privileges": ("grep -q 'NoNewPrivs:\t1' /proc/self/status || echo REACHED", True),
    "run without a filter": ("grep -q 'Seccomp:\t2' /proc/self/status || echo REACHED", True),
    "open io_uring": (
        'python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(425, 1, 0) < 0)" && echo REACHED',
        False,
    ),
    "open a packet socket": ('python3 -c "import socket; socket.socket(17, 3, 3)" && echo REACHED', False),
    "open a vsock": ('python3 -c "import socket; socket.socket(40, 1)" && echo REACHED', True),
    "see the host's name": ('test "$(hostname)" = "{host}" && echo REACHED', True),
    "read kernel memory": ("test -r /proc/kcore && head -c 4 /proc/kcore | grep -q ELF && echo REACHED", False),
    "read the password hashes": ("cat /etc/shadow && echo REACHED", False),
    "resolve a name": ("getent hosts localhost.example && echo REACHED", False),
    "type into the terminal": (
        "python3 -c \"import fcntl; fcntl.ioctl(0, 0x5412, b'x')\" 2>&1 | grep -q 'not permitted' || echo REACHED",
        True,
    ),
}


async def test_no_attempt_gets_out_and_each_control_shows_that_it_could(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setenv("SESAME", SECRET)
    (home / "private").mkdir()
    (home / "private" / "marker").touch()
    listener = socket.create_server(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(tmp_path / "agent.sock"))
    unix.listen()
    shared = Path("/dev/shm") / tmp_path.name
    shared.touch()
    places = {
        "home": str(home), "tmp": str(tmp_path), "port": str(listener.getsockname()[1]), "socket": str(tmp_path / "agent.sock"),
        "pid": str(os.getpid()), "host": socket.gethostname(), "shared": shared.name,
    }  # fmt: skip
    escaped: list[str] = []
    silent: list[str] = []
    async with opened_local(tmp_path, FILES) as local:
        for name, (command, has_control) in ATTEMPTS.items():
            for place, value in places.items():
                command = command.replace(f"{{{place}}}", value)
            _, said = await shell(local, command)
            if "REACHED" in said:
                escaped.append(f"{name}: {said}")
            if has_control:
                said = bare(command, tmp_path)
                if "REACHED" not in said:
                    silent.append(f"{name}: {said}")
    listener.close()
    unix.close()
    shared.unlink()
    assert escaped == []
    assert silent == [], "a check whose control does not fire proves nothing"


async def test_two_hundred_strays_die_with_their_command(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        result, _ = await shell(local, "for i in $(seq 200); do setsid sleep 600 & done")
        assert result.exit_code == 0
        assert result.strays == 200
        _, left = await shell(local, "ls -d /proc/[0-9]* | wc -l")
        assert int(left) <= 5


async def test_a_background_job_does_not_shield_the_strays_of_another_command(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: shell(local, "exec sleep 600", timeout_s=None))
        with anyio.fail_after(10):
            while "sleep" not in (await shell(local, "cat /proc/[0-9]*/comm"))[1]:
                pass
        result, _ = await shell(local, "setsid tail -f /dev/null & true")
        assert result.strays == 1
        _, running = await shell(local, "cat /proc/[0-9]*/comm")
        assert "sleep" in running
        assert "tail" not in running
        tasks.cancel_scope.cancel()


HARNESS = """
import sys, anyio
from pathlib import Path
from tests.fakes.local_origin import opened_local, shell
async def main():
    async with opened_local(Path(sys.argv[1]), {"a.txt": "1"}) as local:
        command = ["bash", "-c", "echo started; exec sleep 987"]
        await local.exec(command, timeout_s=None, on_output=lambda _data: print("up", flush=True))
anyio.run(main)
"""


def test_everything_inside_dies_when_the_harness_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HARNESS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == "up\n"
            deadline = time.monotonic() + 30
            while not (inside := sleepers()):
                assert time.monotonic() < deadline, "the control: it runs"
        finally:
            harness.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while set(sleepers()) & set(inside):
        assert time.monotonic() < deadline, "processes of the sandbox outlived the harness"


def sleepers() -> list[int]:
    found: list[int] = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes() == b"sleep\x00987\x00":
                found.append(int(line.parent.name))
        except OSError:
            continue
    return found


async def test_what_git_says_on_the_way_does_not_spoil_the_export(tmp_path: Path) -> None:
    async with opened_local(tmp_path, {**FILES, ".gitattributes": "*.txt text eol=lf\n"}) as local:
        await local.write("crlf.txt", b"x\r\ny\r\n", create=True)
        nested = "git init -q sub && git -C sub -c user.name=x -c user.email=x@x commit -q --allow-empty -m x"
        await shell(
            local, f"{nested}; printf '!.env\\n!*.pem\\n!.agent\\n' > .gitignore; echo {SECRET} | tee .env sub.pem .agent/x"
        )
        work = await local.export("The work")
    assert work.bundle is not None
    assert work.bundle.read_bytes().startswith(b"# v2 git bundle\n")
    git(tmp_path / "seed", "fetch", "-q", str(work.bundle), BRANCH)
    names = git(tmp_path / "seed", "diff", "--name-only", "main", "FETCH_HEAD").splitlines()
    assert names == [".gitignore", "crlf.txt"], "what is denied is not added, whatever the repository's own .gitignore says"


async def test_an_export_that_fails_says_what_git_said(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        await local.write("new.txt", b"1", create=True)
        (tmp_path / "session" / "repo.git" / "worktrees" / "workspace" / "index.lock").touch()
        with pytest.raises(SurfaceError, match=r"index\.lock"):
            await local.export("The work")
        assert not (tmp_path / "session" / "work.bundle").exists()


async def test_a_killed_git_leaves_no_lock_behind(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        await local.write("new.txt", b"1", create=True)
        hang = ["sh", "-c", "touch $(git rev-parse --git-path index.lock); sleep 600"]
        assert (await local.exec(hang, timeout_s=0.5, writable_git=True)).timed_out
        assert (await local.export("The work")).bundle is not None
        with anyio.move_on_after(0.5):
            await local.exec(hang, writable_git=True)
        await local.write("newer.txt", b"1", create=True)
        assert (await local.export("The work")).bundle is not None


async def test_nothing_is_left_of_the_clone_when_it_closes(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        result, _ = await shell(local, "mkdir -p locked/in; chmod 0 locked; ln -s /etc/passwd link; mkfifo pipe")
        assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "session").iterdir()) == ["git-home"]


async def test_a_tree_deeper_than_python_can_walk_is_thrown_away_too(tmp_path: Path) -> None:
    tree = Path("/dev/shm") / tmp_path.name  # in memory: a disk takes seconds for it
    deep = "import os, sys\nos.mkdir(sys.argv[1]); os.chdir(sys.argv[1])\nfor _ in range(1100): os.mkdir('d'); os.chdir('d')"
    await anyio.run_process([sys.executable, "-c", deep, str(tree)])
    try:
        with pytest.raises(RecursionError):
            shutil.rmtree(tree)
    finally:
        await remove_trees([str(tree)])
    assert not tree.exists()


async def test_a_repository_that_has_our_folders_as_something_else_still_opens(tmp_path: Path) -> None:
    async with opened_local(tmp_path, {**FILES, ".agent": "a file of theirs\n"}) as local:
        _, said = await shell(local, "git status --short; cat .agent")
        assert said == "a file of theirs\n"
        assert (await local.export("Nothing")).bundle is None


async def test_guards_are_told_of_the_clone_as_it_is(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        world = local.world("lib")
        facts = world.git()
        _, said = await shell(
            local, "git symbolic-ref --short HEAD; git for-each-ref --format='%(refname:short)' refs/heads; git remote -v"
        )
        assert facts.branch == facts.own_branch == said.split()[0] == BRANCH
        assert sorted(facts.local_branches) == said.split()[1:3]
        assert facts.remotes == {"origin": said.split()[4]}
        assert (world.worktree, world.cwd, world.home) == ("/workspace", "/workspace/lib", "/home/agent")
        _, said = await shell(local, "cd lib; echo $HOME; echo $TMPDIR; echo $PATH; echo $PWD")
        assert said.split() == [world.env[name] for name in ("HOME", "TMPDIR", "PATH", "PWD")]


async def test_a_worktree_file_that_is_a_link_into_the_host_is_only_a_link_inside(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text(SECRET, encoding="utf-8")
    async with opened_local(tmp_path, FILES) as local:
        await shell(local, f"ln -s {tmp_path}/outside.txt out; ln -s {tmp_path} dir")
        assert SECRET not in (await shell(local, "cat out dir/outside.txt"))[1]
        for path in ("out", "dir/outside.txt"):
            with pytest.raises(ToolFailed, match="links outside"):
                await local.read(path)
        world = local.world(".")
        assert world.read_text("/workspace/out") is None
        assert world.realpath("/workspace/dir/x") == f"{tmp_path}/x"
        assert list(world.glob("/workspace/dir/*")) == []


async def test_the_export_ends_what_still_runs_before_it_looks_at_the_files(tmp_path: Path) -> None:
    async with opened_local(tmp_path, FILES) as local:
        begun = anyio.Event()

        async def keep_writing() -> None:
            with suppress(SurfaceLost):
                script = "while :; do echo $((n += 1)) > churn; echo; done"
                await local.exec(["bash", "-c", script], timeout_s=30, on_output=lambda _data: begun.set())

        with anyio.fail_after(25):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_writing)
                await begun.wait()
                await local.write("a.txt", b"two\n")
                assert (await local.export("work")).bundle is not None
        _, said = await shell(local, "git log --format=%s; git status --short")
        assert said.splitlines() == ["work", "first"], "nothing was written afterwards"
