from __future__ import annotations

from pathlib import Path

import pytest

from agent_harness.inert_git import Git
from agent_harness.publishing.body import compose
from agent_harness.publishing.template import find_template, parse_template
from tests.unit.publishing.reports import assert_sound, plain, report
from tests.unit.publishing.repos import Origin


@pytest.mark.anyio
@pytest.mark.parametrize(
    "place", [".github/PULL_REQUEST_TEMPLATE.md", "pull_request_template.md", "docs/Pull_Request_Template.md"]
)
async def test_the_template_is_found_in_every_place_in_any_case(inert: Git, origin: Origin, place: str) -> None:
    with_one = origin.commit({place: "## Why\n"})
    assert await find_template(inert, origin.clone / ".git", with_one) == "## Why\n"
    assert await find_template(inert, origin.clone / ".git", origin.base) is None


@pytest.mark.anyio
async def test_the_hidden_folders_template_comes_first_and_links_or_huge_ones_are_passed_over(
    inert: Git, origin: Origin, tmp_path: Path
) -> None:
    repo = origin.clone / ".git"
    both = origin.commit({".github/pull_request_template.md": "first", "pull_request_template.md": "second"})
    assert await find_template(inert, repo, both) == "first"
    huge = origin.commit({".github/pull_request_template.md": "x" * 70_000})
    assert await find_template(inert, repo, huge) is None
    (origin.clone / ".github" / "pull_request_template.md").unlink()
    (origin.clone / ".github" / "pull_request_template.md").symlink_to("/etc/passwd")
    assert await find_template(inert, repo, origin.commit({})) == "second"


def test_headings_and_prose_stay_and_comments_code_and_ticks_go() -> None:
    hidden = "<!-- hidden\n# no heading -->\ntext\n```sh\n# not one either\n```"
    text = f"intro\n# A #\n{hidden}\n### B\n- [x] box\n* [ ] other\n<!-- open"
    parts = parse_template(text)
    assert [(part.level, part.heading) for part in parts] == [(0, ""), (1, "A"), (3, "B")]
    assert parts[0].lines == ("intro",)
    assert parts[1].lines == ("text",)
    assert parts[2].lines == ("- [ ] box", "* [ ] other")


def test_every_heading_stays_in_order_when_the_prose_does_not_fit() -> None:
    text = "\n".join(f"## Heading {number}\n{'words ' * 500}\n- [ ] box {number}" for number in range(40))
    body = compose(report(), text, plain)[1]
    headings = [line for line in body.split("\n") if line.startswith("## Heading")]
    assert headings == [f"## Heading {number}" for number in range(40)]
    assert_sound(body, None)


def test_our_sections_stand_below_the_headings_that_ask_for_them_and_the_rest_follows() -> None:
    text = "## Description\n\n## How was it tested?\n- [ ] unit\n\n## Screenshots\n"
    body = compose(report("The task"), text, plain)[1]
    order = [
        "## Description",
        "**Task**",
        "**Outcome",
        "## How was it tested?",
        "- [ ] unit",
        "**Checks**",
        "## Screenshots",
        "## Plan",
    ]
    places = [body.index(word) for word in order]
    assert places == sorted(places)
    assert body.count("The task") == 1


def test_a_template_closes_nothing_and_notifies_nobody() -> None:
    text = "Closes #12 @octo-team\n\n## Fixes #13\nFixes octo/repo#3\n<details>\n![x](https://example.invalid/x)\n- ```\n~~~\n"
    assert_sound(compose(report(issue=41), text, plain)[1], 41)
