from __future__ import annotations

import random
from pathlib import Path

import anyio
import pytest

from agent_harness.tools import languages
from tests.fakes.memory_surface import MemorySurface
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio

SOURCES = {
    "a.py": ("class A:\n    x = 1\n    def f(self):\n        def g(): pass\n\nasync def h(): ...\nLIMIT = 3\n",
             ["1-4 class A", "  3-4 def f", "6-6 def h", "7-7 variable LIMIT"]),
    "a.js": ("export class A {\n  m() {}\n}\nfunction f() {}\nexport const g = () => 1;\nconst K = 2;\n",
             ["1-3 class A", "  2-2 method m", "4-4 function f", "5-5 function g", "6-6 const K"]),
    "a.ts": ("interface I { x: number }\ntype T = string;\nenum E { A }\n"
             "abstract class A {\n  abstract m(): void;\n}\nnamespace N {}\n",
             ["1-1 interface I", "2-2 type T", "3-3 enum E", "4-6 class A", "  5-5 method m", "7-7 namespace N"]),
    "a.tsx": ("export function App() {\n  return <div/>;\n}\n", ["1-3 function App"]),
    "a.go": ("package p\nconst K = 1\nvar V = 2\ntype T struct{}\nfunc (t T) M() {}\nfunc F() {}\n",
             ["2-2 const K", "3-3 var V", "4-4 type T", "5-5 method M", "6-6 func F"]),
    "a.rs": ("struct S;\nenum E {}\ntrait T { fn t(); }\nimpl S {\n    fn m() {}\n}\n"
             "mod x { fn y() {} }\nmacro_rules! q { () => {} }\n",
             ["1-1 struct S", "2-2 enum E", "3-3 trait T", "  3-3 fn t", "4-6 impl S", "  5-5 fn m", "7-7 mod x", "  7-7 fn y",
              "8-8 macro q"]),
    "A.java": ("class A {\n  A() {}\n  void m() {}\n}\nrecord R(int x) {}\n",
               ["1-4 class A", "  2-2 constructor A", "  3-3 method m", "5-5 record R"]),
    "a.c": ("#define K 1\nstruct s { int x; };\nstatic int f(int a) { return a; }\nchar *g(void) { return 0; }\ntypedef int t;\n",
            ["1-1 define K", "2-2 struct s", "3-3 function f", "4-4 function g", "5-5 typedef t"]),
    "a.cpp": ("namespace n {\nclass A { void m() {} };\n}\nint A::f() { return 1; }\nint &r() { throw 1; }\nusing T = int;\n",
              ["1-3 namespace n", "  2-2 class A", "4-4 function A::f", "5-5 function r", "6-6 using T"]),
    "run.sh": ("f() {\n  :\n}\nfunction g { :; }\n", ["1-3 function f", "4-4 function g"]),
    "a.rb": ("module M\n  class A\n    def m; end\n  end\nend\nK = 1\ndef f; end\n",
             ["1-5 module M", "  2-4 class A", "6-6 constant K", "7-7 def f"]),
}  # fmt: skip


@pytest.mark.parametrize("path", list(SOURCES))
async def test_each_language_lists_its_definitions_one_level_deep(tmp_path: Path, path: str) -> None:
    source, expected = SOURCES[path]
    text = await Bench(MemorySurface({path: source}), tmp_path / "o").text("tree_sitter_symbols", path=path)
    head, *lines = text.split("\n")
    assert head.endswith("lines first-last:")
    assert lines == expected


async def test_every_grammar_is_covered() -> None:
    assert {languages.BY_EXTENSION[path.rpartition(".")[2]].name for path in SOURCES} == {
        grammar.name for grammar in languages.BY_EXTENSION.values()
    }


async def test_a_program_without_an_extension_is_known_by_its_first_line(tmp_path: Path) -> None:
    tools = Bench(MemorySurface({"run": "#!/usr/bin/env -S python3 -u\ndef main(): ...\n", ".bashrc": "x=1\n"}), tmp_path / "o")
    assert "2-2 def main" in await tools.text("tree_sitter_symbols", path="run")
    assert "no grammar" in await tools.text("tree_sitter_symbols", path=".bashrc")


async def test_an_unknown_language_gives_an_outline_and_says_so(tmp_path: Path) -> None:
    tools = Bench(MemorySurface({"a.md": "# Title\n\ntext\n  indented\n## Part\n"}), tmp_path / "o")
    text = await tools.text("tree_sitter_symbols", path="a.md")
    assert text == '[no grammar for "a.md"; instead, lines that begin at the margin:]\n1 # Title\n3 text\n5 ## Part'


async def test_a_syntax_error_does_not_hide_the_rest(tmp_path: Path) -> None:
    tools = Bench(MemorySurface({"a.py": "def a(): pass\ndef broken(:\n\ndef b(): pass\n"}), tmp_path / "o")
    text = await tools.text("tree_sitter_symbols", path="a.py")
    assert "def a" in text
    assert "def b" in text


async def test_a_grammar_out_of_step_with_its_query_gives_an_outline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = languages.Grammar("broken", "tree_sitter_python", "(no_such_node) @class")
    monkeypatch.setitem(languages.BY_EXTENSION, "brk", broken)
    monkeypatch.setitem(languages.BY_EXTENSION, "gone", languages.Grammar("gone", "tree_sitter_gone", ""))
    tools = Bench(MemorySurface({"a.brk": "def a(): pass\n", "a.gone": "x\n"}), tmp_path / "o")
    assert "could not be parsed as broken" in await tools.text("tree_sitter_symbols", path="a.brk")
    assert "could not be parsed as gone" in await tools.text("tree_sitter_symbols", path="a.gone")


async def test_hostile_input_is_answered_in_time(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(200_000).decode("latin-1").replace("\0", "(")
    files: dict[str, bytes | str] = {
        "deep.py": "(" * 900_000,
        "noise.py": "x\n" + noise,
    }
    tools = Bench(MemorySurface(files), tmp_path / "o")
    with anyio.fail_after(15):
        for path in files:
            assert len(await tools.text("tree_sitter_symbols", path=path)) < 4_000
    assert "too long or too much" in await tools.text("tree_sitter_symbols", path="deep.py")


async def test_binary_and_big_files_are_refused(tmp_path: Path) -> None:
    tools = Bench(MemorySurface({"a.py": b"\0\1", "b.py": "x" * ((1 << 20) + 1)}), tmp_path / "o")
    assert "binary" in await tools.refused("tree_sitter_symbols", path="a.py")
    assert "more than this tool parses" in await tools.refused("tree_sitter_symbols", path="b.py")


async def test_a_long_list_is_cut_and_counted(tmp_path: Path) -> None:
    tools = Bench(MemorySurface({"a.py": "".join(f"def f{n}(): ...\n" for n in range(1_000))}), tmp_path / "o")
    output = await tools.run("tree_sitter_symbols", path="a.py")
    assert output.truncated
    assert len(output.text) < 4_000
    shown = output.text.count(" def ")
    assert output.text.endswith(f"... {1_000 - shown} more")
