"""Pushes one commit to one new branch of any git remote, once, whatever is lost on the way.

It looks before it pushes, never forces, looks again after every answer that is not a clear yes (the push may have arrived and
only the answer been lost), and ends only when the remote itself shows the commit.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from agent_harness.errors import PublishError
from agent_harness.inert_git import Git, GitFailed, Transport
from agent_harness.progress import doing

WAITS_S = (1.0, 4.0)  # seconds before the second and the third attempt
ANY_CODE = range(-64, 256)
PUSH_TIMEOUT_S = 300.0

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One commit on its way.

    Attributes:
        git_dir: the harness's own repository that has it.
        transport: where it goes.
        branch: short name of the branch; it must not exist there yet, or be at one of `ours`.
        head: full id of the commit.
        bundle: where the same work lies as the sandbox gave it.
        ours: ids of commits that were pushed there before by the same session.
    """

    git_dir: Path
    transport: Transport
    branch: str
    head: str
    bundle: Path
    ours: frozenset[str] = frozenset()

    @property
    def ref(self) -> str:
        """The full ref that is pushed."""
        return f"refs/heads/{self.branch}"

    @property
    def by_hand(self) -> str:
        """The command that finishes the push with the person's own credentials."""
        words = ("git", f"--git-dir={self.git_dir}", "push", self.transport.safe_url, f"{self.head}:{self.ref}")
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a push failed: a stable word, what to do about it, and whether the same push may work in a moment."""

    reason: str
    advice: str
    retryable: bool = False


# Order matters: texts overlap, and a secret found by the forge must never be mistaken for a mere rule.
REFUSALS: tuple[tuple[str, Refusal], ...] = (
    (
        r"GITHUB PUSH PROTECTION|GH009|push protection",
        Refusal("secret", "the forge found a secret in a commit; do not use its unblock link: start a new session without it"),
    ),
    (
        r"GH013|repository rule violations",
        Refusal("ruleset", "a rule of the repository forbids it; ask an owner to let agent/* branches in"),
    ),
    (
        r"GH006|protected branch|pre-receive hook declined.*protected|not allowed to push code to protected",
        Refusal("protected_branch", "the branch is protected; ask an owner to leave agent/* unprotected"),
    ),
    (
        r"GH001|Large files detected|exceeds .*file size limit|file size limit",
        Refusal("blob_too_big", "a file is larger than the forge takes; leave it out of every commit"),
    ),
    (
        r"without [`']?workflows?[`']? (permission|scope)",
        Refusal("workflow", "the token may not change workflow files; give it that permission, or leave them alone"),
    ),
    (r"archived so it is read-only|is archived", Refusal("archived", "the repository is archived; unarchive it first")),
    (
        r"exists; cannot create|directory.file conflict",
        Refusal("branch_blocked", "a branch named like a part of ours stands in the way; rename it on the remote"),
    ),
    (r"shallow update not allowed", Refusal("shallow", "the history here is not whole; start again from a full clone")),
    (
        r"Host key verification failed",
        Refusal("host_key", "the server's key is not known to ssh; connect to it once by hand, then publish again"),
    ),
    (
        r"Permission denied \(|Permission to .* denied|error: 403|HTTP 403|access denied|not authori[sz]ed",
        Refusal("no_permission", "these credentials may not write there; give them write access to contents"),
    ),
    (
        r"could not read (Username|Password)|Authentication failed|Invalid username or token|error: 401|askpass response",
        Refusal(
            "credentials", "the remote wants other credentials; renew the token, or put one into the URL, then publish again"
        ),
    ),
    (
        r"not found|error: 404|does not appear to be a git repository|does not exist",
        Refusal("not_found", "there is no such repository, or these credentials may not see it; check the URL"),
    ),
    (
        r"detected dubious ownership",
        Refusal("ownership", "the remote folder belongs to somebody else; use one of your own, or a server"),
    ),
    (r"No space left|quota exceeded|unpack failed|unpacker error", Refusal("remote_full", "the remote could not store it")),
    (
        r"hook declined",
        Refusal("hook", "a hook of the remote refused it; its words are above"),
    ),
    (
        r"remote end hung up|early EOF|RPC failed|Could not resolve|Failed to connect|Connection (refused|reset|timed out)"
        r"|error: (429|5\d\d)|HTTP 5\d\d|timed out|Operation timed out|stale info|already exists|fetch first|non-fast-forward"
        r"|unexpected disconnect|Empty reply|Could not read from remote repository|SSL|gnutls|\(remote failure\)",
        Refusal("unreachable", "the remote did not answer clearly; publish again in a while", retryable=True),
    ),
)
UNKNOWN = Refusal("refused", "read what the remote said")


def classify(said: str) -> Refusal:
    """What a failed push's output means; `refused` when nothing is recognised."""
    for pattern, refusal in REFUSALS:
        if re.search(pattern, said, re.IGNORECASE):
            return refusal
    return UNKNOWN


