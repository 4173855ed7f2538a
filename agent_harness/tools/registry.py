"""The one registry: dispatcher, model and MCP read these same definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import ValidationError

from agent_harness.errors import ToolFailed
from agent_harness.events import JsonValue
from agent_harness.surfaces.base import Capabilities
from agent_harness.tools.base import Arguments, Tool
from agent_harness.tools.edit import edit_file
from agent_harness.tools.files import list_files, read_file
from agent_harness.tools.git_tool import git
from agent_harness.tools.plan import todo_write
from agent_harness.tools.search import ripgrep
from agent_harness.tools.shell import run_shell
from agent_harness.tools.symbols import tree_sitter_symbols

JsonObject = dict[str, JsonValue]
PROBLEMS_NAMED = 5
MESSAGE_CHARS = 1_900

TOOLS: tuple[Tool[Arguments], ...] = cast(
    "tuple[Tool[Arguments], ...]",
    (todo_write, list_files, read_file, edit_file, ripgrep, tree_sitter_symbols, run_shell, git),
)
"""Every tool, in the order that each request lists them in (a stable prefix for provider caches)."""


def tools_for(capabilities: Capabilities) -> tuple[Tool[Arguments], ...]:
    """The tools that a surface with these capabilities can offer, in the fixed order."""
    has = {name for name, there in (("exec", capabilities.exec), ("git", capabilities.git)) if there}
    return tuple(tool for tool in TOOLS if tool.needs <= has)


def schema(tool: Tool[Arguments]) -> dict[str, object]:
    """The tool as chat-completions endpoints take it; small, because every request carries it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters(tool)},
    }


def parameters(tool: Tool[Arguments]) -> JsonObject:
    """The JSON schema of the tool's arguments: no titles, references or nulls (leaving an argument out is enough)."""
    whole = cast("JsonObject", tool.arguments.model_json_schema())
    definitions = cast("JsonObject", whole.pop("$defs", {}))
    return cast("JsonObject", _small(whole, definitions))


def _small(node: JsonValue, definitions: JsonObject) -> JsonValue:
    if isinstance(node, list):
        return [_small(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        return _small(definitions[str(node["$ref"]).rpartition("/")[2]], definitions)
    choices = node.get("anyOf")
    if isinstance(choices, list):
        (only,) = [choice for choice in choices if choice != {"type": "null"}]
        described = {key: value for key, value in node.items() if key == "description"}
        return _small({**cast("JsonObject", only), **described}, definitions)
    small: JsonObject = {}
    for key, value in node.items():
        if key == "properties":
            small[key] = {name: _small(each, definitions) for name, each in cast("JsonObject", value).items()}
        elif key not in ("title", "additionalProperties") and not (key == "description" and "properties" in node):
            small[key] = _small(value, definitions)
    if small.get("default", "") in (None, "", [], False):
        small.pop("default", None)
    return small


def read_call(tool: Tool[Arguments], arguments: Mapping[str, JsonValue]) -> Arguments:
    """The arguments of a call, checked. A null counts as left out; nothing else is coerced.

    Raises:
        ToolFailed: in under 2,000 characters: which key, what is wrong with it, and which arguments there are.
    """
    required = {name for name, field in tool.arguments.model_fields.items() if field.is_required()}
    given = {key: value for key, value in arguments.items() if value is not None or key in required}
    try:
        return tool.arguments.model_validate(given)
    except ValidationError as error:
        problems = [_problem(each["loc"], each["msg"], each["type"]) for each in error.errors(include_url=False)]
    more = f"; and {len(problems) - PROBLEMS_NAMED} more" if len(problems) > PROBLEMS_NAMED else ""
    said = f"Not run, the arguments of {tool.name} are wrong: {'; '.join(problems[:PROBLEMS_NAMED])}{more}."
    takes = f"\nIt takes: {signature(tool)}."
    raise ToolFailed(said[: MESSAGE_CHARS - len(takes)] + takes)


def _problem(where: tuple[int | str, ...], message: str, kind: str) -> str:
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")[:100]
    if kind == "missing":
        return f"`{name}` is missing"
    if kind == "extra_forbidden":
        return f"there is no `{name}`"
    return f"`{name}`: {message[:200].replace('Input should be', 'must be')}"


def signature(tool: Tool[Arguments]) -> str:
    """The arguments in one line: name, type or choices, and the default of each that may be left out."""
    shape = parameters(tool)
    properties = cast("dict[str, JsonObject]", shape.get("properties", {}))
    required = cast("list[str]", shape.get("required", []))
    return ", ".join(_argument(name, each, name in required) for name, each in properties.items())


def _argument(name: str, shape: JsonObject, required: bool) -> str:
    items = shape.get("items")
    if isinstance(shape.get("enum"), list):
        kind = "/".join(map(str, cast("list[JsonValue]", shape["enum"])))
    elif isinstance(items, dict) and "properties" in items:
        inner = cast("dict[str, JsonObject]", items["properties"])
        kind = "list of {" + ", ".join(_argument(key, each, True) for key, each in inner.items()) + "}"
    elif isinstance(items, dict):
        kind = f"list of {items.get('type')}"
    else:
        kind = str(shape.get("type"))
    bounds = [f"{word} {shape[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in shape]
    return f"{name}{'' if required else '?'} ({', '.join([kind, *bounds])})"
