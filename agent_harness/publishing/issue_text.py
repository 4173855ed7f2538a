"""An issue as a task: what its page shows, and what those who may write to the repository added below it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_harness.github_settings import Repository

# GitHub's words for authors who may write; anybody may comment on a public repository's issue.
WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
MAX_COMMENT_CHARS = 30_000  # of all comments together: about 7,500 tokens

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
OPEN_COMMENT = re.compile(r"^ {0,3}<!--.*\Z", re.DOTALL | re.MULTILINE)  # at a line's start it hides all that follows
DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]*\]:[ \t]*(?:<>|#)?[ \t]*(?:\"[^\n]*\"|'[^\n]*'|\([^\n]*\))[ \t]*$", re.MULTILINE)
# Zero-width and reordering marks, fillers, soft hyphens, selectors and the tag characters: they carry text that nobody sees.
UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Comment:
    """What one person said below an issue; untrusted text."""

    author: str
    body: str


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue as its author wrote it; untrusted text. `url` is its web page, `comments` those of people who may write."""

    title: str
    body: str
    author: str
    url: str
    comments: tuple[Comment, ...] = ()


def task_of(issue: Issue, repository: Repository, number: int, words: str) -> str:
    """The issue as a task, below what the person said of it; what its page does not show is left out."""
    title = " ".join(visible(issue.title).split())
    parts = [title, visible(issue.body).strip(), *_comments(issue)]
    text = "\n\n".join(part for part in parts if part)
    return f"{words.strip()}\n\nIssue {repository.full_name}#{number}: {text}" if words.strip() else text


def visible(text: str) -> str:
    """What a reader of the page sees: no HTML comment, no definition that is one, no character without a shape."""
    shown = CONTROL.sub("", UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    # Taking characters and comments out may put the pieces of another comment together.
    while (less := COMMENT.sub("", shown)) != shown or (less := OPEN_COMMENT.sub("", shown)) != shown:
        shown = less
    return DEFINITION.sub("", shown)


def _comments(issue: Issue) -> list[str]:
    """The newest comments that fit, quoted, so that none of them can pass for another's."""
    shown: list[str] = []
    room, said = MAX_COMMENT_CHARS, [(each.author, visible(each.body).strip()) for each in issue.comments]
    said = [(author, body) for author, body in said if body]
    for author, body in reversed(said):
        room -= len(body)
        if room < 0:
            break
        lines = "\n".join(f"> {line}".rstrip() for line in body.split("\n"))
        shown.append(f"Comment by {author!r}, who may write to the repository:\n\n{lines}")
    left_out = len(said) - len(shown)
    note = [f"({left_out} earlier comments are left out.)"] if left_out else []
    return note + shown[::-1]
