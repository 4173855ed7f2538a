"""The trace for machines: the very lines of the trace file, so that their chain of hashes can be checked downstream."""

from __future__ import annotations

import json

from agent_harness.trace import Delta, Record


def render(item: Record | Delta) -> bytes:
    """One event as one line; nothing for streamed text, which is no event."""
    if isinstance(item, Delta):
        return b""
    return (json.dumps(item, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
