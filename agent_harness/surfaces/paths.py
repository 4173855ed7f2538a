"""Which paths may be named, and which files nobody may open: the one lexical check and the one list of denied names.

Nothing here touches a disk. The lexical check comes first everywhere, so that a path outside is refused as outside and never
reported as missing; the same list of denied names is offered as a predicate and in the dialects of git, ripgrep and grep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.globs import Glob, parse_globs

SKIPPED = ("node_modules", "dist", "build", ".next", ".venv")
"""Folders left out of search and listing by default even when they are not ignored; the answer says so."""

DENIED = (
    ".git",
    ".env",
    ".env.*",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_ed25519*",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".ssh",
    ".aws",
)
"""Names that no tool opens, at any depth and in any case, whether they are a file or a folder on the way."""

NOT_DENIED = (".env.example", ".env.sample", ".env.template")
"""What `DENIED` would match but is there to be read. An extra glob of the person still denies them."""


def encode(path: str) -> bytes:
    """The path as the kernel takes it: UTF-8, with the bytes that were no UTF-8 put back.

    Raises:
        UnicodeEncodeError: it has a lone surrogate that stands for no byte.
    """
    return path.encode("utf-8", "surrogateescape")


def decode(path: bytes) -> str:
    """A path of the kernel as text; bytes that are no UTF-8 become lone surrogates, which `encode` turns back."""
    return path.decode("utf-8", "surrogateescape")


def shown(path: str) -> str:
    """The path as it stands in a message: in quotes, on one line, printable, at most 200 characters."""
    text = path if len(path) <= 200 else path[:120] + "..." + path[-77:]
    return '"' + "".join(c if c.isprintable() else _escaped(c) for c in text) + '"'


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def outside(path: str) -> ToolFailed:
    """The refusal of a path that is spelled to lie outside."""
    return ToolFailed(f"{shown(path)} is outside the repository.")


def not_readable(path: str) -> ToolFailed:
    """The refusal of a denied file, also of one that is reached through a link, and whether or not it exists."""
    return ToolFailed(f"{shown(path)} is not readable by this agent.")


def missing(path: str) -> ToolFailed:
    """The refusal of a path inside that is not there."""
    return ToolFailed(f"{shown(path)} does not exist.")


def links_outside(path: str) -> ToolFailed:
    """The refusal of a path inside that a link leads out of."""
    return ToolFailed(f"{shown(path)} links outside the readable area.")


def normalise(path: str, *, root: str = "", field: str = "path") -> str:
    """The one spelling of a path relative to the worktree: no `.`, `..`, doubled or trailing slash; `.` is the root itself.

    `..` is taken lexically, before any link is looked at.

    Args:
        path: as the model spelled it.
        root: absolute path of the worktree as the model sees it, so that an absolute path below it gets its relative spelling.
        field: the argument's name, for the message.

    Raises:
        ToolFailed: empty, not encodable, absolute, or outside.
    """
    if not path:
        raise ToolFailed(f'`{field}` is empty; give a path relative to the repository ("." is its root).')
    if "\0" in path:
        raise ToolFailed(f"{shown(path)} contains a NUL byte, which no file name can; check `{field}`.")
    try:
        path = decode(encode(path))
    except UnicodeEncodeError:
        raise ToolFailed(f"{shown(path)} contains a lone surrogate, which no file name can; check `{field}`.") from None
    if path.startswith("/"):
        raise _absolute(path, root)
    parts = _parts(path)
    if parts is None:
        raise outside(path)
    return "/".join(parts) or "."


def _absolute(path: str, root: str) -> ToolFailed:
    base, parts = _parts(root), _parts(path.lstrip("/"))
    if not root or not base or parts is None or parts[: len(base)] != base:
        return outside(path)
    return ToolFailed(f"{shown(path)} is an absolute path; use {shown('/'.join(parts[len(base) :]) or '.')}.")


def _parts(path: str) -> list[str] | None:
    """The components after `.` and `..` are worked out; None when `..` leads above the start."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


class Denied:
    """The denied files of one session: the fixed list and the person's extra globs.

    An extra glob without a slash matches a name at any depth; one with a slash starts at the worktree's root; `**` stands for
    any number of folders, `{a,b}` for either. What lies below a denied folder is denied too. Case never matters.
    """

    def __init__(self, globs: Sequence[str] = ()) -> None:
        """Take the person's globs.

        Raises:
            ConfigError: a glob is empty, leads outside, or can't be read.
        """
        self.globs = tuple(globs)
        own = [glob for text in globs for glob in parse_globs(text)]
        fixed = [glob for text in DENIED for glob in parse_globs(text)]
        self._names = _any(g.regex for g in fixed)
        self._excepted = _any(re.escape(name) for name in NOT_DENIED)
        self._own_names = _any(g.regex for g in own if g.is_name)
        self._own_paths = [g for g in own if not g.is_name]
        self._fixed, self._own = fixed, own

    def __call__(self, relative_path: str) -> bool:
        """Whether this path, as `normalise` spells it, is or lies below a denied name."""
        parts = relative_path.casefold().split("/")
        return any(map(self._name, parts)) or any(glob.covers(parts) for glob in self._own_paths)

    def _name(self, name: str) -> bool:
        if self._names(name) and not self._excepted(name):
            return True
        return bool(self._own_names(name))

    def gitignore(self) -> list[str]:
        """Lines for git's `info/exclude`. A `.gitignore` in the repository can still re-include: ask the predicate as well."""
        excepted = ["!" + g.folded() for text in NOT_DENIED for g in parse_globs(text)]
        return [g.folded() for g in self._fixed] + excepted + [g.folded() for g in self._own]

    def ripgrep(self) -> list[str]:
        """Values for ripgrep's `-g`, all of them exclusions; they count from the folder ripgrep starts in: the root."""
        return ["!" + g.folded() for g in self._without_exceptions()]

    def grep(self) -> list[str]:
        """Options of `grep -r`. It knows names only: globs with a slash are not among them, so filter what it prints as well."""
        names = [g.folded() for g in self._without_exceptions() if g.is_name]
        return [f"--exclude={n}" for n in names] + [f"--exclude-dir={n}" for n in names]

    def _without_exceptions(self) -> Iterable[Glob]:
        for glob in self._fixed:
            if glob.text == ".env.*":
                suffixes = [name.removeprefix(".env.") for name in NOT_DENIED]
                yield from (g for text in all_but(suffixes) for g in parse_globs(".env." + text))
            else:
                yield glob
        yield from self._own


def _any(patterns: Iterable[str]) -> Callable[[str], object]:
    joined = "|".join(patterns)
    return re.compile(f"(?:{joined})" if joined else r"(?!)", re.DOTALL).fullmatch


def all_but(words: Sequence[str]) -> list[str]:
    """Globs that together match every name except these words: ripgrep and grep can't take a match back.

    They walk the words letter by letter: a name differs from all of them where it leaves their tree, stops early or goes on.
    """
    globs: list[str] = []
    for prefix in sorted({word[:i] for word in words for i in range(len(word) + 1)}):
        follow = sorted({word[len(prefix)] for word in words if word.startswith(prefix) and word != prefix})
        if follow:
            globs.append(f"{prefix}[!{''.join(follow)}]*")
        elif prefix in words:
            globs.append(f"{prefix}?*")
        if prefix not in words:
            globs.append(prefix)
    return globs
