"""The lock file, the version, and what the fast paths import."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import cast

import pytest

import agent_harness
from tests.no_skips import allowed

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
HEAVY = (
    *("openai", "textual", "e2b", "github", "mcp", "opentelemetry", "pydantic", "httpx", "httpx2", "tree_sitter"),
    *("genai_prices", "requests", "rich", "asyncio"),
)


def requirements(lock: str) -> dict[str, list[str]]:
    """Name -> hashes."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=[a-zA-Z0-9])", re.sub(r"(?m)^\s*#.*\n", "", lock)):
        pinned = re.match(r"([A-Za-z0-9._-]+)==", block)
        if pinned:
            found[canonical(pinned[1])] = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def hosts(lock: str) -> list[str]:
    return re.findall(r"\S*://\S+|(?m:^--\S+.*)", lock)


def test_the_lock_names_no_host() -> None:
    assert hosts(LOCK) == []
    assert hosts("--index-url https://packages.example/simple\n") != []


def test_every_locked_package_has_hashes() -> None:
    assert len(requirements(LOCK)) > 50
    assert [name for name, hashes in requirements(LOCK).items() if not hashes] == []


def test_everything_that_the_project_depends_on_is_locked() -> None:
    project = cast("dict[str, list[str]]", tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])
    extras = cast("dict[str, list[str]]", project["optional-dependencies"])
    wanted = [*project["dependencies"], *(name for names in extras.values() for name in names)]
    names = {canonical(re.split(r"[<>=!~;\[ ]", text, maxsplit=1)[0]) for text in wanted}
    assert names - set(requirements(LOCK)) == set()


def test_the_version_is_the_metadata_s() -> None:
    assert agent_harness.__version__ == importlib.metadata.version("agent-harness")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"], ["completion", "bash", "--", "show", ""]])
def test_a_fast_path_imports_no_heavy_package(arguments: list[str]) -> None:
    assert imported_by(f"sys.argv[1:] = {arguments!r}; from agent_harness.__main__ import main; main()") == []


def test_an_import_of_a_heavy_package_is_noticed() -> None:
    assert "pydantic" in imported_by("import pydantic")


def imported_by(code: str) -> list[str]:
    """Which of the heavy packages are loaded when the code has run to its end or exit."""
    report = f"print('LOADED', *[name for name in {HEAVY!r} if name in sys.modules])"
    program = f"import sys\ntry:\n    exec({code!r})\nexcept SystemExit:\n    pass\n{report}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.splitlines()[-1].split()[1:]


def test_a_skip_is_allowed_only_with_a_reason() -> None:
    assert allowed("# a comment\ntests/a.py::test_x  no such kernel here\ntests/a.py::test_y\n") == {"tests/a.py::test_x"}
