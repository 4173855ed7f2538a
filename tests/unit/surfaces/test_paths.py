from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_harness.errors import ConfigError, ToolFailed
from agent_harness.surfaces.globs import parse_globs
from agent_harness.surfaces.paths import DENIED, NOT_DENIED, SKIPPED, Denied, all_but, decode, encode, normalise, shown

ROOT = "/workspace"


def refusal(path: str, **named: str) -> str:
    with pytest.raises(ToolFailed) as caught:
        normalise(path, **named)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        (".", "."),
        ("./", "."),
        ("a", "a"),
        ("./a//b/", "a/b"),
        ("a/./b/../c", "a/c"),
        ("a/..", "."),
        ("a/../b", "b"),
        ("..a/b..", "..a/b.."),
        ("...", "..."),
        (" ", " "),
        ("-rf", "-rf"),
        ("a\nb", "a\nb"),
        ("~/x", "~/x"),
        ("a\\..\\b", "a\\..\\b"),
        ("caf\u00e9", "caf\u00e9"),
        ("raw\udcff", "raw\udcff"),
    ],
)
def test_a_path_inside_has_one_spelling(path: str, clean: str) -> None:
    assert normalise(path, root=ROOT) == clean


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "a/b/../../../workspace/x", "/", "/etc/passwd", "//etc", "/workspace/../etc"]
)
def test_a_path_outside_is_refused_as_outside(path: str) -> None:
    assert refusal(path, root=ROOT) == f'"{path}" is outside the repository.'


def test_a_sibling_whose_name_begins_alike_is_outside() -> None:
    assert refusal("/workspace2/a", root=ROOT) == '"/workspace2/a" is outside the repository.'


@pytest.mark.parametrize(
    ("path", "relative"),
    [("/workspace/src/a.py", "src/a.py"), ("/workspace", "."), ("/workspace//x/", "x"), ("/../workspace/x", None)],
)
def test_an_absolute_path_inside_is_refused_with_its_relative_spelling(path: str, relative: str | None) -> None:
    wanted = f'"{path}" is outside the repository.' if relative is None else f'"{path}" is an absolute path; use "{relative}".'
    assert refusal(path, root=ROOT) == wanted


def test_without_a_known_root_every_absolute_path_is_outside() -> None:
    assert refusal("/workspace/a") == '"/workspace/a" is outside the repository.'


def test_an_empty_path_is_refused_naming_its_field() -> None:
    assert refusal("", field="cwd").startswith("`cwd` is empty")


def test_a_nul_byte_is_refused() -> None:
    assert refusal("a\0b") == '"a\\x00b" contains a NUL byte, which no file name can; check `path`.'


def test_a_lone_surrogate_that_stands_for_no_byte_is_refused() -> None:
    assert "lone surrogate" in refusal("a\ud800")


def test_surrogates_that_spell_valid_text_are_that_text() -> None:
    assert normalise("caf\udcc3\udca9") == "caf\u00e9"


@given(st.text())
@example("a/\udce2\udc80\udca6/..")
@settings(deadline=None, max_examples=200)
def test_no_path_string_escapes(path: str) -> None:
    try:
        clean = normalise(path, root=ROOT)
    except ToolFailed as refused:
        str(refused).encode()
        return
    assert clean == "." or not {"", ".", ".."} & set(clean.split("/"))
    assert os.path.normpath(os.path.join(ROOT.encode(), encode(clean))).startswith(ROOT.encode())  # noqa: PTH118
    assert normalise(clean, root=ROOT) == clean
    assert decode(encode(clean)) == clean


@given(st.text(min_size=1))
@settings(deadline=None, max_examples=100)
def test_a_shown_path_is_one_printable_line(path: str) -> None:
    text = shown(path)
    assert text.isprintable()
    assert len(text) <= 200 * 10
    text.encode()


