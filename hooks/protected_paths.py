#!/usr/bin/env python3
"""A PreToolUse policy: some paths are not for the agent to change.

    export AGENT_HOOK_PRE_TOOL_USE=/path/to/hooks/protected_paths.py

Refuses an edit or a new file at a protected path, and a shell or git command that names one and could write: reading stays
allowed (`cat`, `grep`, `git diff`, ... without a redirection or another command in the line). To protect other paths, write the
globs behind the command, as many as you like; they are relative to the repository, and `**` crosses folders:

    export AGENT_HOOK_PRE_TOOL_USE='/path/to/hooks/protected_paths.py "migrations/**" "*.lock" "package.json"'

A command can hide the name of the file that it writes. This keeps an agent on the path; the sandbox and a person's review of the
pull request are what stops one that leaves it. Needs Python 3.11 or later and nothing else.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import sys
from fnmatch import fnmatchcase

DEFAULT = ("migrations/**", "*.lock")
READ_ONLY = {"cat", "head", "tail", "less", "grep", "rg", "ls", "stat", "wc", "file", "diff", "test", "["}
READ_ONLY_GIT = {"status", "diff", "log", "show", "blame", "ls-files"}
WRITES = re.compile(r"[>;&|`\n]|\$\(")


def protected_by(path: str, root: str, globs: list[str]) -> str:
    """The glob that protects the path, or nothing. A glob without a slash means a name in any folder."""
    relative = posixpath.relpath(posixpath.join(root, path), root)
    for glob in globs:
        name = relative if "/" in glob else posixpath.basename(relative)
        if fnmatchcase(name, glob) or relative == glob.removesuffix("/**"):
            return glob
    return ""


def words_of(command: str) -> list[str]:
    """Everything in the command that may be a path: its words, and what stands behind a `=` or a redirection."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return [part for word in words for part in re.split(r"[=:<>;&|()`'\"\s]", word) if part]


def only_reads(command: str) -> bool:
    """Whether the command is a single one that is known to change nothing."""
    words = command.split()
    if not words or WRITES.search(command):
        return False
    return words[0] in READ_ONLY or (words[0] == "git" and len(words) > 1 and words[1] in READ_ONLY_GIT)


def main() -> None:
    """Read the event, answer when something in it is protected."""
    globs = sys.argv[1:] or list(DEFAULT)
    event = json.load(sys.stdin)
    told, root = event["tool_input"], event["agent"]["root"]  # a command names files as the agent sees them
    match event["tool_name"]:
        case "Write" | "Edit":
            paths, root = [told["file_path"]], os.environ["CLAUDE_PROJECT_DIR"]
        case "Bash" if not only_reads(told["command"]):
            paths = words_of(told["command"])
        case _:
            paths = []
    for path in paths:
        glob = protected_by(path, root, globs)
        if glob:
            reason = (
                f"{path} is protected by the policy {glob!r}; leave it as it is, and say in your summary what should change there"
            )
            print(json.dumps({"block": True, "reason": reason}))
            return


if __name__ == "__main__":
    main()
