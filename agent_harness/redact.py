"""Keeps credentials out of everything that is recorded, shown or sent: exact known secrets first, then credential shapes.

Linear in the text. Every shape begins with a literal; a token's literal must not stand inside a longer word, so that a run of
letters is scanned from one place only, and a shape is not tried at all on text that lacks its literal. A token is replaced up to
the end of its word: what is left can never look like the beginning of another one, so redacting twice changes nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from agent_harness.events import JsonValue

PLACEHOLDER = re.compile(r"\[REDACTED:[^\]\n]{1,80}\]")
"""What stands in the place of a secret, for those who must not write it anywhere."""

KNOWN = "[REDACTED:known-secret]"
MIN_SECRET_CHARS = 8  # shorter values ("true", "8080") occur everywhere and protect nothing
MIN_LINE_CHARS = 24  # of one line of a secret of several lines, to be a secret by itself
HELD_BACK_CHARS = 16_384  # of a stream that may still become a secret
BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of credential looks.

    Attributes:
        trigger: a literal without which the pattern cannot match.
        pattern: what is looked for; it has no group, or one, around what stands before the secret and stays.
        placeholder: what stands there instead.
        reach: characters from the trigger to the secret, when there may be blanks between them; 0 when there are none.
    """

    trigger: str
    pattern: re.Pattern[str]
    placeholder: str
    reach: int = 0

    def clean(self, text: str) -> str:
        """The text with what looks like this replaced."""
        # Splitting is several times faster than substitution where a group is kept.
        parts = self.pattern.split(text)
        if not self.pattern.groups:
            return self.placeholder.join(parts)
        found = len(parts) // 2
        out = [self.placeholder] * (3 * found + 1)
        out[0::3], out[1::3] = parts[0::2], parts[1::2]
        return "".join(out)


def _begins(prefix: str) -> str:
    r"""The literal prefix where a word begins: after no word character, or after an escape (`\n`, `\u003d`, `%3D`, a colour)."""
    literal = re.escape(prefix)
    escapes = (
        rf"(?<=\\[abfnrtv0]{literal})",
        rf"(?<=\\u00[0-9A-Fa-f]{{2}}{literal})",
        rf"(?<=%[0-9A-Fa-f]{{2}}{literal})",
        rf"(?<=\[[0-9]m{literal})",
        rf"(?<=[\[;][0-9]{{2}}m{literal})",
    )
    # Whether the two characters before can end an escape is asked first: that is what a long run of prefixes costs.
    escaped = rf"(?<=[\\%\[;0-9A-Fa-f][0-9A-Fa-fmnrtv]{literal})(?:{'|'.join(escapes)})"
    return rf"{literal}(?:(?<![A-Za-z0-9_\-]{literal})|{escaped})"


def _token(kind: str, prefix: str, body: str) -> Shape:
    """A literal prefix where a word begins, a body, and the rest of the word."""
    return Shape(prefix, re.compile(rf"{_begins(prefix)}(?:{body})[A-Za-z0-9_\-]*+"), f"[REDACTED:{kind}]")


def _github(prefix: str) -> Shape:
    """Behind other words ("token_ghp_...", but not "highs_and_lows") only the classic form counts: 36 letters and digits."""
    pattern = rf"(?:{prefix}[A-Za-z0-9]{{36}}|{_begins(prefix)}[A-Za-z0-9_.\-]{{16,}}+)[A-Za-z0-9_.\-]*+"
    return Shape(prefix, re.compile(pattern), "[REDACTED:github-token]")


def _named(kind: str, trigger: str, before: str, secret: str, reach: int = 0) -> Shape:
    """A secret that is known by what stands before it, which stays."""
    return Shape(trigger, re.compile(f"({before})(?:{secret})"), f"[REDACTED:{kind}]", reach)