DENIED_PATHS = [
    ".git",
    ".git/config",
    ".GIT/config",
    "sub/.git/hooks/pre-commit",
    ".env",
    ".ENV",
    ".env.local",
    ".env.production.local",
    ".env.example.bak",
    ".env.",
    ".Env.Examples",
    "deep/er/.env",
    ".env/x",
    ".envrc",
    "server.pem",
    "a/SERVER.PEM",
    "tls.key",
    "x.p12",
    "x.pfx",
    "id_rsa",
    "id_rsa.pub",
    "id_rsa_old",
    "id_ed25519",
    "id_ed25519.pub",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".ssh/config",
    ".aws/credentials",
    "home/.aws",
    "folder.key/inside.txt",
    ".env.example/.env",
    ".\u017fsh/x",  # the long s folds to s
]
READABLE_PATHS = [
    ".",
    ".github/workflows/ci.yml",
    ".gitignore",
    ".gitattributes",
    ".gitmodules",
    ".env.example",
    ".env.sample",
    ".env.template",
    "x/.ENV.Example",
    "env",
    "a.env",
    ".environment",
    "keys.py",
    "monkey",
    "pem",
    "id_rs",
    "rsa/id.py",
    "ssh/config",
    "aws/credentials",
    "git/x",
    "node_modules/x",
]


@pytest.mark.parametrize("path", DENIED_PATHS)
def test_a_denied_file_is_denied_at_any_depth_and_in_any_case(path: str) -> None:
    assert Denied()(path)


@pytest.mark.parametrize("path", READABLE_PATHS)
def test_what_only_looks_like_a_denied_file_is_readable(path: str) -> None:
    assert not Denied()(path)


