from __future__ import annotations

import re
import tempfile
import tracemalloc
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.host_surface import HostSurface
from tests.fakes.memory_surface import MemorySurface
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio


def bench(tmp_path: Path, files: dict[str, bytes | str], links: dict[str, str] | None = None) -> Bench:
    return Bench(MemorySurface(files, links), tmp_path / "outputs")


async def test_lines_are_numbered_and_the_end_is_said(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": "x\ny\n", "b.txt": "x\ny", "c.txt": ""})
    assert await tools.text("read_file", path="a.txt") == "1\tx\n2\ty\n[end of file, 2 lines]"
    assert await tools.text("read_file", path="b.txt") == "1\tx\n2\ty\n[end of file, 2 lines; no newline at the end]"
    assert await tools.text("read_file", path="c.txt") == '"c.txt" is empty.'


async def test_a_long_file_says_which_offset_continues(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": "".join(f"{n}\n" for n in range(1, 2_501))})
    first = await tools.run("read_file", path="a.txt")
    assert first.window
    assert first.truncated
    assert first.text.endswith("2000\t2000\n[continues: offset=2001]")
    assert (await tools.text("read_file", path="a.txt", offset=2001)).endswith("2500\t2500\n[end of file, 2500 lines]")
    assert (await tools.text("read_file", path="a.txt", offset=2499, limit=1)) == "2499\t2499\n[continues: offset=2500]"
    assert (await tools.text("read_file", path="a.txt", offset=2499, limit=2)).endswith("[end of file, 2500 lines]")


async def test_a_window_holds_whole_lines_of_50_kib(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": ("x" * 999 + "\n") * 100})
    text = await tools.text("read_file", path="a.txt")
    assert text.endswith("[continues: offset=52]")
    assert len(text) < 52_000


async def test_a_line_longer_than_a_window_is_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": "short\n" + "x" * 60_000 + "\nlast\n"})
    assert (await tools.text("read_file", path="a.txt")) == "1\tshort\n[continues: offset=2]"
    said = await tools.refused("read_file", path="a.txt", offset=2)
    assert "offset=3" in said
    assert "3\tlast" in await tools.text("read_file", path="a.txt", offset=3)


@pytest.mark.parametrize("field", ["offset", "limit"])
async def test_zero_is_refused_and_the_field_is_named(tmp_path: Path, field: str) -> None:
    tools = bench(tmp_path, {"a.txt": "x\n"})
    assert f"`{field}`" in await tools.refused("read_file", path="a.txt", **{field: 0})
    assert "`path` is empty" in await tools.refused("read_file", path="")


async def test_an_offset_past_the_end_is_refused_with_the_count(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": "x\ny", "empty": ""})
    assert await tools.refused("read_file", path="a.txt", offset=3) == '"a.txt" has 2 lines; `offset` 3 is past its end.'
    assert "has 0 lines" in await tools.refused("read_file", path="empty", offset=2)


async def test_marks_and_returns_are_not_shown(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": b"\xef\xbb\xbfa\r\nb\r\n"})
    text = await tools.text("read_file", path="a.txt")
    assert text == "1\ta\n2\tb\n[encoding utf-8 with a byte order mark; end of file, 2 lines]"


async def test_encodings_are_told_apart(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "utf8": "é€\n",
        "latin": b"caf\xe9\n",
        "wide": b"\xff\xfe" + "é\nЖ\n".encode("utf-16-le"),
        "bare": "é\n".encode("utf-16-le"),
        "cp": "“x”\n".encode("cp1252"),
    }
    tools = bench(tmp_path, files)
    assert "1\té€\n[end" in await tools.text("read_file", path="utf8")
    assert "1\tcafé\n[encoding latin-1" in await tools.text("read_file", path="latin")
    assert "2\tЖ\n" in await tools.text("read_file", path="wide", offset=2)
    assert 'read it with `encoding`="utf-16-le"' in await tools.refused("read_file", path="bare")
    assert "1\té\n" in await tools.text("read_file", path="bare", encoding="utf-16-le")
    assert "1\t“x”\n" in await tools.text("read_file", path="cp", encoding="cp1252")
    assert "is unknown" in await tools.refused("read_file", path="cp", encoding="base64")
    assert "is not utf-8" in await tools.refused("read_file", path="cp", encoding="utf-8")


async def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.bin": b"\x7fELF\0\0", "b.bin": bytes(range(128, 256)) + bytes(range(1, 32)) * 4})
    assert "binary" in await tools.refused("read_file", path="a.bin")
    assert "binary" in await tools.refused("read_file", path="b.bin")


async def test_refusals_are_worded_as_everywhere(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": "x", ".env": "K=1"}, {"out": "/etc/passwd", "in": "a.txt"})
    assert await tools.refused("read_file", path="../x") == '"../x" is outside the repository.'
    assert await tools.refused("read_file", path=".env") == '".env" is not readable by this agent.'
    assert await tools.refused("read_file", path="no") == '"no" does not exist.'
    assert await tools.refused("read_file", path="out") == '"out" links outside the readable area.'
    assert "1\tx" in await tools.text("read_file", path="in")


async def test_a_stored_output_is_paged_and_nothing_else_can_be_named(tmp_path: Path) -> None:
    tools = bench(tmp_path, {"a.txt": "x"})
    (tmp_path / "outputs" / "call_1.txt").write_bytes(b"one\ntwo\n\xff\n")
    (tmp_path / "secret.txt").write_bytes(b"secret\n")
    assert "2\ttwo\n3\t\ufffd\n" in await tools.text("read_file", path="output:call_1", offset=2)
    for name in ("output:../secret", "output:", "output:call_2", "output:/etc/passwd", "output:..", "output:a/b"):
        assert "no stored output" in await tools.refused("read_file", path=name)


async def test_deep_in_a_big_file_memory_stays_small(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    with (root / "big.txt").open("wb") as stream:
        for block in range(24):
            stream.write(b"".join(b"%015d\n" % (block * 65_536 + n) for n in range(65_536)))
    tools = Bench(HostSurface(root), tmp_path / "outputs")
    tracemalloc.start()
    text = await tools.text("read_file", path="big.txt", offset=1_500_000, limit=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text == "1500000\t000000001499999\n1500001\t000000001500000\n[continues: offset=1500002]"
    assert peak < 12 << 20


async def test_a_listing_is_a_tree_of_the_depth_asked_for(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"a/b/c/d.txt": "", "a/x.txt": "", ".env": "", ".github/w.yml": "", "node_modules/m/i.js": ""}
    tools = bench(tmp_path, files, {"link": "a"})
    text = await tools.text("list_files")
    lines = text.split("\n")
    assert lines[:-1] == [".github/", ".github/w.yml", "a/", "a/b/", "a/x.txt", "link (link)", "node_modules/"]
    assert lines[-1] == '[not looked into: "node_modules"; name one as `path` to list it]'
    assert "a/b/c/d.txt" in await tools.text("list_files", path="a", depth=4)
    assert "node_modules/m/i.js" in await tools.text("list_files", path="node_modules")
    assert "`depth`" in await tools.refused("list_files", depth=5)
    assert "is not a folder" in await tools.refused("list_files", path="a/x.txt")
    assert "does not exist" in await tools.refused("list_files", path="no")


async def test_a_listing_stops_at_300_entries_and_says_where(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {f"d{n}/f{m}.txt": "" for n in range(4) for m in range(100)}
    output = await bench(tmp_path, files).run("list_files")
    lines = output.text.split("\n")
    assert len(lines) == 301
    assert output.truncated
    assert 'stopped at 300 entries; not (fully) listed: "d2", "d3"' in lines[-1]


async def test_an_empty_folder_and_strange_names_are_shown(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (root / "void").mkdir()
    (root / "new\nline \udcff").touch()
    tools = Bench(HostSurface(root), tmp_path / "outputs")
    assert '"void" is empty.' in await tools.text("list_files", path="void")
    assert "new\\nline \\xff" in await tools.text("list_files")


TEXT = st.lists(st.text("ab é€\t\x0b\x85\u2028\r", max_size=30), max_size=30).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)


@settings(max_examples=80, deadline=None)
@given(text=TEXT, limit=st.integers(1, 7), wide=st.booleans())
def test_windows_concatenate_to_the_file(text: str, limit: int, wide: bool) -> None:
    anyio.run(_read_all, text, limit, wide)


async def _read_all(text: str, limit: int, wide: bool) -> None:
    data = b"\xff\xfe" + text.encode("utf-16-le") if wide else text.encode()
    tools = Bench(MemorySurface({"f": data}), Path(tempfile.gettempdir()))
    if not data:
        return
    lines: list[str] = []
    offset = 1
    while True:
        shown = await tools.text("read_file", path="f", offset=offset, limit=limit)
        if not text:
            assert shown == '"f" is empty.'
            return
        body, _, note = shown.rpartition("\n")
        for line in body.split("\n"):
            number, _, content = line.partition("\t")
            lines.append(content)
            assert int(number) == len(lines)
        goes_on = re.search(r"offset=(\d+)", note)
        if goes_on is None:
            assert f"end of file, {len(lines)} line" in note
            break
        offset = int(goes_on[1])
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [line.removesuffix("\r") for line in expected]
