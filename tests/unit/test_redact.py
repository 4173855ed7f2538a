"""Secrets out, everything else untouched, in linear time, whole or in pieces."""

from __future__ import annotations

import base64
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.events import JsonValue
from agent_harness.redact import HELD_BACK_CHARS, PLACEHOLDER, Redactor

KNOWN = "sesame-open-4711"
SPACED = "correct horse, battery\nstaple of the second line"
REDACTOR = Redactor([KNOWN, SPACED, "12345"])
KEY_LINES = [base64.b64encode(bytes(range(n, n + 48))).decode() for n in range(4)]
PEM = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"])
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

# What a secret is, and the part of it that must be gone. Put together here, so that no scanner takes this file for a leak.
TOKENS = {
    "classic GitHub token": "ghp_" + "a1B2" * 9,
    "stateless installation token": "ghs_123456_" + JWT,
    "fine-grained GitHub token": "github_pat_" + "11AAAA_" * 10,
    "GitLab token": "glpat-" + "x9-Y_z" * 4,
    "OpenAI key": "sk-proj-" + "Ab1" * 20,
    "OpenRouter key": "sk-or-v1-" + "0af9" * 16,
    "Anthropic key": "sk-ant-api03-" + "zZ_9-" * 3 + "q1w2e3r4t5y6",
    "Langfuse secret": "sk-lf-7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "E2B key": "e2b_" + "0123456789abcdef" * 2,
    "Slack token": "xoxb-" + "1234567890-" * 3 + "AbCdEf",
    "AWS key id": "AKIA" + "ABCDEFGH" * 2,
    "Google key": "AIza" + "Sy_-9" * 7,
    "npm token": "npm_" + "aB3" * 12,
    "Hugging Face token": "hf_" + "aBc4" * 9,
    "JWT": JWT,
}
AROUND = [
    *("{}", "token={}", "'{}',", "see {} here", '{{"key": "{}"}}', "a line\n{}\nanother"),
    # As a string of JSON or of a program shows a line break, as a URL and as a terminal's colour.
    *("{{'log': 'a line\\n{}'}}", "?a=b%3D{}&c", "\x1b[32m{}\x1b[0m", "\x1b[1;31m{}", "\\u003d{}"),
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_credential_is_recognised_by_its_shape(token: str, around: str) -> None:
    text = around.format(token)
    assert token in text
    clean = REDACTOR.text(text)
    assert PLACEHOLDER.sub("", clean) == around.format("")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdefghij12345", "abcdefghij12345"),
        ('{"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}', "dXNlcjpwYXNzd29yZA"),
        ("authorization = token 0123456789abcdef", "0123456789abcdef"),
        ("http.extraheader=AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46", "eC1hY2Nlc3"),
        (r'"{\"Authorization\": \"Bearer abcdefghij12345\"}"', "abcdefghij12345"),
        ("[('authorization', 'Bearer abcdefghij12345')]", "abcdefghij12345"),
        ("[(b'Authorization', b'BEARER abcdefghij12345')]", "abcdefghij12345"),
        ("Authorization: Bearer thisisaverylongwordofatoken", "verylongword"),
        ("backup_token_ghp_" + "a1B2" * 9, "a1B2"),
        ("const secretAccessKey = '" + "wJalrXUtnF/+=mK7" * 2 + "abcdefgh'", "wJalrXUtnF"),
        ("git clone https://ann:pa55:w0rd@example.org/x.git", "pa55:w0rd"),
        ("https://0123456789abcdef:x-oauth-basic@example.org/x", "0123456789abcdef"),
        ("amqp://:hidden%20word@queue:5672", "hidden%20word"),
        ("https://ann:pa@ss@example.org", "ss@"),
        ("aws_secret_access_key = " + "wJalrXUtnF/+=mK7" * 2 + "abcdefgh", "wJalrXUtnF"),
        (PEM, KEY_LINES[1]),
        (json.dumps({"key": PEM}), KEY_LINES[2]),
        ("\n".join(f"{n}\t{line}" for n, line in enumerate(PEM.splitlines(), 1)), KEY_LINES[3]),
        ("".join(f'    "{line}\\n"\n' for line in PEM.splitlines()), KEY_LINES[0]),
        (PEM[: PEM.index("-----END")], KEY_LINES[0]),
    ],
)
def test_a_secret_is_recognised_by_what_stands_before_it(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in REDACTOR.text(text)
    assert "[REDACTED:" in REDACTOR.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "commit 8373475c0ffee0123456789abcdef0123456789a",
        "id = '7c9e6679-7425-40de-944b-e07fc1f90ae7'",
        "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 20).decode(),
        "sha512-" + base64.b64encode(bytes(range(64))).decode(),
        "eyJ is how base64 of an object begins, eyJhbGciOiJIUzI1NiJ9 alone is no token",
        "git checkout task-desk-1 && ./risk-assessment-of-the-year-2024",
        ".sk-loading-indicator-container-2 { color: red }",
        "sk-learn, sk-image and sk-surv-are-packages-since-2019",
        "Authorization: required for all administrators",
        "Authorization: Basic authentication",
        "night_ghost_of_the_old_house highs_and_lows_of_the_whole_week_2024",
        "the authorization: the permission to do something",
        'headers = {"Authorization": f"Bearer {token}"}',
        'headers["Authorization"] = "Bearer " + api_token',
        "curl -H 'Authorization: Bearer YOUR_API_KEY'",
        "Authorization: Bearer $ACCESS_TOKEN_1",
        "git@example.org:shop.git ssh://git@example.org/shop http://[::1]:8080/a@b",
        "https://example.org:8080/path?mail=a@b.c",
        "postgres://${USER}:${PASSWORD}@db/shop",
        "see http://a.example and mail to b@c.example: thanks",
        'if line == "-----BEGIN PRIVATE KEY-----":\n    return parse_key(body, "8373475c0ffee0123456789abcdef0123456789a")',
        "-----BEGIN CERTIFICATE-----\n" + "\n".join(KEY_LINES),
        "e2b_template npm_config_registry hf_hub_download AKIA_LIKE xoxo",
        "port 12345, 1234567",
    ],
)
def test_ordinary_text_and_code_stay_as_they_are(text: str) -> None:
    assert REDACTOR.text(text) == text


