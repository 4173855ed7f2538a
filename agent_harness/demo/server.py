"""A chat-completions endpoint on loopback that answers from a script and refuses what a real provider refuses.

No LLM is involved. The demo talks to it, the tests talk to it, and as `python -m agent_harness.demo.server` it is the other side
of measurements. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Condition, Lock
from types import TracebackType
from typing import cast

from agent_harness.demo import strict
from agent_harness.demo.loopback import HttpAnswer, HttpRequest, Loopback
from agent_harness.demo.script import ChatRequest, Gate, Json, Script, ScriptedReply, echo, error, text
from agent_harness.demo.wire import Rendered, render

PATH = "/v1/chat/completions"
KEY = "scripted-endpoint-key"


@dataclass(frozen=True, slots=True)
class Served:
    """One exchange, for measurements. Times are seconds of the monotonic clock, which all processes of a machine share.

    Attributes:
        number: of the request, from 1.
        status: of the answer.
        arrived: the request's first byte was there.
        answered: the answer's last byte was handed over.
        bytes_in: size of the request's body.
        bytes_out: size of the answer's body.
        complete: the client took all of it.
    """

    number: int
    status: int
    arrived: float
    answered: float
    bytes_in: int
    bytes_out: int
    complete: bool


class ScriptedEndpoint:
    """Serves one script until it is closed; a context manager.

    Args:
        script: gives the reply to each request; called in the connection's thread.
        key: the only key that is accepted.
        model: the only model that exists; None = any.
        cap: the only name of the completion cap that is understood; None = both.
        on_served: told of each exchange.
        port: 0 = any free one.

    Attributes:
        requests: everything that was accepted, in order.
        refused: why requests were refused, in order.
        served: every exchange, in the order of their ends.
        used_tokens: prompt and completion over all answers that were counted here.
    """

    def __init__(
        self,
        script: Script,
        *,
        key: str = KEY,
        model: str | None = None,
        cap: str | None = None,
        on_served: Callable[[Served], object] | None = None,
        port: int = 0,
    ) -> None:
        self.key = key
        self.requests: list[ChatRequest] = []
        self.refused: list[str] = []
        self.served: list[Served] = []
        self.used_tokens = 0
        self._script = script
        self._model = model
        self._cap = cap
        self._on_served = on_served
        self._lock = Lock()
        self._over = Condition(self._lock)
        self._asked = 0
        self._before = b""
        self._gates: list[Gate] = []
        self._http = Loopback(self._handle, port)

    @property
    def base_url(self) -> str:
        """What `OPENAI_BASE_URL` is set to."""
        return f"http://127.0.0.1:{self._http.port}/v1"

    def __enter__(self) -> ScriptedEndpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def wait_served(self, exchanges: int, timeout_s: float = 20) -> bool:
        """Wait until so many exchanges are over; False when the time is up."""
        with self._over:
            return self._over.wait_for(lambda: len(self.served) >= exchanges, timeout_s)

    def drop_connections(self) -> None:
        """End every connection in the middle of whatever it does, as a provider's load balancer may."""
        self._http.drop_connections()

    def close(self) -> None:
        """End every connection and free the port."""
        with self._lock:
            for gate in self._gates:
                gate.opened.set()
        self._http.close()

    def _handle(self, http: HttpRequest) -> HttpAnswer:
        with self._lock:
            self._asked += 1
            number = self._asked
        reply, rendered = self._decide(number, http)
        body = reply.body if rendered is None else rendered.stream

        def sent(complete: bool, at: float) -> None:
            served = Served(number, reply.status, http.arrived, at, len(http.body), len(body), complete)
            with self._over:
                self.served.append(served)
                self._over.notify_all()
            if self._on_served is not None:
                self._on_served(served)

        kind = "application/json" if rendered is None else "text/event-stream; charset=utf-8"
        headers = {"content-type": kind, "x-request-id": f"req_{number}", **reply.headers}
        return HttpAnswer(reply.status, headers, body, reply.raw is not None, reply.gate, reply.dribble, sent)

    def _decide(self, number: int, http: HttpRequest) -> tuple[ScriptedReply, Rendered | None]:
        """The reply and its stream, or an HTTP error without one."""
        if http.method != "POST" or http.path != PATH:
            return self._refuse(404, f"Invalid URL ({http.method} {http.path})"), None
        if http.headers.get("authorization") != f"Bearer {self.key}":
            return self._refuse(401, "Incorrect API key provided.", code="invalid_api_key"), None
        try:
            request = self._read(number, http)
        except strict.Refused as refusal:
            return self._refuse(400, str(refusal), param=refusal.param), None
        if self._model is not None and request.body.get("model") != self._model:
            message = f"The model {text(request.body.get('model'))!r} does not exist or you do not have access to it."
            return self._refuse(404, message, code="model_not_found"), None
        with self._lock:
            self.requests.append(request)
        reply = self._script(request)
        with self._lock:
            if reply.gate is not None:
                self._gates.append(reply.gate)
            if reply.status != 200:
                return reply, None
            rendered = render(request, reply, self._before)
            self._before = http.body
            self.used_tokens += rendered.prompt_tokens + rendered.completion_tokens
        return reply, rendered

    def _read(self, number: int, http: HttpRequest) -> ChatRequest:
        if http.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise strict.Refused("the content type must be application/json", "")
        try:
            body: object = json.loads(http.body.decode())
        except ValueError as problem:
            raise strict.Refused(f"could not parse the JSON body of your request: {problem}", "") from problem
        if not isinstance(body, dict):
            raise strict.Refused("the body must be a JSON object", "")
        decoded = cast("Json", body)
        strict.check(decoded)
        wrong = next((name for name in strict.CAPS if self._cap not in (None, name) and name in decoded), None)
        if wrong is not None:
            raise strict.Refused(f"Unsupported parameter: {wrong!r} is not supported with this model.", wrong)
        return ChatRequest(number, decoded, http.body, http.headers)

    def _refuse(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> ScriptedReply:
        with self._lock:
            self.refused.append(message)
        return error(status, message, code=code, param=param)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the echo script until SIGTERM or SIGINT; prints the base URL first."""
    parser = argparse.ArgumentParser(prog="python -m agent_harness.demo.server", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--script", choices=["echo"], default="echo", help="small shell commands, then words")
    parser.add_argument("--turns", type=int, default=30, help="how many commands (default 30)")
    parser.add_argument("--log", type=Path, help="one JSON line an exchange: times (monotonic seconds) and body sizes")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--key", default=KEY, help=f"the key that is accepted (default {KEY})")
    options = parser.parse_args(arguments)
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads, so that only the wait below sees them
    with ExitStack() as stack:
        log = stack.enter_context(options.log.open("a", encoding="utf-8", buffering=1)) if options.log else None

        def note(served: Served) -> None:
            if log is not None:
                log.write(json.dumps(asdict(served)) + "\n")

        endpoint = stack.enter_context(ScriptedEndpoint(echo(options.turns), key=options.key, on_served=note, port=options.port))
        sys.stdout.write(endpoint.base_url + "\n")
        sys.stdout.flush()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
