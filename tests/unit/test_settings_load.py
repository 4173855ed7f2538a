"""Flag > environment > config file > default; every refusal says what was read, from where, and what to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_harness.errors import ConfigError
from agent_harness.settings import Settings
from agent_harness.settings_load import Flags, load, state_home
from agent_harness.settings_values import count, dollars, price
from agent_harness.task import Limits, Permits

KEY = {"OPENAI_API_KEY": "sk-test", "AGENT_MODEL": "m"}


class Place:
    """A home with a config file in it, and a folder to start in."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.started_in = folder / "start"
        self.started_in.mkdir()
        self.file = self.home / ".config" / "agent-harness" / "config.toml"

    def write(self, text: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text, "utf-8")

    def load(self, environ: Mapping[str, str] = KEY, /, repo: str = ".", text: str = "do it", **values: object) -> Settings:
        flags = Flags(repo, text, values=values)
        return load(flags, {"HOME": str(self.home), **environ}, self.started_in)

    def refusal(self, environ: Mapping[str, str] = KEY, /, repo: str = ".", text: str = "do it", **values: object) -> str:
        with pytest.raises(ConfigError) as raised:
            self.load(environ, repo, text, **values)
        message = str(raised.value)
        assert "\n" not in message
        assert raised.value.exit_code == 2
        return message


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_flag_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default(place: Place) -> None:
    assert place.load().limits == Limits()
    place.write('model = "from-file"\nmax_turns = 7\n')
    assert place.load({"OPENAI_API_KEY": "k"}).endpoint.model == "from-file"
    assert place.load().endpoint.model == "m"
    assert place.load(model="from-flag").endpoint.model == "from-flag"
    assert place.load().limits.max_turns == 7
    assert place.load(max_turns="9").limits.max_turns == 9


def test_agent_model_wins_over_openai_model(place: Place) -> None:
    assert place.load({**KEY, "OPENAI_MODEL": "other"}).endpoint.model == "m"
    assert place.load({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "other"}).endpoint.model == "other"


def test_the_endpoint_is_openai_s_unless_another_is_named(place: Place) -> None:
    assert place.load().endpoint.base_url == "https://api.openai.com/v1"
    assert place.load({**KEY, "OPENAI_BASE_URL": "http://127.0.0.1:8080/v1/"}).endpoint.base_url == "http://127.0.0.1:8080/v1"


def test_openrouter_is_used_when_only_its_key_is_set(place: Place) -> None:
    only = place.load({"OPENROUTER_API_KEY": "or", "AGENT_MODEL": "m"}).endpoint
    assert (only.base_url, only.api_key, only.source) == ("https://openrouter.ai/api/v1", "or", "OPENROUTER_API_KEY")
    assert place.load({**KEY, "OPENROUTER_API_KEY": "or"}).endpoint.api_key == "sk-test"


def test_the_openrouter_key_is_never_sent_to_another_address(place: Place) -> None:
    environ = {"OPENROUTER_API_KEY": "or", "OPENAI_BASE_URL": "https://elsewhere.example/v1", "AGENT_MODEL": "m"}
    assert "OPENAI_BASE_URL is set and the only key is OPENROUTER_API_KEY" in place.refusal(environ)


def test_no_key_says_which_variables_to_set(place: Place) -> None:
    message = place.refusal({"AGENT_MODEL": "m"})
    assert "OPENAI_API_KEY" in message
    assert "OPENROUTER_API_KEY" in message


def test_an_empty_variable_counts_as_not_set(place: Place) -> None:
    assert "no API key" in place.refusal({"AGENT_MODEL": "m", "OPENAI_API_KEY": " \n"})


def test_a_key_with_a_line_end_is_cleaned_and_one_with_a_blank_is_refused_without_showing_it(place: Place) -> None:
    assert place.load({**KEY, "OPENAI_API_KEY": "sk-x\n"}).endpoint.api_key == "sk-x"
    message = place.refusal({**KEY, "OPENAI_API_KEY": "sk-secret other"})
    assert "OPENAI_API_KEY" in message
    assert "secret" not in message


def test_no_model_says_how_to_set_one(place: Place) -> None:
    message = place.refusal({"OPENAI_API_KEY": "k"})
    assert "--model" in message
    assert "AGENT_MODEL" in message


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_task_is_refused(place: Place, text: str) -> None:
    assert "the task is empty" in place.refusal(text=text)


