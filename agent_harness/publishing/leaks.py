"""Looks for credentials in what is about to be pushed: the added lines of every commit, file names and commit messages.

Two lists of patterns are asked: the redactor's, which also knows this session's own secrets exactly, and those of the
`detect-secrets` package. What has a provider's own shape refuses the push, as the push protection of a forge would; what merely
looks like a credential is named in the pull request. The secret itself is never repeated.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread

from agent_harness.errors import PublishError
from agent_harness.inert_git import HOSTILE, Git, GitFailed
from agent_harness.publishing.patch import Line, only_new, read_patch
from agent_harness.redact import KNOWN, PLACEHOLDER
from agent_harness.surfaces.globs import parse_globs
from agent_harness.surfaces.paths import shown
from agent_harness.task import Permits

WORKER = "agent_harness.publishing.secrets_worker"
SEARCH_S = 150
NAMED = 5
BLOCK_CHARS = 64 << 10
KEY_LINES = 4  # of a private key: enough to tell one from code that merely names its first line
BASELINE = ".secrets.baseline"
MAX_BASELINE_BYTES = 4 << 20

# What these find is a credential for sure; the rest of both lists may be an example, a test's value or a word in code.
SURE = frozenset({
    "AWS Access Key", "Azure Storage Account access key", "Discord Bot Token", "GitHub Token", "GitLab Token",
    "Mailchimp Access Key", "NPM tokens", "OpenAI Token", "PyPI Token", "SendGrid API Key", "Slack Token",
    "Square OAuth Secret", "Stripe Access Key", "Telegram Bot Token", "Twilio API Key",
})  # fmt: skip
PRIVATE_KEY, AWS_ID = "[REDACTED:private-key]", "[REDACTED:aws-key-id]"  # Amazon's documentation has ids that end in EXAMPLE
UNSURE_SHAPES = frozenset({"url-credentials", "authorization", "jwt"})
KNOWN_RULE = "a credential of this session"


@dataclass(frozen=True, slots=True)
class Finding:
    """A place that holds what looks like a credential.

    Attributes:
        path: the file, or which commit's message.
        line: from 1; 0 when it is the file's name.
        rule: which pattern.
        sure: it has a provider's own shape, or is one of this session's own.
        digest: SHA-1 of the secret where the pattern tells it apart, else empty.
    """

    path: str
    line: int
    rule: str
    sure: bool
    digest: str = ""

    @property
    def place(self) -> str:
        """Where, for a message."""
        where = shown(self.path)
        return f"{where} line {self.line}" if self.line else f"the name of {where}"


async def find_leaks(
    git: Git, git_dir: Path, base: str, commits: list[str], permits: Permits, redact: Callable[[str], str]
) -> list[str]:
    """What a reviewer should look at, one sentence each.

    Args:
        git: the runner.
        git_dir: the quarantine.
        base: where the range begins; its `.secrets.baseline`, if any, names what is known to be none.
        commits: the range, the oldest first.
        permits: `secrets` names files in which everything but this session's own credentials is only reported.
        redact: replaces credentials, those of this session among them, by placeholders.

    Raises:
        PublishError: a commit adds a credential, or there is too much to search; says where and what to do.
    """
    patch = git_dir / "added.patch"
    try:
        await _write_patch(git, git_dir, commits, patch)
        found = await anyio.to_thread.run_sync(_by_shape, patch, redact)
        found += await _by_detectors(patch)
    finally:
        await anyio.to_thread.run_sync(lambda: patch.unlink(missing_ok=True))
    known = await _baseline(git, git_dir, base) if found else frozenset[str]()
    allowed = [glob for text in permits.secrets for glob in parse_globs(text, folds=False)]
    refused: list[Finding] = []
    likely: list[Finding] = []
    for finding in found:
        if finding.rule == KNOWN_RULE:
            refused.append(finding)
        elif finding.digest not in known:
            let_through = not finding.sure or any(glob.covers(finding.path.split("/")) for glob in allowed)
            (likely if let_through else refused).append(finding)
    if refused:
        raise _refusal(refused)
    return [f"It adds what looks like a credential: {_listed(likely)}."] if likely else []


async def _write_patch(git: Git, git_dir: Path, commits: list[str], patch: Path) -> None:
    """All changes as text, and the commits' messages as if they were files."""
    try:
        await git.run(
            *("diff-tree", "--stdin", "--root", "-r", "-m", "-p", "-U0", "--text", "--no-renames", "--no-color"),
            git_dir=git_dir,
            stdin="".join(f"{commit}\n" for commit in commits).encode(),
            stdout_file=patch,
            ceilings=HOSTILE,
        )
    except GitFailed as failure:
        raise PublishError(
            "the changes are too much to search for credentials; nothing was pushed: leave large files out of the commits",
            reason="too_much_to_scan",
        ) from failure
    said = await git.run(
        *("log", "--no-walk=unsorted", "--stdin", "--format=%H%n%B%x00"),
        git_dir=git_dir,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
        ceilings=HOSTILE,
    )
    await anyio.to_thread.run_sync(_append_messages, patch, said.stdout)


