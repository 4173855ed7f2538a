"""What the git tool lets through: listed options for each sub-command, and nothing that runs a program or leaves the worktree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.paths import Denied, normalise, not_readable, shown

# A name that ends in "=" takes a value after the sign; "#" stands for digits. Exact spellings only: git would accept
# abbreviations, which could smuggle in an option that is not listed.
DIFF = (
    "-p -u --patch --stat --stat= --shortstat --numstat --summary --name-only --name-status --no-patch -s -w -b -R -M -C -a"
    " --cached --staged --ignore-all-space --ignore-space-change --ignore-blank-lines --word-diff --word-diff=porcelain"
    " --word-diff=plain --diff-filter= --find-renames --find-copies --no-renames --minimal --patience --histogram --text --raw"
    " --function-context -W -U# --unified= --exit-code --quiet --merge-base --check"
)
SHOW = "--oneline --format= --pretty --pretty= --abbrev-commit --no-abbrev-commit --decorate --no-decorate --date= --parents"
LOG = (
    "-# --max-count= --skip= --since= --until= --after= --before= --author= --committer= --grep= -i --all --branches --graph"
    " --reverse --first-parent --merges --no-merges --topo-order --date-order --follow"
    " -S= -G= -n# --left-right --cherry-pick --show-pulls"
)
ALLOWED: dict[str, str] = {
    "status": "-s --short -b --branch --porcelain --porcelain=v1 --porcelain=v2 -u -uno -unormal -uall --untracked-files"
    " --untracked-files= --ignored --ignored= -z --long --show-stash --ahead-behind --renames --no-renames",
    "diff": DIFF,
    "show": f"{DIFF} {SHOW}",
    "log": f"{DIFF} {SHOW} {LOG}",
}
PUSH = ("-u", "--set-upstream", "-q", "--quiet", "-v", "--verbose", "--porcelain", "--progress", "--no-progress")
COMMIT_FLAGS = ("-a", "-A", "--all", "-q", "--quiet", "-v", "--no-edit")
PATCHING = re.compile(r"-[puSGWs]|--(?:patch|stat|shortstat|numstat|name-|raw|word-diff|unified|summary|check)")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A checked `status`, `diff`, `log` or `show`.

    Attributes:
        options: each as one word or, where it takes a value, two.
        words: what stands before `--`: revisions, or paths; which they are depends on what exists.
        paths: what stands after `--`, normalised.
    """

    command: str
    options: list[str]
    words: list[str]
    paths: list[str]

    @property
    def shows_changes(self) -> bool:
        """Content or names of changed files will be printed, so that denied ones must be left out."""
        if any(":" in word for word in self.words) or "--follow" in self.options:
            return False
        return self.command != "log" or any(PATCHING.match(option) for option in self.options)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A checked `commit`: the paragraphs of its message, and the paths to stage; none = everything."""

    message: list[str]
    paths: list[str]


def read_request(command: str, args: list[str], denied: Denied) -> ReadRequest:
    """Check the arguments of a sub-command that only reads.

    Raises:
        ToolFailed: an option that is not listed, or a path that is outside or may not be read.
    """
    allowed = ALLOWED[command].split()
    options: list[str] = []
    words: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("-"):
            options += _option(command, allowed, word, rest)
        else:
            words.append(_word(word, denied))
    paths = [readable(path, denied) for path in rest]
    if "--follow" in options and len(paths) + len(words) != 1:
        raise ToolFailed("`git log --follow` takes exactly one path.")
    return ReadRequest(command, options, words, paths)


def _option(command: str, allowed: list[str], word: str, rest: list[str]) -> list[str]:
    """The option as git gets it; a value that stands in the next word is taken from `rest`."""
    name, sign, _ = word.partition("=")
    numeric = re.fullmatch(r"(-[nU]?)\d+", word)
    if word in allowed or (sign and f"{name}=" in allowed) or (numeric and f"{numeric[1]}#" in allowed):
        return [word]
    takes_value = f"{word}=" in allowed or f"{word}#" in allowed
    if takes_value and word != "-" and rest:
        return [f"{word}={rest.pop(0)}"] if word.startswith("--") else [word + rest.pop(0)]
    if word[:2] in ("-S", "-G") and f"{word[:2]}=" in allowed and len(word) > 2:
        return [word]
    if re.fullmatch(r"-[A-Za-z]{2,}", word) and all(f"-{letter}" in allowed for letter in word[1:]):
        return [word]
    listed = " ".join(name.replace("#", "N") for name in allowed)
    raise ToolFailed(f"`git {command}` with {shown(word)} is not offered here. Options: {listed}")


def _word(word: str, denied: Denied) -> str:
    """A revision, a range, `REV:path` or a path; none of them may name a denied file or lead outside."""
    path = word.rpartition(":")[2]
    if word.startswith("/") or path.startswith("/") or ".." in path.split("/"):
        raise ToolFailed(f"{shown(word)} is outside the repository.")
    if path and denied(normalise(path, field="args")):
        raise not_readable(word)
    return word


def readable(path: str, denied: Denied) -> str:
    """A path from `args`, normalised.

    Raises:
        ToolFailed: outside, or denied.
    """
    clean = normalise(path, field="args")
    if denied(clean):
        raise not_readable(path)
    return clean


def commit_request(args: list[str], denied: Denied) -> CommitRequest:
    """Check the arguments of `commit`.

    Raises:
        ToolFailed: no message, an option that is not offered, or a path that is outside or denied.
    """
    message: list[str] = []
    paths: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, sign, value = word.partition("=")
        if word == "--":
            paths += rest
            break
        if word in ("-m", "-am", "--message"):
            if not rest:
                raise ToolFailed(f"`git commit {word}` lacks its message.")
            message.append(rest.pop(0))
        elif name == "--message" and sign:
            message.append(value)
        elif word.startswith("-m"):
            message.append(word[2:])
        elif word.startswith("-") and word not in COMMIT_FLAGS:
            raise ToolFailed(
                f"`git commit` with {shown(word)} is not offered here: it takes -m MESSAGE and paths, and stages them itself."
            )
        elif not word.startswith("-"):
            paths.append(word)
    if not any(text.strip() for text in message):
        raise ToolFailed('`git commit` needs a message: args ["-m", "what and why", "path", ...].')
    clean = [readable(path, denied) for path in paths]
    return CommitRequest(message, [] if "." in clean else clean)


def check_push(args: list[str], own: str, current: str | None) -> None:
    """Let a push through only when it means the session's own branch and nothing else.

    Args:
        args: what follows `push`.
        own: `agent/<id>`.
        current: the checked-out branch, None when HEAD is detached.

    Raises:
        ToolFailed: it targets, or could target, anything else.
    """
    words: list[str] = []
    for word in args:
        if not word.startswith("-") or word == "--":
            words += [word] if word != "--" else []
        elif word not in PUSH:
            raise _push_refused(word, own)
    remote, refspecs = (words or ["origin"])[0], words[1:]
    if remote != "origin":
        raise _push_refused(remote, own)
    for refspec in refspecs or ["HEAD"]:
        source, colon, target = refspec.partition(":")
        target = target if colon else source
        if _branch(source, current) != own or _branch(target, current) != own:
            raise _push_refused(refspec if refspecs else f"the branch {current or '(detached HEAD)'}", own)


def _branch(ref: str, current: str | None) -> str | None:
    return current if ref in ("HEAD", "@") else ref.removeprefix("refs/heads/")


def _push_refused(what: str, own: str) -> ToolFailed:
    return ToolFailed(
        f"Pushing {shown(what)} is refused: only the session's own branch {shown(own)} leaves here, without force, and the "
        "harness pushes it when the session succeeds. Commit your work; people merge the pull request."
    )
