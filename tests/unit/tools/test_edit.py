from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.errors import ToolFailed
from agent_harness.events import JsonValue
from tests.fakes.host_surface import HostSurface
from tests.fakes.memory_surface import MemorySurface
from tests.unit.tools.bench import Bench

CASES = Path(__file__).parents[2] / "cases" / "peers"
pytestmark = pytest.mark.anyio


def bench(tmp_path: Path, **files: bytes) -> tuple[Bench, MemorySurface]:
    surface = MemorySurface({name.replace("_", "."): data for name, data in files.items()})
    return Bench(surface, tmp_path / "outputs"), surface


async def content(surface: MemorySurface, path: str) -> bytes:
    return (await surface.read(path)).data


async def test_the_case_of_literal_text_and_many_matches(tmp_path: Path) -> None:
    out = tmp_path / "case"
    await anyio.run_process([sys.executable, str(CASES / "d02-literal-and-many" / "build.py"), str(out)])
    edits = cast("list[dict[str, JsonValue]]", json.loads((out / "edits.json").read_text(encoding="utf-8")))
    expected = cast("dict[str, dict[str, JsonValue]]", json.loads((out / "expected.json").read_text(encoding="utf-8")))
    tools = Bench(HostSurface(out / "repo"), tmp_path / "outputs")
    file = out / "repo" / "steps.py"
    said: dict[str, str] = {}
    for edit in edits:
        before = file.read_bytes()
        arguments = {
            "path": edit["path"],
            "old_text": edit["old"],
            "new_text": edit["new"],
            "occurrence": "all" if edit["replace_all"] else "only",
        }
        name = str(edit["id"])
        if expected[name]["ok"]:
            said[name] = await tools.text("edit_file", **arguments)
        else:
            said[name] = await tools.refused("edit_file", **arguments)
            assert file.read_bytes() == before
    assert "occurs 3 times" in said["ambiguous"]
    assert "lines 2, 8, 13" in said["ambiguous"]
    assert "1 replacement," in said["literal"]
    assert "1 replacement," in said["dots"]
    assert "3 replacements, lines 2, 8, 13" in said["all"]
    assert b"x + 1" not in file.read_bytes()
    assert "line 2 (also 8, 13)" in said["absent"]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == str(expected["final_sha256"])
    assert sorted(path.name for path in (out / "repo").iterdir()) == [".agent", "steps.py"]


async def test_a_file_with_crlf_and_a_mark_keeps_both_and_its_missing_last_newline(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_cs=b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    await tools.text("edit_file", path="a.cs", old_text="one\ntwo\n", new_text="one\n1.5\ntwo\n")
    await tools.text("edit_file", path="a.cs", old_text="three", new_text="three\nfour")
    assert await content(surface, "a.cs") == b"\xef\xbb\xbfone\r\n1.5\r\ntwo\r\nthree\r\nfour"


async def test_crlf_in_the_request_gives_the_same_bytes(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"a\r\nb\r\n", b_txt=b"a\nb\n")
    for path in ("a.txt", "b.txt"):
        await tools.text("edit_file", path=path, old_text="a\r\nb\r\n", new_text="a\r\nx\r\nb\r\n")
    assert await content(surface, "a.txt") == b"a\r\nx\r\nb\r\n"
    assert await content(surface, "b.txt") == b"a\nx\nb\n"


async def test_a_file_of_mixed_line_ends_keeps_each_one(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"a\r\nb\nc\r\nd\n")
    await tools.text("edit_file", path="a.txt", old_text="a\nb\nc\nd\n", new_text="a\nb\nnew\nc\nd\n")
    assert await content(surface, "a.txt") == b"a\r\nb\nnew\r\nc\r\nd\n"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le"])
async def test_utf_16_and_32_are_edited_in_their_encoding(tmp_path: Path, codec: str) -> None:
    mark = "\ufeff".encode(codec)
    tools, surface = bench(tmp_path, a_txt=mark + "grüße\r\nЖ\r\n".encode(codec))
    await tools.text("edit_file", path="a.txt", old_text="Ж", new_text="Ж\nж")
    assert await content(surface, "a.txt") == mark + "grüße\r\nЖ\r\nж\r\n".encode(codec)


async def test_a_byte_that_is_no_utf_8_survives_an_edit_elsewhere(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"first\n\xe9t\xe9\n")
    await tools.text("edit_file", path="a.txt", old_text="first", new_text="1\xe9")
    assert await content(surface, "a.txt") == b"1\xe9\n\xe9t\xe9\n"


async def test_utf_8_text_beside_a_stray_byte_is_found_as_it_was_shown(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt="naïve\n".encode() + b"\xff\n")
    await tools.text("edit_file", path="a.txt", old_text="naïve", new_text="naïf")
    assert await content(surface, "a.txt") == "naïf\n".encode() + b"\xff\n"


async def test_a_character_that_the_encoding_lacks_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"caf\xe9 5\n")
    said = await tools.refused("edit_file", path="a.txt", old_text="5", new_text="5 €")
    assert said == '"a.txt" is latin-1, which lacks € (U+20AC); nothing was written. Write it another way.'
    assert await content(surface, "a.txt") == b"caf\xe9 5\n"


