"""The settings of a context view, and the requests of a finished trajectory rebuilt with them.

The settings are in the metadata of each trajectory (`view`, and `reasoning.rule`), so that every request can be rebuilt
from the saved line, its prompt and its images: `requests_of`. The view is the same that made the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from rollout.agents.dialects import NATIVE, Dialect
from rollout.agents.folding import FoldingView
from rollout.agents.formats import make_dialect
from rollout.agents.view import ContextView, ReasoningRule
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message
from rollout.trajectories.line import Head
from rollout.trajectories.trajectory import Trajectory

_decode = msgspec.json.Decoder(list[JSON]).decode


class Viewing(msgspec.Struct, frozen=True):
    """What a model is sent of a conversation."""

    rule: ReasoningRule = ReasoningRule.CLEAR_ON_USER_TURN
    dialect: Dialect = NATIVE
    images: Literal["data", "file"] | None = None
    """How images are sent; None: not at all."""
    max_images: int | None = None
    max_rounds: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the model is always sent the whole conversation, but for its images."""
        return self.max_rounds is None

    def open(self, system: str | None, opening: int, image_url: Callable[[str], str] | None = None) -> ContextView:
        """A view of a new conversation. `system` as it is sent; `opening`: how many messages the task begins with."""
        if self.images is None:
            image_url = None
        if self.max_rounds is None:
            return ContextView(system, self.rule, image_url, self.dialect, self.max_images)
        return FoldingView(
            system, self.rule, image_url, self.dialect, self.max_images, max_rounds=self.max_rounds, opening=opening
        )

    def record(self, opening: int, captions: Sequence[JSON] | None = None) -> JSON:
        """What is saved of it with a trajectory, beside the rule of reasoning. `captions`: those of its view."""
        record = {
            "tool_format": self.dialect.name,
            "images": self.images,
            "max_images": self.max_images,
            "max_rounds": self.max_rounds,
            "opening": opening,
        }
        return record if captions is None else {**record, "captions": list(captions)}


def viewing_of(head: Head) -> Viewing:
    """The settings with which a trajectory was made. Raises ConfigError where they are not ours."""
    said = head.reasoning_rule or ReasoningRule.CLEAR_ON_USER_TURN
    try:
        rule = ReasoningRule(said)
    except ValueError as error:
        known = ", ".join(ReasoningRule)
        raise ConfigError(f"unknown rule of reasoning {said!r}; known are {known}") from error
    view = head.view or {}
    return Viewing(
        rule,
        make_dialect(view.get("tool_format", NATIVE.name)),
        view.get("images"),
        view.get("max_images"),
        view.get("max_rounds"),
    )


def requests_of(
    trajectory: Trajectory, system: str | None, image_url: Callable[[str], str] | None = None
) -> Iterator[list[JSON]]:
    """The messages of each request that the agent's model was sent, in order: one for each of its answers.

    `system` is the system prompt as it was sent. `image_url` makes URLs of images' names as the run did, or others that
    suit the reader; without it images are left out. Raises BadLine and ConfigError.
    """
    answered = read_requests(trajectory, trajectory.messages, system, image_url)
    return (request for _, request in answered)


def read_requests(
    head: Head, messages: Sequence[Message], system: str | None, image_url: Callable[[str], str] | None = None
) -> Iterator[tuple[int, list[JSON]]]:
    """The same of the messages of an attempt, each with the place of its answer among them. `system` as it was sent,
    not among them.

    What two requests have in common is the same objects, read once: they are not to be changed.
    """
    opening = head.opening
    view = viewing_of(head).open(system, opening, image_url)
    captions = {caption["message"]: caption for caption in (head.view or {}).get("captions") or ()}
    known: dict[bytes, list[JSON]] = {}
    for place, message in enumerate(messages):
        if message.role == "assistant" and place >= opening:
            known = {piece: known[piece] if piece in known else _decode(b"[" + piece + b"]") for piece in view.wire}
            yield place, [entry for piece in view.wire for entry in known[piece]]
        view.add(message, captions.get(place))