async def push_branch(
    git: Git, delivery: Delivery, before: Callable[[], object], after: Callable[[str, str], object], pause: Pause = anyio.sleep
) -> None:
    """Bring the commit to its branch, or find it there.

    Args:
        git: the runner.
        delivery: what goes where.
        before: called right before the first attempt to write; what is to be recorded is on disk when it returns.
        after: called with the step's name and a detail: `pushed`, or `already_pushed` when nothing was written.
        pause: waits that many seconds between attempts.

    Raises:
        PublishError: refused, taken by another commit, or not reachable; says what to do, where the work lies, and the command.
    """
    begun = False
    for wait_s in (*WAITS_S, None):
        try:
            there = await _look(git, delivery)
            if there is None or await _is_behind(git, delivery, there):
                if not begun:
                    before()
                    begun = True
                await _push(git, delivery, there or "")
                there = await _look(git, delivery)
        except _Failed as failure:
            there = await _look_again(git, delivery) if failure.wrote else None
            if there is None or there in delivery.ours - {delivery.head}:
                if failure.refusal.retryable and wait_s is not None:
                    await pause(wait_s)
                    continue
                raise _error(delivery, failure.refusal, failure.said) from failure
        if there == delivery.head:
            step = "pushed" if begun else "already_pushed"
            after(step, f"{delivery.ref} at {delivery.head} on {delivery.transport.safe_url}")
            return
        raise _other(delivery, there)


def _other(delivery: Delivery, there: str | None) -> PublishError:
    if there is None:
        refusal = Refusal("vanished", "something removes new branches there; ask whoever runs it")
        return _error(delivery, refusal, "the remote took the push, yet the branch is not there")
    if there in delivery.ours:
        refusal = Refusal("rewound", "nothing is overwritten; delete the branch there, then publish again")
        return _error(delivery, refusal, f"the work no longer builds on {there}, which this session pushed before")
    refusal = Refusal("branch_taken", "nothing is overwritten; delete or rename that branch there, or start a new session")
    return _error(delivery, refusal, f"{delivery.branch!r} already exists there at another commit, {there}")


class _Failed(Exception):
    """One attempt failed; `wrote` when it may have changed the remote all the same."""

    def __init__(self, refusal: Refusal, said: str, *, wrote: bool) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal
        self.said = said
        self.wrote = wrote


async def _look(git: Git, delivery: Delivery) -> str | None:
    try:
        found = await git.ls_remote(delivery.transport, delivery.ref)
    except GitFailed as failure:
        refusal = classify("timed out" if failure.timed_out else failure.stderr)
        raise _Failed(refusal, failure.stderr or str(failure), wrote=False) from failure
    return found.refs.get(delivery.ref)


async def _look_again(git: Git, delivery: Delivery) -> str | None:
    try:
        return await _look(git, delivery)
    except _Failed:
        return None


async def _is_behind(git: Git, delivery: Delivery, there: str) -> bool:
    """The branch is where this session left it, and the commit comes after that: nothing of anybody is lost by moving it."""
    if there == delivery.head or there not in delivery.ours:
        return False
    asked = ("merge-base", "--is-ancestor", there, delivery.head)
    return (await git.run(*asked, git_dir=delivery.git_dir, ok=(0, 1, 128))).code == 0


async def _push(git: Git, delivery: Delivery, there: str) -> None:
    # An empty lease means "must not exist": the server refuses when somebody else was faster.
    try:
        with doing(f"pushing {delivery.branch} to {delivery.transport.safe_url}") as step:
            result = await git.run(
                *("push", "--porcelain", "--atomic", "--no-verify", f"--force-with-lease={delivery.ref}:{there}", "--"),
                *(delivery.transport.safe_url, f"{delivery.head}:{delivery.ref}"),
                git_dir=delivery.git_dir,
                transport=delivery.transport,
                timeout_s=PUSH_TIMEOUT_S,
                ok=ANY_CODE,
                step=step,
            )
    except GitFailed as failure:
        raise _Failed(classify("timed out"), str(failure), wrote=True) from failure
    if result.code != 0:
        said = f"{result.stderr}\n{result.text}"
        raise _Failed(classify(said), said, wrote=True)


def _error(delivery: Delivery, refusal: Refusal, said: str) -> PublishError:
    return PublishError(
        f"pushing {delivery.branch!r} to {delivery.transport.safe_url!r} failed ({refusal.reason}): {_gist(said)};"
        f" {refusal.advice}. The work is kept in {str(delivery.bundle)!r}; to push it by hand: {delivery.by_hand}",
        reason=f"push_{refusal.reason}",
        retryable=refusal.retryable,
    )


def _gist(said: str) -> str:
    """The lines that say why, on one line: what the server said first, then git's own last words."""
    lines = [" ".join(line.split()) for line in said.splitlines()]
    telling = [line for line in lines if line.startswith(("remote:", "fatal:", "error:", "!")) and line != "remote:"]
    chosen = telling or [line for line in lines if line][-3:]
    return " / ".join(chosen)[:800] or "it said nothing"