async def test_curly_quotes_are_suggested_never_folded(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_py="x = “a”\n".encode())
    said = await tools.refused("edit_file", path="a.py", old_text='x = "a"', new_text='x = "b"')
    assert "line 1 differs in quotes, dashes" in said
    assert "x = “a”" in said
    assert await content(surface, "a.py") == "x = “a”\n".encode()


@pytest.mark.parametrize(
    ("text", "old", "how"),
    [
        ("a  \nb\n", "a\nb\n", "only in spaces at line ends"),
        ("if x:\n        y()\n        z()\n", "    y()\n    z()\n", "in the indentation"),
        ("alpha_beta_gamma = compute(1)\n", "alpha_beta_gamma = compute(2)\n", "nearest thing"),
        ("nothing like that\n", "zzzzzzzzzzzz\n", "No line in it is like it"),
    ],
)
async def test_a_near_miss_is_described(tmp_path: Path, text: str, old: str, how: str) -> None:
    tools, _ = bench(tmp_path, a_py=text.encode())
    assert how in await tools.refused("edit_file", path="a.py", old_text=old, new_text="q")


async def test_overlapping_places_are_ambiguous(tmp_path: Path) -> None:
    tools, _ = bench(tmp_path, a_txt=b"aaa\n")
    assert "occurs 2 times" in await tools.refused("edit_file", path="a.txt", old_text="aa", new_text="b")


async def test_no_more_than_ten_places_are_named(tmp_path: Path) -> None:
    tools, _ = bench(tmp_path, a_txt=b"x\n" * 25)
    said = await tools.refused("edit_file", path="a.txt", old_text="x\n", new_text="y\n")
    assert "25 times" in said
    assert "8, 9, 10 and 15 more" in said


async def test_only_the_first_place_changes_when_the_first_is_asked_for(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"x\nx\n")
    await tools.text("edit_file", path="a.txt", old_text="x", new_text="y", occurrence="first")
    assert await content(surface, "a.txt") == b"y\nx\n"


async def test_identical_texts_are_refused(tmp_path: Path) -> None:
    tools, _ = bench(tmp_path, a_txt=b"x\n")
    assert "identical" in await tools.refused("edit_file", path="a.txt", old_text="x", new_text="x")
    assert "identical" in await tools.refused("edit_file", path="a.txt", old_text="x\n", new_text="x\r\n")


async def test_an_empty_old_text_creates_and_never_overwrites(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"x\n")
    assert "Created" in await tools.text("edit_file", path="new/__init__.py", old_text="", new_text="")
    assert "2 lines" in await tools.text("edit_file", path="new/b.py", old_text="", new_text="a\nb")
    assert await content(surface, "new/b.py") == b"a\nb"
    assert "exists already" in await tools.refused("edit_file", path="a.txt", old_text="", new_text="boom")
    assert await content(surface, "a.txt") == b"x\n"


@pytest.mark.parametrize(("path", "said"), [("../x", "is outside"), (".env", "is not readable"), ("no.txt", "does not exist")])
async def test_refusals_are_worded_as_everywhere(tmp_path: Path, path: str, said: str) -> None:
    tools, _ = bench(tmp_path, a_txt=b"x\n")
    assert said in await tools.refused("edit_file", path=path, old_text="x", new_text="y")
    if path != "no.txt":
        assert said in await tools.refused("edit_file", path=path, old_text="", new_text="y")


async def test_a_redaction_placeholder_is_refused(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"key = secret\n")
    said = await tools.refused("edit_file", path="a.txt", old_text="key", new_text="key2 = '[REDACTED:openai-key]'\nkey")
    assert "[REDACTED:openai-key]" in said
    assert await content(surface, "a.txt") == b"key = secret\n"


