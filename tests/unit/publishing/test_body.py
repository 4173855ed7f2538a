from __future__ import annotations

from decimal import Decimal

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent_harness.plan import Plan, Step
from agent_harness.publishing.base import ChangedFile, Report, TraceLine
from agent_harness.publishing.body import NOT_VERIFIED, compose
from tests.unit.publishing.reports import CLOSING, MENTION, assert_sound, parse, plain, rendered_text, report, tags_in, utf16


def body_of(made: Report, template: str | None = None) -> str:
    return compose(made, template, plain)[1]


def test_the_body_has_task_outcome_plan_changes_checks_cost_and_trace() -> None:
    body = body_of(report(trace=(TraceLine("run_shell", '{"command": "pytest"}', "1 passed", True),)))
    headings = [line for line in body.split("\n") if line.startswith("## ")]
    assert headings == ["## Task", "## Outcome, in the model's words", "## Plan", "## What changed", "## Checks", "## Cost"]
    assert "> Fix the total" in body
    assert "- done: look" in body
    assert "- not done: edit" in body
    assert "- `a.py` changed, +2 -1" in body
    assert NOT_VERIFIED in body
    assert "3 turns, 1,234 tokens, $0.0123; model `demo/model`, surface `local`, session `s1`." in body
    assert "1 passed" in body
    assert_sound(body, None)


def test_checks_of_the_harness_are_named_as_its_own() -> None:
    body = body_of(report(checks=("`pytest -q` exits 0 on 1234abcd",)))
    assert "Run by the harness itself:\n\n- `pytest -q` exits 0 on 1234abcd" in body
    assert "Not verified" not in body


def test_an_unknown_cost_is_not_called_zero() -> None:
    assert "an unknown cost" in body_of(report(cost_usd=None))


def test_remarks_about_the_commits_are_shown_with_their_paths() -> None:
    assert "- It adds or changes symbolic links: `a/link`." in body_of(
        report(remarks=("It adds or changes symbolic links: `a/link`.",))
    )


HOSTILE = (
    "@octo-team",
    "\\@octo-team",
    "&#64;octo-team",
    "&commat;octo",
    "Fixes #12",
    "closes octo/repo#3",
    "does not close: #12",
    "Fixes &#35;12",
    "resolved GH-12",
    "Fixes https://github.com/octo/repo/issues/12",
    "Closes https://github.com/octo/repo/pull/12",
    "</details>",
    "<details open>",
    "<!-- hidden",
    "<img src=x>",
    "<script>alert(1)</script>",
    "![](https://example.invalid/pixel.png)",
    "```\nnested\n````",
    "~~~",
    "# heading",
    "Title\n=====",
    "[link](javascript:alert(1))",
    "[ref]: https://example.invalid",
    "| a |\n| - |",
    "- [x] tests pass",
    "`unclosed",
    "``` `` `@octo` ```",
    "a\u202eb\x00c\ud800d",
    "\r\n> quote\r",
)


def test_the_control_finds_what_acts_in_the_raw_text() -> None:
    raw = "\n\n".join(HOSTILE)
    assert len(CLOSING.findall(raw)) >= 4
    assert MENTION.search(raw)
    assert "@octo-team" in rendered_text(parse("&#64;octo-team"))
    assert {"img", "script"} <= set(tags_in(parse("\n\n".join(text for text in HOSTILE if "<!--" not in text))))


def test_no_text_of_others_acts_in_any_part_of_the_body() -> None:
    for text in (*HOSTILE, "\n".join(HOSTILE), " ".join(HOSTILE)):
        made = report(
            text,
            summary=text,
            plan=Plan((Step(text, "done"),), (text,)),
            changes=(ChangedFile(text, "A", 1, 0),),
            trace=(TraceLine(text, text, text, ok=False), TraceLine("run_shell", "x", text, ok=True)),
            issue=41,
            checks=(text,),
            remarks=(text,),
        )
        title, body = compose(made, None, plain)
        assert_sound(body, 41)
        assert_sound(compose(made, text, plain)[1], 41)
        assert "\n" not in title
        assert not MENTION.search(title)
        assert not CLOSING.findall(title)
        assert not [line for line in body.split("<details>")[0].split("\n") if line.lstrip("> ").startswith("- [")]
        assert body.encode("utf-8")


def test_headings_links_and_boxes_of_others_are_shown_as_text() -> None:
    made = report("\n".join(HOSTILE), summary="\n".join(HOSTILE))
    tokens = MarkdownIt("commonmark").parse(body_of(made))
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["Task", "Outcome, in the model's words", "Plan", "What changed", "Checks", "Cost"]
    assert not [part for token in tokens for part in token.children or () if part.type in ("link_open", "image")]


