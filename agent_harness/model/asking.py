"""The one place that asks a model: reserve the worst case, send, settle the real usage, retry what can be retried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import anyio

from agent_harness.budget import Budget, Reservation, Usage
from agent_harness.errors import ModelError
from agent_harness.events import Notice, Reserved, Retried, UsageSettled
from agent_harness.messages import Message
from agent_harness.model.backoff import wait_s
from agent_harness.model.base import Model, Reply, Request, ToolSchema
from agent_harness.trace import Trace

MAX_ATTEMPTS = 6


@dataclass
class PromptSize:
    """An upper estimate of the next prompt in tokens: the last real count plus the UTF-8 bytes appended since.

    A token is never shorter than a byte, so bytes bound what is not counted yet; before the first count, and when the history
    was replaced, everything is bytes. The history only grows, so each message is measured once.
    """

    _counted_tokens: int = 0
    _counted_bytes: int = 0
    _measured: int = 0
    _bytes: int = 0
    _first: Message | None = None

    def of(self, messages: Sequence[Message], fixed_bytes: int) -> int:
        """The estimate for these messages plus `fixed_bytes` of tools."""
        first = messages[1] if len(messages) > 1 else None
        if first is not self._first or len(messages) < self._measured:
            self._counted_tokens = self._counted_bytes = self._measured = self._bytes = 0
            self._first = first
        for message in messages[self._measured :]:
            self._bytes += len(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        self._measured = len(messages)
        if self._counted_tokens:
            return self._counted_tokens + self._bytes - self._counted_bytes
        return self._bytes + fixed_bytes

    def count(self, prompt_tokens: int) -> None:
        """The provider counted what `of` measured last."""
        self._counted_tokens = prompt_tokens
        self._counted_bytes = self._bytes


@dataclass
class WorstCases:
    """Requests whose cost nobody told us, charged at what was reserved for them."""

    count: int = 0
    _tokens: int = 0
    _cost_usd: Decimal | None = Decimal(0)

    def add(self, charged: Usage, cost_usd: Decimal | None) -> None:
        """One more."""
        self.count += 1
        self._tokens += charged.input_tokens + charged.output_tokens
        self._cost_usd = None if cost_usd is None or self._cost_usd is None else self._cost_usd + cost_usd

    def __str__(self) -> str:
        cost = "" if self._cost_usd is None else f", ${self._cost_usd:.4f}"
        return f"{self._tokens:,} tokens{cost}"


class Asker:
    """Asks the model within the budget and records what it cost.

    Args:
        system: the system prompt, always the first message.
    """

    def __init__(self, model: Model, budget: Budget, trace: Trace, system: str) -> None:
        self._model = model
        self._budget = budget
        self._trace = trace
        self._system: Message = {"role": "system", "content": system}
        self._size = PromptSize()
        self._warned = False
        self._worst_cases = WorstCases()

    def estimate(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> int:
        """Upper estimate of the prompt in tokens."""
        return self._size.of([self._system, *messages], len(json.dumps(tools)) if tools else 0)

    def tell_worst_cases(self) -> None:
        """Record how much of the bill is worst cases, when that is more than the first one, which was told at once."""
        told = self._worst_cases
        if told.count > 1:
            self._trace.emit(
                Notice("charged_at_worst", f"{told.count} answers broke off and are charged at their worst case: {told}")
            )

    async def ask(self, messages: Sequence[Message], tools: Sequence[ToolSchema], purpose: str) -> Reply:
        """One whole reply, settled.

        Args:
            messages: the conversation without the system prompt; every call has its result.
            tools: what the model may call; none on the last turn.
            purpose: `turn`, `compaction`, ...

        Raises:
            BudgetExceeded: the request could cross a ceiling; it was not sent.
            ModelError: refused, or still failing after the last attempt; what it may have cost is settled.
        """
        attempt = 0
        while True:
            attempt += 1
            prompt = self.estimate(messages, tools)
            held = self._budget.reserve(prompt, purpose)
            self._trace.emit(Reserved(purpose, held.tokens, held.cost_usd))
            request = Request([self._system, *messages], tools, held.completion_tokens)
            try:
                reply = await self._send(request, held)
            except ModelError as error:
                if error.charged:
                    self._settle(held, None)
                else:
                    self._budget.release(held)
                if not error.retryable or attempt >= MAX_ATTEMPTS:
                    raise
                wait = wait_s(attempt, error.retry_after_s)
                self._trace.emit(Retried(attempt, error.status, error.error_type, error.request_id, round(wait, 3)))
                await anyio.sleep(wait)
                continue
            self._settle(held, reply.usage or _from_text(prompt, held, reply), estimated=reply.usage is None)
            if reply.usage is not None:
                self._size.count(reply.usage.input_tokens)
            return reply

    async def _send(self, request: Request, held: Reservation) -> Reply:
        settled = False
        try:
            reply = await self._model.reply(request, self._trace.delta)
            settled = True
            return reply
        except ModelError:
            settled = True
            raise
        finally:
            self._trace.end_delta()
            if not settled:  # cancelled, or a bug: what the provider did is unknown, so the worst case is charged
                self._settle(held, None)

    def _settle(self, held: Reservation, usage: Usage | None, *, estimated: bool = False) -> None:
        charged, cost = self._budget.settle(held, usage)
        if usage is None:
            self._worst_cases.add(charged, cost)
        estimated = estimated or usage is None
        self._trace.emit(
            UsageSettled(
                purpose=held.purpose,
                input_tokens=charged.input_tokens,
                output_tokens=charged.output_tokens,
                cached_tokens=charged.cached_tokens,
                cache_write_tokens=charged.cache_write_tokens,
                reasoning_tokens=charged.reasoning_tokens,
                cost_usd=cost,
                estimated=estimated,
                total_tokens=self._budget.tokens,
                total_cost_usd=self._budget.cost_usd,
            )
        )
        if usage is None and self._worst_cases.count == 1:
            self._trace.emit(
                Notice(
                    "charged_at_worst",
                    f"an answer broke off, so what it cost is not known; its worst case is charged: {self._worst_cases}",
                )
            )
        if estimated and usage is not None and not self._warned:
            self._warned = True
            self._trace.emit(
                Notice("usage_estimated", "the provider reported no usage; tokens and cost are estimated from the text's bytes")
            )


def _from_text(prompt: int, held: Reservation, reply: Reply) -> Usage:
    """The usage of a reply that came without one: the prompt's estimate, and the reply's bytes up to its cap."""
    said = len(reply.text.encode("utf-8", "surrogatepass"))
    said += sum(len(call.name) + len(call.arguments.encode("utf-8", "surrogatepass")) for call in reply.calls)
    return Usage(prompt, min(max(said, 1), held.completion_tokens))
