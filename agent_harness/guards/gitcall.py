"""Reads a git command line: options in front of the subcommand, configuration set by it, where it would work."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_harness.guards.machine import Invocation, Machine
from agent_harness.guards.marks import GONE, HOLE, UNKNOWN, unknown
from agent_harness.guards.state import State
from agent_harness.guards.targets import absolute, inside

_TAKES_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")
)
_PRINTS = frozenset(("--exec-path", "--html-path", "--man-path", "--info-path", "--version", "-v", "--help", "-h"))
# Keys whose value is a program that git starts.
PROGRAM_KEY = re.compile(
    r"core\.(pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|sequence\.editor|pager\..*|diff\.external|diff\..*\.(textconv|command)"
    r"|filter\..*\.(clean|smudge|process)|credential\.(.*\.)?helper|gpg\.(.*\.)?program|.*tool\..*\.cmd|merge\..*\.driver"
    r"|uploadpack\.packobjectshook|remote\..*\.(receivepack|uploadpack)"
)
PROGRAM_VARIABLES = (
    "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS",
    "PAGER", "EDITOR", "VISUAL",
)  # fmt: skip


@dataclass(slots=True)
class GitCall:
    """One git command line.

    Attributes:
        sub: the subcommand; empty when git itself only prints.
        args: words after it.
        state: as in the invocation, in the folder where git would work.
        leading: the words between `git` and the subcommand.
        worktree: the work tree, None when it cannot be known.
        ours: it works on the session's own repository, so that what is known of it counts.
        config: set by `-c` or by variables, lower-cased keys.
        foreign_config: configuration that nobody has seen may be read.
        other_programs: git's own programs are taken from elsewhere.
    """

    sub: str
    args: list[str]
    state: State
    leading: list[str]
    worktree: str | None
    ours: bool
    config: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    foreign_config: bool = False
    other_programs: bool = False

    def values(self, machine: Machine, key: str) -> Sequence[str]:
        """The values of a configuration key as git would see them."""
        for source in (self.config, self.state.config):
            if key in source:
                return source[key]
        return machine.git().config.get(key, ()) if self.ours else ()


def read_git(machine: Machine, inv: Invocation) -> GitCall | None:
    """The git call; None when nothing but options is there."""
    words = [word for word in inv.argv if word == "" or word.strip(GONE)]
    state = inv.state.copy()
    git_dir, tree = inv.getenv("GIT_DIR"), inv.getenv("GIT_WORK_TREE")
    call = GitCall("", [], state, [], None, ours=True)
    _from_environment(call, inv)
    if inv.name.startswith("git-"):
        words = ["git", inv.name[4:], *words[1:]]
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if word in _PRINTS:
            return None
        if name in _TAKES_VALUE and not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if name == "--git-dir":
            git_dir = value
        elif name == "--work-tree":
            tree = value
        else:
            _global_option(call, name, value)
    call.leading = words[1:at]
    if at >= len(words):
        return None
    call.sub, call.args = words[at], words[at + 1 :]
    if tree is None and (setting := call.config.get("core.worktree") or state.config.get("core.worktree")):
        tree = setting[-1]
    call.worktree, call.ours = _place(machine, state, git_dir, tree)
    return call


def _global_option(call: GitCall, name: str, value: str) -> None:
    match name:
        case "-C":
            call.state.cwd = None if unknown(value) else absolute(value, call.state)
        case "-c":
            key, equals, setting = value.partition("=")
            put(call.config, key, setting if equals else "true")
            call.foreign_config |= key.lower().startswith("include") or unknown(key)
        case "--config-env":
            put(call.config, value.partition("=")[0], HOLE)
        case "--exec-path":
            call.other_programs = True
        case _:
            pass


def put(config: dict[str, tuple[str, ...]], key: str, value: str, *, add: bool = False) -> None:
    """Set a configuration key; keys do not depend on case."""
    low = key.lower()
    config[low] = (*config.get(low, ()), value) if add else (value,)


def _from_environment(call: GitCall, inv: Invocation) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG"):
        value = inv.getenv(name)
        call.foreign_config |= value not in (None, "", "/dev/null")
    call.other_programs = inv.getenv("GIT_EXEC_PATH") is not None
    count = inv.getenv("GIT_CONFIG_COUNT")
    if count is None:
        return
    if not re.fullmatch(r"\d{1,2}", count):
        call.foreign_config = True
        return
    for number in range(int(count)):
        key, value = inv.getenv(f"GIT_CONFIG_KEY_{number}"), inv.getenv(f"GIT_CONFIG_VALUE_{number}")
        if key is None or unknown(key):
            call.foreign_config = True
        else:
            put(call.config, key, value if value is not None else HOLE)


def _place(machine: Machine, state: State, git_dir: str | None, tree: str | None) -> tuple[str | None, bool]:
    """The work tree and whether it is the session's own repository."""
    world = machine.world
    here = state.cwd
    if tree is not None:
        place = None if unknown(tree) else absolute(tree, state)
    elif here is None or UNKNOWN.search(here):
        place = None
    elif inside(world, world.realpath(here)):
        place = here if _nested_repository(machine, state, here) else world.worktree
    else:
        place = here
    ours = place == world.worktree or (here is not None and place is not None and inside(world, here) and inside(world, place))
    if ours and here is not None and _nested_repository(machine, state, here):
        ours = False
    if git_dir is not None:
        own = posixpath.join(world.worktree, ".git")
        ours = not unknown(git_dir) and absolute(git_dir, state) == own
    return place, ours


def _nested_repository(machine: Machine, state: State, here: str) -> bool:
    """Whether a folder below the worktree belongs to a repository of its own."""
    root = machine.world.worktree
    while here.startswith(root + "/"):
        if here in state.repositories or machine.world.is_dir(here + "/.git") or machine.world.glob(here + "/.git"):
            return True
        here = posixpath.dirname(here)
    return False


def alias_words(text: str) -> list[str] | None:
    """The words of an alias that is no shell code; None when it cannot be split."""
    try:
        return shlex.split(text)
    except ValueError:
        return None
