"""What the parts of the evaluator agree on: findings, the command at hand, and the machine that runs code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent_harness.guards.lexer import Heredoc
from agent_harness.guards.marks import strip_nothing
from agent_harness.guards.state import State
from agent_harness.guards.unanalysed import Unanalysed as Unanalysed
from agent_harness.world import GitFacts, World


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a command is refused.

    Attributes:
        rule: stable id, such as `rm.outside`.
        reason: what it would do.
        instead: what to do instead.
        words: the offending words, as evaluated.
        target: the path or ref that they resolve to, when known.
    """

    rule: str
    reason: str
    instead: str = ""
    words: tuple[str, ...] = ()
    target: str = ""


class Blocked(Exception):
    """A rule refuses the line."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.reason)
        self.finding = finding


@dataclass(frozen=True, slots=True)
class Redirection:
    """One redirection with its evaluated target."""

    descriptor: str
    operator: str
    target: str


@dataclass(slots=True)
class Invocation:
    """One command about to run.

    Attributes:
        argv: evaluated words, marks included; never empty.
        state: the shell around it; owned by whoever is given the invocation.
        env: variables that only this command sees.
        redirects: its redirections, in order.
    """

    argv: list[str]
    state: State
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    redirects: Sequence[Redirection] = ()

    @property
    def name(self) -> str:
        """The program's name without folder, in lower case: a file system may ignore case."""
        return strip_nothing(self.argv[0]).rpartition("/")[2].removesuffix(".exe").lower()

    @property
    def args(self) -> list[str]:
        """The words after the name."""
        return self.argv[1:]

    def getenv(self, name: str) -> str | None:
        """A variable as the command would see it in its environment."""
        if name in self.env:
            return self.env[name]
        return self.state.get(name) if name in self.state.exported else None

    def nested(self, argv: list[str], env: Mapping[str, str] | None = None) -> Invocation:
        """The command that this one runs."""
        return Invocation(argv, self.state, self.env if env is None else env, self.redirects)


class Machine(Protocol):
    """Runs code on states. Raises `Blocked` and `Unanalysed`."""

    world: World
    dialect: str
    """What is being judged: `rm`, `push`, or empty when commands are only listed."""

    def tick(self, steps: int = 1) -> None:
        """Count work; raises `Unanalysed` when the budget is used up."""
        ...

    def block(self, finding: Finding) -> None:
        """Refuse the line; when commands are only listed, note that they are not decidable."""
        ...

    def git(self) -> GitFacts:
        """The repository's state."""
        ...

    def run_code(self, code: str, state: State) -> list[State]:
        """Run shell text in this very shell."""
        ...

    def run_child(self, code: str, inv: Invocation, args: Sequence[str] = (), arg0: str = "sh") -> list[State]:
        """Run shell text in a new shell process; what it leaves behind outside of itself stays."""
        ...

    def dispatch(self, inv: Invocation) -> list[State]:
        """Run one command."""
        ...

    def capture(self, code: str, state: State) -> str:
        """What shell text would print, in a subshell of that state."""
        ...

    def document(self, name: str) -> Heredoc | None:
        """The heredoc or here-string that a stand-in redirection means."""
        ...

    def read_file(self, path: str, state: State) -> str:
        """The text of a file as far as this line wrote it, else a HOLE."""
        ...

    def fields(self, text: str, state: State) -> list[str]:
        """The words that shell source text of words expands to."""
        ...


Handler = Callable[[Machine, Invocation], "list[State] | None"]
