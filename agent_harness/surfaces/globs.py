"""Globs over paths, read once: matched by us in linear time, and written out for programs with their own dialects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_harness.errors import ConfigError

ANY_FOLDERS = "**"


@dataclass(frozen=True, slots=True)
class Glob:
    """One glob without braces.

    Attributes:
        text: as it was written.
        parts: its components; `**` alone is any number of folders.
        folds: case does not matter, and paths are given case-folded.
    """

    text: str
    parts: tuple[str, ...]
    folds: bool = True
    _compiled: tuple[re.Pattern[str] | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        compiled = tuple(None if p == ANY_FOLDERS else re.compile(_regex(p, self.folds), re.DOTALL) for p in self.parts)
        object.__setattr__(self, "_compiled", compiled)

    @property
    def is_name(self) -> bool:
        """It has one component, which counts at any depth."""
        return len(self.parts) == 2 and self.parts[0] == ANY_FOLDERS

    @property
    def is_everything(self) -> bool:
        """It covers whatever a repository can hold at its root: nothing but stars, or a star with a `?` beside it."""
        named = [part for part in self.parts if part != ANY_FOLDERS]
        kinds = [kind for part in named for kind, _ in _tokens(part)]
        return len(named) <= 1 and kinds.count("one") <= 1 and set(kinds) <= {"star", "one"} and (not kinds or "star" in kinds)

    @property
    def regex(self) -> str:
        """Of the last component, for a case-folded name."""
        return _regex(self.parts[-1], folds=True)

    def covers(self, path: Sequence[str]) -> bool:
        """Whether a path, given as components (case-folded where case does not matter), is or lies below what matches."""
        states = self._after({0})
        for part in path:
            moved = {s if self._compiled[s] is None else s + 1 for s in states if _fits(self._compiled[s], part)}
            states = self._after(moved)
            if len(self.parts) in states:
                return True
        return False

    def _after(self, states: set[int]) -> set[int]:
        """The states reachable without reading a component: `**` may stand for none."""
        reached = set(states)
        for state in sorted(states):
            at = state
            while at < len(self.parts) and self._compiled[at] is None:
                at += 1
                reached.add(at)
        return reached

    def folded(self) -> str:
        """The glob for programs that mind case (git, ripgrep, fnmatch): `[eE][nN][vV]`; a leading slash unless it is a name."""
        if self.is_name:
            return _folded(self.parts[-1])
        return "/" + "/".join(p if p == ANY_FOLDERS else _folded(p) for p in self.parts)


def _fits(pattern: re.Pattern[str] | None, part: str) -> bool:
    return pattern is None or pattern.fullmatch(part) is not None


def parse_globs(text: str, *, folds: bool = True) -> list[Glob]:
    """A glob as one or, where it has braces, several; `folds` when case does not matter.

    Raises:
        ConfigError: empty, leading outside, or with an unclosed bracket.
    """
    return [_parse(text, each, folds) for each in _expand(text)]


def _parse(text: str, glob: str, folds: bool) -> Glob:
    parts = [p for p in glob.split("/") if p not in ("", ".")]
    while len(parts) > 1 and parts[-1] == ANY_FOLDERS:
        parts.pop()
    if not parts or ".." in parts or "\0" in glob:
        raise ConfigError(f'the glob "{text}" names nothing in the repository; write a name ("*.secret") or a path ("config/**")')
    if parts == [ANY_FOLDERS]:
        parts = ["*"]
    if "/" not in glob.rstrip("/"):
        parts = [ANY_FOLDERS, *parts]
    for kind, inside in (token for part in parts for token in _tokens(part)):
        if kind == "open" or (kind == "class" and not _ranges(inside.removeprefix("!"))):
            raise ConfigError(f'the glob "{text}" has a "[" that is not closed, or nothing in it; "[[]" is the character itself')
    return Glob(glob, tuple(parts), folds)


def _expand(text: str) -> list[str]:
    """Braces worked out, the innermost first; a brace without its partner, or without a comma, stands for itself."""
    done: list[str] = []
    todo = [text]
    while todo:
        glob = todo.pop()
        found = re.search(r"\{([^{}]*,[^{}]*)\}", glob)
        if found is None:
            done.append(glob)
        else:
            todo.extend(glob[: found.start()] + choice + glob[found.end() :] for choice in reversed(found[1].split(",")))
        if len(done) + len(todo) > 1_000:
            raise ConfigError(f'the glob "{text[:80]}" stands for more than 1,000; write several shorter ones')
    return done


def _tokens(part: str) -> list[tuple[str, str]]:
    """(kind, text): `char`, `star`, `one`, `class` (what is in brackets, a leading `!` for its opposite), `open` (unclosed)."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            if not tokens or tokens[-1][0] != "star":
                tokens.append(("star", ""))
        elif char == "?":
            tokens.append(("one", ""))
        elif char == "[":
            start = at + 1 if part[at : at + 1] in ("!", "^") else at
            end = part.find("]", start + 1)
            if end < 0:
                tokens.append(("open", ""))
            else:
                tokens.append(("class", ("!" if start > at else "") + part[start:end]))
                at = end + 1
        elif char == "\\" and at < len(part):
            tokens.append(("char", part[at]))
            at += 1
        else:
            tokens.append(("char", char))
    return tokens


