"""What the agent's model is sent: a view of the path that grows with it.

A view keeps the messages in the order sent, as records and as encoded bytes, so that a request joins bytes and encodes
nothing; turns that are over are joined in larger pieces, so that a long conversation is a join of few. The reasoning
rule shapes only this view; the tree keeps all reasoning. Clearing is done when a user message arrives and touches each
message once in its life, so the cost of a turn stays flat.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from rollout.messages import Message, encode_for_model, encode_message, with_readable_calls

LOOSE_PIECES = 64


class ReasoningRule(enum.StrEnum):
    """Which reasoning of earlier answers is sent back to the model."""

    CLEAR_ON_USER_TURN = "clear_on_user_turn"
    """Within a turn all of it; at the next user message all earlier reasoning is cleared (DeepSeek V3.2)."""
    KEEP_TOOL_TURNS = "keep_tool_turns"
    """Reasoning of turns that called tools stays for ever, that of other turns is cleared at the next user message."""
    KEEP_ALL = "keep_all"
    DROP = "drop"
    """None is ever sent back."""


class ContextView:
    """The conversation as one model sees it."""

    __slots__ = ("_called", "_first_loose", "_image_url", "_offset", "_reasoned", "_rule", "messages", "wire")

    def __init__(
        self,
        system: str | None,
        rule: ReasoningRule = ReasoningRule.CLEAR_ON_USER_TURN,
        image_url: Callable[[str], str] | None = None,
    ) -> None:
        """`image_url` makes a URL of an image's name, for a model that sees images; without it none are sent."""
        self.messages: list[Message] = []
        self.wire: list[bytes] = []
        """Pieces that, joined by commas, are the messages: the open turn's one by one, older ones together."""
        self._first_loose = 0
        """Where in `wire` the pieces of one message each begin."""
        self._offset = 0
        """How many more messages than pieces there are before the loose ones."""
        self._rule = rule
        self._image_url = image_url
        self._reasoned: list[int] = []
        self._called = False
        if system is not None:
            self.add(Message(role="system", content=system))

    def add(self, message: Message) -> None:
        """Take in the next message of the path."""
        if message.role == "user":
            self._close_turn()
        elif message.role == "assistant":
            if message.tool_calls:
                self._called = True
                message = with_readable_calls(message)
            if message.reasoning is not None:
                if self._rule is ReasoningRule.DROP:
                    message = message.without_reasoning()
                else:
                    self._reasoned.append(len(self.messages))
        self.messages.append(message)
        self.wire.append(self._encode(message))

    def _encode(self, message: Message) -> bytes:
        if not message.images:
            return encode_message(message)
        return encode_for_model(message, [] if self._image_url is None else [*map(self._image_url, message.images)])

    def _close_turn(self) -> None:
        clears = self._rule is ReasoningRule.CLEAR_ON_USER_TURN or (
            self._rule is ReasoningRule.KEEP_TOOL_TURNS and not self._called
        )
        if clears:
            for place in self._reasoned:
                bare = self.messages[place].without_reasoning()
                self.messages[place] = bare
                self.wire[place - self._offset] = self._encode(bare)
        self._reasoned.clear()
        self._called = False
        loose = len(self.wire) - self._first_loose
        if loose >= LOOSE_PIECES:
            # Nothing in these messages changes any more.
            self.wire[self._first_loose :] = [b",".join(self.wire[self._first_loose :])]
            self._first_loose += 1
            self._offset += loose - 1
