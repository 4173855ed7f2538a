"""Reports for tests, and how a pull request's body is judged."""

from __future__ import annotations

import re
from decimal import Decimal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent_harness.plan import Plan, Step
from agent_harness.publishing.base import ChangedFile, Report, TraceLine
from agent_harness.task import IssueLink, Task

HARD = 65_536
MENTION = re.compile(r"@[A-Za-z0-9]")
CLOSING = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+(?:[\w.-]+/[\w.-]+)?(?:#|GH-|https?://\S+/(?:issues|pull)/)\d+",
    re.IGNORECASE,
)
REFERENCE = re.compile(r"(?:#|\bGH-|/issues/|/pull/)\d", re.IGNORECASE)
TAG = re.compile(r"<(/?)([a-z]+)[^>]*>", re.IGNORECASE)


def report(
    text: str = "Fix the total",
    *,
    summary: str = "Done.",
    plan: Plan | None = None,
    changes: tuple[ChangedFile, ...] = (ChangedFile("a.py", "M", 2, 1),),
    trace: tuple[TraceLine, ...] = (),
    issue: int | None = None,
    checks: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
    cost_usd: Decimal | None = Decimal("0.01234"),
) -> Report:
    link = None if issue is None else IssueLink(issue, "ann_[bot]", f"https://forge.example.invalid/octo/demo/issues/{issue}")
    task = Task("file:///origin.git", text, "main", "0" * 40, "main", link)
    return Report(
        session="s1",
        task=task,
        summary=summary,
        plan=plan if plan is not None else Plan((Step("look", "done"), Step("edit"))),
        changes=changes,
        trace=trace,
        turns=3,
        tokens=1234,
        cost_usd=cost_usd,
        model="demo/model",
        surface="local",
        checks=checks,
        remarks=remarks,
    )


def plain(text: str) -> str:
    return text


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def parse(body: str) -> list[Token]:
    """Its tokens as CommonMark with tables, inline ones with their blocks."""
    tokens: list[Token] = []
    for token in MarkdownIt("commonmark").enable("table").parse(body):
        tokens += [token, *(token.children or ())]
    return tokens


def tags_in(tokens: list[Token]) -> list[str]:
    """Every tag that a Markdown renderer would take for HTML, in order."""
    html = "".join(token.content for token in tokens if token.type in ("html_block", "html_inline"))
    assert "<!--" not in html
    return [slash + name.lower() for slash, name in TAG.findall(html)]


def rendered_text(tokens: list[Token]) -> str:
    """What a reader would see outside of code, as one text: this is where a forge looks for mentions and references."""
    shown = {"softbreak": "\n", "hardbreak": "\n", "inline": "\n"}
    return "".join(token.content if token.type == "text" else shown.get(token.type, " ") for token in tokens)


def assert_sound(body: str, issue: int | None) -> None:
    """Within the limits, everything closed, nothing that acts but our one closing line, and no link but to the issue."""
    assert len(body) <= HARD
    assert utf16(body) <= HARD
    fences = [line for line in body.split("\n") if line.lstrip().startswith(("```", "~~~"))]
    assert len(fences) % 2 == 0
    tokens = parse(body)
    tags = tags_in(tokens)
    assert tags in ([], ["details", "summary", "/summary", "/details"])
    assert body.count("<details>") == body.count("</details>") == tags.count("details")
    ours = [] if issue is None else [f"Fixes #{issue}"]
    for seen in (body, rendered_text(tokens)):
        assert CLOSING.findall(seen) == ours
        assert not MENTION.search(seen)
        assert len(REFERENCE.findall(seen)) == 2 * len(ours)
    links = [token.attrs["href"] for token in tokens if token.type == "link_open"]
    assert links == [f"https://forge.example.invalid/octo/demo/issues/{issue}" for _ in ours]
    assert "image" not in {token.type for token in tokens}
