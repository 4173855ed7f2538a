"""The conversation as a fold: one result for each call, in the order asked, nothing between them, nothing changed afterwards."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.events import (
    AssistantText,
    Compacted,
    Event,
    JsonValue,
    Notice,
    ToolCalled,
    ToolReturned,
    TurnStarted,
    UserMessage,
)
from agent_harness.messages import INTERRUPTED, RAW_ARGUMENTS_KEPT, Conversation, Message, sendable_name


def fold(*happened: Event) -> Conversation:
    conversation = Conversation()
    for event in happened:
        conversation.apply({"type": event.type, **event.payload()})
    return conversation


def user(text: str) -> UserMessage:
    return UserMessage(text, "person")


def asked(call_id: str, name: str = "read_file", arguments: dict[str, JsonValue] | str | None = None) -> ToolCalled:
    return ToolCalled(1, call_id, name, {} if arguments is None else arguments)


def answered(call_id: str, content: str = "") -> ToolReturned:
    return ToolReturned(call_id, "read_file", ok=True, content=content or f"result of {call_id}")


def calls_of(message: Message) -> list[dict[str, JsonValue]]:
    return cast("list[dict[str, JsonValue]]", message.get("tool_calls", []))


def shape(messages: Sequence[Message]) -> list[str]:
    """Each message in a word: who speaks, and of which calls."""
    words: list[str] = []
    for message in messages:
        ids = [str(call["id"]) for call in calls_of(message)] or [str(message.get("tool_call_id", ""))]
        words.append(f"{message['role']} {','.join(ids)}".strip())
    return words


def problems(messages: Sequence[Message]) -> list[str]:
    """What a strict provider would refuse."""
    found: list[str] = []
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            call_id = str(message["tool_call_id"])
            if not open_calls or open_calls[0] != call_id:
                found.append(f"result {call_id} without its call, twice or out of order")
            open_calls = [each for each in open_calls if each != call_id]
            continue
        if open_calls:
            found.append(f"{message['role']} between a call and its result")
        ids = [str(call["id"]) for call in calls_of(message)]
        found += [f"call {call_id} twice" for call_id in ids if call_id in seen]
        seen |= set(ids)
        open_calls += ids
        if message["role"] == "assistant" and not ids and not message["content"]:
            found.append("an empty assistant message")
    return found + [f"call {call_id} without a result" for call_id in open_calls]


def test_a_turn_is_an_assistant_message_and_its_results() -> None:
    conversation = fold(
        user("Do it."),
        TurnStarted(1),
        AssistantText(1, "Looking."),
        asked("a", "ripgrep", {"query": "ü"}),
        answered("a", "found"),
    )
    assert conversation.messages == [
        {"role": "user", "content": "Do it."},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ripgrep", "arguments": '{"query": "ü"}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "found"},
    ]


def test_results_stand_in_the_order_asked_whenever_they_came() -> None:
    conversation = fold(TurnStarted(1), asked("a"), asked("b"), asked("c"), answered("c"), answered("a"), answered("b"))
    assert shape(conversation.messages) == ["assistant a,b,c", "tool a", "tool b", "tool c"]
    assert [message["content"] for message in conversation.messages[1:]] == ["result of a", "result of b", "result of c"]


def test_a_message_that_comes_late_stands_after_the_results() -> None:
    conversation = fold(TurnStarted(1), asked("a"), asked("b"), answered("a"), user("Also this."), answered("b"))
    assert shape(conversation.messages) == ["assistant a,b", "tool a", "tool b", "user"]


def test_a_message_between_the_words_and_the_calls_of_a_turn_stands_after_the_results() -> None:
    conversation = fold(TurnStarted(1), AssistantText(1, "Looking."), user("Also this."), asked("a"), answered("a"))
    assert shape(conversation.messages) == ["assistant a", "tool a", "user"]


def test_calls_without_a_result_are_answered_before_the_next_request() -> None:
    conversation = fold(TurnStarted(1), asked("a"), asked("b"), answered("b"), user("Go on."))
    assert problems(conversation.messages) != []
    assert conversation.close_calls() == ["a"]
    assert shape(conversation.messages) == ["assistant a,b", "tool a", "tool b", "user"]
    assert [message["content"] for message in conversation.messages] == [None, INTERRUPTED, "result of b", "Go on."]
    assert conversation.close_calls() == []


def test_a_new_turn_closes_the_calls_of_the_one_before() -> None:
    conversation = fold(TurnStarted(1), asked("a"), TurnStarted(2), AssistantText(2, "Again."))
    assert shape(conversation.messages) == ["assistant a", "tool a", "assistant"]


def test_a_result_that_comes_after_it_was_given_up_changes_nothing() -> None:
    conversation = fold(TurnStarted(1), asked("a"))
    conversation.close_calls()
    before = copy.deepcopy(conversation.messages)
    conversation.apply({"type": "tool_result", **answered("a", "too late").payload()})
    assert conversation.messages == before


def test_orphan_results_and_repeated_ones_are_left_out() -> None:
    conversation = fold(answered("x"), TurnStarted(1), asked("a"), answered("gone"), answered("a"), answered("a", "again"))
    assert shape(conversation.messages) == ["assistant a", "tool a"]
    assert conversation.messages[1]["content"] == "result of a"


def test_a_call_before_any_turn_is_left_out() -> None:
    assert fold(asked("a"), answered("a")).messages == []


def test_an_empty_reply_adds_nothing() -> None:
    assert shape(fold(user("Do it."), TurnStarted(1), TurnStarted(2), AssistantText(2, "Done.")).messages) == [
        "user",
        "assistant",
    ]


def test_unreadable_arguments_travel_as_an_object() -> None:
    raw = '{"path": ' + "x" * 3_000
    conversation = fold(TurnStarted(1), asked("a", arguments=raw))
    function = cast("dict[str, str]", calls_of(conversation.messages[0])[0]["function"])
    assert json.loads(function["arguments"]) == {"unreadable_arguments": raw[:RAW_ARGUMENTS_KEPT]}


def test_a_made_up_name_is_made_sendable() -> None:
    assert sendable_name("read file; rm -rf /") == "read_file__rm_-rf__"
    assert sendable_name("") == "unnamed"
    assert len(sendable_name("x" * 500)) == 64
    assert sendable_name("tree_sitter-symbols2") == "tree_sitter-symbols2"


def test_a_compaction_starts_anew_and_loses_no_late_message() -> None:
    conversation = fold(user("Do it."), TurnStarted(1), asked("a"), user("Also this."), Compacted(9, 3, "So far: nothing."))
    conversation.apply({"type": "tool_result", **answered("a").payload()})
    conversation.close_calls()
    assert [message["content"] for message in conversation.messages] == ["So far: nothing.", "Also this."]


IDS = st.sampled_from("abcdef")
HAPPENINGS = st.lists(
    st.one_of(
        st.just("turn"),
        st.just("turn"),
        st.just("text"),
        st.just("user"),
        st.just("request"),
        st.tuples(st.just("call"), st.integers(1, 3)),
        st.tuples(st.just("result"), st.integers(0, 8)),
        st.just("orphan"),
        st.just("compaction"),
        st.just("notice"),
    ),
    min_size=6,
    max_size=40,
)


class Story:
    """Turns drawn words into events as a session could record them: ids are new, results are for calls that were made."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.said = 0

    def events(self, what: str | tuple[str, int]) -> list[Event]:
        match what:
            case "turn":
                return [TurnStarted(1)]
            case "text":
                return [AssistantText(1, "words")]
            case "user":
                self.said += 1
                return [user(f"message {self.said}")]
            case "orphan":
                return [answered("nobody")]
            case "compaction":
                return [Compacted(2, 1, "summary")]
            case "notice":
                return [Notice("warning", "w")]
            case ("call", int(count)):
                new = [f"call{len(self.calls) + n}" for n in range(count)]
                self.calls += new
                return [asked(call_id) for call_id in new]
            case ("result", int(back)) if back < len(self.calls):
                return [answered(self.calls[-1 - back])]
            case _:
                return []