async def test_a_file_that_changed_since_it_was_read_must_be_read_again(tmp_path: Path) -> None:
    tools, surface = bench(tmp_path, a_txt=b"one\n")
    await tools.text("read_file", path="a.txt")
    await surface.write("a.txt", b"one\ntwo\n")
    assert "Read it again" in await tools.refused("edit_file", path="./a.txt", old_text="one", new_text="1")
    await tools.text("read_file", path="a.txt")
    await tools.text("edit_file", path="a.txt", old_text="one", new_text="1")
    await tools.text("edit_file", path="a.txt", old_text="two", new_text="2")
    assert await content(surface, "a.txt") == b"1\n2\n"


async def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    tools, _ = bench(tmp_path, a_bin=b"a\0b\n")
    assert "binary" in await tools.refused("edit_file", path="a.bin", old_text="a", new_text="b")


async def test_the_mode_is_kept_and_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    script = root / "run.sh"
    script.write_bytes(b"#!/bin/sh\necho hi\n")
    script.chmod(0o755)
    tools = Bench(HostSurface(root), tmp_path / "outputs")
    await tools.text("edit_file", path="run.sh", old_text="hi", new_text="ho")
    await tools.refused("edit_file", path="run.sh", old_text="never", new_text="ho")
    assert script.read_bytes() == b"#!/bin/sh\necho ho\n"
    assert script.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in root.iterdir()) == [".agent", "run.sh"]


async def test_the_diff_shows_what_changed_with_its_lines(tmp_path: Path) -> None:
    tools, _ = bench(tmp_path, a_txt=b"".join(b"line %d\n" % n for n in range(1, 21)))
    said = await tools.text("edit_file", path="a.txt", old_text="line 10\n", new_text="ten\nand a half\n")
    assert said.split("\n", 1)[1] == "@@ -8,5 +8,6 @@\n line 8\n line 9\n-line 10\n+ten\n+and a half\n line 11\n line 12"


async def test_the_diff_of_a_huge_replacement_is_bounded(tmp_path: Path) -> None:
    tools, _ = bench(tmp_path, a_txt=b"x\n" * 5_000)
    said = await tools.text("edit_file", path="a.txt", old_text="x\n", new_text="yy\n", occurrence="all")
    assert "5000 replacements" in said
    assert "[the diff goes on]" in said
    assert len(said) < 4_000


LATIN = {ord("€"): "é", ord("\u2028"): " ", 0x0B: " "}
LINES = st.lists(
    st.tuples(st.text("ab é€\t\x0b\u2028\r", max_size=4), st.sampled_from(["\n", "\r\n", "\n", ""])), max_size=8
).map(lambda pairs: "".join(text + end for text, end in pairs))


@settings(max_examples=150, deadline=None)
@given(before=LINES, after=LINES, new=st.text("xyz\n", max_size=6), codec=st.sampled_from(["utf-8", "utf-16-le", "latin-1"]))
def test_an_edit_changes_only_its_span(before: str, after: str, new: str, codec: str) -> None:
    anyio.run(_edit_between, before, after, new, codec)


async def _edit_between(before: str, after: str, new: str, codec: str) -> None:
    if codec == "latin-1":
        before, after = before.translate(LATIN), after.translate(LATIN) + "é"
    mark = b"\xff\xfe" if codec == "utf-16-le" else b""
    surface = MemorySurface({"f.txt": mark + (before + "@@" + after).encode(codec)})
    tools = Bench(surface, Path(tempfile.gettempdir()))
    await tools.text("edit_file", path="f.txt", old_text="@@", new_text=new)
    data = await content(surface, "f.txt")
    head, tail = mark + before.encode(codec), after.encode(codec)
    assert data.startswith(head)
    assert data.endswith(tail)
    middle = data[len(head) : len(data) - len(tail)].decode(codec)
    assert middle.replace("\r\n", "\n") == new


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_edited_exactly_or_left_alone(data: bytes) -> None:
    anyio.run(_edit_any, data)


async def _edit_any(data: bytes) -> None:
    surface = MemorySurface({"f": b"START" + data})
    tools = Bench(surface, Path(tempfile.gettempdir()))
    try:
        await tools.text("edit_file", path="f", old_text="START", new_text="BEGUN")
    except ToolFailed:
        assert await content(surface, "f") == b"START" + data
    else:
        assert await content(surface, "f") == b"BEGUN" + data
