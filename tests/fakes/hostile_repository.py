"""A repository that plants 13 commands where plain git runs them, each of which leaves a mark.

`everyday` is what a person would do in it. It runs what was planted, so call it in a throwaway folder, within bubblewrap.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from agent_harness.surfaces.bwrap import candidates

HOOKS = ("pre-commit", "commit-msg", "post-commit", "post-checkout", "pre-push")
PLANTED = frozenset({
    *HOOKS, "fsmonitor", "clean", "smudge", "textconv", "driver", "gpg", "ssh", "credential",
})  # fmt: skip
USUAL_SWITCHES = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.sshCommand=false", "-c", "credential.helper="),
    *("-c", "commit.gpgSign=false", "-c", "diff.external="),
)
EVERYDAY: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("add", "-A"),
    ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "signed, which fails"),
    ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgSign=false", "commit", "-qm", "everyday"),
    ("diff", "HEAD~1", "--", "a.txt"),
    ("diff", "--no-ext-diff", "HEAD~1", "--", "b.dat"),
    ("checkout", "-q", "-b", "other", "HEAD~1"),
    ("push", "-q", "LOCAL", "HEAD:refs/heads/pushed"),
    ("ls-remote", "ssh://git@localhost/x"),
    ("ls-remote", "REFUSING"),
)


class HostileRepository:
    """One in a folder of its own: `work` is the checkout, `marks` gets a file for each command that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.marks = folder / "marks"
        self.marks.mkdir(parents=True)
        self.work.mkdir()
        self._plain("init", "-q", "-b", "main")
        for name in ("a.txt", "b.dat"):
            (self.work / name).write_text("one\n")
        (self.work / ".gitattributes").write_text("*.txt filter=evil diff=evil\n*.dat diff=shown\n")
        self._plain("add", "-A")
        self._plain("-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "base")
        self._plain("clone", "-q", "--bare", str(self.work), str(folder / "origin.git"))
        for key, value in self.settings().items():
            self._plain("config", key, value)
        for name in HOOKS:
            hook = self.work / ".git" / "hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(f"#!/bin/sh\n{self._mark(name)}\n")
            hook.chmod(0o755)
        for name in ("a.txt", "b.dat"):
            (self.work / name).write_text("two\n")

    def settings(self) -> dict[str, str]:
        """The planted configuration: key -> command."""
        return {
            "core.fsmonitor": self._mark("fsmonitor", "; false"),
            "filter.evil.clean": self._mark("clean", "; cat"),
            "filter.evil.smudge": self._mark("smudge", "; cat"),
            "diff.evil.command": self._mark("driver", "; true"),
            "diff.shown.textconv": self._mark("textconv", "; cat"),
            "gpg.program": self._script("gpg", "exit 1"),
            "commit.gpgSign": "true",
            "core.sshCommand": self._mark("ssh", "; false"),
            "credential.helper": f"!{self._mark('credential')}; true",
        }

    def _mark(self, name: str, rest: str = "") -> str:
        return f"touch {shlex.quote(str(self.marks / name))}{rest}"

    def _script(self, name: str, rest: str) -> str:
        path = self.folder / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{self._mark(name)}\n{rest}\n")
        path.chmod(0o755)
        return str(path)

    def _plain(self, *args: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *args], cwd=self.work, env=env, check=True, capture_output=True)

    def everyday(self, refusing: str, switches: Sequence[str] = ()) -> set[str]:
        """Plain git, as a person uses it, in a bubblewrap that can write this folder only; returns what ran."""
        bwrap = next(path for path in candidates() if Path(path).exists())
        box = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        box += ["--bind", str(self.folder), str(self.folder), "--unshare-pid", "--die-with-parent", "--chdir", str(self.work)]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        places = {"LOCAL": str(self.folder / "origin.git"), "REFUSING": refusing}
        for words in EVERYDAY:
            command = ["git", *switches, *(places.get(word, word) for word in words)]
            subprocess.run([*box, "--", *command], env=env, check=False, capture_output=True, timeout=30)
        return self.ran()

    def ran(self) -> set[str]:
        """What ran since the last call."""
        found = {mark.name for mark in self.marks.iterdir()}
        for mark in self.marks.iterdir():
            mark.unlink()
        return found
