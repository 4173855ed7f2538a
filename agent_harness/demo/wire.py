"""How a scripted reply travels: the chunks of a streamed chat completion, and a plausible count of its tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agent_harness.demo.script import ChatRequest, Json, ScriptedReply, obj, text
from agent_harness.events import JsonValue

BYTES_PER_TOKEN = 4
CACHE_BLOCK = 128  # tokens; caches match whole blocks, from 1,024 tokens on, as OpenAI's does
CACHE_FROM = 1_024
PIECE = 24  # characters of text in one chunk


@dataclass(frozen=True, slots=True)
class Rendered:
    """A reply as bytes, and what was counted for it (nothing when the script gave a usage of its own)."""

    stream: bytes
    prompt_tokens: int
    completion_tokens: int


def render(request: ChatRequest, reply: ScriptedReply, before: bytes) -> Rendered:
    """The whole stream of a reply. A reply over the request's completion cap is cut there, as a real model's is.

    Args:
        request: what was asked.
        reply: what to answer.
        before: body of the request before, whose common beginning counts as cached.
    """
    if reply.raw is not None:
        return Rendered(reply.raw, 0, 0)
    prompt = tokens(request.raw)
    cap = next(
        (value for key in ("max_tokens", "max_completion_tokens") if isinstance(value := request.body.get(key), int)), None
    )
    room = None if cap is None else cap * BYTES_PER_TOKEN
    deltas, used, cut = _deltas(request, reply, room)
    reason = reply.finish_reason or ("length" if cut else "tool_calls" if reply.calls else "stop")
    events = [_chunk(request, delta) for delta in deltas]
    events.append(_chunk(request, {}, reason))
    completion = max(-(-used // BYTES_PER_TOKEN), 1)
    usage = _usage(request, prompt, completion, before) if reply.usage is None else reply.usage
    wants = obj(request.body.get("stream_options")).get("include_usage") is True
    if isinstance(usage, dict) and wants:
        events.append({**_chunk(request, None), "usage": usage})
    stream = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events) + "data: [DONE]\n\n"
    return Rendered(stream.encode("utf-8", "surrogatepass"), prompt, completion)


def tokens(body: bytes) -> int:
    """A plausible count: four bytes a token, rounded up."""
    return -(-len(body) // BYTES_PER_TOKEN)


def _deltas(request: ChatRequest, reply: ScriptedReply, room: int | None) -> tuple[list[Json], int, bool]:
    """The deltas, the bytes in them, and whether they had to stop early."""
    deltas: list[Json] = [{"role": "assistant", "content": "" if reply.text else None}]
    used = 0

    def take(piece: str) -> str:
        nonlocal used
        kept = piece if room is None else piece.encode("utf-8", "surrogatepass")[: room - used].decode("utf-8", "ignore")
        used += len(kept.encode("utf-8", "surrogatepass"))
        return kept

    for start in range(0, len(reply.text), PIECE):
        piece = reply.text[start : start + PIECE]
        kept = take(piece)
        deltas.append({"content": kept})
        if kept != piece:
            return deltas, used, True
    for index, call in enumerate(reply.calls):
        function: Json = {"name": call.name, "arguments": ""}
        head: Json = {"index": index, "type": "function", "function": function}
        if call.id != "":
            head["id"] = call.id or f"call_{request.number}_{index}"
        deltas.append({"tool_calls": [head]})
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        kept = take(arguments)
        middle = len(kept) // 2
        halves = (kept[:middle], kept[middle:])
        deltas.extend({"tool_calls": [{"index": index, "function": {"arguments": half}}]} for half in halves)
        if kept != arguments:
            return deltas, used, True
    return deltas, used, False


def _chunk(request: ChatRequest, delta: Json | None, finish_reason: str | None = None) -> Json:
    choices: list[JsonValue] = []
    if delta is not None:
        choices.append({"index": 0, "delta": delta, "finish_reason": finish_reason})
    return {
        "id": f"chatcmpl-{request.number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": text(request.body.get("model")),
        "choices": choices,
    }


def _usage(request: ChatRequest, prompt: int, completion: int, before: bytes) -> Json:
    common = _common(request.raw, before) // BYTES_PER_TOKEN
    cached = common // CACHE_BLOCK * CACHE_BLOCK if common >= CACHE_FROM else 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": min(cached, prompt)},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
