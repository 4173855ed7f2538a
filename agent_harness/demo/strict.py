"""What a strict chat-completions endpoint refuses, so that nothing passes here that a real provider would answer with 400."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agent_harness.demo.script import Json, obj, objects, text
from agent_harness.events import JsonValue

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CAPS = ("max_tokens", "max_completion_tokens")
PARAMETERS = frozenset(
    {
        *CAPS, "model", "messages", "tools", "tool_choice", "stream", "stream_options", "temperature", "top_p", "stop", "seed",
        "parallel_tool_calls", "reasoning_effort", "n", "user", "response_format", "metadata", "store", "usage",
    }
)  # fmt: skip
ROLES = ("system", "developer", "user", "assistant", "tool")


class Refused(Exception):
    """The request is one that a real provider refuses; the text says why.

    Attributes:
        param: the parameter that is wrong.
    """

    def __init__(self, message: str, param: str = "messages") -> None:
        super().__init__(message)
        self.param = param


def check(body: Json) -> None:
    """Look at a whole request.

    Raises:
        Refused: with the first thing that is wrong.
    """
    for problem in (*_parameters(body), *_tools(body), *_caps(body)):
        raise problem
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or len(objects(messages)) != len(messages):
        raise Refused("'messages' must be a list of objects with at least one in it")
    if _half_characters(messages):
        raise Refused("'messages' holds half of a surrogate pair, which is no character")
    _check_history(objects(messages))


def _parameters(body: Json) -> Iterator[Refused]:
    for name in body:
        if name not in PARAMETERS:
            yield Refused(f"Unrecognized request argument supplied: {name}", name)
    if not text(body.get("model")):
        yield Refused("you must provide a model parameter", "model")
    if body.get("stream") is not True:
        yield Refused("only streamed answers are scripted: 'stream' must be true", "stream")


def _caps(body: Json) -> Iterator[Refused]:
    given = [name for name in CAPS if name in body]
    if len(given) == 2:
        yield Refused(f"Setting {CAPS[0]!r} and {CAPS[1]!r} at the same time is not supported.", CAPS[0])
    for name in given:
        cap = body[name]
        if not isinstance(cap, int) or isinstance(cap, bool) or cap < 1:
            yield Refused(f"Invalid {name!r}: must be a whole number of at least 1", name)


def _tools(body: Json) -> Iterator[Refused]:
    if "tools" not in body:
        if "tool_choice" in body:
            yield Refused("'tool_choice' is only allowed when 'tools' are specified", "tool_choice")
        return
    tools = body["tools"]
    if not isinstance(tools, list) or not tools:
        yield Refused("Invalid 'tools': [] is too short - expected at least one", "tools")
        return
    names: set[str] = set()
    for place, tool in enumerate(objects(tools)):
        function = obj(tool.get("function"))
        name = text(function.get("name"))
        if tool.get("type") != "function" or not NAME.fullmatch(name):
            yield Refused(f"Invalid 'tools[{place}].function.name': {name!r}", "tools")
        if name in names:
            yield Refused(f"Invalid 'tools': {name!r} is defined twice", "tools")
        names.add(name)
        if obj(function.get("parameters")).get("type") != "object":
            yield Refused(f"Invalid 'tools[{place}].function.parameters': must be a JSON schema of an object", "tools")


def _check_history(messages: list[Json]) -> None:
    open_calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            raise Refused(f"Invalid value: {role!r} in messages[{place}].role; supported are {', '.join(ROLES)}")
        if role == "tool":
            _check_result(message, place, open_calls)
            continue
        if open_calls:
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
                f"The following had no response before messages[{place}]: {', '.join(open_calls)}"
            )
        if role == "assistant":
            open_calls = _check_calls(message, place, seen)
        elif not _has_content(message):
            raise Refused(f"Invalid messages[{place}].content: text is missing")
    if open_calls:
        raise Refused(f"These 'tool_call_id's had no response: {', '.join(open_calls)}")


def _check_result(message: Json, place: int, open_calls: list[str]) -> None:
    call_id = text(message.get("tool_call_id"))
    if call_id not in open_calls:
        raise Refused(f"messages[{place}] with role 'tool' answers {call_id!r}, which no preceding message called")
    if not isinstance(message.get("content"), str | list):
        raise Refused(f"Invalid messages[{place}].content: a tool's answer must be text")
    open_calls.remove(call_id)


def _check_calls(message: Json, place: int, seen: set[str]) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        if not _has_content(message):
            raise Refused(f"messages[{place}]: an assistant message needs content or tool_calls")
        return []
    if not isinstance(calls, list) or not calls:
        raise Refused(f"Invalid messages[{place}].tool_calls: [] is too short")
    ids: list[str] = []
    for call in objects(calls):
        call_id, function = text(call.get("id")), obj(call.get("function"))
        if not call_id or call.get("type") != "function":
            raise Refused(f"messages[{place}]: every tool call needs an id and the type 'function'")
        if call_id in seen:
            raise Refused(f"messages[{place}]: the tool call id {call_id!r} is there twice")
        seen.add(call_id)
        ids.append(call_id)
        if not NAME.fullmatch(text(function.get("name"))):
            raise Refused(f"Invalid messages[{place}].tool_calls.function.name: {function.get('name')!r}")
        if not _is_object(function.get("arguments")):
            raise Refused(f"messages[{place}]: the arguments of {call_id!r} are no JSON object in text form")
    return ids


def _is_object(arguments: JsonValue) -> bool:
    try:
        value: object = json.loads(text(arguments))
    except ValueError:
        return False
    return isinstance(value, dict)


def _has_content(message: Json) -> bool:
    content = message.get("content")
    return isinstance(content, str | list) and bool(content)


def _half_characters(value: JsonValue) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
