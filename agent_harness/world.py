"""What a guard may look at while it judges: names and configuration, never anything that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GitFacts:
    """The git state that decides where a push would go.

    Attributes:
        branch: the checked-out branch, None when HEAD is detached.
        own_branch: the session's branch (`agent/<id>`), which it may push.
        default_branch: the repository's default branch.
        remotes: remote name -> URL.
        config: lower-cased configuration key -> its values in order.
        local_branches: short names.
        symrefs: full ref -> full ref that it points to.
    """

    branch: str | None
    own_branch: str
    default_branch: str
    remotes: Mapping[str, str] = field(default_factory=dict[str, str])
    config: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    local_branches: Sequence[str] = ()
    symrefs: Mapping[str, str] = field(default_factory=dict[str, str])


class World(Protocol):
    """The place a command would run in. All paths are absolute and as the command would see them."""

    @property
    def worktree(self) -> str:
        """The only folder in which anything may be deleted."""
        ...

    @property
    def cwd(self) -> str:
        """Where the command starts."""
        ...

    @property
    def home(self) -> str:
        """What `~` means."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Every variable that is set, and nothing else."""
        ...

    def git(self) -> GitFacts:
        """The repository's state."""
        ...

    def realpath(self, path: str) -> str:
        """The path with every link resolved, the last one included; parts that do not exist stay as they are."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a symbolic link."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether the path is a folder (links followed)."""
        ...

    def glob(self, pattern: str) -> Sequence[str]:
        """Absolute paths that match an absolute shell pattern, at most 1,000; hidden names only where the pattern says so."""
        ...

    def read_text(self, path: str) -> str | None:
        """The text of a small file (at most 64 KiB) in the worktree, None when there is none."""
        ...
