"""The one record: numbered, chained, redacted and on disk before anyone sees it; readers slow nobody and miss nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from agent_harness.errors import HarnessError
from agent_harness.events import AssistantText, Notice, ToolCalled
from agent_harness.redact import Redactor
from agent_harness.trace import RECENT, Delta, Record, Subscription, Trace, read

SECRET = "sesame-open-4711"


def opened(folder: Path) -> Trace:
    return Trace(folder / "trace.jsonl", "s1", Redactor([SECRET]))


def numbered(count: int, start: int = 1) -> Iterable[Notice]:
    return (Notice("n", str(number)) for number in range(start, start + count))


def details(items: Iterable[Record | Delta]) -> list[str]:
    return [str(item["detail"]) for item in items if not isinstance(item, Delta)]


async def take(reader: Subscription, count: int) -> list[Record | Delta]:
    with anyio.fail_after(10):
        return [await anext(reader) for _ in range(count)]


async def all_of(reader: Subscription) -> list[Record | Delta]:
    with anyio.fail_after(10):
        return [item async for item in reader]


def test_events_are_numbered_from_one_and_chained(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    records = [trace.emit(event) for event in numbered(3)]
    trace.close()
    lines = trace.path.read_bytes().splitlines()
    assert [record["seq"] for record in records] == [1, 2, 3]
    assert [record["prev"] for record in records] == [None, *(hashlib.sha256(line).hexdigest() for line in lines[:2])]
    assert [json.loads(line) for line in lines] == records == list(read(trace.path))
    assert all(record["session"] == "s1" for record in records)


def test_times_are_utc_with_milliseconds(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t", "s1", Redactor(), clock=lambda: datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC))
    assert trace.emit(Notice("n", ""))["time"] == "2026-01-02T03:04:05.678Z"


def test_a_line_is_on_disk_when_emit_returns(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    for number, event in enumerate(numbered(5), 1):
        trace.emit(event)
        assert len(list(read(trace.path))) == number


def test_secrets_are_gone_before_anything_is_written_or_returned(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    control = trace.emit(Notice("n", "sesame-open"))
    assert control["detail"] == "sesame-open"
    record = trace.emit(ToolCalled(1, "c1", "run_shell", {SECRET: [f"echo {SECRET}"]}))
    assert record["arguments"] == {"[REDACTED:known-secret]": ["echo [REDACTED:known-secret]"]}
    assert SECRET not in trace.path.read_text("utf-8")


@pytest.mark.parametrize("text", ["\n\r\u2028\x00\x85", "half \ud800 a pair", "ü 漢 🎈", '"\\'])
def test_any_text_is_one_line_and_reads_back(tmp_path: Path, text: str) -> None:
    trace = opened(tmp_path)
    trace.emit(AssistantText(1, text))
    assert trace.path.read_bytes().count(b"\n") == 1
    assert [record["text"] for record in read(trace.path)] == [text]


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        trace = opened(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(trace.path.stat().st_mode) == 0o600


def test_a_trace_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = opened(tmp_path)
    for event in numbered(3):
        first.emit(event)
    first.close()
    second = opened(tmp_path)
    assert second.last_seq == 3
    assert second.emit(Notice("n", "4"))["seq"] == 4
    assert details(read(second.path)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("torn", ["{", '{"seq": 3, "time": "2026', '{"seq": 3}'])
def test_a_last_line_that_a_crash_tore_is_cut_off(tmp_path: Path, torn: str) -> None:
    first = opened(tmp_path)
    for event in numbered(2):
        first.emit(event)
    first.close()
    with first.path.open("a", encoding="utf-8") as file:
        file.write(torn)
    assert details(read(first.path)) == ["1", "2"]
    second = opened(tmp_path)
    second.emit(Notice("n", "3"))
    assert details(read(second.path)) == ["1", "2", "3"]


def changed(lines: list[str], what: str) -> list[str]:
    match what:
        case "a word":
            return [lines[0], lines[1].replace('"2"', '"3"'), *lines[2:]]
        case "a blank":
            return [lines[0], lines[1].replace('": ', '":  ', 1), *lines[2:]]
        case "a line less":
            return [lines[0], *lines[2:]]
        case "two lines swapped":
            return [lines[0], lines[2], lines[1], *lines[3:]]
        case "the first line gone":
            return lines[1:]
        case "no JSON":
            return [lines[0], "oops\n", *lines[2:]]
        case "no object":
            return [lines[0], "[]\n", *lines[2:]]
        case _:
            return lines


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a word", 3),
        ("a blank", 3),
        ("a line less", 2),
        ("two lines swapped", 2),
        ("the first line gone", 1),
        ("no JSON", 2),
        ("no object", 2),
    ],
)
def test_what_was_changed_afterwards_is_found_and_its_line_named(tmp_path: Path, what: str, line: int) -> None:
    trace = opened(tmp_path)
    for event in numbered(4):
        trace.emit(event)
    trace.close()
    lines = trace.path.read_text("utf-8").splitlines(keepends=True)
    trace.path.write_text("".join(changed(lines, "nothing")), "utf-8")
    assert len(list(read(trace.path))) == 4
    trace.path.write_text("".join(changed(lines, what)), "utf-8")
    with pytest.raises(HarnessError, match=f"line {line} was changed"):
        list(read(trace.path))
    before = trace.path.read_bytes()
    with pytest.raises(HarnessError, match=f"line {line} was changed"):
        opened(tmp_path)
    assert trace.path.read_bytes() == before


def test_a_closed_trace_takes_nothing_more(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    trace.emit(Notice("n", "1"))
    trace.close()
    trace.close()
    with pytest.raises(HarnessError, match="closed"):
        trace.emit(Notice("n", "2"))
    assert details(read(trace.path)) == ["1"]


def test_a_second_writer_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.emit(Notice("n", "1"))
    with pytest.raises(HarnessError, match="another process"):
        opened(tmp_path)
    first.close()
    assert opened(tmp_path).last_seq == 1


@pytest.mark.anyio
async def test_a_reader_gets_what_was_there_and_what_comes_and_then_the_end(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    for event in numbered(3):
        trace.emit(event)
    reader = trace.subscribe(after=1)
    assert details(await take(reader, 2)) == ["2", "3"]
    got: list[Record | Delta] = []
    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            got.extend(await all_of(reader))

        tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        trace.emit(Notice("n", "4"))
        await anyio.wait_all_tasks_blocked()
        assert details(got) == []
        trace.emit(Notice("n", "5"))
        trace.close()
    assert details(got) == ["4", "5"]


@pytest.mark.anyio
async def test_a_reader_that_fell_far_behind_misses_no_record_and_costs_no_memory(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    slow = trace.subscribe()
    block = "x" * 2_000
    tracemalloc.start()
    try:
        for number in range(2 * RECENT):
            trace.emit(Notice(str(number), block))
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2 * RECENT, 8 * RECENT):
            trace.emit(Notice(str(number), block))
            trace.delta("y" * 100 + "\n")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    trace.close()
    assert after - before < 2 << 20, "a reader that does not read must not make the trace grow in memory (this wrote 6 MiB)"
    records = [item for item in await all_of(slow) if not isinstance(item, Delta)]
    assert [record["kind"] for record in records] == [str(number) for number in range(8 * RECENT)]
    assert [record["seq"] for record in records] == list(range(1, 8 * RECENT + 1))


@pytest.mark.anyio
async def test_readers_do_not_share_their_place(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    one, two = trace.subscribe(), trace.subscribe()
    for event in numbered(4):
        trace.emit(event)
    assert details(await take(one, 3)) == ["1", "2", "3"]
    assert details(await take(two, 1)) == ["1"]
    trace.close()
    assert details(await all_of(one)) == ["4"]
    assert details(await all_of(two)) == ["2", "3", "4"]


@pytest.mark.anyio
async def test_streamed_text_comes_before_its_record_and_is_not_recorded(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    reader = trace.subscribe()
    trace.delta("Hello\n")
    trace.delta("wor")
    trace.delta("ld")
    trace.end_delta()
    trace.emit(AssistantText(1, "Hello\nworld"))
    trace.close()
    got = await all_of(reader)
    assert "".join(item.text for item in got[:-1] if isinstance(item, Delta)) == "Hello\nworld"
    assert not isinstance(got[-1], Delta)
    assert [record["type"] for record in read(trace.path)] == ["assistant_text"]


@pytest.mark.anyio
async def test_streamed_text_stands_between_the_records_it_came_between(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    late = trace.subscribe()
    for event in numbered(2):
        trace.emit(event)
    trace.delta("streamed\n")
    trace.end_delta()
    trace.emit(Notice("n", "3"))
    trace.close()
    got = await all_of(late)
    assert [item.text if isinstance(item, Delta) else item["detail"] for item in got] == ["1", "2", "streamed\n", "3"]


@pytest.mark.anyio
async def test_a_secret_in_pieces_is_not_streamed(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    reader = trace.subscribe()
    for piece in f"The password is {SECRET} they say\n":
        trace.delta(piece)
    trace.end_delta()
    trace.close()
    shown = "".join(item.text for item in await all_of(reader) if isinstance(item, Delta))
    assert shown == "The password is [REDACTED:known-secret] they say\n"


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from agent_harness.trace import Trace\nfrom agent_harness.events import Notice\n" + dedent(code)
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_kill_loses_nothing_that_was_emitted(tmp_path: Path) -> None:
    code = """
        import os, signal, sys
        from pathlib import Path
        from agent_harness.redact import Redactor
        trace = Trace(Path(sys.argv[1]), "s1", Redactor())
        for number in range(200):
            trace.emit(Notice("n", str(number)))
        print(trace.last_seq, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = run(code, str(tmp_path / "trace.jsonl"))
    assert (ended.returncode, ended.stdout) == (-9, "200\n")
    assert details(read(tmp_path / "trace.jsonl")) == [str(number) for number in range(200)]
    assert opened(tmp_path).last_seq == 200


def test_a_kill_from_outside_in_the_middle_of_it_loses_nothing_that_was_emitted(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from agent_harness.events import Notice
        from agent_harness.redact import Redactor
        from agent_harness.trace import Trace
        trace = Trace(Path(sys.argv[1]), "s1", Redactor())
        while True:
            print(trace.emit(Notice("n", "x" * 3_000))["seq"], flush=True)
    """
    path = tmp_path / "trace.jsonl"
    last = 0
    for _ in range(2):
        command = [sys.executable, "-c", dedent(code), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(20):
                last = int(writer.stdout.readline())
            writer.kill()
            last = max([last, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        records = list(read(path))
        assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
        assert len(records) >= last
    assert last >= 40


def test_a_full_disk_is_an_error_for_the_person_and_leaves_whole_lines(tmp_path: Path) -> None:
    code = """
        import resource, sys
        from pathlib import Path
        from agent_harness.errors import HarnessError
        from agent_harness.redact import Redactor
        trace = Trace(Path(sys.argv[1]), "s1", Redactor())
        trace.emit(Notice("n", "1"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
        for _ in range(2):
            try:
                trace.emit(Notice("n", "x" * 3_000))
            except HarnessError as error:
                print(error.reason, error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(trace.emit(Notice("n", "2"))["seq"])
    """
    ended = run(code, str(tmp_path / "trace.jsonl"))
    refusals = ended.stdout.splitlines()
    assert ended.stderr == ""
    assert [line.split()[0] for line in refusals] == ["trace", "trace", "2"]
    assert "free some disk space" in refusals[0]
    assert details(read(tmp_path / "trace.jsonl")) == ["1", "2"]
