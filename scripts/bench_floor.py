"""What a plain user of the `openai` SDK would write: the floor that `scripts/bench` measures the harness against."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from openai import OpenAI

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "run_shell",
            "description": "Run a shell command",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]


def main() -> None:
    """Ask, run what is asked for, answer, until the model wants no more."""
    client = OpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        stream = client.chat.completions.create(model="m", messages=messages, tools=TOOLS, stream=True, max_tokens=1_000)
        text, calls = "", dict[int, dict[str, str]]()
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or []:
                    call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] = part.id or call["id"]
                    if part.function is not None:
                        call["name"] += part.function.name or ""
                        call["arguments"] += part.function.arguments or ""
        if not calls:
            return
        asked = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls.values()
        ]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": asked})
        for call in calls.values():
            command = json.loads(call["arguments"])["command"]
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})


if __name__ == "__main__":
    main()
