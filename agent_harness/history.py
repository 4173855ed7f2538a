"""`sessions` and `show`: what is on disk, for people and for machines."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from agent_harness.archive import FIRST_SESSION, StoredSession, find_session, is_running, stored_sessions
from agent_harness.sinks.console import Console
from agent_harness.sinks.plain_text import clip, one_line


def list_sessions(home: Path, *, as_json: bool) -> int:
    """Print every session, newest first; returns the exit code."""
    sessions = stored_sessions(home)
    if as_json:
        for session in sessions:
            sys.stdout.write(json.dumps(_facts(session), ensure_ascii=False) + "\n")
        return 0
    if not sessions:
        sys.stdout.write(f"no sessions in {home} yet; {FIRST_SESSION}\n")
        return 0
    width = shutil.get_terminal_size((120, 24)).columns
    for session in sessions:
        facts = _facts(session)
        cost = "" if facts["cost_usd"] is None else f"${facts['cost_usd']:.4f}"
        line = f"{session.id}  {facts['state']:<11} {cost:>9}  {facts['repo']}  {one_line(str(facts['text']))}"
        sys.stdout.write(clip(line, width) + "\n")
    sys.stdout.write(f"read one with: agent-harness show {sessions[0].id}\n")
    return 0


def show_session(home: Path, wanted: str, *, as_json: bool) -> int:
    """Print one trace as text, or as it is; returns the exit code.

    Raises:
        ConfigError: no such session.
        HarnessError: its trace was changed or is damaged; what comes before the damage was printed.
    """
    session = find_session(home, wanted)
    terminal = sys.stdout.isatty()
    console = Console(width=shutil.get_terminal_size((160, 24)).columns if terminal else 160, colours=terminal)
    for record in session.records():
        text = json.dumps(record, ensure_ascii=False) + "\n" if as_json else console.render(record).decode()
        sys.stdout.write(text)
    if session.ended is None and not as_json:
        state = "is still running" if is_running(session) else "was broken off: its last event is above"
        sys.stdout.write(f"session {session.id} {state}\n")
    return 0


def _facts(session: StoredSession) -> dict[str, object]:
    ended = session.ended or {}
    opened = ended.get("pull_request")
    state = ended.get("outcome") or ("running" if is_running(session) else "broken off")
    return {
        "session": session.id,
        "state": state,
        "reason": ended.get("reason"),
        "started": session.started.get("time"),
        "repo": session.task("repo"),
        "text": session.task("text"),
        "turns": ended.get("turns"),
        "tokens": ended.get("tokens"),
        "cost_usd": ended.get("cost_usd"),
        "pull_request": opened.get("url") if isinstance(opened, dict) else None,
        "trace": str(session.trace_path),
    }
