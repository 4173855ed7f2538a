from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.errors import ConfigError
from agent_harness.transport import Transport


@pytest.mark.parametrize(
    ("url", "safe", "protocol"),
    [
        ("/srv/a b%.git", "file:///srv/a%20b%25.git", "file"),
        ("file:///srv/r.git", "file:///srv/r.git", "file"),
        ("HTTPS://user:pa%40ss@Host.example:8443/o/r.git", "https://host.example:8443/o/r.git", "https"),
        ("https://token@host/r", "https://host/r", "https"),
        ("https://[::1]:8/r", "https://[::1]:8/r", "https"),
        ("ssh://git:secret@host:22/r", "ssh://git@host:22/r", "ssh"),
        ("git@host:o/r.git", "git@host:o/r.git", "ssh"),
    ],
)
def test_a_url_is_shown_without_its_credentials(url: str, safe: str, protocol: str) -> None:
    made = Transport(url)
    assert (made.safe_url, made.protocol) == (safe, protocol)
    assert "pa%40ss" not in repr(made)


def test_credentials_become_a_header_and_every_spelling_is_known() -> None:
    made = Transport("https://user:pa%40ss@host/r")
    pair = base64.b64encode(b"user:pa@ss").decode()
    assert made.auth == f"Authorization: Basic {pair}"
    assert made.origin == "https://host"
    assert {"pa@ss", "pa%40ss", pair, pair.rstrip("=")} <= set(made.secrets)
    assert "user" not in made.secrets
    assert "token" in Transport("https://token@host/r").secrets


def test_a_header_of_the_caller_wins_and_is_a_secret() -> None:
    pair = base64.b64encode(b"x-access-token:abc").decode()
    made = Transport("https://u:p@host/r", header=f"Authorization: Basic {pair}")
    assert made.auth == f"Authorization: Basic {pair}"
    assert {"abc", pair} <= set(made.secrets)


@pytest.mark.parametrize(
    "url",
    [
        "", "relative/path", "-o/x", "ext::sh -c true", "git://host/r", "fd::3", "ftp://host/r", "--upload-pack=x:y", "https:///r",
        "https://-host/r", "ssh://-oProxyCommand=x/r", "-oProxyCommand=x:r", "https://host/r\n", "user:secret@host/r",
        "https://[::1/r", "https://host:port/r",
    ],
)  # fmt: skip
def test_what_is_no_url_of_ours_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Transport(url)
    assert "secret" not in str(refusal.value)


SAFE = st.text(
    st.characters(codec="ascii", exclude_characters=":@/?#[]\\%", min_codepoint=33, max_codepoint=126), min_size=6, max_size=20
)


@given(user=SAFE, password=SAFE)
@settings(max_examples=50, deadline=None)
def test_no_password_is_left_in_the_safe_url(user: str, password: str) -> None:
    made = Transport(f"https://{user}:{password}@host.example/o/r.git")
    assert made.safe_url == "https://host.example/o/r.git"
    assert password in made.secrets
