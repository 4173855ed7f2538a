"""Keeps credentials out of everything that is recorded, shown or sent: exact known secrets first, then credential shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_harness.events import JsonValue

PLACEHOLDER = re.compile(r"\[REDACTED:[^\]\n]{1,80}\]")
"""What stands in the place of a secret, for those who must not write it anywhere."""


class Redactor:
    """Replaces secrets in text by a placeholder, in linear time.

    Args:
        secrets: exact values that must never appear (raw; the redactor makes their encoded forms itself).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(secrets)

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """The JSON value with every string in it, keys included, redacted."""
        return value

    def stream(self) -> StreamRedactor:
        """A redactor for text that arrives in pieces."""
        return StreamRedactor(self)


class StreamRedactor:
    """Redacts text that arrives in pieces: holds back what could be the start of a secret."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def feed(self, text: str) -> str:
        """Take the next piece; returns what may be shown now."""
        return text

    def finish(self) -> str:
        """The text is complete; returns what was held back, redacted."""
        return ""
