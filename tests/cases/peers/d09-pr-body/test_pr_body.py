"""Every sentence of `expected.md`, on the input of `build.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from agent_harness.plan import Plan, Step
from agent_harness.publishing.base import Report, TraceLine
from agent_harness.publishing.body import compose
from agent_harness.redact import Redactor
from tests.unit.publishing.reports import CLOSING, MENTION, assert_sound, plain, report, utf16

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("d09") / "made"
    subprocess.run([sys.executable, str(HERE / "build.py"), str(folder)], check=True)
    return folder


def the_report(made: Path) -> Report:
    session = cast("dict[str, Any]", json.loads((made / "session.json").read_text(encoding="utf-8")))
    return report(
        session["task"],
        plan=Plan(tuple(Step(item["text"], item["state"]) for item in session["plan"])),
        trace=tuple(TraceLine(line["tool"], json.dumps(line["args"]), line["result"], line["ok"]) for line in session["trace"]),
        issue=session["issue"],
    )


def both_bodies(made: Path) -> list[str]:
    template = (made / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    return [compose(the_report(made), kind, plain)[1] for kind in (None, template)]


def test_the_length_is_within_both_counts_and_the_aim_is_used(made: Path) -> None:
    for body in both_bodies(made):
        assert len(body) < utf16(body) <= 60_000
        assert utf16(body) > 55_000


def test_the_trace_is_sacrificed_and_everything_else_stays(made: Path) -> None:
    for body in both_bodies(made):
        assert all(f"step {number} \U0001f600" in body for number in range(60))
        assert "Fix the &lt;b&gt;total&lt;/b&gt; &amp; @\u200dmention" in body
        assert "Not verified by the harness." in body
        assert "Done." in body
        shown = body.count("* run_shell ")
        assert shown >= 20
        assert f"{400 - shown} earlier trace entries are left out" in body


def test_fences_and_elements_are_closed_and_nothing_of_others_acts(made: Path) -> None:
    raw = (made / "session.json").read_text(encoding="utf-8")
    assert CLOSING.search(raw)
    assert MENTION.search(raw)
    for body in both_bodies(made):
        assert_sound(body, 41)
        assert body.encode("utf-8").decode("utf-8") == body


def test_the_secret_is_nowhere_in_any_of_its_three_forms(made: Path) -> None:
    secret = (made / "secret.txt").read_text(encoding="utf-8")
    whole = the_report(made)
    lines = tuple(line for line in whole.trace if "TOKEN=" in line.result)
    [line] = lines
    tail = line.result.partition("TOKEN=")[2]
    trace = (TraceLine("run_shell", secret, f"TOKEN={tail}", ok=True),)
    leaky = report(f"use {secret}", summary=f"TOKEN={tail}", trace=trace)
    core = secret[4:]  # without its prefix, whose underscore is escaped in Markdown
    assert compose(leaky, None, plain)[1].count(core) == 8
    for redactor in (Redactor(), Redactor([secret])):
        for kind in (whole, leaky):
            title, body = compose(kind, None, redactor.text)
            assert core not in title + body
            assert core[:8] not in title + body
        assert "redacted" in compose(leaky, None, redactor.text)[1].lower()


def test_the_templates_headings_are_kept_in_order_and_its_boxes_stay_unticked(made: Path) -> None:
    body = both_bodies(made)[1]
    headings = [line for line in body.split("\n") if line.startswith("## ")]
    assert headings[:2] == ["## Why", "## Checks"]
    assert "- [ ] tests added\n- [ ] docs" in body
    assert "[x]" not in body.split("<details>")[0].lower()
    assert body.index("## Why") < body.index("Fix the &lt;b&gt;") < body.index("## Checks") < body.index("Not verified")


def test_the_title_is_one_line_without_the_tasks_second(made: Path) -> None:
    title = compose(the_report(made), None, plain)[0]
    assert title == "Fix the <b>total</b> & @\u200dmention"
    assert utf16(title) <= 256


def test_twice_gives_the_same_bytes(made: Path) -> None:
    assert both_bodies(made) == both_bodies(made)