@pytest.mark.parametrize(
    "spelling",
    [
        "pass word/with+signs=&ü",
        "pass%20word%2Fwith%2Bsigns%3D%26%C3%BC",
        "pass word/with+signs=&\\u00fc",
        base64.b64encode("pass word/with+signs=&ü".encode()).decode(),
        base64.b64encode("pass word/with+signs=&ü".encode()).decode().rstrip("="),
        base64.b64encode("x-access-token:pass word/with+signs=&ü".encode()).decode(),
    ],
)
def test_a_known_secret_is_found_in_every_spelling(spelling: str) -> None:
    text = f"before {spelling} after"
    assert Redactor(["something else"]).text(text) == text
    assert Redactor(["pass word/with+signs=&ü"]).text(text) == "before [REDACTED:known-secret] after"


@pytest.mark.parametrize("word", ["known-secret", "REDACTED", "[REDACTED:", "]and-more"])
def test_a_known_secret_that_is_a_word_of_a_placeholder_is_replaced_once(word: str) -> None:
    redactor = Redactor([word, KNOWN])
    once = redactor.text(f"{word} or {KNOWN}and-more")
    assert once == "[REDACTED:known-secret] or [REDACTED:known-secret]and-more"
    assert redactor.text(once).replace(word, "") == once.replace(word, "")


def test_keys_that_become_equal_lose_no_value() -> None:
    redactor = Redactor(["first-secret", "second-secret"])
    value: dict[str, JsonValue] = {"first-secret": 1, "second-secret": 2}
    clean = redactor.value(value)
    assert clean == {"[REDACTED:known-secret]": 1, "[REDACTED:known-secret] (2)": 2}
    assert redactor.value(clean) == clean


def test_the_longer_of_two_known_secrets_is_replaced_whole() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-and-more"]).text("abcdefgh-and-more") == "[REDACTED:known-secret]"


def test_a_line_of_a_known_key_is_a_secret_by_itself() -> None:
    assert Redactor([PEM]).text(f"+ {KEY_LINES[2]}") == "+ [REDACTED:known-secret]"
    assert Redactor([PEM]).text("-----BEGIN RSA PRIVATE KEY-----") == "-----BEGIN RSA PRIVATE KEY-----"


def test_a_secret_of_bytes_that_are_no_text_is_taken() -> None:
    assert Redactor(["caf\udce9-secret-word"]).text("a caf\udce9-secret-word") == "a [REDACTED:known-secret]"


def test_values_are_walked_with_their_keys_and_other_kinds_kept() -> None:
    value: dict[str, JsonValue] = {KNOWN: [1, None, True, 2.5, {"x": f"a {KNOWN}"}], "same": "same"}
    hidden = "[REDACTED:known-secret]"
    assert REDACTOR.value(value) == {hidden: [1, None, True, 2.5, {"x": f"a {hidden}"}], "same": "same"}
    assert KNOWN in value


