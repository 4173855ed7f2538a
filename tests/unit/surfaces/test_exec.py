"""The exec server in a real sandbox, and its client against servers that lie."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_harness.errors import SurfaceLost, ToolFailed
from agent_harness.surfaces import bwrap, pids
from agent_harness.surfaces.base import ExecResult
from agent_harness.surfaces.exec_client import MAX_ANSWER, MAX_REQUEST, ExecClient
from agent_harness.surfaces.sandbox import Sandbox

pytestmark = pytest.mark.anyio


class Shell:
    """Commands in one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def argv(
        self, argv: Sequence[str], *, timeout_s: float | None = 20, stdin: bytes = b"", cwd: str = "/workspace"
    ) -> tuple[ExecResult, str]:
        pieces: list[bytes] = []
        result = await self.sandbox.exec(argv, cwd, timeout_s, lambda data: pieces.append(data), stdin)
        return result, b"".join(pieces).decode("utf-8", "replace")

    async def __call__(self, command: str, *, timeout_s: float | None = 20, stdin: bytes = b"") -> tuple[ExecResult, str]:
        return await self.argv(["bash", "-c", command], timeout_s=timeout_s, stdin=stdin)

    async def names(self) -> list[str]:
        """Programs that run in the sandbox beside the server and the one that asks."""
        _, said = await self.argv(["python3", "-I", "-S", "-c", LIST])
        return sorted(said.split("\n")[:-1])

    async def until(self, fits: Callable[[list[str]], bool]) -> None:
        with anyio.fail_after(10):
            while not fits(await self.names()):
                pass


LIST = """
import os
for pid in os.listdir("/proc"):
    if pid.isdigit() and pid not in ("1", str(os.getpid())):
        try: print(open(f"/proc/{pid}/comm").read().strip())
        except OSError: pass
"""


@asynccontextmanager
async def started(folder: Path) -> AsyncGenerator[Shell]:
    sandbox = await Sandbox.start(bwrap.Profile(folder))
    assert sandbox is not None
    try:
        yield Shell(sandbox)
    finally:
        await sandbox.close()


async def test_exit_codes_signals_and_what_cannot_be_started_are_told_as_a_shell_would(tmp_path: Path) -> None:
    (tmp_path / "no-program").write_text("x", encoding="utf-8")
    async with started(tmp_path) as shell:
        assert (await shell("exit 7"))[0] == ExecResult(7)
        assert (await shell("kill -SEGV $$"))[0] == ExecResult(139)
        assert (await shell("kill -INT $$"))[0] == ExecResult(130)
        assert await shell.argv(["no-such-program"]) == (ExecResult(127), "no-such-program: No such file or directory\n")
        assert (await shell.argv(["./no-program"]))[0] == ExecResult(126)
        assert await shell.argv(["true"], cwd="/nowhere") == (ExecResult(127), "/nowhere: No such file or directory\n")
        assert await shell("yes | head -1; true") == (ExecResult(0), "y\n"), "SIGPIPE ends what writes to nobody"


async def test_output_of_both_streams_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        result, said = await shell("for i in $(seq 3000); do echo out$i; echo err$i >&2; done")
        assert result.exit_code == 0
        assert said == "".join(f"out{i}\nerr{i}\n" for i in range(1, 3001))


async def test_arguments_and_input_arrive_byte_for_byte(tmp_path: Path) -> None:
    odd = "a\nb 'c' \"d\" \\ é \udcff \t $HOME"
    async with started(tmp_path) as shell:
        pieces: list[bytes] = []
        await shell.sandbox.exec(["printf", "%s", odd], "/workspace", 20, lambda data: pieces.append(data), b"")
        assert b"".join(pieces) == odd.encode("utf-8", "surrogateescape")
        data = bytes(range(256)) * 2_000
        result, said = await shell("sha256sum", stdin=data)
        import hashlib

        assert (result.exit_code, said.split()[0]) == (0, hashlib.sha256(data).hexdigest())
        assert await shell("cat") == (ExecResult(0), ""), "without input it reads an empty one"
        assert (await shell("exit 3", stdin=data))[0] == ExecResult(3), "nobody has to read it"