@pytest.mark.parametrize(
    ("glob", "denied", "readable"),
    [
        ("*.secret", ["a.secret", "x/y/B.SECRET", "a.secret/below"], ["a.secrets", "secret"]),
        (
            "config/prod.yml",
            ["config/prod.yml", "Config/Prod.YML", "config/prod.yml/x"],
            ["x/config/prod.yml", "config/prod.yaml"],
        ),
        ("/top", ["top", "top/x"], ["a/top"]),
        ("secrets/**", ["secrets", "secrets/a/b"], ["a/secrets", "secrets2"]),
        ("**/vault", ["vault", "a/b/vault/c"], ["vaults"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z/y"], ["z", "b/a/z", "a/b"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "a/b", "b/c"]),
        ("data-?.csv", ["data-1.csv"], ["data-10.csv", "data-.csv"]),
        ("[a-c]x", ["ax", "Bx"], ["dx"]),
        ("[!a-c]x", ["dx"], ["ax", "CX"]),
        ("[]!]x", ["]x", "!x"], ["ax"]),
        ("{one,two}.txt", ["one.txt", "d/TWO.txt"], ["three.txt"]),
        ("a/{b,c/{d,e}}", ["a/b", "a/c/d", "a/c/e/f"], ["a/c", "a/d"]),
        ("{plain}", ["{plain}"], ["plain"]),
        ("build/", ["build", "x/build/y"], ["builds"]),
        ("./here.txt", ["here.txt"], ["there.txt"]),
        (r"\*literal", ["*literal"], ["aliteral"]),
        ("geh\u00c9im", ["geh\u00e9im"], ["geheim"]),
        ("*a*a*", ["banana"], ["bann"]),
        (".env.example", [".env.example"], []),
        ("**", ["anything", "at/all"], []),
    ],
)
def test_an_extra_glob_denies_what_it_names(glob: str, denied: list[str], readable: list[str]) -> None:
    check = Denied([glob])
    assert [p for p in denied if not check(p)] == []
    assert [p for p in readable if check(p)] == []


@pytest.mark.parametrize("glob", ["", "/", "..", "../x", "a/../b", "a[bc", "[z-a]", "{" + "a,b}{" * 12 + "a,b}"])
def test_a_glob_that_names_nothing_is_refused(glob: str) -> None:
    with pytest.raises(ConfigError, match="the glob"):
        Denied([glob])


def test_a_hostile_name_does_not_make_a_glob_slow() -> None:
    check = Denied(["*a*a*a*a*a*a*a*a*b"])
    assert not check("a" * 250)
    assert not check("/".join(["a" * 200] * 20))


@given(st.text(alphabet="examplstEX.", max_size=9))
@settings(deadline=None, max_examples=300)
@example("example")
@example("")
def test_globs_for_all_but_some_words_match_exactly_the_rest(name: str) -> None:
    words = ["example", "sample", "template"]
    globs = [g for text in all_but(words) for g in parse_globs("x." + text)]
    matched = any(g.covers(["x." + name.casefold()]) for g in globs)
    assert matched == (name.casefold() not in words)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with every denied and every readable path of this file that a disk can hold together."""
    root = tmp_path / "tree"
    for path in [*DENIED_PATHS, *READABLE_PATHS, "config/prod.yml", "config/dev.yml", "x/config/prod.yml"]:
        if path == "." or path.startswith((".git/", ".GIT", "sub/.git")) or path == ".git":
            continue
        place = root / path
        if place.is_dir() or any(up.is_file() for up in place.parents):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("needle\n", encoding="utf-8")
    return root


EXTRA = ["config/prod.yml", "mon{key,day}", "[!a]nv"]
ASCII_ONLY = re.compile(r"[\x00-\x7f]*")  # git, ripgrep and grep know nothing of the long s


def files(root: Path) -> set[str]:
    found = (p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return {name for name in found if ASCII_ONLY.fullmatch(name)}


def readable(root: Path, extra: list[str]) -> set[str]:
    return {path for path in files(root) if not Denied(extra)(path)}


def test_ripgrep_leaves_out_exactly_the_denied_files(tree: Path) -> None:
    globs = [f"-g{glob}" for glob in Denied(EXTRA).ripgrep()]
    rg = shutil.which("rg", path=str(Path(sys.executable).parent)) or shutil.which("rg")
    assert rg is not None
    ran = subprocess.run([rg, "--no-config", "-uu", "--files", "--null", *globs], cwd=tree, capture_output=True, check=True)
    found = {path.removeprefix("./") for path in ran.stdout.decode().split("\0") if ASCII_ONLY.fullmatch(path)} - {""}
    assert found == readable(tree, EXTRA)
    assert found < files(tree)


def test_grep_leaves_out_every_denied_name(tree: Path) -> None:
    names = [glob for glob in EXTRA if "/" not in glob]
    ran = subprocess.run(
        ["grep", "-rlZ", *Denied(EXTRA).grep(), "-e", "needle", "."],
        cwd=tree,
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    found = {path.removeprefix("./") for path in ran.stdout.decode().split("\0") if ASCII_ONLY.fullmatch(path)} - {""}
    assert found == readable(tree, names)


def test_git_ignores_exactly_the_denied_files(tree: Path) -> None:
    git = ["git", "-c", "init.defaultBranch=main"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tree), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run([*git, "init", "-q", str(tree)], check=True, env=env)
    exclude = tree / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("\n".join(Denied(EXTRA).gitignore()) + "\n", encoding="utf-8")
    ran = subprocess.run([*git, "ls-files", "-oz", "--exclude-standard"], cwd=tree, capture_output=True, check=True, env=env)
    found = {path for path in ran.stdout.decode().split("\0") if ASCII_ONLY.fullmatch(path)} - {""}
    assert found == {path for path in readable(tree, EXTRA) if not path.startswith(".git/")}


def test_the_fixed_lists_are_those_that_are_documented() -> None:
    assert ".git" in DENIED
    assert set(NOT_DENIED) == {".env.example", ".env.sample", ".env.template"}
    assert SKIPPED == ("node_modules", "dist", "build", ".next", ".venv")
