"""Real processes that behave badly: the harness gets an answer in time, and nothing is left behind."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agent_harness.events import JsonValue
from agent_harness.hooks import descendants, process
from tests.unit.hooks.rig import CALL, HookRig

pytestmark = pytest.mark.anyio

BIG: dict[str, JsonValue] = {**CALL, "tool_input": {"command": "x" * 1_000_000}}


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def gone(pid: int) -> None:
    with anyio.fail_after(5):
        while alive(pid):
            await anyio.lowlevel.checkpoint()


async def test_a_hook_that_never_reads_its_event_is_heard(rig: HookRig) -> None:
    rig.add("""echo '{"block": true, "reason": "unread"}'""")
    assert (await rig.fire(BIG)).reason == "unread"


async def test_a_hook_that_closes_its_input_and_goes_on_is_heard(rig: HookRig) -> None:
    rig.add("""exec <&-; i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; echo '{"block": true, "reason": "closed"}'""")
    assert (await rig.fire(BIG)).reason == "closed"


async def test_a_hook_that_reads_to_the_end_gets_the_whole_event_and_an_end(rig: HookRig) -> None:
    rig.add(f"cat > {rig.folder}/told; exit 2")
    with anyio.fail_after(10):
        assert (await rig.fire(BIG)).blocked
    told = (rig.folder / "told").read_text()
    assert told.endswith("}\n")
    assert len(told) > 1_000_000


async def test_a_hook_that_closes_its_output_early_is_waited_for(rig: HookRig) -> None:
    rig.add(f'echo \'{{"block": true, "reason": "early"}}\'; exec >&- 2>&-; cat > /dev/null; touch {rig.folder}/finished')
    assert (await rig.fire(BIG)).reason == "early"
    assert (rig.folder / "finished").exists()


async def test_a_child_that_keeps_the_pipe_open_is_not_waited_for_and_not_left(rig: HookRig) -> None:
    rig.add(f'sleep 64 & echo $! > {rig.folder}/pid; echo \'{{"block": true, "reason": "forked"}}\'')
    started = time.monotonic()
    assert (await rig.fire()).reason == "forked"
    assert time.monotonic() - started < 4
    await gone(int((rig.folder / "pid").read_text()))


@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep 64 & echo $! > pid",
        "setsid sh -c 'echo $$ > pid; sleep 64' < /dev/null > /dev/null 2>&1 & while [ ! -s pid ]; do :; done",
        "(setsid sh -c 'sleep 64 & echo $! > pid; exit' &); while [ ! -s pid ]; do :; done",
        "setsid sh -c 'env -i sleep 64 & echo $! > pid; wait' & while [ ! -s pid ]; do :; done",
        "set -m; sleep 64 & echo $! > pid",
    ],
)
async def test_a_child_in_a_session_of_its_own_does_not_outlive_its_hook(rig: HookRig, command: str) -> None:
    rig.script(f"{command}\necho '{{}}'")
    rig.add("./policy.sh")
    bystander = await anyio.open_process(["sleep", "64"], start_new_session=True)
    try:
        assert not (await rig.fire()).blocked
        pid = int((rig.folder / "pid").read_text())
        with anyio.fail_after(5):
            while alive(pid):
                await anyio.lowlevel.checkpoint()
        assert alive(bystander.pid)
    finally:
        bystander.kill()
        await bystander.wait()


async def test_without_the_search_such_a_child_lives_on(rig: HookRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: ending the process group is not enough."""
    monkeypatch.setattr(descendants, "ROUNDS", 0)
    rig.script("setsid sh -c 'echo $$ > pid; sleep 64' < /dev/null > /dev/null 2>&1 & while [ ! -s pid ]; do :; done")
    rig.add("./policy.sh")
    await rig.fire()
    pid = int((rig.folder / "pid").read_text())
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)
    for line in Path("/proc").glob("[0-9]*/stat"):  # its own child is not ended with it
        with suppress(OSError):
            fields = line.read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[3]) == pid:
                os.kill(int(line.parent.name), signal.SIGKILL)


async def test_a_flood_is_cut_off_and_refuses_within_bounded_memory(rig: HookRig) -> None:
    rig.add("yes x | head -c 50000000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = await rig.fire()
    assert answer.blocked
    assert "printed more than 1,048,576 bytes" in answer.reason
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


async def test_a_hook_that_ignores_the_signal_is_decided_in_time_with_all_its_children(
    rig: HookRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.3)
    rig.script(f"trap '' TERM\nsleep 64 &\necho $$ $! > {rig.folder}/pids\nwhile :; do sleep 1; done")
    rig.add("./policy.sh", timeout_s=0.5)
    started = time.monotonic()
    answer = await rig.fire()
    assert 0.5 <= time.monotonic() - started < 4
    assert answer.blocked
    assert "hook broken: it did not answer within 0.5 s" in answer.reason
    for pid in (rig.folder / "pids").read_text().split():
        await gone(int(pid))


async def test_a_hook_may_tidy_up_when_its_time_is_over(rig: HookRig) -> None:
    rig.add(f"trap 'touch {rig.folder}/tidied; exit 0' TERM; while :; do sleep 0.05; done", timeout_s=0.3)
    assert (await rig.fire()).blocked
    assert (rig.folder / "tidied").exists()


async def test_a_cancelled_session_leaves_no_hook_and_says_what_was_cut_off(rig: HookRig) -> None:
    rig.script(f"echo $$ > {rig.folder}/pid.part && mv {rig.folder}/pid.part {rig.folder}/pid\nsleep 64")
    rig.add("./policy.sh", "SessionEnd")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.hooks().fire, "SessionEnd", {"reason": "other"})
            while not (rig.folder / "pid").exists():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    await gone(int((rig.folder / "pid").read_text()))
    assert [(ran.decision, ran.reason) for ran in rig.ran()] == [("broken", "it was cut off")]


async def test_output_that_is_no_text_is_read_as_far_as_it_goes(rig: HookRig) -> None:
    rig.add("""printf '\\351\\200 noise\\n{"block": true, "reason": "caf\\351"}'""")
    assert (await rig.fire()).reason == "caf\ufffd"


async def test_fifty_slow_hooks_take_as_long_as_one(rig: HookRig) -> None:
    for _ in range(50):
        rig.add("sleep 1", timeout_s=60)
    started = time.monotonic()
    assert not (await rig.fire()).blocked
    assert time.monotonic() - started < 6  # one after another would be fifty
    assert len(rig.ran()) == 50


async def test_no_hook_leaves_a_descriptor_open(rig: HookRig) -> None:
    rig.add("cat")
    await rig.fire()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the folder of descriptors changes while a Path walks it
    for _ in range(5):
        await rig.fire()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