def _append_messages(patch: Path, said: bytes) -> None:
    with patch.open("ab") as file:
        for entry in said.split(b"\0"):
            commit, _, message = entry.strip(b"\n").partition(b"\n")
            if message:
                lines = message.split(b"\n")
                file.write(b"%s\n+++ b/message of commit %s\n@@ -0,0 +1,%d @@\n" % (commit, commit[:12], len(lines)))
                file.writelines(b"+%s\n" % line for line in lines)


def _by_shape(patch: Path, redact: Callable[[str], str]) -> list[Finding]:
    """What the redactor would replace."""
    with patch.open("rb") as file:
        found = list(_replaced(read_patch(file), redact))
    known = [Finding(line.path, line.number, rule, sure=True) for line, rule, _ in found if rule == KNOWN_RULE and line.added]
    shapes = ((line, rule, digest) for line, rule, digest in found if rule != KNOWN_RULE)
    return known + [
        Finding(line.path, line.number, rule, rule not in UNSURE_SHAPES, digest) for line, rule, digest in only_new(shapes)
    ]


def _replaced(lines: Iterable[Line], redact: Callable[[str], str]) -> Iterator[tuple[Line, str, str]]:
    """Line, rule and digest; text is given to the redactor in blocks, and line by line only where a block has something."""
    for (commit, path, added), group in groupby(lines, key=lambda line: (line.commit, line.path, line.added)):
        if added and redact(path) != path:
            yield _shape(Line(commit, path, 0, path, added=True), redact(path))
        for block in _blocks(group):
            text = "\n".join(line.text for line in block)
            if redact(text) == text:
                continue
            for at, line in enumerate(block):
                clean = redact(line.text)
                if clean != line.text:
                    if not (AWS_ID in clean and "EXAMPLE" in line.text):
                        yield _shape(line, clean)
                elif "PRIVATE KEY" in line.text:
                    several = "\n".join(each.text for each in block[at : at + KEY_LINES])
                    if PRIVATE_KEY in redact(several):
                        yield line, "private-key", _digest(several)


def _blocks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    block: list[Line] = []
    size = 0
    for line in lines:
        if size > BLOCK_CHARS:
            yield block
            # The end of a block is seen with the next one too, for keys of several lines; what is found twice is told once.
            block, size = block[-KEY_LINES:], 0
        block.append(line)
        size += len(line.text) + 1
    if block:
        yield block


def _shape(line: Line, clean: str) -> tuple[Line, str, str]:
    names = [found[0] for found in PLACEHOLDER.finditer(clean) if found[0] not in line.text] or [KNOWN]
    if KNOWN in names:
        return line, KNOWN_RULE, ""
    before, _, after = clean.partition(names[0])
    secret = line.text[len(before) : len(line.text) - len(after)]
    return line, names[0].removeprefix("[REDACTED:").removesuffix("]"), _digest(secret)


def _digest(secret: str) -> str:
    return hashlib.sha1(secret.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


async def _by_detectors(patch: Path) -> list[Finding]:
    """What the detectors find; they run in a process of their own, which is given no variable and no network call to make."""
    with anyio.move_on_after(SEARCH_S), patch.open("rb") as file:
        ran = await anyio.run_process([sys.executable, "-I", "-m", WORKER], stdin=file, check=False, env={})
        if ran.returncode == 0:
            rows = cast("list[tuple[str, int, str, str]]", json.loads(ran.stdout))
            return [Finding(path, line, rule, rule in SURE, digest) for path, line, rule, digest in rows]
    raise PublishError(
        "the added lines could not be searched for credentials: they take too long or too much memory; nothing was pushed:"
        " leave large generated files out of the commits",
        reason="too_much_to_scan",
    )


async def _baseline(git: Git, git_dir: Path, base: str) -> frozenset[str]:
    """SHA-1 sums that the repository itself, before the session, declared to be no secrets (the file of `detect-secrets`)."""
    size = await git.run("cat-file", "-s", f"{base}:{BASELINE}", git_dir=git_dir, ok=(0, 128))
    if size.code != 0 or int(size.text) > MAX_BASELINE_BYTES:
        return frozenset()
    text = (await git.run("cat-file", "blob", f"{base}:{BASELINE}", git_dir=git_dir)).text
    return frozenset(re.findall(r'"hashed_secret": *"([0-9a-f]{40})"', text))


def _refusal(found: list[Finding]) -> PublishError:
    known = any(finding.rule == KNOWN_RULE for finding in found)
    way_on = (
        "nothing lets it through: take it out of every commit, and renew it if it was ever pushed"
        if known
        else "start again without it; if it is no real one, publish with --allow-secrets and the file's name"
    )
    return PublishError(f"the commits add a credential: {_listed(found)}; nothing was pushed: {way_on}", reason="secret_found")


def _listed(found: list[Finding]) -> str:
    places: dict[tuple[str, int], Finding] = {}
    for finding in found:
        places.setdefault((finding.path, finding.line), finding)
    several = [f"{finding.place} ({finding.rule})" for finding in places.values()]
    rest = f" and {len(several) - NAMED} more" if len(several) > NAMED else ""
    return ", ".join(several[:NAMED]) + rest
