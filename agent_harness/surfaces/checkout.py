"""A person's checkout: where it and its repository lie, and the hold on it that keeps two sessions apart."""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Checkout:
    """Real paths, links resolved once.

    Attributes:
        root: the working folder.
        git_dir: its own git directory: HEAD and the index are there.
        common_dir: the repository's; another one than `git_dir` in a linked worktree.
    """

    root: Path
    git_dir: Path
    common_dir: Path


def find_checkout(path: Path) -> Checkout:
    """The checkout whose top folder that is.

    Raises:
        ConfigError: it is none, or its `.git` leads nowhere.
    """
    root = path.resolve()
    pointer = root / ".git"
    if pointer.is_symlink():
        raise ConfigError(f"{str(pointer)!r} is a link, which a command could replace; use --surface local")
    git_dir = pointer.resolve()
    if pointer.is_file():
        said = pointer.read_bytes()[:4_096].strip()
        if not said.startswith(b"gitdir: "):
            raise ConfigError(f"{str(pointer)!r} is no git directory and names none; is {str(root)!r} a git checkout?")
        git_dir = (root / os.fsdecode(said.removeprefix(b"gitdir: "))).resolve()
    if not (git_dir / "HEAD").exists():
        raise ConfigError(f"{str(root)!r} is no git checkout ({str(git_dir)!r} has no HEAD); give its top folder")
    try:
        common = (git_dir / os.fsdecode((git_dir / "commondir").read_bytes().strip())).resolve()
    except OSError:
        common = git_dir
    for folder in (git_dir, common):
        if folder.is_relative_to(root) and not folder.is_relative_to(pointer):
            raise ConfigError(f"the repository {str(folder)!r} lies among the files of {str(root)!r}; use --surface local")
    return Checkout(root, git_dir, common)


class HoldTaken(ConfigError):
    """Somebody else works in the checkout; the text goes on from the name of who does."""


class Hold:
    """A lock on the folder itself: nothing is made on the disk, and it ends with the process that has it."""

    def __init__(self, root: Path, doing: str) -> None:
        """Take it.

        Args:
            root: the checkout.
            doing: what is about to be done there, for the message.

        Raises:
            HoldTaken: somebody else has it.
        """
        self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return  # a file system without locks: then nothing keeps two sessions apart
            self.release()
            raise HoldTaken(
                f"works in {str(root)!r}, so {doing} has to wait for its end; --surface local works on a clone beside it"
            ) from error

    def release(self) -> None:
        """Give it back. Twice does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