def test_lists_and_code_spans_of_the_summary_stay_readable() -> None:
    body = body_of(report(summary="I did:\n- fixed `total()` in a.py\n- ran the tests"))
    assert "> I did:\n> - fixed `total()` in a.py\n> - ran the tests" in body


def test_long_traces_keep_their_newest_entries_and_count_the_others() -> None:
    trace = tuple(TraceLine("run_shell", f"call {n}", "x" * 400, ok=True) for n in range(500))
    body = body_of(report(trace=trace))
    assert 50_000 < utf16(body) <= 60_000
    assert "call 499" in body
    assert "call 0\n" not in body
    shown = body.count("* run_shell ok")
    assert f"Trace: the last {shown} of 500 tool calls" in body
    assert f"{500 - shown} earlier trace entries are left out" in body
    assert_sound(body, None)


def test_the_plans_details_go_before_its_titles_and_after_the_trace() -> None:
    steps = tuple(Step(f"step {n} " + "w" * 500) for n in range(60))
    notes = tuple(f"note {n} " + "n" * 1_000 for n in range(40))
    trace = (TraceLine("run_shell", "x", "trace entry", ok=True),)
    body = body_of(report(plan=Plan(steps, notes), trace=trace))
    assert "40 notes of the plan are left out." in body
    assert all(f"step {n} " in body for n in range(60))
    smaller = body_of(
        report(plan=Plan(steps[:40], notes[:35]), trace=tuple(TraceLine("t", "x", "y" * 600, ok=True) for _ in range(99)))
    )
    assert "note 34" in smaller
    assert "earlier trace entries are left out" in smaller


def test_a_cut_never_falls_inside_a_character() -> None:
    body = body_of(report("\U0001f600" * 200_000, summary="\U0001f600" * 200_000))
    assert_sound(body, None)
    assert body.encode("utf-8")


def test_the_title_is_the_tasks_first_line_and_short() -> None:
    assert compose(report("\n\n## Fix the total\n# not a title"), None, plain)[0] == "Fix the total"
    title = compose(report("\U0001f600" * 400), None, plain)[0]
    assert utf16(title) <= 250
    assert title.endswith("…")
    assert compose(report(" \n#\n"), None, plain)[0] == "Work of session s1"


def test_every_text_is_redacted_before_it_is_cut_or_escaped() -> None:
    secret = "se_cret*VALUE@x"
    made = report(
        f"{secret}\n{secret}",
        summary=secret,
        plan=Plan((Step(secret),), (secret,)),
        changes=(ChangedFile(f"{secret}.txt", "A", 1, 0),),
        trace=(TraceLine("run_shell", secret, secret, ok=True),),
        checks=(secret,),
        remarks=(secret,),
    )
    title, body = compose(made, f"## {secret}\n{secret}\n", lambda text: text.replace(secret, "GONE"))
    assert "VALUE" not in title + body
    assert body.count("GONE") >= 10


TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(HOSTILE), max_size=4).map(" ".join) | st.sampled_from(HOSTILE)
LONG_TEXTS = TEXTS | st.tuples(TEXTS, st.sampled_from([1, 50, 4_000])).map(lambda pair: pair[0] * pair[1])
CHANGES = st.builds(ChangedFile, TEXTS, st.sampled_from("AMDT"), st.none() | st.integers(0, 999), st.none() | st.integers(0, 999))
TRACES = st.lists(st.builds(TraceLine, TEXTS, LONG_TEXTS, LONG_TEXTS, st.booleans()), max_size=5)


def many(texts: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.tuples(st.lists(texts, max_size=4), st.sampled_from([1, 300])).map(lambda pair: tuple(pair[0] * pair[1]))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    checks = draw(many(TEXTS))
    return report(
        draw(LONG_TEXTS),
        summary=draw(LONG_TEXTS),
        plan=Plan(tuple(Step(step, "done") for step in draw(many(LONG_TEXTS))), draw(many(TEXTS))),
        changes=tuple(draw(st.lists(CHANGES, max_size=3))) * 150,
        trace=tuple(draw(TRACES)) * 40,
        issue=draw(st.none() | st.integers(1, 10**6)),
        checks=checks,
        remarks=checks,
        cost_usd=draw(st.none() | st.integers(0, 10**9).map(lambda units: Decimal(units) / 10**6)),
    )


@given(made=reports(), template=st.none() | LONG_TEXTS)
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_any_report_gives_a_body_within_the_limits_in_which_nothing_acts(made: Report, template: str | None) -> None:
    title, body = compose(made, template, plain)
    assert_sound(body, None if made.task.issue is None else made.task.issue.number)
    assert 0 < utf16(title) <= 256
    assert "\n" not in title
    assert not MENTION.search(title)
    assert not CLOSING.findall(title)
    assert compose(made, template, plain) == (title, body)