async def test_a_command_ends_with_its_process_and_not_with_its_output(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        result, said = await shell("sleep 600 & echo started")
        assert (result, said) == (ExecResult(0, strays=1), "started\n")
        assert await shell.names() == []


async def test_what_ends_by_itself_right_after_its_command_may_finish(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        result, _ = await shell("exec > >(cat > copy.txt); echo through")
        assert (result, (tmp_path / "copy.txt").read_text(encoding="utf-8")) == (ExecResult(0), "through\n")


async def test_a_command_is_ended_with_its_whole_tree_when_its_time_is_up(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        result, _ = await shell("setsid sleep 600 & sleep 600; sleep 600", timeout_s=0.3)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert await shell.names() == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("trap 'echo cleaned > said; exit 0' TERM; echo up; sleep 600 & wait", "cleaned\n"),
        (
            "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo stubborn > said; echo up; sleep 600' & sleep 600; sleep 600",
            "stubborn\n",
        ),
    ],
    ids=["TERM comes first", "KILL comes last"],
)
async def test_a_tree_is_asked_to_end_before_it_is_made_to(tmp_path: Path, command: str, said: str) -> None:
    up = anyio.Event()
    async with started(tmp_path) as shell:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: shell.sandbox.exec(["bash", "-c", command], "/workspace", None, lambda _data: up.set(), b""))
            with anyio.fail_after(20):
                await up.wait()
            tasks.cancel_scope.cancel()
        assert await shell.names() == []
    assert (tmp_path / "said").read_text(encoding="utf-8") == said


async def test_cancelling_ends_the_tree_before_it_returns(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: shell("setsid sleep 600 & sleep 600", timeout_s=None))
            await shell.until(lambda names: names.count("sleep") == 2)
            tasks.cancel_scope.cancel()
        assert await shell.names() == []


async def test_the_caller_can_end_a_flood_and_nothing_is_kept_of_it(tmp_path: Path) -> None:
    import tracemalloc

    seen = 0

    def enough(data: bytes) -> bool:
        nonlocal seen
        seen += len(data)
        return seen >= 50_000_000

    async with started(tmp_path) as shell:
        tracemalloc.start()
        result = await shell.sandbox.exec(["yes"], "/workspace", 60, enough, b"")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (result.exit_code, result.stopped, result.timed_out) == (None, True, False)
        assert 50_000_000 <= seen < 50_200_000
        assert peak < 2_000_000
        assert await shell.names() == []


async def test_an_error_of_the_caller_ends_the_command_and_is_raised(tmp_path: Path) -> None:
    def broken(data: bytes) -> None:
        raise ValueError(data.decode())

    async with started(tmp_path) as shell:
        with pytest.raises(ValueError, match="hello"):
            await shell.sandbox.exec(["bash", "-c", "echo hello; sleep 600"], "/workspace", 20, broken, b"")
        assert await shell.names() == []


async def test_many_commands_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    answers: dict[int, tuple[ExecResult, str]] = {}
    async with started(tmp_path) as shell, anyio.create_task_group() as tasks:

        async def one(number: int) -> None:
            answers[number] = await shell(f"echo {number}; exit {number}")

        for number in range(60):
            tasks.start_soon(one, number)
    assert answers == {number: (ExecResult(number), f"{number}\n") for number in range(60)}


async def test_a_daemon_of_a_running_job_lives_as_long_as_the_job_and_no_longer(tmp_path: Path) -> None:
    daemon = "(setsid sleep 600 &) ; exec tail -f /dev/null"
    async with started(tmp_path) as shell:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: shell(daemon, timeout_s=None))
            await shell.until(lambda names: names == ["sleep", "tail"])
            result, _ = await shell("(setsid cat /dev/zero > /dev/null &) ; true")
            assert result.strays == 1
            assert await shell.names() == ["sleep", "tail"]
            tasks.cancel_scope.cancel()
        assert await shell.names() == []


