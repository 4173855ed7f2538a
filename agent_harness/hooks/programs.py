"""What a hook's command line would run, looked at before it runs.

A shell exits with 2 on a line it cannot read, and so does an interpreter whose script is missing: that must not look like a
policy that refuses. So program and script are found here, at the start and again before each run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SHELL = "/bin/sh"
SHEBANG_BYTES = 256
_PASSES_ON = ("exec", "command", "env")
_INTERPRETER = re.compile(r"(?:ba|da|k|z)?sh|python[0-9.]*|node|deno|bun|ruby|perl|php")
_RUNS_AN_ARGUMENT = re.compile(r"-[A-Za-z]*[cemp]|--\w+")
_OPERATOR = re.compile(r"[();<>|&]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@dataclass(frozen=True, slots=True)
class Program:
    """The files behind a command line, as far as they can be known without running it.

    Attributes:
        name: short, for verdicts: the script's file name, else the program's.
        word: the program as the shell would read it; empty when only the shell can tell.
        path: the program's file; None for a builtin of the shell, and when it is not known or not on PATH.
        script: the file that an interpreter is told to run.
    """

    name: str
    word: str = ""
    path: Path | None = None
    script: Path | None = None

    def files(self) -> tuple[Path, ...]:
        """The files that must exist for the hook to run."""
        return tuple(path for path in (self.path, self.script) if path is not None)

    def problem(self, path: str | None) -> str:
        """Why it cannot run, and what to do about it; empty when it can.

        Args:
            path: the value of PATH, for the interpreter of a script.
        """
        for file in self.files():
            if not file.is_file():
                return f"{str(file)!r} does not exist; correct the path, or unset the hook"
        if self.script is not None and not os.access(self.script, os.R_OK):
            return f"{str(self.script)!r} cannot be read; run: chmod +r {shlex.quote(str(self.script))}"
        if self.path is None:
            return ""
        if not os.access(self.path, os.X_OK):
            return f"{str(self.path)!r} is not executable; run: chmod +x {shlex.quote(str(self.path))}"
        missing = _missing_interpreter(self.path, path)
        return f"{str(self.path)!r} needs {missing!r}, which does not exist; correct its first line" if missing else ""

    def lies_in(self, folder: Path) -> Path | None:
        """The first of its files that is in the folder, by its own name or by what it links to."""
        folder = folder.resolve()
        for file in self.files():
            if file.resolve().is_relative_to(folder) or (file.parent.resolve() / file.name).is_relative_to(folder):
                return file
        return None


def find_program(command: str, cwd: Path, env: Mapping[str, str]) -> Program:
    """The program that the first command of the line runs.

    Args:
        command: a command line for `sh`.
        cwd: where it is run.
        env: its variables.
    """
    words = _first_command(command)
    while words and (words[0] in _PASSES_ON or _ASSIGNMENT.match(words[0])):
        words.pop(0)
    word = _expanded(words[0], cwd, env) if words else None
    if word is None:
        return Program(name=command.split()[0][:60] if command.split() else "hook")
    if "/" in word:
        path: Path | None = cwd / word
    else:
        found = shutil.which(word, path=env.get("PATH"))
        path = None if found is None else Path(found)
    script = _script_of(Path(word).name, words[1:], cwd, env)
    return Program((script or Path(word)).name[:60], word, path, script)


def syntax_error(command: str) -> str:
    """What the shell does not understand about the command line; empty when it can read it."""
    tried = subprocess.run([SHELL, "-n", "-c", command], capture_output=True, env={}, check=False)
    said = tried.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if tried.returncode == 0 else (said[-1] if said else "it cannot be read")


def is_shells_own(word: str, env: Mapping[str, str]) -> bool:
    """Whether the shell knows the word by itself: a builtin or a keyword."""
    asked = [SHELL, "-c", 'command -v "$1"', SHELL, word]
    return subprocess.run(asked, capture_output=True, env=dict(env), check=False).returncode == 0


def _first_command(command: str) -> list[str]:
    """Its words up to the first operator; none when the quotes are beyond us."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if _OPERATOR.fullmatch(word):
                break
            words.append(word)
    except ValueError:
        return []
    return words


def _expanded(word: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """The word with plain variables and `~` replaced; None when only a shell can tell what it is."""
    if "/" in word and (cwd / word).is_file():  # it was quoted, or holds no sign that means anything
        return word
    word = _VARIABLE.sub(lambda match: env.get(match[1] or match[2], ""), word)
    if word == "~" or word.startswith("~/"):
        word = env.get("HOME", "~") + word[1:]
    return None if not word or re.search(r"[$`*?\[]", word) else word


def _script_of(program: str, words: list[str], cwd: Path, env: Mapping[str, str]) -> Path | None:
    if not _INTERPRETER.fullmatch(program):
        return None
    for word in words:
        if _RUNS_AN_ARGUMENT.fullmatch(word):
            return None
        if not word.startswith("-"):
            script = _expanded(word, cwd, env)
            return None if script is None else cwd / script
    return None


def _missing_interpreter(program: Path, path: str | None) -> str:
    """The interpreter that a script's first line names, when it does not exist."""
    try:
        with program.open("rb") as file:
            start = file.readline(SHEBANG_BYTES)
    except OSError:  # a program may be executable and not readable
        return ""
    if not start.startswith(b"#!"):
        return ""
    words = os.fsdecode(start[2:]).split()
    if not words:
        return ""
    if Path(words[0]).name == "env" and len(words) > 1:
        wanted = next((word for word in words[1:] if not word.startswith("-") and not _ASSIGNMENT.match(word)), "")
        return wanted if wanted and shutil.which(wanted, path=path) is None else ""
    return "" if os.access(words[0], os.X_OK) else words[0]
