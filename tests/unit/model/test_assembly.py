from __future__ import annotations

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.model.assembly import Assembly
from agent_harness.model.base import RawCall


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def part(arguments: object, *, index: int | None = None, id: str | None = None, name: str | None = None) -> dict[str, object]:
    function: dict[str, object] = {"arguments": arguments}
    found: dict[str, object] = {"function": function}
    if name is not None:
        function["name"] = name
    if id is not None:
        found["id"] = id
    if index is not None:
        found["index"] = index
    return found


def calls(*deltas: list[dict[str, object]]) -> tuple[RawCall, ...]:
    assembly = Assembly()
    for parts in deltas:
        assembly.take(delta(tool_calls=parts))
    return assembly.reply("").calls


def test_a_missing_id_stays_empty_for_the_harness_to_fill() -> None:
    assert calls([part('{"a"', index=0, name="f")], [part(":1}", index=0)]) == (RawCall("", "f", '{"a":1}'),)


def test_the_same_id_twice_stays_two_calls() -> None:
    got = calls([part("{}", index=0, id="c1", name="f"), part("{}", index=1, id="c1", name="g")])
    assert got == (RawCall("c1", "f", "{}"), RawCall("c1", "g", "{}"))


def test_calls_that_all_count_as_number_zero_are_told_apart_by_their_ids() -> None:
    got = calls([part("{}", index=0, id="c1", name="f")], [part('{"b":', index=0, id="c2", name="f")], [part("1}", index=0)])
    assert got == (RawCall("c1", "f", "{}"), RawCall("c2", "f", '{"b":1}'))


def test_an_id_and_name_repeated_in_every_part_stay_one_call() -> None:
    got = calls([part("{", index=0, id="c1", name="f")], [part("}", index=0, id="c1", name="f")])
    assert got == (RawCall("c1", "f", "{}"),)


def test_parts_without_an_index_go_by_id_then_by_place() -> None:
    assert calls([part("{", id="c1", name="f")], [part("}")]) == (RawCall("c1", "f", "{}"),)
    assert calls([part("{}", id="c1", name="f"), part("{}", id="c2", name="g")])[1] == RawCall("c2", "g", "{}")
    assert calls([part("{}", id="c1", name="f"), part("{}", id="c1", name="g")])[1] == RawCall("c1", "g", "{}")


def test_arguments_as_an_object_become_their_text() -> None:
    assert calls([part({"path": "ä"}, index=0, id="c1", name="f")]) == (RawCall("c1", "f", '{"path": "ä"}'),)


def test_text_as_typed_parts_and_a_refusal_are_text() -> None:
    assembly = Assembly()
    assert assembly.take(delta(content=[{"type": "text", "text": "Hi "}, {"type": "text", "text": "you"}])) == "Hi you"
    assert assembly.take(delta(refusal=" No.")) == " No."
    assert assembly.reply("").text == "Hi you No."


def test_a_whole_message_in_one_chunk_is_read() -> None:
    assembly = Assembly()
    assembly.take({"id": "gen-1", "choices": [{"message": {"content": "All."}, "finish_reason": "stop"}]})
    reply = assembly.reply("")
    assert (reply.text, reply.finish_reason, reply.request_id) == ("All.", "stop", "gen-1")


def test_other_choices_than_the_first_are_left_out() -> None:
    assembly = Assembly()
    assembly.take({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]})
    assert assembly.reply("") == Assembly().reply("")


def test_the_last_usage_counts() -> None:
    assembly = Assembly()
    for completion in (1, 2):
        assembly.take({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": completion}})
    assembly.take({"choices": [], "usage": None})
    usage = assembly.reply("").usage
    assert usage is not None
    assert usage.output_tokens == 2


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.randoms(use_true_random=False), st.integers(1, 7))
def test_interleaved_parts_of_any_size_make_the_same_calls(values: list[str], random: Random, size: int) -> None:
    wanted = [json.dumps({"v": value}) for value in values]
    left = {place: [text[i : i + size] for i in range(0, len(text), size)] for place, text in enumerate(wanted)}
    assembly = Assembly()
    for place in left:
        assembly.take(delta(tool_calls=[part("", index=place, id=f"c{place}", name="f")]))
    while left:
        place = random.choice(sorted(left))
        assembly.take(delta(tool_calls=[part(left[place].pop(0), index=place)]))
        if not left[place]:
            del left[place]
    assert [call.arguments for call in assembly.reply("").calls] == wanted


KEYS = st.sampled_from(["choices", "delta", "index", "tool_calls", "function", "id", "name", "arguments", "content", "usage"])
odd = st.recursive(
    st.none() | st.text(max_size=3) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(odd)
def test_no_chunk_however_odd_raises(chunk: object) -> None:
    assembly = Assembly()
    assembly.take(chunk)
    assembly.reply("")