async def test_nothing_inside_can_end_stop_or_read_process_1(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        await shell("for s in INT TERM HUP QUIT KILL STOP TSTP USR1 PIPE CHLD ABRT SEGV; do kill -$s 1; done")
        reading = "for f in environ maps cwd/.; do head -c 1 {0}/$f >/dev/null 2>&1 || ls {0}/$f >/dev/null 2>&1 && echo $f; done"
        _, said = await shell(reading.format("/proc/$$"))
        assert said.split() == ["environ", "maps", "cwd/."], "the control: of another process they can be read"
        _, said = await shell("head -c 1 /proc/1/environ /proc/1/maps /proc/1/mem /proc/1/fd/3; ls /proc/1/cwd/ /proc/1/root/")
        assert said.count("Permission denied") == 6


async def test_nothing_but_the_three_standard_descriptors_reaches_a_command(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        _, said = await shell(
            "ls /proc/$$/fd; cat /proc/self/limits | grep -E 'core|file size|processes'; nice; cat /proc/$$/oom_score_adj"
        )
        assert said.split()[:3] == ["0", "1", "2"]
        assert said.split()[3] == "Max"
        assert said.split()[-2:] == [str(min(os.nice(0) + 5, 19)), "1000"]


async def test_a_command_that_is_too_long_is_refused_and_costs_nothing_else(tmp_path: Path) -> None:
    async with started(tmp_path) as shell:
        with pytest.raises(ToolFailed, match=r"at most 150,000.*file first"):
            await shell("x" * (MAX_REQUEST + 1))
        with pytest.raises(ToolFailed, match="NUL"):
            await shell.argv(["echo", "a\0b"])
        assert (await shell("true " + "x" * 100_000))[0] == ExecResult(0)
        result, said = await shell("true " + "x" * 140_000)
        assert (result.exit_code, said) == (126, "bash: Argument list too long\n")


async def test_a_sandbox_that_is_killed_is_lost_for_every_command_and_ever_after(tmp_path: Path) -> None:
    lost: list[str] = []
    async with started(tmp_path) as shell, anyio.create_task_group() as tasks:

        async def wait() -> None:
            try:
                await shell("sleep 600", timeout_s=None)
            except SurfaceLost as error:
                lost.append(str(error))

        tasks.start_soon(wait)
        tasks.start_soon(wait)
        await shell.until(lambda names: names.count("sleep") == 2)
        shell.sandbox._process.kill()  # pyright: ignore[reportPrivateUsage] - what an out-of-memory kill would do
        with anyio.fail_after(10):
            while len(lost) < 2:
                await anyio.lowlevel.checkpoint()
        with pytest.raises(SurfaceLost):
            await shell("true")


@asynccontextmanager
async def lying() -> AsyncGenerator[tuple[ExecClient, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client = ExecClient(ours)
    try:
        yield client, theirs
    finally:
        client.close()
        theirs.close()


NONSENSE = (
    b"{",
    b"[" * 4_000,
    b"[1]",
    b"null",
    b"\xff",
    b'{"id": 1, "rc": "0", "strays": 0}',
    b'{"id": 1, "rc": true, "strays": 0}',
    b'{"id": 1, "rc": 1.0, "strays": 0}',
    b'{"id": 1, "rc": 256, "strays": 0}',
    b'{"id": 1, "rc": -1, "strays": 0}',
    b'{"id": 1, "rc": 0}',
    b'{"id": 1, "rc": 0, "strays": -5}',
    b'{"id": 1, "rc": 0, "strays": 0, "x": "' + b"x" * MAX_ANSWER + b'"}',
)


@pytest.mark.parametrize("answer", NONSENSE)
async def test_an_answer_that_our_server_would_not_give_ends_the_sandbox(answer: bytes) -> None:
    async with lying() as (client, server):
        server.send(answer)
        with anyio.fail_after(5), pytest.raises(SurfaceLost):
            await client.run(["true"], "/", None, None, b"")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answer=st.binary(min_size=1, max_size=200))
async def test_no_bytes_of_a_server_make_the_client_raise_anything_else(answer: bytes) -> None:
    async with lying() as (client, server):
        server.send(answer)
        with anyio.fail_after(5), pytest.raises(SurfaceLost):
            await client.run(["true"], "/", None, None, b"")


async def test_answers_for_unknown_commands_and_second_answers_change_nothing() -> None:
    async with lying() as (client, server):
        for answer in (
            b'{"id": 99, "rc": 5, "strays": 0}',
            b'{"id": 1, "rc": 3, "strays": 0}',
            b'{"id": 1, "rc": 4, "strays": 0}',
        ):
            server.send(answer)
        results: list[ExecResult] = []

        async def run() -> None:
            results.append(await client.run(["true"], "/", None, None, b""))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
        assert results == [ExecResult(3)]


async def test_a_server_that_answers_no_kill_is_given_up() -> None:
    async with lying() as (client, _):
        with anyio.fail_after(10), pytest.raises(SurfaceLost):
            await client.run(["true"], "/", 0.01, None, b"")


async def test_a_request_waits_while_the_server_is_too_busy_to_take_it() -> None:
    async with lying() as (client, server):
        ended: list[ExecResult] = []

        async def run() -> None:
            ended.append(await client.run(["true", "x" * 100_000], "/", None, None, b""))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(run)
            server.setblocking(False)
            for number in range(1, 21):
                await anyio.wait_readable(server)
                assert server.recv(MAX_REQUEST).startswith(b"run\0%d\0" % number)
            for number in range(1, 21):
                server.send(b'{"id": %d, "rc": 0, "strays": 0}' % number)
        assert ended == [ExecResult(0)] * 20


STORM = """
import os, time
started = 0
while started < 200:  # bounded: other programs share this machine
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except BlockingIOError:
        break
    started += 1
print(started, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("grouped", [True, False])
async def test_a_storm_of_processes_is_held_down_and_the_sandbox_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    if not grouped:  # a machine on which no control group can be made
        monkeypatch.setattr(pids, "MOUNTS", tmp_path / "no-control-groups")
    held_by_kernel = (grouped and bool(pids.places(pids.MOUNTS, pids.MEMBERSHIP))) or os.getuid() != 0
    sandbox = await Sandbox.start(bwrap.Profile(tmp_path), 50)
    assert sandbox is not None
    try:
        shell = Shell(sandbox)
        ended, said = await shell.argv(["python3", "-c", STORM], timeout_s=2 if held_by_kernel else 20)
        if held_by_kernel:
            assert int(said) < 50
        else:
            assert said in ("200\n", "")  # control: nothing else holds it down
            assert ended.exit_code == 137, "the server's own count ends it, long before the time is up"
        again, said = await shell("echo still here")
        assert (again.exit_code, said) == (0, "still here\n")
    finally:
        await sandbox.close()
    assert list(pids.MOUNTS.glob(f"pids/{pids.PREFIX}{os.getpid()}-*")) == []


async def test_when_a_sandbox_is_closed_every_process_of_it_is_gone(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-{tmp_path.name}"

    def there() -> int:
        return sum(mark.encode() in line.read_bytes() for line in Path("/proc").glob("[0-9]*/cmdline") if line.exists())

    sandbox = await Sandbox.start(bwrap.Profile(tmp_path))
    assert sandbox is not None
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            loop = f"for i in $(seq 100); do sh -c 'sleep 60; : {mark}' & done; echo; wait"
            begun = anyio.Event()
            tasks.start_soon(_ignoring_loss, sandbox, loop, begun)
            await begun.wait()
            while there() < 100:  # control: they run, and can be found
                await anyio.lowlevel.checkpoint()
            await sandbox.close()
            assert there() == 0


async def _ignoring_loss(sandbox: Sandbox, command: str, begun: anyio.Event) -> None:
    with suppress(SurfaceLost):
        await sandbox.exec(["bash", "-c", command], "/workspace", 30, lambda _data: begun.set(), b"")
