"""What may be spent, what was spent, and the only code that says stop.

Every request is reserved at its worst case before it is sent and settled at its real usage afterwards, so no ceiling is ever
overshot. Money is exact: decimals of 10^-12 US dollars (prices are per million tokens with at most six decimals).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from agent_harness.errors import BudgetExceeded
from agent_harness.task import Limits

PICO = Decimal("1e-12")
MIN_COMPLETION_TOKENS = 64  # below this a reply cannot even say what is left undone


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of each kind. `cached` and `cache_write` default to the input price."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None

    def of(self, usage: Usage) -> Decimal:
        """The exact price of that usage in US dollars."""
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        total = (
            max(plain, 0) * self.input
            + usage.cached_tokens * (self.input if self.cached is None else self.cached)
            + usage.cache_write_tokens * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        )
        return exact(total / 1_000_000)

    def worst_of(self, input_tokens: int, output_tokens: int) -> Decimal:
        """The most that a request of that size can cost: nothing cached, or everything written to the cache."""
        dearest = max(self.input, self.cached or self.input, self.cache_write or self.input)
        return exact((input_tokens * dearest + output_tokens * self.output) / 1_000_000)


def exact(amount: Decimal) -> Decimal:
    """US dollars, rounded to 10^-12."""
    return amount.quantize(PICO)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the provider counted them.

    Attributes:
        input_tokens: prompt tokens, cached ones included.
        cached_tokens: the part of the input that was read from the provider's cache.
        cache_write_tokens: the part of the input that was written to it.
        reasoning_tokens: the part of the output that the model kept to itself.
        cost_usd: the provider's own figure, when it gave one.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The worst case of one request, set aside until it is settled."""

    purpose: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: Decimal | None

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass
class Budget:
    """The ledger of one session.

    Args:
        limits: the ceilings.
        price: of the model; None when unknown, which is allowed only without a dollar ceiling.
    """

    limits: Limits
    price: Price | None
    tokens: int = 0
    cost_usd: Decimal | None = field(default=Decimal(0))
    turns: int = 0
    _held: list[Reservation] = field(default_factory=list[Reservation])

    def reserve(self, prompt_tokens: int, purpose: str) -> Reservation:
        """Set aside the worst case of a request; its completion cap shrinks to what still fits.

        Args:
            prompt_tokens: an upper estimate of the prompt.
            purpose: `turn`, `compaction`, ...

        Raises:
            BudgetExceeded: not even a short completion fits. Nothing was set aside; do not send the request.
        """
        cap = self.completion_cap(prompt_tokens)
        if cap < min(MIN_COMPLETION_TOKENS, self.limits.max_completion_tokens):
            short = self.tokens_left() - prompt_tokens < MIN_COMPLETION_TOKENS
            raise self._exceeded("tokens" if short else "cost", prompt_tokens)
        cost = self.price.worst_of(prompt_tokens, cap) if self.price else None
        held = Reservation(purpose, prompt_tokens, cap, cost)
        self._held.append(held)
        return held

    def completion_cap(self, prompt_tokens: int) -> int:
        """The most completion tokens that fit under every ceiling after a prompt of that size; may be negative."""
        cap = min(self.limits.max_completion_tokens, self.tokens_left() - prompt_tokens)
        dollars = self.dollars_left()
        if dollars is not None and self.price is not None:
            after_prompt = dollars - self.price.worst_of(prompt_tokens, 0)
            if after_prompt < 0:
                return -1
            if self.price.output > 0:
                cap = min(cap, int(after_prompt * 1_000_000 / self.price.output))
        return cap

    def tokens_left(self) -> int:
        """Session tokens that are neither spent nor set aside."""
        return self.limits.max_tokens - self.tokens - sum(held.tokens for held in self._held)

    def dollars_left(self) -> Decimal | None:
        """US dollars that are neither spent nor set aside; None without a ceiling."""
        if self.limits.max_cost_usd is None or self.cost_usd is None:
            return None
        return self.limits.max_cost_usd - self.cost_usd - sum((held.cost_usd or 0) for held in self._held)

    def settle(self, held: Reservation, usage: Usage | None) -> tuple[Usage, Decimal | None]:
        """Replace a reservation by what was used; returns what was charged and its price (None = unknown).

        Without usage (the provider gave none, or the request's fate is unknown) the reservation itself is charged.
        """
        self._held.remove(held)
        charged = usage or Usage(held.prompt_tokens, held.completion_tokens)
        cost = charged.cost_usd
        if cost is None and self.price is not None:
            cost = self.price.of(charged)
        self.tokens += charged.input_tokens + charged.output_tokens
        self.cost_usd = None if cost is None or self.cost_usd is None else exact(self.cost_usd + cost)
        return charged, cost

    def release(self, held: Reservation) -> None:
        """Give a reservation back: the request was refused before any work was done on it."""
        self._held.remove(held)

    def open_turn(self) -> int:
        """Count a turn and return its number, from 1.

        Raises:
            BudgetExceeded: all turns are used up.
        """
        if self.turns >= self.limits.max_turns:
            raise self._no_turns()
        self.turns += 1
        return self.turns

    def last_before(self, prompt_tokens: int, growth: int) -> BudgetExceeded | None:
        """Why a request of that size is the last that the ceilings allow; None when another one fits after it.

        Args:
            prompt_tokens: upper estimate of the prompt now.
            growth: tokens that the next prompt would have on top of this one and its reply.
        """
        if self.turns + 1 >= self.limits.max_turns:
            return self._no_turns()
        cap = max(self.completion_cap(prompt_tokens), 0)
        following = prompt_tokens + cap + growth
        if self.tokens_left() < prompt_tokens + cap + following + MIN_COMPLETION_TOKENS:
            return self._exceeded("tokens", following)
        dollars = self.dollars_left()
        if dollars is not None and self.price is not None:
            after = dollars - self.price.worst_of(prompt_tokens, cap)
            if after < self.price.worst_of(following, MIN_COMPLETION_TOKENS):
                return self._exceeded("cost", following)
        return None

    def near(self, share: float) -> str:
        """Which ceiling is used up to that share, in words; empty when none is."""
        limits = self.limits
        if self.tokens >= share * limits.max_tokens:
            return f"{self.tokens:,} of {limits.max_tokens:,} session tokens are used (--max-tokens)"
        if (
            limits.max_cost_usd is not None
            and self.cost_usd is not None
            and float(self.cost_usd) >= share * float(limits.max_cost_usd)
        ):
            return f"${self.cost_usd:.4f} of ${limits.max_cost_usd} is spent (--max-cost)"
        if self.turns >= share * limits.max_turns:
            return f"{self.turns} of {limits.max_turns} turns are used (--max-turns)"
        return ""

    def _no_turns(self) -> BudgetExceeded:
        text = f"all {self.limits.max_turns} turns are used up; raise --max-turns to go further"
        return BudgetExceeded("max_turns", "--max-turns", text)

    def _exceeded(self, kind: str, needed: int) -> BudgetExceeded:
        if kind == "tokens":
            return BudgetExceeded(
                "max_tokens",
                "--max-tokens",
                f"{self.tokens:,} of {self.limits.max_tokens:,} session tokens are spent and the next request could need "
                f"{needed:,} more; raise --max-tokens to go further",
            )
        return BudgetExceeded(
            "max_cost",
            "--max-cost",
            f"${self.cost_usd:.4f} of ${self.limits.max_cost_usd} is spent and the next request could cross that; "
            "raise --max-cost to go further",
        )
