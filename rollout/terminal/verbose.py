"""`--verbose`: conversations on the terminal as they happen, one conversation's lines kept together.

One conversation has the floor and is printed as it happens; the others are kept until it ends, then the next one gets
the floor and what it has said so far is printed at once. So nothing interleaves and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rollout.core.messages import Message
from rollout.core.secrets import redact
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody

_STYLES = {
    "system": "dim",
    "user": "green",
    "assistant": "cyan",
    "tool": "yellow",
    "call": "magenta",
    "reasoning": "dim italic",
    "user call": "dim magenta",
    "user tool": "dim yellow",
}


class VerbosePrinter:
    """Prints conversations. An observer."""

    def __init__(self, console: Console, max_length: int = 500) -> None:
        self._console = console
        self._max_length = max_length
        self._kept: dict[tuple[str, str], list[Text]] = {}
        self._ended: set[tuple[str, str]] = set()
        self._floor: tuple[str, str] | None = None

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        word = "goes on" if is_resumed else "begins"
        key = (dataset, trajectory)
        self._say(key, Text(f"── {dataset} / {trajectory} {word} ──", "bold"), is_first=True)
        for message in opening:
            if message.content:
                self._say(key, self._line(message.role, message.content))

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        message = body.message if body.is_private else body.said
        if message is None:
            return
        key = (dataset, trajectory)
        by_user = "user " if body.is_private else ""
        if message.reasoning:
            self._say(key, self._line("reasoning", message.reasoning))
        if message.content:
            self._say(key, self._line(f"{by_user}{message.role}", message.content))
        for call in message.tool_calls:
            self._say(key, self._line(f"{by_user}call", f"{call.name}({call.arguments})"))
        for mark in body.marks:
            self._say(key, Text(f"  ! {mark}", "red"))

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        key = (dataset, trajectory)
        if head is None:
            self._say(key, Text(f"── {trajectory}: paused ──", "bold yellow"))
        else:
            verdict = "success" if head.success else "no success"
            text = f"── {trajectory}: {head.status}, {head.stop_reason}, {verdict} ──"
            self._say(key, Text(text, "bold green" if head.success else "bold red"))
        self._ended.add(key)
        while self._floor is not None and self._floor in self._ended:
            self._ended.discard(self._floor)
            self._kept.pop(self._floor, None)
            self._floor = next(iter(self._kept), None)
            for line in self._kept.get(self._floor, ()) if self._floor is not None else ():
                self._console.print(line, soft_wrap=True)

    def _say(self, key: tuple[str, str], line: Text, *, is_first: bool = False) -> None:
        if is_first:
            self._kept[key] = []
        if self._floor is None:
            self._floor = key
        if self._floor == key:
            self._console.print(line, soft_wrap=True)
        else:
            self._kept[key].append(line)

    def _line(self, who: str, text: str) -> Text:
        text = redact(text)
        if self._max_length and len(text) > self._max_length:
            text = f"{text[: self._max_length]}… ({len(text)} characters)"
        return Text.assemble((f"{who:>9}  ", _STYLES[who]), text)