REPEATS = [
    *("x", "a-", "eyJ", "eyJaaaaaaaa.", "sk-", "sk-a1-", "ghp_", "xoxb-", "AKIA", "hf_", "://", "://a:", "://a:b@", "[REDACTED:"),
    "://" + ":" * 600,
    *("%41sk-", "\\nsk-", "[1msk-a-", "\\u0041eyJ", "\\neyJaaaaaaaa.", "ghp_a1B2", "1mghp_", "lf_a", "e2b_a"),
    "Authorization: Bearer ",
    "uthorization: Bearer " + "a" * 300 + " ",
    "aws_secret_access_key = ",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----" + ("A" * 31 + ".") * 5,
    "-----BEGIN PRIVATE KEY-----" + "A" * 64 + "\n",
    "sk-" + "aaaaaaaaa1-" * 100 + " ",
]


@pytest.mark.parametrize("unit", REPEATS, ids=lambda unit: str(unit)[:30])
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    def seconds(chars: int) -> float:
        text = (unit * (chars // len(unit) + 1))[:chars]
        best = float("inf")
        for _ in range(3):
            started = time.thread_time()  # what this thread used, however busy the machine is
            REDACTOR.text(text)
            best = min(best, time.thread_time() - started)
        return best

    small, large = seconds(60_000), seconds(480_000)
    # Eight times the text: eight times the time, or a little more for what no cache holds; quadratic would be sixty-four times.
    assert large < 24 * small + 0.05


PIECES = st.one_of(
    st.sampled_from(
        [
            *TOKENS.values(),
            *(
                " ",
                "\n",
                " ",
                "\n",
                "\t",
                "-",
                "_",
                '"',
                ":",
                "=",
                ".",
                "a",
                "word",
                "Bearer ",
                "Authorization: ",
                "Authorization: Bearer ",
            ),
            *(
                KNOWN,
                KNOWN[:9],
                SPACED,
                SPACED[:8],
                SPACED[:30],
                "correct ",
                PEM,
                PEM[:60],
                "-----BEGIN ",
                "-----BEGIN RSA PRIVATE KEY-----\n",
            ),
            *(
                KEY_LINES[0],
                "-----END RSA PRIVATE KEY-----",
                "https://ann:pass1@",
                "://",
                "@",
                "sk-",
                "ghp_",
                "AKIA",
                "SecretAccessKey: ",
            ),
            *("[REDACTED:jwt]", "%3D", "\\n", "\x1b[32m", "\\u003d", "ghp_" + "a1B2" * 9, "lf_"),
        ]
    ),
    st.text(alphabet="ab1_- \n\"'@:/.=[]", max_size=12),
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@given(TEXTS)
@settings(max_examples=250, deadline=None)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_no_known_secret_is_left(text: str) -> None:
    assert KNOWN not in REDACTOR.text(text)
    assert SPACED not in REDACTOR.text(text)


@given(TEXTS, st.lists(st.integers(1, 40), min_size=1, max_size=20))
@settings(max_examples=400, deadline=None)
def test_a_stream_gives_the_same_text_for_any_split(text: str, sizes: list[int]) -> None:
    stream = REDACTOR.stream()
    shown: list[str] = []
    position = turn = 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        shown.append(stream.feed(text[position : position + size]))
        position, turn = position + size, turn + 1
    shown.append(stream.finish())
    assert "".join(shown) == REDACTOR.text(text)


def test_words_are_shown_as_soon_as_they_are_complete() -> None:
    stream = REDACTOR.stream()
    assert stream.feed("The first wo") == "The first "
    assert stream.feed("rd, then ") == "word, then "
    assert stream.feed("ghp_" + "a1" * 10) == ""
    assert stream.feed("b2" * 10 + " end") == "[REDACTED:github-token] "
    assert stream.finish() == "end"


@pytest.mark.parametrize("unit", ["x", '{"a":1},', "-----BEGIN PRIVATE KEY-----" + "A" * 64, "A" * 63 + "\n", "Authorization: "])
def test_what_a_stream_holds_back_is_bounded(unit: str) -> None:
    stream = REDACTOR.stream()
    for _ in range(100):
        stream.feed(unit * (1_000 // len(unit) + 1))
    assert len(stream.finish()) <= HELD_BACK_CHARS + 2_000


def test_a_known_secret_in_an_endless_line_is_not_torn() -> None:
    stream = REDACTOR.stream()
    text = ("x" * 997 + KNOWN) * 100
    shown = "".join(stream.feed(text[start : start + 701]) for start in range(0, len(text), 701)) + stream.finish()
    assert shown == REDACTOR.text(text)
