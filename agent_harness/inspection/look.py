"""`inspect REPO`: what a repository would have run on a machine where somebody simply works in it. Nothing of it is run."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_harness.assignment import reach
from agent_harness.build import credentials_in
from agent_harness.errors import ConfigError
from agent_harness.github_settings import access_from
from agent_harness.inert_git import Git, GitFailed
from agent_harness.inspection.base import CommitFiles, Finding, FolderFiles, read_text
from agent_harness.inspection.config import in_config, read_config
from agent_harness.inspection.files import attributes, in_files
from agent_harness.origins import is_path
from agent_harness.redact import Redactor
from agent_harness.sinks.plain_text import one_line

COMMAND_CHARS = 200
CLONE_S = 1_800
# Of git's manual (githooks): a file of this name that may be executed is run by the command in question.
HOOKS: Mapping[str, str] = {
    "applypatch-msg": "git am", "pre-applypatch": "git am", "post-applypatch": "git am", "pre-commit": "git commit",
    "pre-merge-commit": "git merge", "prepare-commit-msg": "git commit", "commit-msg": "git commit",
    "post-commit": "git commit", "pre-rebase": "git rebase", "post-checkout": "git checkout, clone, worktree add",
    "post-merge": "git merge, pull", "pre-push": "git push", "pre-receive": "a push to here", "update": "a push to here",
    "proc-receive": "a push to here", "post-receive": "a push to here", "post-update": "a push to here",
    "reference-transaction": "every command that writes a ref", "push-to-checkout": "a push to here",
    "pre-auto-gc": "git gc --auto", "post-rewrite": "git commit --amend, rebase", "sendemail-validate": "git send-email",
    "fsmonitor-watchman": "git status", "post-index-change": "git add, status, checkout",
}  # fmt: skip


async def run_inspect(repo: str, started_in: Path, environ: Mapping[str, str], *, as_json: bool) -> int:
    """Look and print; returns 0 whatever was found.

    Raises:
        ConfigError: there is no repository.
    """
    redact = Redactor(credentials_in(environ)).text
    with TemporaryDirectory(prefix="agent-harness-") as scratch:
        git = Git(Path(scratch), redact, environ)
        found = await (
            in_path(git, started_in / repo) if is_path(repo, started_in) else _in_url(git, repo, environ, Path(scratch))
        )
    shown = [{name: one_line(redact(text))[:COMMAND_CHARS] for name, text in asdict(each).items()} for each in found]
    name = redact(repo)
    if as_json:
        sys.stdout.write(json.dumps({"repo": name, "findings": shown}, ensure_ascii=False, indent=1) + "\n")
        return 0
    for each in shown:
        what = " ".join(word for word in (each["where"], each["name"]) if word)
        sys.stdout.write(f"{each['kind']:<18} {what}\n{'':18} on {each['when']}\n")
        if each["command"]:
            sys.stdout.write(f"{'':18} {each['command']}\n")
    count = f"{len(shown)} thing{'s' * (len(shown) != 1)}"
    sys.stdout.write(f"{count if shown else 'nothing'} in {name} would have run; none of it was\n")
    return 0


async def in_path(git: Git, path: Path) -> list[Finding]:
    """Everything in a checkout or a bare repository on this machine.

    Raises:
        ConfigError: it is none.
    """
    root, git_dir = _find(path)
    common = _common(git_dir)
    found: list[Finding] = []
    drivers: dict[str, str] = {}
    for place in dict.fromkeys((git_dir, common, *_modules(common))):
        label = _label(place, root)
        for name in ("config", "config.worktree"):
            if (place / name).is_file():
                entries = await read_config(git, place / name)
                found += await in_config(git, place / name, f"{label}/{name}", entries)
                drivers |= _drivers(entries or [])
                hooks = [value for key, value in entries or [] if key == "core.hookspath"]
                found += [each for value in hooks for each in _hooks((root or place) / value, value)]
        found += _hooks(place / "hooks", f"{label}/hooks")
        found += attributes(f"{label}/info/attributes", read_text(place / "info" / "attributes"), drivers)
    files = FolderFiles(root) if root is not None else CommitFiles(git, git_dir, "HEAD")
    try:
        found += await in_files(git, files, drivers)
    except GitFailed:
        return found  # a bare repository without a commit has no files
    return found


async def _in_url(git: Git, url: str, environ: Mapping[str, str], scratch: Path) -> list[Finding]:
    """The files of a remote's default branch; its configuration and hooks never leave it.

    Raises:
        ConfigError: it cannot be read.
    """
    transport = reach(access_from(environ), url, publishes=False)
    clone = scratch / "clone.git"
    try:
        await git.run("init", "--quiet", "--bare", "--template=", str(clone))
        await git.run(
            *("fetch", "-q", "--depth=1", "--no-tags", "--", transport.safe_url, "HEAD"),
            git_dir=clone,
            transport=transport,
            timeout_s=CLONE_S,
        )
    except GitFailed as failure:
        raise ConfigError(f"{transport.safe_url!r} cannot be read: {failure}") from failure
    return await in_files(git, CommitFiles(git, clone, "FETCH_HEAD"), {})


def _find(path: Path) -> tuple[Path | None, Path]:
    """The working tree that the path is in (None for a bare repository), and its git folder."""
    for place in (path, *path.resolve().parents):
        if (place / ".git").is_dir():
            return place, place / ".git"
        if (place / ".git").is_file():
            pointed = re.match(r"gitdir: (.+)", read_text(place / ".git"))
            if pointed:
                return place, place / pointed[1].strip()
        if (place / "HEAD").is_file() and (place / "objects").is_dir() and (place / "refs").is_dir():
            return None, place
    raise ConfigError(f"{str(path)!r} is no git repository, nor in one; give a checkout, a bare repository or a git URL")


def _common(git_dir: Path) -> Path:
    """Where the configuration and hooks of a linked working tree are."""
    pointed = read_text(git_dir / "commondir").strip()
    return git_dir / pointed if pointed else git_dir


def _modules(git_dir: Path) -> list[Path]:
    """Git folders of submodules."""
    return sorted(config.parent for config in (git_dir / "modules").rglob("config") if (config.parent / "HEAD").exists())


def _label(place: Path, root: Path | None) -> str:
    if root is None:
        return "."
    return str(place.relative_to(root)) if place.is_relative_to(root) else str(place)


def _hooks(folder: Path, label: str) -> list[Finding]:
    found: list[Finding] = []
    for name in sorted(HOOKS):
        try:
            mode = (folder / name).stat().st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) and mode & 0o111:
            first = next((line for line in read_text(folder / name).splitlines() if line and not line.startswith("#")), "")
            found.append(Finding("hook", f"{label}/{name}", name, first, HOOKS[name]))
    return found


def _drivers(entries: list[tuple[str, str]]) -> dict[str, str]:
    """`filter.NAME`, `diff.NAME`, `merge.NAME` -> what is configured for it."""
    matches = (
        (re.fullmatch(r"((?:filter|diff|merge)\..+)\.(?:clean|process|textconv|command|driver)", key), value)
        for key, value in entries
    )
    return {match[1]: value for match, value in matches if match}
