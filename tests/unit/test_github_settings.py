"""Which GitHub, which token, which repository."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.errors import ConfigError
from agent_harness.github_settings import GitHubAccess, Repository, access_from, parse_github_url, parse_issue

GHES = "https://git.corp.example/api/v3"
OURS = [
    "https://github.com/octo/demo",
    "https://github.com/octo/demo.git",
    "https://github.com/octo/demo/",
    "https://www.github.com/octo/demo",
    "https://GitHub.com:443/octo/demo.git",
    "http://github.com/octo/demo",
    "https://x-access-token:hunter2@github.com/octo/demo.git",
    "git@github.com:octo/demo.git",
    "github.com:octo/demo",
    "ssh://git@github.com/octo/demo.git",
    "ssh://git@github.com:22/octo/demo",
    "ssh://git@ssh.github.com:443/octo/demo.git",
]
NOT_OURS = [
    "https://github.com.evil.example/octo/demo",
    "https://evil.example/github.com/octo/demo",
    "https://github.com@evil.example/octo/demo",
    "https://github.com:8443/octo/demo",
    "https://gist.github.com/octo/demo",
    "https://github.com/octo",
    "https://github.com/octo/demo/issues/7",
    "https://github.com/octo/..",
    "https://github.com/octo/demo?x=1",
    "https://github.com:port/octo/demo",
    "git://github.com/octo/demo",
    "git@gitlab.com:octo/demo.git",
    "ssh://git@github.com:2222/octo/demo",
    "/home/me/github.com/octo/demo",
    "file:///github.com/octo/demo",
    "octo/demo",
    "",
]


PEM = "-----BEGIN RSA PRIVATE KEY-----\\nAAAA\\n-----END RSA PRIVATE KEY-----"


def test_an_app_is_an_id_and_a_key_and_wins_over_the_common_token_only(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text(PEM.replace("\\n", "\n"))
    by_file = access_from({"AGENT_GITHUB_APP_ID": "7", "AGENT_GITHUB_PRIVATE_KEY_FILE": str(file), "GITHUB_TOKEN": "t"})
    by_value = access_from({"AGENT_GITHUB_APP_ID": "7", "AGENT_GITHUB_PRIVATE_KEY": PEM})
    assert by_file.app == by_value.app
    assert by_file.app is not None
    assert (by_file.token, by_file.can_publish, by_file.secrets) == (None, True, (by_file.app.private_key,))
    assert "AAAA" not in repr(by_file) + repr(by_file.app)
    own = access_from({"AGENT_GITHUB_APP_ID": "7", "AGENT_GITHUB_PRIVATE_KEY": PEM, "AGENT_GITHUB_INSTALLATION_TOKEN": "t"})
    assert (own.token, own.app) == ("t", None)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"AGENT_GITHUB_APP_ID": "7"}, "AGENT_GITHUB_PRIVATE_KEY_FILE"),
        ({"AGENT_GITHUB_PRIVATE_KEY": PEM}, "without AGENT_GITHUB_APP_ID"),
        ({"AGENT_GITHUB_APP_ID": "my app", "AGENT_GITHUB_PRIVATE_KEY": PEM}, "'my app'"),
        ({"AGENT_GITHUB_APP_ID": "7", "AGENT_GITHUB_PRIVATE_KEY": "hunter2"}, "no private key in PEM"),
        ({"AGENT_GITHUB_APP_ID": "7", "AGENT_GITHUB_PRIVATE_KEY_FILE": "/nonexistent/k"}, "cannot be read: No such file"),
    ],
)
def test_half_an_app_is_told_with_what_is_missing(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        access_from(environ)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("url", OURS)
def test_a_url_of_a_repository_on_github_names_it(url: str) -> None:
    assert parse_github_url(url) == Repository("octo", "demo")


@pytest.mark.parametrize("url", NOT_OURS)
def test_any_other_url_names_none(url: str) -> None:
    assert parse_github_url(url) is None


def test_an_enterprise_server_s_repositories_are_its_own() -> None:
    assert parse_github_url("git@git.corp.example:octo/demo.git", GHES) == Repository("octo", "demo")
    assert parse_github_url("https://git.corp.example/octo/demo", GHES) == Repository("octo", "demo")
    assert parse_github_url("https://github.com/octo/demo", GHES) is None
    assert GitHubAccess(GHES).clone_url(Repository("octo", "demo")) == "https://git.corp.example/octo/demo.git"
    assert GitHubAccess("https://api.octo.ghe.com/").web_url == "https://octo.ghe.com"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_no_text_makes_the_parsers_fall_over(text: str) -> None:
    for url in (text, f"https://github.com/{text}", f"git@github.com:{text}", f"https://{text}/octo/demo"):
        found = parse_github_url(url)
        assert found is None or parse_github_url(f"https://github.com/{found.full_name}.git") == found
    parse_issue(text)
    parse_issue(f"octo/demo#{text}")


def test_an_issue_is_owner_name_and_number() -> None:
    assert parse_issue("octo/demo.js#12") == (Repository("octo", "demo.js"), 12)
    for text in ("octo/demo", "octo/demo#0", "octo/demo#x", "demo#1", "a/b/c#1", "octo/..#1", "https://github.com/octo/demo#1"):
        assert parse_issue(text) is None


def test_the_installation_token_comes_before_the_other_one() -> None:
    environ = {"GITHUB_TOKEN": "ghp_b", "AGENT_GITHUB_INSTALLATION_TOKEN": " ghs_a "}
    access = access_from(environ)
    assert (access.token, access.source, access.api_url) == (
        "ghs_a",
        "AGENT_GITHUB_INSTALLATION_TOKEN",
        "https://api.github.com",
    )
    assert access_from({"GITHUB_TOKEN": "ghp_b"}).source == "GITHUB_TOKEN"
    assert access_from({"GITHUB_TOKEN": "", "GITHUB_API_URL": GHES}) == GitHubAccess(GHES)
    assert "ghs_a" not in repr(access)


def test_the_transport_has_the_token_in_a_header_alone() -> None:
    transport = GitHubAccess(token="ghs_secret.with-dots").transport(Repository("octo", "demo"))
    pair = base64.b64encode(b"x-access-token:ghs_secret.with-dots").decode()
    assert transport.url == transport.safe_url == "https://github.com/octo/demo.git"
    assert transport.header == f"Authorization: Basic {pair}"
    assert {"ghs_secret.with-dots", pair} <= set(transport.secrets)
    assert GitHubAccess().transport(Repository("octo", "demo")).header is None


@pytest.mark.parametrize(
    "api_url",
    [
        "http://git.corp.example/api/v3",
        "https://git.corp.example",
        "https://me:hunter2@git.corp.example/api/v3",
        "ftp://git.corp.example/api/v3",
        "nonsense",
        "https://host:port/api/v3",
        "https://git.corp.example/api/v3?x=hunter2",
    ],
)
def test_an_address_that_no_github_has_is_refused_with_the_right_spelling(api_url: str) -> None:
    with pytest.raises(ConfigError, match=r"https") as raised:
        access_from({"GITHUB_API_URL": api_url})
    assert raised.value.exit_code == 2


def test_a_token_that_was_pasted_badly_is_refused_without_being_shown() -> None:
    for token in ("ghs_a b", "ghs_ä", "ghs_a\nb"):
        with pytest.raises(ConfigError, match="GITHUB_TOKEN") as raised:
            access_from({"GITHUB_TOKEN": token})
        assert "ghs_" not in str(raised.value)
