"""Cuts text to a window: head and tail, what was left out said."""

from __future__ import annotations


def clip(text: str, limit: int) -> tuple[str, bool]:
    """At most `limit` characters: the head and the tail at line ends where possible; True when something was left out."""
    if len(text) <= limit:
        return text, False
    note_room = 80
    room = limit - note_room
    head = text[: room // 2]
    tail = text[len(text) - (room - room // 2) :]
    cut = head.rfind("\n")
    if cut > len(head) // 2:
        head = head[: cut + 1]
    cut = tail.find("\n")
    if 0 <= cut < len(tail) // 2:
        tail = tail[cut + 1 :]
    left = len(text) - len(head) - len(tail)
    joint = "" if head.endswith("\n") else "\n"
    return f"{head}{joint}[... {left:,} characters left out ...]\n{tail}", True
