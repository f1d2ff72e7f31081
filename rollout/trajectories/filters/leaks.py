"""The filter of leaks: markers that steer the simulated user, tokens of chat templates, the system prompt.

Looked at: what the agent says, thinks and writes into calls, and what a simulated user says. A piece of the system
prompt is a leak only in what the agent says aloud; thinking of a rule in its own words is what it is for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import msgspec
from pydantic import Field

from rollout.core.messages import Message
from rollout.trajectories.filters.code_blocks import without_code
from rollout.trajectories.filters.filter import TurnFilter
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.texts import quote, words
from rollout.trajectories.filters.turns import Turn
from rollout.trajectories.trajectory import Trajectory

_TEMPLATE = re.compile(
    r"<\|[a-z][a-z0-9_]*\|>|<｜[^｜<>\n]{1,40}｜>|</?(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|</?tool_response>"
)
_THINKING = re.compile(r"<(/?)(think|thinking|thought)>")


class LeakedMarkers(TurnFilter):
    """Markers, template tokens, or long pieces of the system prompt in what is said."""

    markers: list[str] = ["###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"]
    """Texts that steer the simulated user."""
    template_tokens: bool = True
    """Also tokens of chat templates, such as `<|im_end|>`, and a stray `</think>`."""
    prompt_words: int = Field(30, ge=0)
    """Also this many words of the system prompt in a row, said aloud; 0: none of it."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        numbers = {turn.message: turn.turn for turn in turns}
        asked: list[Found] = []
        opening, system = trajectory.opening, trajectory.system
        for place, message in enumerate(trajectory.messages):
            if place < opening:
                continue
            if message.role == "user":
                # What a user lets slip spoils the answer to it.
                asked += [Found(f"the user's message has {token!r}", text) for token, text in self._tokens(message)]
            elif place in numbers:
                number = numbers[place]
                yield from (msgspec.structs.replace(found, turn=number) for found in asked)
                asked = []
                for token, text in self._tokens(message):
                    yield Found(f"has {token!r}", text, number)
                leaked = self._recited(message.content or "", system)
                if leaked is not None:
                    yield Found(f"says {self.prompt_words} words of the system prompt in a row", leaked, number)
        yield from asked

    def _tokens(self, message: Message) -> Iterator[tuple[str, str]]:
        """The markers in a message, each once, with the text around it."""
        seen: set[str] = set()
        for text in (message.content, message.reasoning, *(call.arguments for call in message.tool_calls)):
            if not text:
                continue
            found = [marker for marker in self.markers if marker in text]
            if self.template_tokens and ("<" in text or "[" in text):
                found += _TEMPLATE.findall(text)
                found += _stray_thinking(text)
            for token in found:
                if token not in seen:
                    seen.add(token)
                    yield token, quote(text, token)

    def _recited(self, content: str, system: str | None) -> str | None:
        if not self.prompt_words or not system:
            return None
        known = _pieces(system, self.prompt_words)
        said = next(filter(known.__contains__, _rows(words(content), self.prompt_words)), None)
        return None if said is None else quote(" ".join(said))


def _stray_thinking(text: str) -> list[str]:
    """Marks of reasoning that lack their other half. A whole pair is reasoning that was not split off, which is no
    fault of the agent, and a mark in code is a quotation."""
    if "<think" not in text and "</th" not in text and "<thought" not in text:
        return []
    stray: list[str] = []
    opened: list[str] = []
    for slash, name in _THINKING.findall(without_code(text)):
        if not slash:
            opened.append(name)
        elif name in opened:
            opened.remove(name)
        else:
            stray.append(f"</{name}>")
    return stray + [f"<{name}>" for name in opened]


@functools.lru_cache(maxsize=32)
def _pieces(system: str, length: int) -> frozenset[tuple[str, ...]]:
    return frozenset(_rows(words(system), length))


def _rows(found: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """The words in rows of this length, one from each place on."""
    return zip(*[found[start:] for start in range(length)], strict=False)
