"""The context view: the messages that the agent's model is sent, which grow with the path.

A view keeps the messages in the order sent, as records and as encoded bytes, so that a request joins bytes and encodes
nothing. Finished turns are joined in larger pieces, so that a long conversation is a join of few. The reasoning rule,
the dialect and the limit of images shape only this view; the tree keeps everything. Reasoning is cleared when a user
message arrives, and an image is removed when a later one replaces it. Each message is encoded again once for either, so
the cost of a turn stays flat. `rollout.agents.folding` has the view that also leaves older steps out.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from rollout.agents.dialects import NATIVE, Dialect
from rollout.core.messages import JSON, Message, encode_for_model, encode_message
from rollout.trajectories.generation import DriftCause

LOOSE_PIECES = 64
NO_LONGER_SHOWN = "[an earlier image, no longer shown]"


class ReasoningRule(enum.StrEnum):
    """Which reasoning of earlier answers is sent back to the model."""

    CLEAR_ON_USER_TURN = "clear_on_user_turn"
    """Within a turn all of it; at the next user message all earlier reasoning is cleared (DeepSeek V3.2)."""
    KEEP_TOOL_TURNS = "keep_tool_turns"
    """Reasoning of turns that called tools always stays, that of other turns is cleared at the next user message."""
    KEEP_ALL = "keep_all"
    DROP = "drop"
    """None is ever sent back."""


class ContextView:
    """The conversation as one model sees it."""

    __slots__ = (
        "_called", "_dialect", "_first_loose", "_image_url", "_max_images", "_offset", "_pictured", "_reasoned",
        "_records", "_rule", "messages", "rewritten", "wire",
    )  # fmt: skip

    def __init__(
        self,
        system: str | None,
        rule: ReasoningRule = ReasoningRule.CLEAR_ON_USER_TURN,
        image_url: Callable[[str], str] | None = None,
        dialect: Dialect = NATIVE,
        max_images: int | None = None,
    ) -> None:
        """`system` as it is sent. `image_url` makes a URL of an image's name, for a model that sees images; without it
        none are sent. With `max_images` only that many of the last ones are."""
        self.messages: list[Message] = []
        """As they are sent."""
        self.wire: list[bytes] = []
        """Pieces that, joined by commas, are the messages: the open turn's one by one, older ones together."""
        self.rewritten: DriftCause | None = None
        """Why messages that were sent before are sent otherwise now, where they are. Set back by who asks the model."""
        self._records: list[Message] = []
        """What each of the messages is on record, without the reasoning that was cleared."""
        self._first_loose = 0
        """Where in `wire` the pieces of one message each begin."""
        self._offset = 0
        """How many more messages than pieces there are before the loose ones."""
        self._rule = rule
        self._image_url = image_url
        self._dialect = dialect
        self._max_images = max_images if image_url is not None else None
        self._pictured: deque[int] = deque()
        """For each image that is sent, from the oldest, the place of its message; kept where there is a limit."""
        self._reasoned: list[int] = []
        self._called = False
        if system is not None:
            self.add(Message(role="system", content=system))

    @property
    def path(self) -> Sequence[Message]:
        """All that was added, as it is on record but for reasoning that was cleared."""
        return self._records

    @property
    def records(self) -> Sequence[Message]:
        """The recorded form of each message that is sent, without the reasoning that was cleared."""
        return self._records

    @property
    def captions(self) -> list[JSON] | None:
        """What was made of the data of observations and must be saved with the trajectory, so that its requests can be
        rebuilt from its line. None: nothing was."""
        return None

    def add(self, message: Message, data: JSON | None = None) -> None:
        """Add the next message of the path. `data`: the facts of an observation (`ToolResult.data`)."""
        if message.role == "user":
            self._close_turn()
        elif message.role == "assistant":
            if message.tool_calls:
                self._called = True
            if message.reasoning is not None:
                if self._rule is ReasoningRule.DROP:
                    message = message.without_reasoning()
                    self.rewritten = "reasoning"
                else:
                    self._reasoned.append(len(self.messages))
        shown = self._dialect.show(message)
        self._records.append(message)
        self.messages.append(shown)
        self.wire.append(self._encode(shown))
        if message.images and self._max_images is not None:
            self._limit_images(len(message.images))

    def _encode(self, shown: Message) -> bytes:
        if not shown.images:
            return encode_message(shown)
        return encode_for_model(shown, [] if self._image_url is None else [*map(self._image_url, shown.images)])

    def _show_anew(self, place: int) -> None:
        """Make a message again out of what is on record, with as many of its images as are still sent."""
        record = self._records[place]
        if record.images and self._max_images is not None:
            kept = self._pictured.count(place)
            if kept < len(record.images):
                text = "\n".join(filter(None, (record.content, NO_LONGER_SHOWN)))
                images = record.images[len(record.images) - kept :]
                record = msgspec.structs.replace(record, content=text, images=images)
        shown = self._dialect.show(record)
        self.messages[place] = shown
        self.wire[place - self._offset] = self._encode(shown)

    def _limit_images(self, added: int) -> None:
        assert self._max_images is not None
        self._pictured.extend([len(self.messages) - 1] * added)
        too_old = set()
        while len(self._pictured) > self._max_images:
            too_old.add(self._pictured.popleft())
        for place in too_old:
            self._show_anew(place)
            self.rewritten = "images"

    def _close_turn(self) -> None:
        clears = self._rule is ReasoningRule.CLEAR_ON_USER_TURN or (
            self._rule is ReasoningRule.KEEP_TOOL_TURNS and not self._called
        )
        if clears:
            for place in self._reasoned:
                self.rewritten = "reasoning"
                self._records[place] = self._records[place].without_reasoning()
                self._show_anew(place)
        self._reasoned.clear()
        self._called = False
        self._join_loose()

    def _join_loose(self) -> None:
        end = self._pictured[0] - self._offset if self._pictured else len(self.wire)
        loose = end - self._first_loose
        if loose >= LOOSE_PIECES:
            # Nothing in these messages changes any more.
            self.wire[self._first_loose : end] = [b",".join(self.wire[self._first_loose : end])]
            self._first_loose += 1
            self._offset += loose - 1
