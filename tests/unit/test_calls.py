"""Tool calls are read strictly: nothing is repaired, every call has an id of its own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.calls import ID, read_arguments, read_calls
from agent_harness.model.base import RawCall


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("path=a.txt", "no valid JSON"),
        ('{"path": "b.txt", "content": "x\ny"}', "\\n"),
        ('["a.txt"]', "an array"),
        ("null", "null"),
        ("7", "a number"),
        ("true", "a boolean"),
        ("", "empty"),
        ('"{}"', "a string"),
        ('{"path": "a.txt"} thanks', "Extra data"),
        ('{"path": "a.txt", "path": "../../x"}', "'path' is there twice"),
        ('{"a": {"b": 1, "b": 2}}', "'b' is there twice"),
        ('{"path": NaN}', "NaN"),
        ('{"timeout_s": 1e999}', '"1e999" is too large'),
        ('{"a": ' + "[" * 600 + "]" * 600 + "}", "nested more than 100 levels"),
        ('{"a": ' * 101 + "1" + "}" * 101, "nested more than 100 levels"),
        ('{"path": "out.txt", "content": "line one\\nline tw', "too early"),
        ('{"path": "\\ud800"}', "surrogate"),
        ("{" + "z" * 300_000, "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
    ],
)
def test_arguments_that_are_no_json_object_stay_raw_and_say_why(text: str, wrong: str) -> None:
    arguments, problem = read_arguments(text)
    assert arguments == text
    assert wrong in problem
    assert len(problem) < 500


@pytest.mark.parametrize("text", ['{"a": ' * 100 + "1" + "}" * 100, '{"a": "' + "[{" * 500 + '"}', '{"a": 1e300}'])
def test_arguments_at_the_edge_are_read(text: str) -> None:
    assert read_arguments(text) == (json.loads(text), "")


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert read_arguments('{"a": "\\ud83d\\ude00"}') == ({"a": "\U0001f600"}, "")


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.booleans(), st.integers(), st.text())))
@settings(max_examples=100, deadline=None)
def test_every_json_object_is_read_as_it_is(value: dict[str, object]) -> None:
    assert read_arguments(json.dumps(value)) == (value, "")


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_no_text_raises(text: str) -> None:
    arguments, problem = read_arguments(text)
    assert (problem == "") == isinstance(arguments, dict)


@given(
    st.lists(st.sampled_from(["", "c1", "c2", "../../etc/passwd", "a" * 100, "call_1_1", "functions.read_file:0"]), max_size=8)
)
@settings(max_examples=100, deadline=None)
def test_ids_are_distinct_and_safe_as_file_names_whatever_came(ids: list[str]) -> None:
    calls = read_calls([RawCall(given_id, "read_file", "{}") for given_id in ids], {"c2"}, turn=1)
    assert len({call.id for call in calls}) == len(ids)
    assert all(ID.fullmatch(call.id) for call in calls)
    assert "c2" not in {call.id for call in calls}


def test_a_good_id_is_kept() -> None:
    assert [call.id for call in read_calls([RawCall("toolu_01A", "git", "{}")], (), 3)] == ["toolu_01A"]
