"""Which work in a person's checkout is not committed, and so is no part of a session on a clone of its HEAD."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import HarnessError
from agent_harness.inert_git import Git
from agent_harness.surfaces.checkout import find_checkout
from agent_harness.surfaces.paths import decode, shown
from agent_harness.surfaces.private_repo import PrivateRepository

NAMED = 5  # files that a note names; the rest is counted
UNKNOWN = "what is not committed is not part of this session"


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """Paths relative to the checkout's root: tracked ones that differ from the commit, and files that git does not know."""

    changed: tuple[bytes, ...]
    untracked: tuple[bytes, ...]

    @property
    def note(self) -> str:
        """One line for the person; empty when everything is committed."""
        paths = [*self.changed, *self.untracked]
        if not paths:
            return ""
        kinds = (("changed", self.changed), ("untracked", self.untracked))
        counts = [f"{len(some):,} {kind}" for kind, some in kinds if some]
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        names = ", ".join(shown(decode(path)) for path in paths[:NAMED])
        return (
            f"not committed, so not part of this session: {names}{more} ({', '.join(counts)}); "
            "commit them first, or work on the files in place with --surface host"
        )


async def find_uncommitted(git: Git, scratch: Path, path: Path) -> Uncommitted:
    """Compare a checkout's files and index with its HEAD, by a repository of our own beside it.

    git sees a copy of the index and none of the person's configuration: no hook, filter or file system monitor runs, and
    nothing of theirs is written. A file that only a filter makes differ may be among the changed ones.

    Args:
        git: the inert runner.
        scratch: where that repository is made.
        path: the checkout's top folder.

    Raises:
        HarnessError: it cannot be told.
    """
    checkout = find_checkout(path)
    listed = await git.run("config", "--get-all", "extensions.objectformat", git_dir=checkout.git_dir, ok=(0, 1))
    head = (await git.run("rev-parse", "--verify", "HEAD^{commit}", git_dir=checkout.git_dir)).text
    private = PrivateRepository(git, scratch / "look.git", checkout)
    try:
        await private.create({"extensions.objectformat": (listed.text or "sha1",)})
        changed, untracked = await private.differences(head)
    except (OSError, KeyError) as error:
        raise HarnessError(f"the files of {str(path)!r} cannot be compared with its HEAD: {error}") from error
    return Uncommitted(tuple(sorted(changed)), tuple(sorted(untracked)))


async def note_of(git: Git, scratch: Path, path: Path) -> str:
    """The note, also when nothing can be told in particular; never a reason to stop."""
    try:
        return (await find_uncommitted(git, scratch, path)).note
    except HarnessError as error:
        return f"{UNKNOWN} ({error})"
