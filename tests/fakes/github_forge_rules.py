"""What a push may hold: protected branches, rulesets, push protection, sizes and workflow files, refused in GitHub's words.

The objects of a push are unpacked into a repository of their own, beside the real one, and looked at before git's own server
sees the push. One refused ref refuses all of it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fakes.github_forge_state import Repo, Token, git

COMMAND = re.compile(rb"(?P<old>[0-9a-f]{40}) (?P<new>[0-9a-f]{40}) (?P<ref>[^\0\n]+)(?:\0(?P<capabilities>[^\n]*))?\n?")
WORKFLOW = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
RULESET_DECLINED = "push declined due to repository rule violations"
ZEROS = "0" * 40


@dataclass(frozen=True)
class Command:
    """One ref that a push changes."""

    old: str
    new: str
    ref: str
    capabilities: str

    @property
    def branch(self) -> str | None:
        return self.ref.removeprefix("refs/heads/") if self.ref.startswith("refs/heads/") else None


@dataclass(frozen=True)
class Refusal:
    """Lines for people, which git shows behind `remote:`, and the word behind the ref."""

    ref: str
    lines: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Blob:
    commit: str
    path: str
    sha: str


def read_commands(body: bytes) -> tuple[list[Command], bytes]:
    """The refs that the push changes, and its pack."""
    found: list[Command] = []
    place = 0
    while place + 4 <= len(body):
        size = int(body[place : place + 4], 16)
        if size < 4:
            place += 4
            break
        line = COMMAND.fullmatch(body[place + 4 : place + size])
        if line:
            old, new, ref = (line[name].decode() for name in ("old", "new", "ref"))
            found.append(Command(old, new, ref, (line["capabilities"] or b"").decode()))
        place += size
    return found, body[place:]


def refusal(repo: Repo, token: Token | None, commands: list[Command], pack: bytes) -> Refusal | None:
    """Why the push is refused; None when it may go on."""
    for command in commands:
        if command.branch is not None and repo.is_protected(command.branch):
            return _protected(command)
        found = _ruleset(repo, command)
        if found is not None:
            return found
    with _unpacked(repo, pack) as objects:
        for command in commands:
            if command.new == ZEROS or objects is None:
                continue
            found = _content(repo, token, command, objects)
            if found is not None:
                return found
    return None


def _protected(command: Command) -> Refusal:
    said = f"error: GH006: Protected branch update failed for {command.ref}."
    lines = (said, "error: ", "error: - Changes must be made through a pull request.")
    return Refusal(command.ref, lines, "protected branch hook declined")


def _violations(repo: Repo, ref: str, *bullets: str) -> tuple[str, ...]:
    return (
        f"error: GH013: Repository rule violations found for {ref}.",
        f"Review all repository rules at https://github.com/{repo.full_name}/rules?ref={ref.replace('/', '%2F')}",
        "",
        *bullets,
    )


def _ruleset(repo: Repo, command: Command) -> Refusal | None:
    bullets = [f"- {ruleset.says}" for ruleset in repo.rulesets if command.branch is not None and ruleset.targets(command.branch)]
    if not bullets:
        return None
    return Refusal(command.ref, _violations(repo, command.ref, *bullets), RULESET_DECLINED)


def _content(repo: Repo, token: Token | None, command: Command, objects: Path) -> Refusal | None:
    blobs = list(_new_blobs(repo, command, objects))
    for blob in blobs:
        size = int(git("cat-file", "-s", blob.sha, git_dir=objects)[1])
        if size > repo.max_blob_bytes:
            return _too_large(command, blob, size, repo.max_blob_bytes)
    for blob in blobs:
        text = git("cat-file", "blob", blob.sha, git_dir=objects)[1] if repo.push_protection else ""
        if any(pattern in text for pattern in repo.push_protection):
            return _secret(repo, command, blob)
    if token is not None and not token.may("workflows", "write"):
        touched = next((blob.path for blob in blobs if WORKFLOW.fullmatch(blob.path)), None)
        if touched is not None:
            return _workflow(command, touched, token)
    return None


def _too_large(command: Command, blob: Blob, size: int, most: int) -> Refusal:
    lines = (
        "error: See https://gh.io/lfs for more information.",
        f"error: File {blob.path} is {size / 1048576:.2f} MB; this exceeds GitHub's file size limit of {most / 1048576:.2f} MB",
        "error: GH001: Large files detected. You may want to try Git Large File Storage - https://git-lfs.github.com.",
    )
    return Refusal(command.ref, lines, "pre-receive hook declined")


def _secret(repo: Repo, command: Command, blob: Blob) -> Refusal:
    lines = (
        "- GITHUB PUSH PROTECTION",
        "    Resolve the following violations before pushing again",
        "    - Push cannot contain secrets",
        "      —— Planted Secret ——",
        "       locations:",
        f"         - commit: {blob.commit}",
        f"           path: {blob.path}:1",
        "       (?) To push, remove secret from commit(s) or follow this URL to allow the secret.",
        f"       https://github.com/{repo.full_name}/security/secret-scanning/unblock-secret/1",
    )
    return Refusal(command.ref, _violations(repo, command.ref, *lines), RULESET_DECLINED)


def _workflow(command: Command, path: str, token: Token) -> Refusal:
    app = token.kind.startswith("installation")
    who, what = ("GitHub App", "`workflows` permission") if app else ("Personal Access Token", "`workflow` scope")
    return Refusal(command.ref, (), f"refusing to allow a {who} to create or update workflow `{path}` without {what}")


def _new_blobs(repo: Repo, command: Command, objects: Path) -> Iterator[Blob]:
    """Every file that a new commit adds or changes, commit by commit: what is taken away again was pushed all the same."""
    known = git("for-each-ref", "--format=^%(objectname)", "refs/heads", git_dir=repo.bare)[1].split()
    code, commits = git("rev-list", command.new, *known, git_dir=objects, ok=False)
    for commit in commits.split() if code == 0 else ():  # a history with holes is git's own to refuse
        raw = git("diff-tree", "--root", "-r", "-m", "--no-commit-id", "--raw", "--no-abbrev", "-z", commit, git_dir=objects)[1]
        fields = raw.split("\0")
        for about, path in zip(fields[::2], fields[1::2], strict=False):
            mode, sha = about.split(" ")[1], about.split(" ")[3]
            if mode.startswith("100"):
                yield Blob(commit, path, sha)


class _unpacked:
    """A throwaway repository with the push's objects on top of the real one's; None when the push has none."""

    def __init__(self, repo: Repo, pack: bytes) -> None:
        self._repo, self._pack = repo, pack
        self._folder = TemporaryDirectory(prefix="push-")

    def __enter__(self) -> Path | None:
        place = Path(self._folder.name) / "objects.git"
        subprocess.run(["git", "init", "-q", "--bare", "--template=", str(place)], check=True)
        (place / "objects" / "info").mkdir(exist_ok=True)
        (place / "objects" / "info" / "alternates").write_text(f"{self._repo.bare.absolute() / 'objects'}\n")
        if not self._pack:
            return place
        command = ["git", f"--git-dir={place}", "index-pack", "--stdin", "--fix-thin"]
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(command, input=self._pack, env=env, capture_output=True, check=False)
        return place if done.returncode == 0 else None

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