def test_an_issue_is_a_task_by_itself_unless_a_folder_has_its_name(place: Place) -> None:
    assert place.load(repo="owner/name#12", text="").text == ""
    (place.started_in / "owner" / "name#12").mkdir(parents=True)
    assert "the task is empty" in place.refusal(repo="owner/name#12", text="")


@pytest.mark.parametrize(
    "url", ["ftp://x/v1", "example.com/v1", "https://", "https://[::1", "https://h:99999/v1", "https://h/v1?key=1"]
)
def test_a_base_url_that_cannot_work_is_refused(place: Place, url: str) -> None:
    assert "OPENAI_BASE_URL" in place.refusal({**KEY, "OPENAI_BASE_URL": url})


def test_a_base_url_with_a_password_is_refused_without_showing_it(place: Place) -> None:
    message = place.refusal({**KEY, "OPENAI_BASE_URL": "https://user:hunter2@h/v1"})
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_turns", "0"),
        ("max_turns", "many"),
        ("max_tokens", "-5"),
        ("max_tokens", "1.5"),
        ("max_completion_tokens", ""),
        ("max_cost", "0"),
        ("max_cost", "NaN"),
        ("max_cost", "free"),
        ("max_seconds", "-1"),
        ("max_seconds", "inf"),
        ("price_in", "-1"),
        ("price_out", "0.12345678"),
    ],
)
def test_a_bad_number_names_its_flag_and_what_was_found(place: Place, name: str, value: str) -> None:
    message = place.refusal(KEY, **{name: value})
    assert "--" + name.replace("_", "-") in message
    assert repr(value) in message


def test_a_bad_number_in_the_file_names_the_file(place: Place) -> None:
    place.write("max_turns = true\n")
    assert f"'max_turns' in {str(place.file)!r}" in place.refusal()


def test_a_cost_of_none_is_no_ceiling(place: Place) -> None:
    assert place.load(max_cost="none").limits.max_cost_usd is None
    assert place.load(max_cost="0.50").limits.max_cost_usd == Decimal("0.50")


def test_one_price_alone_is_refused(place: Place) -> None:
    assert "--price-in and --price-out" in place.refusal(price_in="1")
    assert place.load(price_in="1", price_out="2.5").price_out == Decimal("2.5")


def test_an_unknown_key_of_the_file_is_refused_with_the_nearest_known(place: Place) -> None:
    place.write("max_turn = 3\n")
    assert "did you mean 'max_turns'?" in place.refusal()


def test_a_file_that_is_no_toml_is_refused_with_its_name(place: Place) -> None:
    place.write("max_turns: 3\n")
    assert str(place.file) in place.refusal()


def test_a_surface_that_is_not_there_yet_is_refused(place: Place) -> None:
    assert "not available yet" in place.refusal(surface="e2b")


@pytest.mark.parametrize(
    ("repo", "given", "surface", "pull_request"),
    [
        (".", {}, "host", False),
        (".", {"surface": "auto"}, "host", False),
        (".", {"pr": True}, "host", True),
        (".", {"surface": "local"}, "local", True),
        ("no/such/path", {}, "host", False),
        ("https://git.example.com/x.git", {}, "local", True),
        ("https://git.example.com/x.git", {"pr": False}, "local", False),
        ("owner/name#7", {}, "local", True),
    ],
)
def test_a_path_is_worked_on_in_place_without_a_pull_request_and_a_url_as_a_clone_with_one(
    place: Place, repo: str, given: dict[str, object], surface: str, pull_request: bool
) -> None:
    settings = load(Flags(repo, "do it", values=given), {"HOME": str(place.home), **KEY}, place.started_in)
    assert (settings.surface, settings.pull_request) == (surface, pull_request)


def test_a_url_cannot_be_worked_on_in_place(place: Place) -> None:
    assert "works in a checkout on this machine" in place.refusal(repo="https://git.example.com/x.git", surface="host")


def test_a_file_in_the_worked_on_repository_sets_nothing(place: Place) -> None:
    for name in (".env", "config.toml", "agent-harness.toml", ".agent-harness/config.toml", ".config/agent-harness/config.toml"):
        planted = place.started_in / name
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_text('model = "planted"\nAGENT_MODEL=planted\nOPENAI_API_KEY=planted\n', "utf-8")
    assert place.load().endpoint.model == "m"
    assert "no API key" in place.refusal({"AGENT_MODEL": "m"})
    # Control: the same text in the person's own file does count, so it would be seen.
    place.write('model = "planted"\n')
    assert place.load({"OPENAI_API_KEY": "k"}).endpoint.model == "planted"


