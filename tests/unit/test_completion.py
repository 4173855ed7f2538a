"""Completion says what the parser takes, in a real bash too; an id of a session is found without opening any."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.cli import OPTIONS_TO_COME, command_line
from agent_harness.completion import candidates, script, session_ids
from agent_harness.errors import ConfigError
from agent_harness.settings_load import Flags, load

COMMANDS = ["run", "demo", "sessions", "show", "publish", "doctor", "completion"]
IDS = ["20260101-000000-aaaa", "20260102-000000-bbbb", "20260102-000001-cccc"]


@pytest.fixture
def sessions(home: Path) -> Path:
    """Three sessions, and a folder that is none."""
    place = home / "sessions"
    for name in IDS:
        (place / "sessions" / name).mkdir(parents=True)
        (place / "sessions" / name / "trace.jsonl").write_text("damaged, and never opened")
    (place / "sessions" / "20260103-000000-dddd").mkdir()
    return place


def asked(*words: str, shell: str = "zsh", home: Path = Path("/nowhere")) -> list[str]:
    """The candidates without what they are for."""
    return [line.split("\t")[0] for line in candidates(command_line(), words, shell, home)]


def in_bash(line: str, folder: Path | None = None) -> list[str]:
    """What a real bash puts into COMPREPLY when Tab is pressed at the end of the line."""
    words = line.replace("=", " = ").replace(":", " : ").split(" ") if line.endswith(" ") else None
    words = words or shlex.split(line.replace("=", " = ").replace(":", " : "))
    program = (
        f"{script('bash')}\n"
        f"COMP_WORDS=({' '.join(shlex.quote(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        "_agent_harness agent-harness; (( ${#COMPREPLY[@]} )) && printf '%s\\n' \"${COMPREPLY[@]}\"; :"
    )
    env = {"PATH": os.environ["PATH"], "AGENT_HARNESS_HOME": os.environ["AGENT_HARNESS_HOME"], "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        ["bash", "--norc", "-c", program], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_first_word_is_a_command() -> None:
    assert set(asked("")) >= set(COMMANDS)
    assert asked("s") == ["sessions", "show"]
    assert asked("nonsense", "") == []


def test_every_option_of_every_command_is_offered_and_none_that_is_to_come() -> None:
    for name in COMMANDS:
        helped = subprocess.run(
            [sys.executable, "-m", "agent_harness", name, "--help"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        told = {word.strip("[],.;()") for word in helped.split("examples:")[0].split()}
        offered = asked(name, "--")
        assert set(offered) == {word for word in told if word.startswith("--") and word != "--"} - {"--no-pr,"}
        assert not set(offered) & set(OPTIONS_TO_COME)


def test_an_option_that_is_there_is_not_offered_again_but_a_repeatable_one() -> None:
    left = asked("run", "--draft", "--deny", "x", "--max-turns=3", "--no-pr", "--")
    assert not {"--draft", "--max-turns", "--pr", "--no-pr"} & set(left)
    assert "--deny" in left


def test_the_surfaces_that_are_offered_are_those_that_are_taken(tmp_path: Path) -> None:
    taken: list[str] = []
    for name in ("auto", "host", "local", "e2b"):
        try:
            load(Flags(".", "do it", values={"surface": name}), {"OPENAI_API_KEY": "k", "AGENT_MODEL": "m"}, tmp_path)
        except ConfigError:
            continue
        taken.append(name)
    assert asked("run", "--surface", "") == taken


def test_the_value_of_an_option_is_completed_in_both_spellings() -> None:
    assert asked("run", "--surface", "l") == ["local"]
    assert asked("run", "--surface=l") == ["--surface=local"]
    assert asked("run", "--surface=l", shell="fish") == ["--surface=local"]
    assert asked("run", "--surface", "=", "l", shell="bash") == ["local"]
    assert asked("run", "--surface", "=", shell="bash") == ["auto", "host", "local"]
    assert asked("run", "--draft=") == []


def test_a_value_that_looks_like_a_command_or_an_option_is_a_value() -> None:
    assert "--model" not in asked("run", "--model", "--")
    assert asked("run", ".", "--model", "show", "the task", "--pri") == ["--price-in", "--price-out"]
    assert asked("run", "https", ":", "//h/x.git", "--surfa", shell="bash") == ["--surface"]
    assert asked("run", "--", "--") == [":folders"]


def test_places_are_left_to_the_shell() -> None:
    assert asked("run", "") == [":folders"]
    assert asked("run", ".", "task", "--instructions", "x") == [":files"]
    assert asked("run", ".", "--deny", "") == [":files"]
    assert asked("run", ".", "--model", "") == []


def test_sessions_are_offered_newest_first_and_never_opened(sessions: Path) -> None:
    assert session_ids(sessions) == ["last", *IDS[::-1]]
    assert session_ids(sessions / "none") == []
    for command in ("show", "publish"):
        assert asked(command, "", home=sessions) == ["last", *IDS[::-1]]
    assert asked("show", "20260102", home=sessions) == IDS[:0:-1]
    assert asked("show", "--json", "l", home=sessions) == ["last"]
    assert asked("show", IDS[0], "", home=sessions) == ["--help", "--json"]


def test_only_the_newest_of_very_many_sessions_are_offered(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / "sessions" / f"{number:04}").mkdir(parents=True)
        (tmp_path / "sessions" / f"{number:04}" / "trace.jsonl").touch()
    found = session_ids(tmp_path)
    assert (len(found), found[1]) == (201, "0249")


def test_what_a_word_is_for_comes_with_it_where_that_is_shown() -> None:
    (line,) = candidates(command_line(), ["run", "--draf"], "fish", Path("/nowhere"))
    assert line == "--draft\topen the pull request as a draft"


@pytest.mark.usefixtures("sessions")
def test_a_real_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "notes of mine.md").touch()
    (tmp_path / "notes").mkdir()
    assert in_bash("agent-harness sho") == ["show"]
    assert in_bash("agent-harness run --sur") == ["--surface"]
    assert in_bash("agent-harness run --surface=lo") == ["local"]
    assert in_bash("agent-harness run --surface lo") == ["local"]
    assert in_bash("agent-harness show 20260102-000001") == [IDS[2]]
    assert in_bash("agent-harness run no", tmp_path) == ["notes"]
    assert sorted(in_bash("agent-harness run . --instructions no", tmp_path)) == ["notes", "notes of mine.md"]
    assert sorted(in_bash("agent-harness run . --instructions=no", tmp_path)) == ["notes", "notes of mine.md"]
    assert in_bash("agent-harness run https://h/x.git --max-tu") == ["--max-turns"]
    assert in_bash("agent-harness completion z") == ["zsh"]
    assert in_bash("agent-harness run . 'do it' --model gp") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_printed_and_read_without_complaint_by_its_shell(shell: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "agent_harness", "completion", shell], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert f" completion {shell} -- " in printed
    assert "@" not in printed.replace('"${(@', "").replace("[@]", "")
    found = shutil.which(shell)
    assert found is not None or shell != "bash"
    if found is not None:  # the other two are read where they are installed
        done = subprocess.run([found, "-n"], input=printed, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("sessions")
def test_a_fish_that_is_installed_completes(tmp_path: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        return
    program = f"{script('fish')}\ncomplete -C 'agent-harness run --surface lo'; complete -C 'agent-harness show 20260102-000001'"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        [fish, "-N", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["local", IDS[2]]


def test_what_lies_in_the_current_folder_is_never_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a command nor a package of our name: Tab is no wish to run anything."""
    (tmp_path / "agent-harness").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "agent-harness").chmod(0o755)
    (tmp_path / "agent_harness").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "agent_harness" / f"{name}.py").write_text("open('ran', 'w')\n")
    monkeypatch.setattr(sys, "argv", ["/nowhere/pytest"])
    assert in_bash("agent-harness sho", tmp_path) == ["show"]
    assert not (tmp_path / "ran").exists()
    subprocess.run([sys.executable, "-m", "agent_harness"], cwd=tmp_path, env={}, capture_output=True, timeout=60, check=False)
    assert (tmp_path / "ran").exists(), "the control: without -P it is started"


def test_a_shell_that_is_not_known_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agent_harness", "completion", "tcsh"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "'bash', 'zsh', 'fish'" in done.stderr
