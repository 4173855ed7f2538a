"""Keeps credentials out of everything that is recorded, shown or sent: exact known secrets first, then credential shapes.

Linear in the text. Every shape begins with a literal that must not stand inside a longer word, so that a run of letters is
scanned from one place only, and a shape is not tried at all on text that lacks its literal.
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

MIN_SECRET_CHARS = 8  # shorter values ("true", "8080") occur everywhere and protect nothing
HELD_BACK_CHARS = 16_384  # of a stream that may still become a secret


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of credential looks.

    Attributes:
        kind: what the placeholder says.
        trigger: a literal without which the pattern cannot match.
        pattern: its group `secret`, or else the whole match, is replaced.
    """

    kind: str
    trigger: str
    pattern: re.Pattern[str]


def _token(kind: str, prefix: str, body: str) -> Shape:
    """A literal prefix that none of the letters of a body precedes, and a body."""
    literal = re.escape(prefix)
    return Shape(kind, prefix, re.compile(f"{literal}(?<![A-Za-z0-9_\\-]{literal})(?:{body})"))


def _named(kind: str, trigger: str, before: str, secret: str) -> Shape:
    """A secret that is known by what stands before it."""
    return Shape(kind, trigger, re.compile(f"{before}(?P<secret>{secret})"))


# The prefixes are the providers' own, as their documentation gives them. GitHub's installation tokens have held dots, dashes and
# underscores since 2026, so their bodies are open-ended.
SHAPES: tuple[Shape, ...] = (
    *(_token("github-token", f"gh{letter}_", r"[A-Za-z0-9_.\-]{16,}+") for letter in "pousr"),
    _token("github-token", "github_pat_", r"[A-Za-z0-9_]{20,}+"),
    _token("gitlab-token", "glpat-", r"[A-Za-z0-9_.\-]{16,}+"),
    _token("api-key", "sk-", r"(?=[A-Za-z_\-]{0,100}[0-9])[A-Za-z0-9_\-]{20,}+"),
    _token("langfuse-key", "pk-lf-", r"[0-9a-f\-]{30,}+"),
    _token("e2b-key", "e2b_", r"[0-9a-f]{20,}+"),
    _token("slack-token", "xox", r"[abeprs]-[A-Za-z0-9\-]{10,}+"),
    _token("aws-key-id", "AKIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _token("aws-key-id", "ASIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _token("google-key", "AIza", r"[0-9A-Za-z_\-]{35}(?![0-9A-Za-z_\-])"),
    _token("npm-token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("huggingface-token", "hf_", r"[A-Za-z0-9]{30,}+"),
    _token("jwt", "eyJ", r"[A-Za-z0-9_\-]{8,}+\.eyJ[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+"),
    _named("private-key", "-----BEGIN ", r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----", r"(?:[^-]|-(?!----)){16,}+"),
    _named("url-password", "://", r"://", r"[^\s/?#@'\"<>\[\]{}]{0,200}:[^\s/?#@'\"<>\[\]{}]{1,400}(?=@)"),
    _named(
        "authorization",
        "uthorization",
        r"uthorization['\"]?[ \t]{0,4}[:=][ \t]{0,4}['\"]?[A-Za-z]{3,10}[ \t]{1,4}",
        r"[^\s'\"\[]{8,4000}+",
    ),
    *(
        _named("aws-secret", name, rf"{name}['\"]?\s{{0,4}}[:=]\s{{0,4}}['\"]?", r"[A-Za-z0-9/+=]{40}")
        for name in ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey")
    ),
)


class Redactor:
    """Replaces secrets in text by a placeholder, in linear time.

    Args:
        secrets: exact values that must never appear (raw; the redactor makes their encoded forms itself).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if len(secret) >= MIN_SECRET_CHARS for spelling in _spellings(secret)}
        self._longest_first = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        for secret in self._longest_first:
            if secret in text:
                text = text.replace(secret, "[REDACTED:known-secret]")
        for shape in SHAPES:
            if shape.trigger in text:
                text = shape.pattern.sub(lambda match, kind=shape.kind: _replaced(match, kind), text)
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """The JSON value with every string in it, keys included, redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(each) for key, each in value.items()}
        return value

    def stream(self) -> StreamRedactor:
        """A redactor for text that arrives in pieces."""
        return StreamRedactor(self)


def _spellings(secret: str) -> set[str]:
    """How a secret may be written: raw, quoted in a URL or in JSON, base64 of itself and of the pair that git sends."""
    found = {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    for plain in (secret, f"x-access-token:{secret}"):
        encoded = base64.b64encode(plain.encode("utf-8", "surrogatepass")).decode()
        found |= {encoded, encoded.rstrip("=")}
    return found


def _replaced(match: re.Match[str], kind: str) -> str:
    placeholder = f"[REDACTED:{kind}]"
    if "secret" not in match.re.groupindex:
        return placeholder
    start, end = match.span("secret")
    return match.group(0)[: start - match.start()] + placeholder + match.group(0)[end - match.start() :]


class StreamRedactor:
    """Redacts text that arrives in pieces: what could still become a secret is held back until a line ends."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """Take the next piece; returns what may be shown now."""
        self._held += text
        if len(self._held) > HELD_BACK_CHARS:
            return self.finish()
        # A secret has no blank in it, except a private key (whole paragraphs) and a header's scheme (one line).
        if "-----BEGIN " in self._held and "-----END" not in self._held:
            return ""
        cut = self._held.rfind("\n") + 1
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._redactor.text(ready)

    def finish(self) -> str:
        """The text is complete; returns what was held back, redacted."""
        ready, self._held = self._held, ""
        return self._redactor.text(ready)