def test_a_relative_xdg_folder_is_ignored(place: Place) -> None:
    inside = place.started_in / "agent-harness" / "config.toml"
    inside.parent.mkdir()
    inside.write_text('model = "planted"\n', "utf-8")
    assert "no model" in place.refusal({"OPENAI_API_KEY": "k", "XDG_CONFIG_HOME": "."})


def test_sessions_are_kept_in_the_state_folder_or_where_the_variable_says(place: Place) -> None:
    assert place.load().home == place.home / ".local/state/agent-harness"
    assert place.load({**KEY, "AGENT_HARNESS_HOME": "/srv/sessions"}).home == Path("/srv/sessions")
    assert state_home({"XDG_STATE_HOME": "/var/x"}) == Path("/var/x/agent-harness")
    assert "absolute" in place.refusal({**KEY, "AGENT_HARNESS_HOME": "here"})


def test_loading_creates_nothing(place: Place, tmp_path: Path) -> None:
    place.load()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["start"]


def test_each_line_of_a_hook_variable_is_a_hook(place: Place) -> None:
    hooks = place.load({**KEY, "AGENT_HOOK_PRE_TOOL_USE": "./one.sh\n\n ./two.sh --x \n", "AGENT_HOOK_STOP": "./stop.sh"}).hooks
    assert [(h.event, h.command, h.timeout_s, h.fail_open) for h in hooks] == [
        ("PreToolUse", "./one.sh", 30, False),
        ("PreToolUse", "./two.sh --x", 30, False),
        ("Stop", "./stop.sh", 60, False),
    ]


def test_a_misspelt_hook_variable_is_refused_because_its_policy_would_silently_not_run(place: Place) -> None:
    assert "did you mean 'AGENT_HOOK_PRE_TOOL_USE'?" in place.refusal({**KEY, "AGENT_HOOK_PRETOOL_USE": "./x"})


def test_hook_limits_come_from_their_variables(place: Place) -> None:
    environ = {**KEY, "AGENT_HOOK_STOP": "x", "AGENT_HOOK_TIMEOUT": "2.5", "AGENT_HOOK_ON_FAILURE": "continue"}
    (hook,) = place.load(environ).hooks
    assert (hook.timeout_s, hook.fail_open) == (2.5, True)
    assert "AGENT_HOOK_TIMEOUT" in place.refusal({**environ, "AGENT_HOOK_TIMEOUT": "soon"})
    assert "'block'" in place.refusal({**environ, "AGENT_HOOK_ON_FAILURE": "maybe"})


def test_hooks_of_the_file_count_unless_the_variable_of_that_event_is_set(place: Place) -> None:
    place.write('[hooks]\nPreToolUse = ["./a", "./b"]\nStop = "./s"\n')
    assert [hook.command for hook in place.load().hooks] == ["./a", "./b", "./s"]
    assert [hook.command for hook in place.load({**KEY, "AGENT_HOOK_PRE_TOOL_USE": "./c"}).hooks] == ["./s", "./c"]
    place.write('[hooks]\nPreTool = "./a"\n')
    assert "did you mean 'PreToolUse'?" in place.refusal()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=20), st.integers(), st.booleans(), st.none(), st.floats(), st.decimals()))
def test_any_value_is_a_number_in_range_or_one_line_of_refusal(value: object) -> None:
    for parse in (count, dollars, price):
        try:
            got = parse(value, "--flag")
        except ConfigError as refused:
            message = str(refused)
        else:
            assert got is None or got >= 0
            continue
        assert message.startswith("--flag is ")
        assert message.isprintable()


def test_instructions_are_the_text_of_a_file_of_the_person(place: Place) -> None:
    (place.started_in / "mine.md").write_bytes("\ufeffWrite British English.\n\nBe brief.\n".encode())
    assert place.load(instructions="mine.md").instructions == "Write British English.\n\nBe brief."
    assert place.load(instructions=str(place.started_in / "mine.md")).instructions.startswith("Write")
    assert place.load().instructions == ""


