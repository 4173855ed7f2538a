"""Repositories that came about inside the worktree (`git init`, `git clone`, `cargo new`): git keeps no files of them."""

from __future__ import annotations

from contextlib import suppress

import anyio

from agent_harness.errors import SurfaceError
from agent_harness.surfaces.base import Surface
from agent_harness.surfaces.paths import decode, shown

LIST = ("git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--others", "--exclude-standard")
LIST_S = 5  # seconds: also asked while a session is being closed, which must not wait for a sandbox that hardly answers
NAMED = 5


async def find_nested(surface: Surface) -> list[str]:
    """Folders of the worktree that are repositories of their own and neither ignored nor known submodules.

    One run of git over what is not tracked. Empty as well where nobody commits, and when the sandbox cannot be asked any more.
    """
    can = surface.capabilities
    if not (can.exec and can.git and can.commits):
        return []
    listing = bytearray()

    def keep(data: bytes) -> None:
        listing.extend(data)

    names: list[bytes] = []
    with suppress(SurfaceError), anyio.move_on_after(LIST_S):
        ended = await surface.exec(LIST, timeout_s=LIST_S, on_output=keep)
        names = bytes(listing).split(b"\0") if ended.exit_code == 0 else []
    return [decode(name.removesuffix(b"/")) for name in names if name.endswith(b"/")]


def for_the_model(nested: list[str]) -> str:
    """What it is told, once, when it says that it is done."""
    return (
        f"Not done yet: {_listed(nested)} is a git repository of its own, so none of its files would be part of your work. "
        "If they belong to it, remove the `.git` in that folder; if not, delete the folder or leave it. Then finish."
    )


def for_the_person(nested: list[str]) -> str:
    """What is recorded when one is still there at the end."""
    return (
        f"{_listed(nested)} is a git repository of its own and is left out of the work; to have its files, say in the task that "
        "no repository is to be made there"
    )


def _listed(nested: list[str]) -> str:
    more = f" and {len(nested) - NAMED} more" if len(nested) > NAMED else ""
    return ", ".join(shown(name) for name in nested[:NAMED]) + more
