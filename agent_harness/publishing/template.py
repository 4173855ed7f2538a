"""The repository's own pull request template: found in the base commit, read into headings, prose and boxes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agent_harness.inert_git import Git
from agent_harness.publishing.text import clean, clip, inert

PLACES = (".github/", "", "docs/")
NAME = "pull_request_template.md"  # in any case
MAX_TEMPLATE_BYTES = 64 << 10
MAX_PROSE_UNITS = 6_000
MAX_HEADINGS = 60
HEADING_UNITS = 160

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
TICKED = re.compile(r"^(\s*[-*+] )\[[xX]\]")


@dataclass(frozen=True, slots=True)
class Part:
    """One heading of the template and what stands below it; level 0 is what comes before the first heading."""

    level: int
    heading: str
    lines: tuple[str, ...]


async def find_template(git: Git, git_dir: Path, commit: str) -> str | None:
    """The template in that commit (the base, not the agent's work); None when there is none, or when it is huge."""
    names = await git.run("ls-tree", "-z", commit, "--", ".github/", "docs/", git_dir=git_dir)
    top = await git.run("ls-tree", "-z", commit, git_dir=git_dir)
    entries: dict[str, str] = {}
    for entry in (names.stdout + top.stdout).split(b"\0"):
        about, tab, path = entry.partition(b"\t")
        if tab and about.startswith(b"100"):
            name = path.decode("utf-8", "replace")
            entries.setdefault(name.lower(), about.split(b" ")[2].decode("ascii"))
    blob = next((entries[place + NAME] for place in PLACES if place + NAME in entries), None)
    if blob is None:
        return None
    size = await git.run("cat-file", "-s", blob, git_dir=git_dir)
    if int(size.text) > MAX_TEMPLATE_BYTES:
        return None
    return (await git.run("cat-file", "blob", blob, git_dir=git_dir)).stdout.decode("utf-8", "replace")


def parse_template(text: str) -> tuple[Part, ...]:
    """The template's parts in order: comments and code blocks left out, boxes unticked, HTML shown as text, nothing that acts.

    Headings all stay (the first sixty); prose is dropped from the end of each part once 6,000 units of it are used.
    """
    parts: list[tuple[int, str, list[str]]] = [(0, "", [])]
    room, fence = MAX_PROSE_UNITS, ""
    for line in COMMENT.sub("", clean(text)).split("\n"):
        marker = FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if marker:
            fence = marker[1]
            continue
        heading = HEADING.match(line)
        if heading:
            if len(parts) <= MAX_HEADINGS:
                parts.append((len(heading[1]), clip(_tame(heading[2]), HEADING_UNITS), []))
            continue
        shown = TICKED.sub(r"\1[ ]", _tame(line)).rstrip()
        room -= len(shown) + 1
        if room >= 0:
            parts[-1][2].append(shown)
    return tuple(Part(level, heading, tuple(_trim(lines))) for level, heading, lines in parts)


def _tame(line: str) -> str:
    return inert(
        line.replace("&", "&amp;").replace("<", "&lt;").replace("`", "\\`").replace("![", "!\\[").replace("~~~", "\\~~~")
    )


def _trim(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n") if any(lines) else []
