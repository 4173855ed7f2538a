"""Title and body of a pull request from a report; pure, and the same bytes for the same report.

What is too long is given up in a fixed order: the trace first, then the plan's details, then the length of lists and texts. The
task, the outcome, the checks and the plan's titles always stay. Nothing is cut in the middle of a fence or an element, because
parts are measured before they are put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from agent_harness.plan import Plan
from agent_harness.publishing.base import ChangedFile, Report, TraceLine
from agent_harness.publishing.template import Part, parse_template
from agent_harness.publishing.text import clean, clip, code, fenced, inert, inline, prose, quoted, sentence, tail, units
from agent_harness.task import IssueLink

AIM_UNITS = 60_000
HARD_UNITS = 65_536  # where the big forges refuse
TITLE_UNITS = 250  # they take 256
SAFE_URL = re.compile(r"https?://[\w.~:/\[\]-]{1,400}", re.ASCII)
STATUS = {"A": "added", "M": "changed", "D": "deleted", "T": "type changed"}
STEPS = {"pending": "not done", "in_progress": "begun", "done": "done"}
NOT_VERIFIED = (
    "Not verified by the harness. Whatever the text above says about tests is the model's own claim; what it really ran is in the"
    " trace."
)

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of each part is shown: UTF-16 units of a text before it is escaped, or how many entries of a list."""

    task: int
    summary: int
    title: int
    titles: int
    notes: bool
    files: int
    checks: int
    check: int
    template: bool = True


# Each step gives up more; the last one fits whatever the report holds: an escaped character has up to 6 units.
STEPS_DOWN = (
    Bounds(task=30_000, summary=16_000, title=2_000, titles=500, notes=True, files=300, checks=200, check=2_000),
    Bounds(task=30_000, summary=16_000, title=2_000, titles=500, notes=False, files=300, checks=200, check=2_000),
    Bounds(task=16_000, summary=8_000, title=240, titles=500, notes=False, files=100, checks=100, check=400),
    Bounds(task=6_000, summary=3_000, title=120, titles=200, notes=False, files=40, checks=50, check=200),
    Bounds(task=2_500, summary=1_000, title=60, titles=60, notes=False, files=15, checks=20, check=100),
    Bounds(task=1_200, summary=600, title=40, titles=40, notes=False, files=10, checks=10, check=80, template=False),
)


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the body. `fits` are words of a template's heading below which it belongs."""

    heading: str
    text: str
    fits: re.Pattern[str] | None = None


TASK_FITS = re.compile(r"\b(why|motivation|context|background|problem|issue|description|about|summary|task)", re.IGNORECASE)
OUTCOME_FITS = re.compile(r"\b(what|summary|description|solution|implementation|outcome|approach)", re.IGNORECASE)
CHANGES_FITS = re.compile(r"\b(what|change|files|diff)", re.IGNORECASE)
CHECKS_FITS = re.compile(r"\b(check|test|verif|validat|qa\b)", re.IGNORECASE)


def compose(report: Report, template: str | None, redact: Redact) -> tuple[str, str]:
    """Title and body.

    Args:
        report: what the session did.
        template: the repository's pull request template, if it has one.
        redact: takes credentials out; applied to every text before anything else is done to it.

    Returns:
        The title (one line, at most 250 UTF-16 units) and the body (aims at 60,000, never more than 65,536).
    """
    parts = parse_template(redact(template)) if template else ()
    clean_report = _redacted(report, redact)
    body = ""
    for bounds in STEPS_DOWN:
        body = _assemble(clean_report, parts if bounds.template else (), bounds)
        if units(body) <= AIM_UNITS:
            break
    assert units(body) <= AIM_UNITS, "the last step always fits"
    return compose_title(clean_report), body + _trace(report.trace, AIM_UNITS - units(body), redact)


def _redacted(report: Report, redact: Redact) -> Report:
    """The report without credentials; its trace is left to `_trace`, which shows only a part of it."""
    steps = tuple(replace(step, content=redact(step.content)) for step in report.plan.todos)
    return replace(
        report,
        task=replace(report.task, text=redact(report.task.text)),
        summary=redact(report.summary),
        plan=Plan(steps, tuple(map(redact, report.plan.notes))),
        changes=tuple(replace(change, path=redact(change.path)) for change in report.changes),
        model=redact(report.model),
        checks=tuple(map(redact, report.checks)),
        remarks=tuple(map(redact, report.remarks)),
    )


def compose_title(report: Report) -> str:
    """The first line of the task that says something, without heading marks, mentions and references broken."""
    for line in clean(report.task.text).split("\n"):
        words = " ".join(line.strip().lstrip("#>").split())
        if words:
            return clip(inert(words), TITLE_UNITS)
    return f"Work of session {report.session}"


def _assemble(report: Report, template: tuple[Part, ...], bounds: Bounds) -> str:
    sections = [
        Section("Task", _task(report, bounds), TASK_FITS),
        Section("Outcome, in the model's words", _outcome(report, bounds), OUTCOME_FITS),
        Section("Plan", _plan(report, bounds)),
        Section("What changed", _changes(report, bounds), CHANGES_FITS),
        Section("Checks", _checks(report, bounds), CHECKS_FITS),
        Section("Cost", _cost(report)),
    ]
    blocks = [_closes(report.task.issue)] if report.task.issue is not None else []
    blocks += _fill(template, sections)
    blocks += [f"## {section.heading}\n\n{section.text}" for section in sections]
    return "\n\n".join(blocks) + "\n"