# Words with dashes (`sk-loading-indicator-container-2`) are no keys: those have ten letters and digits in a row, with a digit.
_RANDOM = r"(?=(?:[A-Za-z0-9]*+[_\-]++){0,40}?(?=[A-Za-z]*+[0-9])[A-Za-z0-9]{10})"
# Neither prose nor a variable's name is a credential: it has a digit, a capital after a small letter, or no end.
_MIXED = r"(?=[A-Za-z._~+/\-]{0,200}+[0-9]|[A-Z]*+[a-z]++[A-Z]|[a-z]{16})"
_DIGIT = r"(?=[A-Za-z]{0,100}+[0-9])"
_SCHEME = r"(?i:bearer|basic|token)"
_QUOTE = r"(?:\\{0,3}['\"])?"  # also as it stands inside a string of JSON
_IS = rf"{_QUOTE}[ \t]{{0,4}}[:=,][ \t]{{0,4}}b?{_QUOTE}"
_BEGIN = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
# The lines of a key as they stand in a file, in strings, in a diff or behind line numbers. Code that names one soon has a `_`.
_BODY = r"(?:[A-Za-z0-9+/=\s\\\"',:.]|-(?!----))"
_ENCODED = r"(?=(?:[A-Za-z0-9+/]*+(?:[=\s\\\"',:.]|-(?!----))){0,30}?[A-Za-z0-9+/]{32})"
_BODY_CHARS = HELD_BACK_CHARS // 2

_PRIVATE_KEY = _named("private-key", "-----BEGIN ", _BEGIN, f"{_ENCODED}{_BODY}{{40,{_BODY_CHARS}}}+")
_OPEN_KEY = re.compile(rf"-----BEGIN [A-Z ]{{0,60}}+(?:-{{0,4}}+|-----{_BODY}{{0,{_BODY_CHARS}}}+-{{0,4}}+)\Z")

# The prefixes are the providers' own, as their documentation gives them. GitHub's installation tokens have held dots, dashes and
# underscores since 2026, so their bodies are open-ended.
SHAPES: tuple[Shape, ...] = (
    *(_github(f"gh{letter}_") for letter in "pousr"),
    _token("github-token", "github_pat_", r"[A-Za-z0-9_]{20,}+"),
    _token("gitlab-token", "glpat-", r"[A-Za-z0-9_.\-]{16,}+"),
    _token("api-key", "sk-", rf"{_RANDOM}[A-Za-z0-9_\-]{{20,}}+"),
    _token("langfuse-key", "pk-lf-", r"[0-9a-f\-]{30,}+"),
    _token("langfuse-key", "lf_", rf"{_DIGIT}[A-Za-z0-9]{{20,}}+"),
    _token("e2b-key", "e2b_", rf"{_DIGIT}[A-Za-z0-9]{{20,}}+"),
    _token("slack-token", "xox", r"[abcdeprs]-[A-Za-z0-9\-]{10,}+"),
    _token("aws-key-id", "AKIA", r"[0-9A-Z]{16}(?![0-9A-Za-z_\-])"),
    _token("aws-key-id", "ASIA", r"[0-9A-Z]{16}(?![0-9A-Za-z_\-])"),
    _token("google-key", "AIza", r"[0-9A-Za-z_\-]{35}(?![0-9A-Za-z_\-])"),
    _token("npm-token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9_\-])"),
    _token("huggingface-token", "hf_", r"[A-Za-z0-9]{30,}+"),
    _token("jwt", "eyJ", r"[A-Za-z0-9_\-]{8,}+\.eyJ[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+"),
    _PRIVATE_KEY,
    # The user's name goes too: some forges take the token there.
    Shape(
        "://", re.compile(r"://[^\s/?#@:'\"<>\[\]{}]{0,200}+:[^\s/?#'\"<>\[\]{}]{1,400}(?=@)"), "://[REDACTED:url-credentials]"
    ),
    *(
        _named(
            "authorization",
            name,
            rf"{name}{_IS}{_SCHEME}[ \t]{{1,4}}",
            rf"{_MIXED}[A-Za-z0-9._~+/\-]{{8,4000}}+=*+",
            reach=48,
        )
        for name in ("uthorization", "UTHORIZATION")
    ),
    *(
        _named("aws-secret", name, f"{name}{_IS}", r"[A-Za-z0-9/+=]{40}(?![A-Za-z0-9/+=_\-])", reach=48)
        for name in ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey")
    ),
)
_REACHING = tuple((shape.trigger, shape.reach) for shape in SHAPES if shape.reach)
_OURS = "|".join(re.escape(each) for each in dict.fromkeys((KNOWN, *(shape.placeholder for shape in SHAPES))))


