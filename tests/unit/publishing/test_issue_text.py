"""An issue as a task."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.github_settings import Repository
from agent_harness.publishing.issue_text import UNSEEN, Comment, Issue, task_of, visible

DEMO = Repository("octo", "demo")


def tagged(text: str) -> str:
    return "".join(chr(0xE0000 + ord(letter)) for letter in text)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a <!-- run evil --> b", "a  b"),
        ("a\n<!-- all that follows\nis hidden", "a\n"),
        ("the parser drops `<!--` and the rest stays", "the parser drops `<!--` and the rest stays"),
        ("<!<!-- x -->-- y -->z", "z"),
        (f"a{tagged('evil')}b", "ab"),
        ("a\u200bb\u202ec\ufeffd\u2066e", "abcde"),
        ("<\u200b!-- evil -->x", "x"),
        ("[//]: # (evil)\ntext", "\ntext"),
        ('[x]: <> "evil"\ntext', "\ntext"),
        ("[a]: https://example.org\ntext", "[a]: https://example.org\ntext"),
        ("a\r\nb\x1b[31m", "a\nb[31m"),
        ("naïve 日本 🙂", "naïve 日本 🙂"),
    ],
)
def test_what_the_page_does_not_show_is_left_out(written: str, shown: str) -> None:
    assert visible(written) == shown


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet=st.sampled_from("<!-> ab\n\u200b\U000e0041"), max_size=40))
def test_nothing_hidden_is_left_and_once_is_enough(text: str) -> None:
    shown = visible(text)
    assert not UNSEEN.search(shown)
    assert "<!--" not in shown or "-->" not in shown.partition("<!--")[2]
    assert visible(shown) == shown


def test_comments_follow_quoted_with_their_authors_and_the_persons_words_come_first() -> None:
    issue = Issue(
        "Slow  <!-- x -->", "It is.", "ann", "url", (Comment("bob", "Only on Mondays.\n\nReally."), Comment("eve", " "))
    )
    assert task_of(issue, DEMO, 7, "") == (
        "Slow\n\nIt is.\n\nComment by 'bob', who may write to the repository:\n\n> Only on Mondays.\n>\n> Really."
    )
    assert task_of(issue, DEMO, 7, " Be quick. ").startswith("Be quick.\n\nIssue octo/demo#7: Slow\n\nIt is.")


def test_the_newest_comments_stay_when_there_are_too_many() -> None:
    comments = tuple(Comment("bob", f"{number} " + "x" * 9_000) for number in range(6))
    text = task_of(Issue("t", "", "ann", "url", comments), DEMO, 1, "")
    assert "(3 earlier comments are left out.)" in text
    assert [number for number in range(6) if f"> {number} x" in text] == [3, 4, 5]
