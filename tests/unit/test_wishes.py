"""Labels, reviewers and co-authors as people write them."""

from __future__ import annotations

import pytest

from agent_harness.errors import ConfigError
from agent_harness.settings_values import co_authors, labels, reviewers


def test_what_can_be_meant_is_taken_once() -> None:
    assert labels(["good first issue", "agent", "agent"], "--label") == ("good first issue", "agent")
    assert reviewers(["@ann", "octo/core"], "--reviewer") == ("ann", "octo/core")
    assert co_authors("Ann O. Ther <ann+x@example.org>", "--co-author") == ("Ann O. Ther <ann+x@example.org>",)


@pytest.mark.parametrize(
    "text", ["Ann", "<ann@example.org>", "Ann <ann>", "Ann <a@b> <c@d>", "Ann <a@b>\nSigned-off-by: x <y@z>"]
)
def test_what_is_no_co_author_is_refused_with_the_way_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match="--co-author"):
        co_authors(text, "--co-author")


def test_odd_labels_and_reviewers_are_refused() -> None:
    with pytest.raises(ConfigError, match="50 characters"):
        labels("x" * 51, "--label")
    with pytest.raises(ConfigError, match="OWNER/TEAM"):
        reviewers("a/b/c", "--reviewer")
