"""Turn after turn until the model asks for no more tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_harness.budget import Budget
from agent_harness.calls import read_calls
from agent_harness.dispatcher import Dispatcher
from agent_harness.errors import BudgetExceeded, HarnessError, NeedsHuman
from agent_harness.events import AssistantText, Notice, TurnStarted, UserMessage
from agent_harness.hooks import Hooks
from agent_harness.messages import Conversation
from agent_harness.model.asking import Asker
from agent_harness.model.base import Reply, ToolSchema
from agent_harness.trace import Trace

GROWTH = 1_500  # tokens by which a turn's results may let the next prompt grow: one full result and some
NEAR = 0.8  # share of a ceiling from which it is called near
UNREAD_LIMIT = 5  # replies in a row without one readable call; a model that can mend its call does so within two or three
LAST_WORDS = (
    "This is the last reply that the session's ceilings allow, so no tools are offered. "
    "Say what is done, what you checked and what is left open."
)
GO_ON = "Your reply was cut off by the output limit. Go on from where it ended, in smaller parts."
EMPTY = "Your reply was empty. Go on with the task, or, if it is done, say what you changed and how you checked it."


@dataclass
class Loop:
    """The agent's loop over one conversation, which is a fold over `trace`; `run` may be called again after another message."""

    asker: Asker
    dispatcher: Dispatcher
    hooks: Hooks
    budget: Budget
    trace: Trace
    tools: Sequence[ToolSchema]
    conversation: Conversation = field(default_factory=Conversation)
    _folded: int = 0
    _used_ids: set[str] = field(default_factory=set[str])
    _near: bool = False
    _empty: bool = False
    _unread: int = 0

    async def run(self) -> str:
        """Take turns until a reply asks for no tool; returns that reply's text.

        Raises:
            BudgetExceeded: a ceiling ended it; `last_words` then still may be asked for.
            ModelError: the model could not be reached, or refused.
            SurfaceLost: the sandbox is gone.
            NeedsHuman: a hook ended the run.
            HarnessError: the model gave nothing but empty replies, or calls that could not be read.
        """
        while True:
            self._fold()
            await self._check_ceilings()
            reply = await self.asker.ask(self.conversation.messages, self.tools, "turn")
            turn = self._record(reply)
            calls = read_calls(reply.calls, self._used_ids, turn)
            self._used_ids.update(call.id for call in calls)
            if calls:
                await self.dispatcher.run(turn, calls, cut=reply.finish_reason == "length")
                if self.dispatcher.stop_reason:
                    raise NeedsHuman(f"a hook ended the run: {self.dispatcher.stop_reason}", reason="hook_stopped")
                self._count_unread()
            elif reply.finish_reason == "length":
                self.trace.emit(UserMessage(GO_ON, "harness"))
            elif reply.text.strip():
                return self.trace.redactor.text(reply.text)
            else:
                self._nudge()

    async def last_words(self) -> str:
        """Ask once without tools, so that a session which a ceiling ends still ends in words; empty when that does not fit."""
        self.trace.emit(UserMessage(LAST_WORDS, "harness"))
        self._fold()
        try:
            reply = await self.asker.ask(self.conversation.messages, (), "turn")
            self._record(reply)
        except BudgetExceeded:
            return ""
        return self.trace.redactor.text(reply.text)

    def _fold(self) -> None:
        """Take what was recorded since the last request into the conversation."""
        for seq in range(self._folded + 1, self.trace.last_seq + 1):
            self.conversation.apply(self.trace.get(seq))
        self._folded = self.trace.last_seq
        self.conversation.close_calls()

    def _record(self, reply: Reply) -> int:
        turn = self.budget.open_turn()
        self.trace.emit(TurnStarted(turn))
        if reply.text:
            self.trace.emit(AssistantText(turn, reply.text))
        return turn

    def _count_unread(self) -> None:
        """Stop a model that gets no further than calls which are none; each of them was answered with what is wrong."""
        self._unread = self._unread + 1 if self.dispatcher.unread else 0
        if self._unread == UNREAD_LIMIT:
            raise HarnessError(
                f"{UNREAD_LIMIT} replies in a row had only tool calls that could not be read, the last one: "
                f"{self.dispatcher.unread} Try again, or another model",
                reason="malformed_calls",
            )

    def _nudge(self) -> None:
        if self._empty:
            raise HarnessError("the model gave two empty replies; try again, or another model", reason="empty_response")
        self._empty = True
        self.trace.emit(UserMessage(EMPTY, "harness"))

    async def _check_ceilings(self) -> None:
        """Call a ceiling near once, and stop while one more reply still fits.

        Raises:
            BudgetExceeded: the next reply would be the last.
        """
        limits = self.budget.limits
        if not self._near:
            near = self.budget.near(NEAR)
            if near:
                self._near = True
                self.trace.emit(Notice("ceiling_near", near))
        if self.budget.tokens >= limits.compact_at:
            await self.hooks.fire("PreCompact", {"trigger": "auto", "custom_instructions": ""})
            raise BudgetExceeded(
                "compact_at",
                "--compact-at",
                f"the session used {self.budget.tokens:,} tokens and compaction (--compact-at {limits.compact_at:,}) is not "
                "available yet; raise --compact-at to go further with the whole history",
            )
        last = self.budget.last_before(self.asker.estimate(self.conversation.messages, self.tools), GROWTH)
        if last is not None:
            raise last