def _closes(issue: IssueLink) -> str:
    """The one line that a forge acts on at merge; the issue's author is named without being notified again."""
    author = f" by {inline(clip(issue.author, 60))}" if issue.author else ""
    link = f"\n\nThe task is issue <{issue.url}>{author}." if SAFE_URL.fullmatch(issue.url) else ""
    return f"Fixes #{issue.number}{link}"


def _fill(template: tuple[Part, ...], sections: list[Section]) -> list[str]:
    """The template with our sections below the headings that ask for them; those are taken out of `sections`."""
    blocks: list[str] = []
    for part in template:
        if part.heading:
            blocks.append(f"{'#' * part.level} {part.heading}")
        if part.lines:
            blocks.append("\n".join(part.lines))
        for section in tuple(sections):
            if part.heading and section.fits and section.fits.search(part.heading):
                blocks.append(f"**{section.heading}**\n\n{section.text}")
                sections.remove(section)
    return blocks


def _task(report: Report, bounds: Bounds) -> str:
    return quoted(clip(report.task.text, bounds.task)) or "> (none)"


def _outcome(report: Report, bounds: Bounds) -> str:
    said = clip(report.summary.strip(), bounds.summary)
    return prose(said) if said else "> (it said nothing)"


def _plan(report: Report, bounds: Bounds) -> str:
    steps = report.plan.todos
    if not steps and not report.plan.notes:
        return "The model kept no plan."
    lines = [
        f"- {STEPS.get(step.status, 'not done')}: {inline(clip(step.content, bounds.title))}" for step in steps[: bounds.titles]
    ]
    lines += _more(len(steps) - bounds.titles, "steps")
    if bounds.notes and report.plan.notes:
        lines += ["", "Its notes:", "", *(f"- {inline(clip(note, bounds.title))}" for note in report.plan.notes)]
    elif report.plan.notes:
        lines += ["", f"{len(report.plan.notes)} notes of the plan are left out."]
    return "\n".join(lines)


def _changes(report: Report, bounds: Bounds) -> str:
    count = len(report.changes)
    added = sum(change.added or 0 for change in report.changes)
    deleted = sum(change.deleted or 0 for change in report.changes)
    lines = [f"{count} {'file' if count == 1 else 'files'}, +{added} -{deleted} lines.", ""]
    lines += [_change(change) for change in report.changes[: bounds.files]]
    lines += _more(count - bounds.files, "files")
    if report.remarks:
        lines += ["", "Look at these closely:", ""]
        lines += [f"- {sentence(clip(remark, bounds.check))}" for remark in report.remarks[: bounds.checks]]
    return "\n".join(lines)


def _change(change: ChangedFile) -> str:
    size = "binary" if change.added is None else f"+{change.added} -{change.deleted or 0}"
    return f"- {code(clip(change.path, 200))} {STATUS.get(change.status[:1], 'changed')}, {size}"


def _checks(report: Report, bounds: Bounds) -> str:
    if not report.checks:
        return NOT_VERIFIED
    lines = [f"- {sentence(clip(check, bounds.check))}" for check in report.checks[: bounds.checks]]
    return "\n".join(["Run by the harness itself:", "", *lines, *_more(len(report.checks) - bounds.checks, "checks")])


def _cost(report: Report) -> str:
    cost = "an unknown cost" if report.cost_usd is None else f"${_dollars(report.cost_usd)}"
    spent = f"{report.turns:,} {'turn' if report.turns == 1 else 'turns'}, {report.tokens:,} tokens, {cost}"
    model, surface = code(clip(report.model, 120)), code(clip(report.surface, 40))
    return f"{spent}; model {model}, surface {surface}, session {code(clip(report.session, 80))}."


def _dollars(amount: Decimal) -> str:
    return f"{amount.quantize(Decimal('0.0001')):f}"


def _more(count: int, what: str) -> list[str]:
    return [f"- ... {count} more {what}"] if count > 0 else []


def _trace(trace: tuple[TraceLine, ...], room: int, redact: Redact) -> str:
    """The newest entries that fit, in order, in one closed element; says how many are left out. Never longer than `room`."""
    if not trace:
        return ""
    frame = units(_frame(trace, len(trace), ())) + 20
    shown: list[str] = []
    for line in reversed(trace):
        entry = _entry(line, redact)
        room -= units(entry) + 1
        if room < frame:
            break
        shown.append(entry)
    if not shown:
        note = f"\nThe trace is left out ({len(trace):,} entries); it is in the session's folder.\n"
        return note if room > units(note) else ""
    return _frame(trace, len(trace) - len(shown), tuple(reversed(shown)))


def _frame(trace: tuple[TraceLine, ...], left_out: int, entries: tuple[str, ...]) -> str:
    title = f"Trace: the last {len(entries):,} of {len(trace):,} tool calls" if left_out else f"Trace: {len(trace):,} tool calls"
    note = f"{left_out:,} earlier trace entries are left out here; the session's folder has them all.\n\n" if left_out else ""
    inside = "\n".join(entries)
    return f"\n<details>\n<summary>{title}</summary>\n\n{note}```text\n{inside}\n```\n\n</details>\n"


def _entry(line: TraceLine, redact: Redact) -> str:
    arguments = " ".join(redact(line.arguments).split())
    head = f"{line.tool} {'ok' if line.ok else 'FAILED'} {clip(arguments, 300)}"
    result = redact(line.result).strip()
    if units(result) > 700:
        result = f"{clip(result, 450)}\n[... cut ...]\n{tail(result, 220)}"
    return fenced("\n".join([f"* {head}", *(f"  {part}" for part in clean(result).split("\n"))]))