def test_instructions_of_the_config_file_lie_beside_it_and_the_flag_wins(place: Place) -> None:
    place.write('instructions = "mine.md"\n')
    (place.file.parent / "mine.md").write_text("From the config.")
    (place.started_in / "mine.md").write_text("From the flag.")
    assert place.load().instructions == "From the config."
    assert place.load(instructions="mine.md").instructions == "From the flag."


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "--instructions is 'mine.md', which is not there"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"caf\xe9", "no UTF-8 text (byte 3)"),
        (b"a\0b", "NUL"),
        (b"x" * ((32 << 10) + 1), "32,768 bytes"),
    ],
)
def test_instructions_that_cannot_be_used_are_told(place: Place, content: bytes | None, told: str) -> None:
    if content is not None:
        (place.started_in / "mine.md").write_bytes(content)
    message = place.refusal(instructions="mine.md")
    assert told in message
    assert "'mine.md'" in message


def test_instructions_that_are_no_file_are_told_and_never_waited_for(place: Place) -> None:
    os.mkfifo(place.started_in / "pipe")
    assert "which is no regular file" in place.refusal(instructions="pipe")
    assert "which is a folder" in place.refusal(instructions=".")
    assert "cannot be read: File name too long" in place.refusal(instructions="x" * 300)


@pytest.mark.parametrize("name", ["a\nb", "a\n", "a\udcff", "a\x1bb", "a\x85b"])
@pytest.mark.parametrize("variable", ["AGENT_HARNESS_HOME", "XDG_STATE_HOME"])
def test_a_folder_for_sessions_that_no_line_of_text_can_name_is_refused_at_the_start(
    place: Place, variable: str, name: str
) -> None:
    message = place.refusal({**KEY, variable: f"/srv/{name}"})
    assert "AGENT_HARNESS_HOME" in message
    assert place.load({**KEY, variable: "/srv/caf\u00e9 x"}).home.is_relative_to("/srv/caf\u00e9 x")


def test_a_relative_home_is_refused_where_it_would_count_and_a_relative_xdg_folder_is_ignored(place: Place) -> None:
    assert "HOME is 'rel'" in place.refusal({**KEY, "HOME": "rel"})
    assert state_home({"HOME": "/home/ann", "XDG_STATE_HOME": "rel"}) == Path("/home/ann/.local/state/agent-harness")
    places = {"XDG_CONFIG_HOME": str(place.home), "AGENT_HARNESS_HOME": "/srv/sessions"}
    assert place.load({**KEY, **places, "HOME": "rel"}).home == Path("/srv/sessions")


@pytest.mark.parametrize("glob", ["**", "*", "**/*", "?*", "*/", "**/**", "a{,b}/../*", "{secrets,*}", "./**"])
def test_a_pattern_that_denies_every_file_is_refused(place: Place, glob: str) -> None:
    if ".." in glob:
        assert "names nothing" in place.refusal(deny=[glob])
    else:
        assert "denies every file" in place.refusal(deny=["secrets/**", glob])


def test_an_absolute_pattern_is_refused_because_patterns_are_relative_to_the_repository(place: Place) -> None:
    assert "relative to the repository's root" in place.refusal(deny=["/home/ann/shop/secrets/**"])


def test_patterns_that_leave_something_to_read_are_taken(place: Place) -> None:
    globs = ("*.*", "*/*", "secrets/**", "./top", "**/private/*", "[a-m]*", "??*")
    assert place.load(deny=globs).deny == globs


def test_what_may_be_changed_comes_from_flags_or_the_config_file_and_is_read_at_once(tmp_path: Path) -> None:
    config = tmp_path / "agent-harness" / "config.toml"
    config.parent.mkdir()
    config.write_text('scope = ["src/**"]\nallow_workflows = true\n', "utf-8")
    environ = {"OPENAI_API_KEY": "k", "AGENT_MODEL": "m", "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    assert load(Flags("x", "y"), environ, tmp_path).permits == Permits(("src/**",), workflows=True)
    asked = Flags("x", "y", values={"scope": ["docs/**", "*.md"], "allow_secrets": ["tests/**"]})
    assert load(asked, environ, tmp_path).permits == Permits(("docs/**", "*.md"), workflows=True, secrets=("tests/**",))
    for wrong in ("/src", "[a", ".."):
        with pytest.raises(ConfigError):
            load(Flags("x", "y", values={"scope": [wrong]}), environ, tmp_path)


def test_permits_add_up_and_a_scope_is_only_ever_widened_where_there_is_one() -> None:
    assert Permits(("a",)) | Permits(("b",), workflows=True) == Permits(("a", "b"), workflows=True)
    assert Permits() | Permits(("b",), secrets=("t",)) == Permits((), secrets=("t",))
