"""What the wiring decides by itself: names of sessions, and which variables hold credentials."""

from __future__ import annotations

import re

import pytest

from agent_harness.build import credentials_in, new_id


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "api_key", "MYAPIKEY", "X_TOKENS"]
)
def test_a_variable_whose_name_says_credential_is_one(name: str) -> None:
    assert credentials_in({name: "value-of-it"}) == ["value-of-it"]


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PIP_KEYRING_PROVIDER",
        "TOKENIZERS_PARALLELISM",
        "SSH_AUTH_SOCK",
        "AGENT_GITHUB_PRIVATE_KEY_FILE",
        "AWS_ACCESS_KEY_ID",
        "KEYBOARD",
    ],
)
def test_a_variable_that_only_sounds_like_one_is_none(name: str) -> None:
    assert credentials_in({name: "subprocess"}) == []


def test_ids_are_lower_case_typeable_and_sort_by_time() -> None:
    ids = {new_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"\d{8}-\d{6}-[a-z2-9]{4}", session) for session in ids)
