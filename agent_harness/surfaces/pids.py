"""A ceiling for the number of processes in one sandbox, by a pids cgroup where one can be made.

For everybody but root the kernel keeps `RLIMIT_NPROC`, which the exec server sets; root it lets through, in a user namespace as
well. A control group binds root too. Without either the exec server's own count is what is left.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST = 1024  # processes and threads in one sandbox; a parallel build of a large project stays far below
PREFIX = "agent-harness-"
MOUNTS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
# The shell becomes the program after it has entered, so that nothing of the sandbox is ever outside.
ENTER = 'echo 0 > "$1" 2>/dev/null; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class PidsGroup:
    """One control group of ours."""

    folder: Path

    def entering(self, argv: Sequence[str]) -> list[str]:
        """The command line with which that program starts inside."""
        return ["/bin/sh", "-c", ENTER, "sh", str(self.folder / "cgroup.procs"), *argv]

    def remove(self) -> None:
        """Give it back; its processes have to be gone. One that is left is removed by a later session."""
        with suppress(OSError):
            self.folder.rmdir()


def make_group(most: int) -> PidsGroup | None:
    """A new group which lets at most that many processes and threads be; None where none can be made, or none is needed.

    Entering one takes the kernel some 15 ms, so nobody pays for it whom it binds anyway.
    """
    if os.geteuid() != 0:
        return None
    for parent in places(MOUNTS, MEMBERSHIP):
        sweep(parent)
        folder = parent / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / "pids.max").write_text(f"{most}\n", encoding="ascii")
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            continue
        return PidsGroup(folder)
    return None


def places(mounts: Path, membership: Path) -> list[Path]:
    """Folders of this process's groups that hand the `pids` controller on to a group below and may be written."""
    found: list[Path] = []
    try:
        lines = membership.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        inside = path.lstrip("/")
        if "pids" in controllers.split(","):  # version 1: a tree of its own
            found += [mounts / "pids" / inside, mounts / "pids"]
        elif not controllers:  # version 2: a group with processes hands nothing on, so a sibling of ours is what is left
            found += [place for place in ((mounts / inside), (mounts / inside).parent) if _hands_on(place)]
    return [place for place in dict.fromkeys(found) if place.is_dir() and os.access(place, os.W_OK)]


def _hands_on(folder: Path) -> bool:
    try:
        return "pids" in (folder / "cgroup.subtree_control").read_text("ascii", "replace").split()
    except OSError:
        return False


def sweep(parent: Path) -> None:
    """Remove groups of sessions that were killed; one with a process in it refuses.

    A session that lives may have made its group a moment ago and not entered it yet: its groups stay.
    """
    for left in parent.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if Path("/proc", owner).exists():
            continue
        with suppress(OSError):
            left.rmdir()