@given(HAPPENINGS)
@settings(max_examples=300, deadline=None)
def test_every_request_is_one_that_a_strict_provider_takes(happenings: list[str | tuple[str, int]]) -> None:
    conversation, story = Conversation(), Story()
    for what in [*happenings, "request"]:
        if what == "request":
            conversation.close_calls()
            assert problems(conversation.messages) == []
        for event in story.events(what):
            conversation.apply({"type": event.type, **event.payload()})


@given(HAPPENINGS)
@settings(max_examples=300, deadline=None)
def test_what_was_sent_once_is_never_changed(happenings: list[str | tuple[str, int]]) -> None:
    conversation, story = Conversation(), Story()
    sent: list[Message] = []
    for what in [*happenings, "request"]:
        if what == "request":
            conversation.close_calls()
            assert conversation.messages[: len(sent)] == sent
            sent = copy.deepcopy(conversation.messages)
        if what == "compaction":
            sent = []
        # A provider answers a request with a turn, so nothing is added to a turn after the next request.
        if what == "request":
            conversation.apply({"type": "turn_started", "turn": 1})
        for event in story.events(what):
            conversation.apply({"type": event.type, **event.payload()})


@given(HAPPENINGS)
@settings(max_examples=200, deadline=None)
def test_every_message_of_the_person_arrives_once_and_in_order(happenings: list[str | tuple[str, int]]) -> None:
    conversation, story = Conversation(), Story()
    for what in happenings:
        if what == "compaction":
            continue
        for event in story.events(what):
            conversation.apply({"type": event.type, **event.payload()})
    conversation.close_calls()
    said = [message["content"] for message in conversation.messages if message["role"] == "user"]
    assert said == [f"message {n + 1}" for n in range(story.said)]


@given(HAPPENINGS)
@settings(max_examples=100, deadline=None)
def test_the_same_records_give_the_same_messages(happenings: list[str | tuple[str, int]]) -> None:
    story = Story()
    recorded = [event for what in happenings for event in story.events(what)]
    one, two = fold(*recorded), fold(*recorded)
    assert (one.messages, one.close_calls()) == (two.messages, two.close_calls())
