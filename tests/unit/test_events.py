"""Every kind of event is one line of the contract: its type, exactly its fields, plain JSON values."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest

from agent_harness import events
from agent_harness.events import EVENT_TYPES, EXIT_CODES, Event, Notice, Outcome, PlanChanged, SessionEnded, UsageSettled
from agent_harness.redact import Redactor
from agent_harness.trace import COMMON_FIELDS, Trace

# The table of the design, as words: one type a line, its fields in order.
CONTRACT = {
    line.split(":")[0]: line.split(":")[1].split()
    for line in """
session_started: task surface model limits branch versions
surface: state detail
user_message: text origin
turn_started: turn
assistant_text: turn text
tool_call: turn id name arguments
verdict: call_id decision by reason instead
tool_result: id name ok content truncated duration_ms exit_code stored
reservation: purpose tokens cost_usd
usage: purpose input_tokens output_tokens cached_tokens cache_write_tokens reasoning_tokens cost_usd estimated \
    total_tokens total_cost_usd
plan: todos notes
hook: event hook exit_code duration_ms decision reason
retry: attempt status error_type request_id wait_s
compaction: tokens_before tokens_after summary
limits_changed: limits
question: id text
answer: id text
checkpoint: ref bytes
intent: effect key
publish_step: step detail
verification: command commit exit_code duration_ms counts digest
notice: kind detail
session_ended: outcome reason exit_code turns tokens cost_usd pull_request summary trace_path
""".strip().splitlines()
}


def test_the_union_is_the_contract_s_and_closed() -> None:
    assert set(EVENT_TYPES) == set(CONTRACT)


@pytest.mark.parametrize("kind", CONTRACT)
def test_an_event_has_exactly_its_fields(kind: str) -> None:
    assert [field.name for field in fields(EVENT_TYPES[kind])] == CONTRACT[kind]


@pytest.mark.parametrize("kind", CONTRACT)
def test_no_field_of_an_event_hides_a_common_one(kind: str) -> None:
    assert set(COMMON_FIELDS).isdisjoint(CONTRACT[kind])


def test_an_event_cannot_be_changed() -> None:
    notice = Notice("warning", "as it was")
    with pytest.raises(FrozenInstanceError):
        notice.detail = "changed"  # pyright: ignore[reportAttributeAccessIssue] - the point of the test


def test_every_public_event_of_the_module_is_in_the_union() -> None:
    classes = {each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event) and each is not Event}
    assert classes == set(EVENT_TYPES.values())


def test_dollars_are_exact_in_the_event_and_numbers_in_its_line() -> None:
    usage = UsageSettled("turn", 10, 2, 0, 0, 0, Decimal("0.0000001"), False, 12, None)
    assert usage.cost_usd == Decimal("0.0000001")
    payload = usage.payload()
    assert payload["cost_usd"] == 1e-07
    assert payload["total_cost_usd"] is None
    assert json.loads(json.dumps(payload)) == payload


def test_nested_values_become_plain_json() -> None:
    payload = PlanChanged([{"content": "a", "cost": [1, {"b": None}]}], ["n"]).payload()
    assert payload == {"todos": [{"content": "a", "cost": [1, {"b": None}]}], "notes": ["n"]}


def test_every_outcome_has_its_exit_code() -> None:
    assert set(EXIT_CODES) == set(get_args(Outcome))
    assert EXIT_CODES == {
        "succeeded": 0,
        "no_changes": 0,
        "failed": 1,
        "over_budget": 3,
        "needs_human": 4,
        "retryable": 5,
        "cancelled": 130,
    }


def test_a_line_has_the_common_fields_first_and_then_the_event_s(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t.jsonl", "s1", Redactor())
    ended = SessionEnded("failed", "bug", 1, 3, 40, None, None, "words", "t.jsonl")
    record = trace.emit(ended)
    trace.close()
    assert list(record) == [*COMMON_FIELDS, *CONTRACT["session_ended"]]
    assert json.loads((tmp_path / "t.jsonl").read_text("utf-8")) == record
