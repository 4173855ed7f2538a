"""What is known while a shell line is evaluated: one small value, copied where the line may go two ways."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_harness.guards.marks import HOLE

if TYPE_CHECKING:
    from agent_harness.guards.parse import Body

Value = str | tuple[str, ...]
MAX_TEXT = 65_536  # characters of output that are followed; more is unknown


@dataclass(slots=True)
class State:
    """The shell at one point of one possible run.

    Attributes:
        cwd: absolute, None when unknown.
        oldcwd: what `cd -` means, None when unknown.
        variables: every variable that is set; text may hold marks, a tuple is an array.
        exported: names that a child process sees.
        arg0: `$0`.
        args: `$1` and on.
        functions: defined so far.
        aliases: defined so far.
        files: absolute path -> text that this line wrote there.
        links: absolute path -> target of a symbolic link that this line made.
        programs: absolute path or name -> the program that this line put behind it.
        folders: stack of pushd.
        branch: checked-out branch; None detached; a HOLE when unknown.
        config: git configuration set by this line, lower-cased keys.
        foreign_config: git may read configuration that nobody has seen.
        repositories: folders that this line made repositories of their own.
        out: standard output so far.
        stdin: what is left to read.
        status: whether the last command succeeded, None when unknown.
        flow: `exit`, `return`, `break` or `continue` when what follows is not run.
        traps: code that runs when the shell ends.
        options: `errexit`, `dotglob`, `allexport`.
        mounts: inside a container: (folder in it, folder of the host); None outside of containers.
    """

    cwd: str | None
    variables: dict[str, Value]
    exported: frozenset[str]
    oldcwd: str | None = None
    arg0: str = "bash"
    args: tuple[str, ...] = ()
    functions: dict[str, Body] = field(default_factory=dict[str, "Body"])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    links: dict[str, str] = field(default_factory=dict[str, str])
    programs: dict[str, str] = field(default_factory=dict[str, str])
    folders: tuple[str | None, ...] = ()
    branch: str | None = None
    config: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    foreign_config: bool = False
    repositories: frozenset[str] = frozenset()
    out: str = ""
    stdin: str = HOLE
    status: bool | None = True
    flow: str = ""
    traps: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    mounts: tuple[tuple[str, str], ...] | None = None

    def copy(self) -> State:
        """A state that can go its own way."""
        return dataclasses.replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
            files=dict(self.files),
            links=dict(self.links),
            programs=dict(self.programs),
            config=dict(self.config),
        )

    def say(self, text: str) -> None:
        """Add to the output; unknown output that follows unknown output is one."""
        if text == HOLE and self.out.endswith(HOLE):
            return
        self.out = self.out + text if len(self.out) + len(text) <= MAX_TEXT else HOLE

    def done(self, status: bool | None) -> State:
        """This state after a command that ended with `status`."""
        self.status = status
        return self

    def adopt(self, other: State) -> None:
        """Take over what a subshell leaves behind outside of itself: files, links, git's state."""
        self.files, self.links, self.programs = other.files, other.links, other.programs
        self.repositories = other.repositories
        self.branch, self.config, self.foreign_config = other.branch, other.config, other.foreign_config

    def get(self, name: str) -> str | None:
        """The value as one text, None when the variable is not set."""
        value = self.variables.get(name)
        if isinstance(value, tuple):
            return value[0] if value else ""
        return value

    def set(self, name: str, value: Value) -> None:
        """Assign."""
        self.variables[name] = value
        if "allexport" in self.options:
            self.exported |= {name}

    def child(self) -> State:
        """The state in which a new process starts: exported variables only, nothing said yet."""
        inner = self.copy()
        inner.variables = {name: value for name, value in self.variables.items() if name in self.exported}
        inner.out, inner.flow, inner.status, inner.traps, inner.options = "", "", True, (), frozenset()
        return inner


def distinct(states: Iterable[State], limit: int = 12) -> list[State]:
    """The states without doubles; more than `limit` become one in which whatever differs is unknown."""
    found: list[State] = []
    for state in states:
        if not any(state == other for other in found):
            found.append(state)
    if len(found) <= limit:
        return found
    first = found[0]
    for other in found[1:]:
        blur(first, other)
    return [first]


def _blur_values(values: MutableMapping[str, Value] | MutableMapping[str, str], others: Mapping[str, Value]) -> None:
    for name in {*values, *others}:
        if values.get(name) != others.get(name):
            values[name] = HOLE


def blur(state: State, other: State) -> None:
    """Make everything unknown in `state` that is different in `other`."""
    _blur_values(state.variables, other.variables)
    _blur_values(state.files, other.files)
    state.exported |= other.exported
    if state.cwd != other.cwd:
        state.cwd = None
    if state.oldcwd != other.oldcwd:
        state.oldcwd = None
    if state.folders != other.folders:
        state.folders = ()
    if state.args != other.args:
        state.args = tuple(HOLE for _ in range(max(len(state.args), len(other.args))))
    if state.branch != other.branch:
        state.branch = HOLE
    if state.config != other.config or other.foreign_config:
        state.foreign_config = True
    state.links |= other.links
    state.repositories |= other.repositories
    state.programs |= other.programs
    state.functions |= other.functions
    state.aliases |= other.aliases
    state.traps += tuple(trap for trap in other.traps if trap not in state.traps)
    state.options &= other.options
    if state.out != other.out:
        state.out = HOLE
    if state.stdin != other.stdin:
        state.stdin = HOLE
    state.status, state.flow = None, ""