def _regex(part: str, folds: bool) -> str:
    """For a name. After each star the next fixed piece is taken where it first fits and never tried again."""
    pieces: list[str] = [""]
    for kind, text in _tokens(part):
        if kind == "star":
            pieces.append("")
        elif kind == "one":
            pieces[-1] += "."
        elif kind == "class":
            pieces[-1] += _class_regex(text, folds)
        else:
            pieces[-1] += re.escape(text.casefold() if folds else text)
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}.*{pieces[-1]}"


def _class_regex(text: str, folds: bool) -> str:
    ranges = _ranges(text.removeprefix("!"), folds)
    inside = "".join(re.escape(a) if a == b else f"{re.escape(a)}-{re.escape(b)}" for a, b in ranges)
    return f"[^{inside}]" if text.startswith("!") else f"[{inside}]"


def _class_folded(text: str) -> str:
    """Brackets as every dialect reads them: `]` first, `-` last, neither `!` nor `^` first."""
    ranges = _ranges(text.removeprefix("!"))
    order = {"]": 0, "!": 2, "^": 2, "-": 3}
    ranges.sort(key=lambda r: (order.get(r[0], 1) if r[0] == r[1] else 1, r))
    inside = "".join(a if a == b else f"{a}-{b}" for a, b in ranges)
    if inside[0] in "!^" and not text.startswith("!"):
        return "\\" + inside if len(inside) == 1 else f"[{inside[1:]}{inside[0]}]"
    return f"[!{inside}]" if text.startswith("!") else f"[{inside}]"


def _ranges(text: str, folds: bool = True) -> list[tuple[str, str]]:
    """The inside of brackets as ranges, in both cases when it folds; one that runs backwards is none."""
    found = [(m[1], m[2] or m[1]) for m in re.finditer(r"\\?(.)(?:-\\?(.))?", text, re.DOTALL)]
    both = {(f(a), f(b)) for a, b in found for f in ((str, str.lower, str.upper) if folds else (str,))}
    return sorted((a, b) for a, b in both if len(a) == len(b) == 1 and a <= b)


def _folded(part: str) -> str:
    written: list[str] = []
    for kind, text in _tokens(part):
        if kind == "star":
            written.append("*")
        elif kind == "one":
            written.append("?")
        elif kind == "class":
            written.append(_class_folded(text))
        else:
            written.append(_literal(text))
    return "".join(written)


def _literal(char: str) -> str:
    cases = sorted({c for c in (char, char.lower(), char.upper()) if len(c) == 1})
    if len(cases) > 1:
        return f"[{''.join(cases)}]"
    return f"\\{char}" if char in "\\*?[]{}!#" or char.isspace() else char
