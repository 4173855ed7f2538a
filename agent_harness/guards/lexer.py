"""Finds where quotes, substitutions and heredocs of shell text end, and cuts heredoc bodies out.

The grammar loses commands behind some heredocs (`cat <<E; cmd`), so bodies are taken out before it sees the text and a plain
redirection stands in their place. `parse` checks that the grammar meets each of them as one: two readers must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent_harness.guards.marks import STORED
from agent_harness.guards.unanalysed import Unanalysed

_CODE = re.compile(r"[\\'\"`$#<()\n]|(?<![\w./=-])(?:case|esac)(?![\w./=-])")
_PARENTHESIS = re.compile(r"[()]")
_DOUBLE = re.compile(r"[\"\\$`]")
_PARAMETER = re.compile(r"[}'\"\\$`]")
_DELIMITER = re.compile(r"(?:\\.|'[^']*'|\"[^\"]*\"|[^\s;&|<>()'\"\\])+", re.DOTALL)
_BEFORE_COMMAND = re.compile(r"(?:^|[;&|({\n`]|\b(?:do|then|else))[ \t]*$")
_LINE_ESCAPE = re.compile(r"\n[ \t]*(?=\\[A-Za-z])")
MAX_DEPTH = 40
MAX_TOKENS = 60_000


@dataclass(frozen=True, slots=True)
class Heredoc:
    """The text of one heredoc, or the source of the word of one here-string.

    Attributes:
        text: the body, or the word as written.
        quoted: nothing in the body is expanded.
        word: it is a here-string.
    """

    text: str
    quoted: bool
    word: bool = False


@dataclass(slots=True)
class Scanner:
    """Walks over shell text from construct to construct.

    Attributes:
        text: the source.
        escapes: where a line of code begins with a backslash before a letter, which changes nothing but aliases.
        store: where cut heredocs go, by their stand-in name; None when heredocs are not looked for.
    """

    text: str
    store: dict[str, Heredoc] | None = None
    escapes: list[int] = field(default_factory=list[int])
    _pending: list[tuple[str, str, bool, bool]] = field(default_factory=list[tuple[str, str, bool, bool]])
    _out: list[str] = field(default_factory=list[str])
    _copied: int = 0
    _named: int = 0
    _depth: int = 0
    _tokens: int = 0

    def cut(self) -> str:
        """The text with every heredoc replaced; its bodies are in `store`.

        Raises:
            Unanalysed: something is not closed.
        """
        self.code(0, "")
        if self._pending:
            raise Unanalysed("a heredoc has no line that ends it", "end it, or write the text with edit_file")
        self._out.append(self.text[self._copied :])
        return "".join(self._out)

    def code(self, at: int, close: str) -> int:
        """The index behind the `close` that ends code which begins at `at` (the end of the text for an empty one)."""
        self._enter()
        depth = cases = 0
        text = self.text
        while match := _CODE.search(text, at):
            self._count()
            at, char = match.start(), match.group()
            if char == ")":
                if depth == 0 and close == ")" and not cases:
                    self._depth -= 1
                    return at + 1
                depth = max(depth - 1, 0)
                at += 1
            elif char == "`" and close == "`":
                self._depth -= 1
                return at + 1
            elif char == "(":
                end = self._arithmetic(at) if text.startswith("((", at) else None
                depth += end is None
                at = end or at + 1
            elif char in ("case", "esac"):
                if char == "esac" or _BEFORE_COMMAND.search(text, max(0, at - 40), at):
                    cases = max(cases + (1 if char == "case" else -1), 0)
                at += 4
            else:
                at = self._step(at, char)
        self._depth -= 1
        if close:
            raise Unanalysed(f"a substitution is not closed by {close!r}")
        return len(text)

    def _step(self, at: int, char: str) -> int:
        text = self.text
        match char:
            case "\n":
                if found := _LINE_ESCAPE.match(text, at):
                    self.escapes.append(found.end())
                return self._bodies(at + 1) if self._pending else at + 1
            case "#":
                if at and text[at - 1] not in " \t\n;&|()":
                    return at + 1
                end = text.find("\n", at)
                return len(text) if end < 0 else end
            case "<":
                if text.startswith("<<<", at):
                    return at + 3 if self.store is None else self._here_string(at)
                if text.startswith("<<", at) and self.store is not None:
                    return self._operator(at)
                return at + 1
            case _:
                return self.construct(at)

    def construct(self, at: int) -> int:
        """The index behind the quote, escape or expansion at `at`."""
        text = self.text
        match text[at]:
            case "\\":
                return at + 2
            case "'":
                return self._find("'", at + 1)
            case '"':
                return self.double(at + 1)
            case "`":
                return self._backticks(at + 1)
            case _:
                return self.dollar(at)

    def dollar(self, at: int) -> int:
        """The index behind the expansion whose `$` is at `at`; just behind the `$` for a plain name."""
        text = self.text
        if text.startswith("$((", at) and (end := self._arithmetic(at + 1)):
            return end
        if text.startswith("$(", at):
            return self.code(at + 2, ")")
        if text.startswith("${", at):
            return self._parameter(at + 2)
        if text.startswith("$'", at):
            return self._ansi(at + 2)
        return at + 1

    def double(self, at: int) -> int:
        """The index behind the double quote that ends text beginning at `at`."""
        self._enter()
        while match := _DOUBLE.search(self.text, at):
            self._count()
            at = match.start()
            if match.group() == '"':
                self._depth -= 1
                return at + 1
            # A single quote is no quote in here, and neither is `$'`.
            at = at + 1 if self.text.startswith("$'", at) or self.text.startswith('$"', at) else self.construct(at)
        raise Unanalysed("a double quote is not closed")

    def _parameter(self, at: int) -> int:
        self._enter()
        while match := _PARAMETER.search(self.text, at):
            self._count()
            at = match.start()
            if match.group() == "}":
                self._depth -= 1
                return at + 1
            at = self.construct(at)
        raise Unanalysed("`${` is not closed")

    def _ansi(self, at: int) -> int:
        return self._escaped("'", at)

    def _backticks(self, at: int) -> int:
        return self._escaped("`", at)

    def _escaped(self, char: str, at: int) -> int:
        """The index behind the next `char` that no backslash escapes."""
        while True:
            end = self._find(char, at)
            back = end - 2
            while back >= at and self.text[back] == "\\":
                back -= 1
            if (end - 2 - back) % 2 == 0:
                return end
            at = end
            self._count()

    def _arithmetic(self, at: int) -> int | None:
        """The index behind the `))` of an arithmetic `((`; None when it is two subshells."""
        depth = 0
        for match in _PARENTHESIS.finditer(self.text, at):
            self._count()
            depth += 1 if match.group() == "(" else -1
            if depth == 0:
                end = match.end()
                return end if self.text[end - 2] == ")" else None
        return None

    def _operator(self, at: int) -> int:
        text = self.text
        strip = text.startswith("<<-", at)
        start = at + (3 if strip else 2)
        while start < len(text) and text[start] in " \t":
            start += 1
        match = _DELIMITER.match(text, start)
        if match is None:
            raise Unanalysed("a heredoc has no delimiter")
        word = match.group()
        bare = re.sub(r"\\(.)|['\"]", lambda found: found.group(1) or "", word)
        assert self.store is not None
        name = self._stand_in(at, match.end())
        self._pending.append((name, bare, bare != word, strip))
        return match.end()

    def _here_string(self, at: int) -> int:
        text = self.text
        start = end = len(text) - len(text[at + 3 :].lstrip(" \t"))
        while end < len(text) and text[end] not in " \t\n;&|<>()":
            end = self.construct(end) if text[end] in "\\'\"`$" else end + 1
        if end == start:
            raise Unanalysed("a here-string has no text")
        name = self._stand_in(at, min(end, len(text)))
        assert self.store is not None
        self.store[name] = Heredoc(text[start:end], quoted=False, word=True)
        return min(end, len(text))

    def _stand_in(self, start: int, end: int) -> str:
        name = f"{STORED}{self._named}{STORED}"
        self._named += 1
        self._out += [self.text[self._copied : start], f"<{name} "]
        self._copied = end
        return name

    def _bodies(self, at: int) -> int:
        """Take the bodies that begin behind a line break out of the text."""
        text = self.text
        self._out.append(text[self._copied : at])
        assert self.store is not None
        for name, delimiter, quoted, strip in self._pending:
            lines: list[str] = []
            while True:
                if at >= len(text):
                    raise Unanalysed("a heredoc has no line that ends it", "end it, or write the text with edit_file")
                end = text.find("\n", at)
                line = text[at:] if end < 0 else text[at:end]
                at = len(text) if end < 0 else end + 1
                if strip:
                    line = line.lstrip("\t")
                if line == delimiter:
                    break
                lines.append(line + "\n")
            self.store[name] = Heredoc("".join(lines), quoted)
        self._pending.clear()
        self._copied = at
        # The line break before the bodies was copied, so the code goes on behind them.
        return at

    def _find(self, char: str, at: int) -> int:
        end = self.text.find(char, at)
        if end < 0:
            raise Unanalysed(f"a quote {char} is not closed")
        return end + 1

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unanalysed(f"it is nested deeper than {MAX_DEPTH} levels")

    def _count(self) -> None:
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise Unanalysed("it has too many quotes and substitutions to be analysed", "write the text with edit_file")
