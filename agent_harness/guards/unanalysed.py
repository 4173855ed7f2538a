"""The one way in which reading a command fails, and what to tell about it."""

from __future__ import annotations


class Unanalysed(Exception):
    """The line cannot be read, or takes more steps than allowed.

    Attributes:
        reason: what stood in the way.
        instead: what to do instead.
    """

    def __init__(self, reason: str, instead: str = "split it into several plain commands") -> None:
        super().__init__(reason)
        self.reason = reason
        self.instead = instead
