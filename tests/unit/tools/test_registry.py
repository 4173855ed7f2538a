from __future__ import annotations

import json
import subprocess
import sys
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.errors import ToolFailed
from agent_harness.events import JsonValue
from agent_harness.surfaces.base import Capabilities
from agent_harness.tools.registry import TOOLS, JsonObject, parameters, read_call, schema, signature, tools_for

BY_NAME = {tool.name: tool for tool in TOOLS}
NAMES = ["TodoWrite", "list_files", "read_file", "edit_file", "ripgrep", "tree_sitter_symbols", "run_shell", "git"]
ARGUMENTS = {
    "TodoWrite": ["todos", "notes"],
    "list_files": ["path", "depth"],
    "read_file": ["path", "offset", "limit", "encoding"],
    "edit_file": ["path", "old_text", "new_text", "occurrence"],
    "ripgrep": ["query", "path", "glob", "regex", "ignore_case", "include_ignored"],
    "tree_sitter_symbols": ["path"],
    "run_shell": ["command", "timeout_s", "background", "job", "action"],
    "git": ["command", "args"],
}


def test_the_tools_are_those_of_the_design_in_their_order() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    for tool in TOOLS:
        assert list(cast("JsonObject", parameters(tool)["properties"])) == ARGUMENTS[tool.name]


def test_all_schemas_together_stay_within_the_first_request() -> None:
    size = sum(len(json.dumps(schema(tool), separators=(",", ":"), ensure_ascii=False).encode()) for tool in TOOLS)
    assert size <= 4_100


def test_schemas_hold_no_references_titles_or_nulls() -> None:
    text = json.dumps([schema(tool) for tool in TOOLS])
    for word in ("$defs", "$ref", '"title"', "null", "anyOf"):
        assert word not in text


def test_what_a_surface_cannot_do_is_not_offered() -> None:
    names = [tool.name for tool in tools_for(Capabilities(exec=False, network=False, git=False))]
    assert names == NAMES[:6]
    assert [tool.name for tool in tools_for(Capabilities(exec=True, network=False, git=False))] == NAMES[:7]
    assert tools_for(Capabilities(exec=True, network=True, git=True)) == TOOLS


def test_only_the_tools_that_read_may_run_together() -> None:
    assert {tool.name for tool in TOOLS if tool.reads_only} == {"list_files", "read_file", "ripgrep", "tree_sitter_symbols"}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read_file", {}, "`path` is missing"),
        ("read_file", {"path": "a", "lines": 3}, "there is no `lines`"),
        ("read_file", {"path": 3}, "`path`: must be a valid string"),
        ("read_file", {"path": None}, "`path`: must be a valid string"),
        ("read_file", {"path": "a", "offset": "3"}, "`offset`: must be a valid integer"),
        ("read_file", {"path": "a", "offset": True}, "`offset`"),
        ("ripgrep", {"query": "a", "regex": "yes"}, "`regex`: must be a valid boolean"),
        ("edit_file", {"path": "a", "old_text": "", "new_text": "", "occurrence": "2nd"}, "'only', 'first' or 'all'"),
        ("TodoWrite", {"todos": [{"content": "x", "status": "pending", "id": 1}]}, "there is no `todos[0].id`"),
        ("git", {"command": "reset", "args": []}, "`command`: must be 'status', 'diff'"),
    ],
)
def test_wrong_arguments_name_the_key_the_fault_and_the_arguments(name: str, arguments: JsonObject, said: str) -> None:
    tool = BY_NAME[name]
    with pytest.raises(ToolFailed) as caught:
        read_call(tool, arguments)
    assert said in str(caught.value)
    assert str(caught.value).endswith(f"It takes: {signature(tool)}.")


def test_a_null_counts_as_left_out() -> None:
    call = read_call(BY_NAME["read_file"], {"path": "a", "offset": None, "limit": None, "encoding": None})
    assert call.model_dump() == {"path": "a", "offset": 1, "limit": 2_000, "encoding": None}


def test_the_registry_loads_no_grammar() -> None:
    program = "import sys, agent_harness.tools.registry; print([m for m in sys.modules if m.startswith('tree_sitter')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


SCALARS = st.none() | st.booleans() | st.integers(-3, 200) | st.text(max_size=20) | st.floats(allow_nan=False)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3))


def accepts(shape: JsonObject, value: JsonValue) -> bool:
    """A reading of the part of JSON Schema that our schemas use; an unknown word in one is an error."""
    assert set(shape) <= {
        "type", "enum", "properties", "required", "items", "minimum", "maximum", "default", "description",
    }  # fmt: skip
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    kind = kinds[str(shape["type"])]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    if "enum" in shape and value not in cast("list[JsonValue]", shape["enum"]):
        return False
    if isinstance(value, int) and not cast("int", shape.get("minimum", value)) <= value <= cast(
        "int", shape.get("maximum", value)
    ):
        return False
    if isinstance(value, list):
        return all(accepts(cast("JsonObject", shape["items"]), each) for each in value)
    if isinstance(value, dict):
        known = cast("dict[str, JsonObject]", shape["properties"])
        required = cast("list[str]", shape.get("required", []))
        return all(name in value for name in required) and all(accepts(known[k], v) for k, v in value.items() if k in known)
    return True


def from_schema(shape: JsonObject) -> st.SearchStrategy[JsonValue]:
    if "enum" in shape:
        return st.sampled_from(cast("list[JsonValue]", shape["enum"]))
    match shape["type"]:
        case "string":
            return st.text(max_size=5)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(cast("int", shape.get("minimum", 0)), cast("int", shape.get("maximum", 10_000)))
        case "array":
            return st.lists(from_schema(cast("JsonObject", shape["items"])), max_size=3)
        case _:
            properties = {name: from_schema(each) for name, each in cast("dict[str, JsonObject]", shape["properties"]).items()}
            required = set(cast("list[str]", shape.get("required", [])))
            return st.fixed_dictionaries(
                {name: each for name, each in properties.items() if name in required},
                optional={name: each for name, each in properties.items() if name not in required},
            )


@settings(max_examples=120, deadline=None)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_schema_and_validation_accept_the_same(data: st.DataObject, name: str) -> None:
    tool = BY_NAME[name]
    shape = parameters(tool)
    sound = cast("JsonObject", data.draw(from_schema(shape)))
    assert read_call(tool, sound)
    spoiled: JsonObject = {
        **sound,
        data.draw(st.sampled_from(ARGUMENTS[name])): data.draw(JSON.filter(lambda value: value is not None)),
    }
    said = ""
    try:
        read_call(tool, spoiled)
    except ToolFailed as failure:
        said = str(failure)
    assert len(said) < 2_000
    assert said or accepts(shape, spoiled)