class Redactor:
    """Replaces secrets in text by a placeholder, in linear time.

    Args:
        secrets: exact values that must never appear (raw; the redactor makes their encoded forms itself).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets for spelling in _spellings(secret.strip())}
        self.longest_first = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        present = [secret for secret in self.longest_first if secret in text]
        if present:
            # Placeholders are stepped over: a secret may be a word of one, or begin with its bracket.
            known = re.compile(f"({_OURS})|{'|'.join(map(re.escape, present))}")
            text = known.sub(lambda match: match[1] or KNOWN, text)
        for shape in SHAPES:
            if shape.trigger in text:
                text = shape.clean(text)
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """The JSON value with every string in it, keys included, redacted; keys that become equal are numbered."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            clean: dict[str, JsonValue] = {}
            for key, each in value.items():
                name = self.text(key)
                clean[name if name not in clean else f"{name} ({len(clean) + 1})"] = self.value(each)
            return clean
        return value

    def stream(self) -> StreamRedactor:
        """A redactor for text that arrives in pieces."""
        return StreamRedactor(self)


def _spellings(secret: str) -> set[str]:
    """How a secret may be written: raw, quoted in a URL or in JSON, base64 of itself and of the pair that git sends."""
    if len(secret) < MIN_SECRET_CHARS:
        return set()
    # A value of the environment that is no UTF-8 has surrogates for its bytes.
    raw = secret.encode("utf-8", "surrogateescape")
    found = {secret, quote(raw, safe=""), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    for plain in (raw, b"x-access-token:" + raw):
        encoded = base64.b64encode(plain).decode()
        found |= {encoded, encoded.rstrip("=")}
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:  # a private key is shown line by line too, numbered or as a diff
        found |= {line for line in lines if len(line) >= MIN_LINE_CHARS and not line.startswith("-----")}
    return found


class StreamRedactor:
    """Redacts text that arrives in pieces; the pieces that come out make the same text as redacting the whole.

    What could still become a secret is held back: the unfinished word, and what stands before it when a secret with blanks in it
    may have begun. At most about `HELD_BACK_CHARS` (or the longest known secret, if that is longer) are held; only a secret
    longer than half of that could be torn.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._limit = max([HELD_BACK_CHARS, *(2 * len(secret) for secret in redactor.longest_first)])
        # A secret with blanks is recognised by its first word.
        split = [(secret, min(secret.find(blank) % (len(secret) + 1) for blank in BLANKS)) for secret in redactor.longest_first]
        self._reaching = (*_REACHING, *((secret[:end], len(secret)) for secret, end in split if end < len(secret)))

    def feed(self, text: str) -> str:
        """Take the next piece; returns what may be shown now."""
        self._held += text
        cut = self._safe_cut(self._word_start(len(self._held)))
        if cut == 0 and len(self._held) > self._limit:
            cut = self._forced_cut()
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._redactor.text(ready) if ready else ""

    def finish(self) -> str:
        """The text is complete; returns what was held back, redacted."""
        ready, self._held = self._held, ""
        return self._redactor.text(ready)

    def _safe_cut(self, cut: int) -> int:
        """The place after a blank, moved to the front of every secret with blanks that may have begun before it."""
        held, before = self._held, -1
        while cut != before:
            before = cut
            begun = held.rfind("-----BEGIN ", 0, cut)
            if begun >= 0:
                key = _PRIVATE_KEY.pattern.match(held, begun)
                if (key and key.end() > cut) or _OPEN_KEY.match(held, begun):
                    cut = self._word_start(begun)
            for opener, reach in self._reaching:
                begun = held.find(opener, max(0, cut - reach), cut)
                if begun >= 0:
                    cut = self._word_start(begun)
        return cut

    def _word_start(self, place: int) -> int:
        """The start of the word there: what begins inside a word must not tear a token that it is part of."""
        return max(self._held.rfind(blank, 0, place) for blank in BLANKS) + 1

    def _forced_cut(self) -> int:
        """Where to break what has grown too long: in its older half, at a sign that no token has in it, around known secrets."""
        middle = len(self._held) // 2
        cut = max(self._held.rfind(sign, 0, middle) for sign in "\"'<>{}[](),; \n") + 1 or middle
        for secret in self._redactor.longest_first:
            begun = self._held.find(secret, max(0, cut - len(secret) + 1), cut + len(secret) - 1)
            if 0 <= begun < cut:
                cut = begun
        return cut
