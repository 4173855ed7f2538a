"""What is wanted, and within which limits: the whole input of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one session. None means that nobody set one.

    Attributes:
        max_turns: model replies with tools, counted from 1.
        max_tokens: session tokens: input (cached included) plus output over every request.
        max_cost_usd: US dollars over every request.
        max_completion_tokens: output tokens of one request.
        max_seconds: wall time of the whole session, in seconds.
        compact_at: session tokens after which the history is compacted.
    """

    max_turns: int = 50
    max_tokens: int = 200_000
    max_cost_usd: Decimal | None = Decimal("5.00")
    max_completion_tokens: int = 4_000
    max_seconds: float | None = None
    compact_at: int = 150_000


@dataclass(frozen=True, slots=True)
class Permits:
    """What the person lets a session change. Nothing in a repository or from a model ever adds to it.

    Attributes:
        scope: globs of the only paths that may change; none = every path.
        workflows: files that a forge runs as soon as they are pushed.
        submodules: pointers at commits of other repositories, and `.gitmodules`.
        secrets: globs of files in which what looks like a credential is reported instead of refused.
    """

    scope: tuple[str, ...] = ()
    workflows: bool = False
    submodules: bool = False
    secrets: tuple[str, ...] = ()

    def __or__(self, more: Permits) -> Permits:
        """What either lets through. Without a scope of its own `more` does not open this one's."""
        return Permits(
            (*self.scope, *more.scope) if self.scope else (),
            self.workflows or more.workflows,
            self.submodules or more.submodules,
            (*self.secrets, *more.secrets),
        )


@dataclass(frozen=True, slots=True)
class IssueLink:
    """The issue that a task came from: its number in the worked-on repository, who wrote it, and its web page."""

    number: int
    author: str
    url: str


@dataclass(frozen=True, slots=True)
class Wishes:
    """How the work should be presented.

    Attributes:
        draft: open the pull request as a draft.
        labels: names of labels for it.
        reviewers: who is asked to review it: logins, and `owner/team` for teams.
        co_authors: `Name <mail>` of whoever is named in a trailer of the harness's commit.
    """

    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One delegated piece of work.

    Attributes:
        repo: where it came from as the person wrote it, credentials removed: a path, a git URL, `owner/name#N`.
        text: what to do, in the words of the person or of the issue.
        base: the branch to start from and to propose to.
        base_commit: full id of the commit that `base` pointed to at the start.
        default_branch: the repository's default branch, which nobody may push to.
        issue: the issue that the task came from, if any.
        deny: extra globs that no tool may read or write.
        wishes: how the pull request and the harness's commit should look.
        instructions: what the person wants of every task, in their words; empty when they said nothing.
        permits: what may be changed.
    """

    repo: str
    text: str
    base: str
    base_commit: str
    default_branch: str
    issue: IssueLink | None = None
    deny: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    instructions: str = ""
    wishes: Wishes = field(default_factory=Wishes)
    permits: Permits = field(default_factory=Permits)

    @property
    def prompt(self) -> str:
        """What the person says to the model: the task, and what holds for every task of theirs."""
        if not self.instructions:
            return self.text
        return f"{self.text}\n\nMy instructions for every task:\n{self.instructions}"
