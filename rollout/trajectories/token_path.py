"""The token ids of a path while it grows: what is new in each prompt, and where a prompt drifts.

The invariant that trainers rely on: prompt and completion of one generation are, id for id, the beginning of the next
generation's prompt. Where it holds, a path is one sequence and each generation owns only what it added, so that a path
of any length is stored once. Where it does not hold, the prompt *drifts*: what was trained on would not be what was
sampled. Nothing is repaired then. The generation says how far its prompt agrees and why it stops to, as far as that can
be found out:

| cause | |
|---|---|
| `reasoning` | reasoning of an earlier answer was left out, by our rule or by the server's template |
| `window` | older steps were folded into a line each (`max_rounds`) |
| `images` | an older image is no longer sent (`max_images`) |
| `tools` | other tools were offered |
| `calls` | the first difference lies in an answer with tool calls: they were written again from what was parsed |
| `text` | it lies in an answer of words: they were encoded otherwise than they had been sampled |
| `template` | it lies in no answer: the template writes earlier messages otherwise than before |

A path without ids costs nothing here.
"""

from __future__ import annotations

import bisect
from typing import Any

import msgspec

from rollout.trajectories.generation import ID_BYTES, DriftCause, Generation, Tokens


class Drift(msgspec.Struct, frozen=True):
    """A prompt that does not begin with what came before it."""

    generation: int
    """The number of the generation on the path, from 0."""
    turn: int
    at: int
    """The place in the prompt of the first id that differs."""
    lost: int
    """How many ids of what came before it from there on."""
    cause: DriftCause


class TokenPath:
    """Fed every generation of a path, in order."""

    __slots__ = ("_ends", "_known", "_starts", "_whys", "drifts", "generations", "is_exact")

    def __init__(self) -> None:
        self.generations = 0
        self.is_exact = True
        """Whether all of them came with their ids."""
        self.drifts: list[Drift] = []
        self._known = bytearray()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._whys: list[DriftCause] = []
        """For each answer within what is known: where it begins and ends, and what a difference there would mean."""

    @property
    def known(self) -> bytes | bytearray:
        """Prompt and completion of the last generation that came with ids, packed."""
        return self._known

    def relate(self, tokens: Tokens, rewritten: DriftCause | None = None) -> Tokens:
        """A generation's tokens as they go on record: only what the prompt adds. `rewritten` says why the messages of
        earlier requests were sent otherwise this time, where they were."""
        known, prompt = self._known, tokens.new
        if not known or not prompt:
            return tokens
        if prompt.startswith(known):
            return msgspec.structs.replace(tokens, shared=len(known) // ID_BYTES, new=prompt[len(known) :])
        shared = common_prefix(known, prompt)
        cause = rewritten or self._cause_at(shared)
        return msgspec.structs.replace(tokens, shared=shared, new=prompt[shared * ID_BYTES :], drift=cause)

    def take(self, generation: Generation, turn: int) -> None:
        """Continue behind a generation with the tokens that `relate` returned."""
        tokens = generation.tokens
        self.is_exact = self.is_exact and generation.is_exact
        if tokens is not None and tokens.prompt_length:
            if tokens.drift is not None:
                lost = len(self._known) // ID_BYTES - tokens.shared
                self.drifts.append(Drift(self.generations, turn, tokens.shared, lost, tokens.drift))
            self._cut(tokens.shared)
            self._known += tokens.new
            self._starts.append(len(self._known) // ID_BYTES)
            self._known += tokens.sampled
            self._ends.append(len(self._known) // ID_BYTES)
            self._whys.append(_why(generation))
        self.generations += 1

    def record(self) -> dict[str, Any]:
        """What a finished trajectory says of its tokens."""
        return {
            "exact": self.generations > 0 and self.is_exact,
            "drift": [msgspec.to_builtins(drift) for drift in self.drifts],
        }

    def _cut(self, length: int) -> None:
        del self._known[length * ID_BYTES :]
        while self._ends and self._ends[-1] > length:
            # What is left of an answer in which a prompt drifted is context like any other.
            self._starts.pop()
            self._ends.pop()
            self._whys.pop()

    def _cause_at(self, place: int) -> DriftCause:
        number = bisect.bisect_right(self._starts, place) - 1
        return self._whys[number] if number >= 0 and place < self._ends[number] else "template"


def _why(generation: Generation) -> DriftCause:
    message = generation.message
    if message.reasoning is not None:
        return "reasoning"
    return "calls" if message.tool_calls else "text"


def common_prefix(one: bytes | bytearray, other: bytes | bytearray) -> int:
    """How many ids two packed sequences begin with in common."""
    left, right = memoryview(one), memoryview(other)
    low, high = 0, min(len(left), len(right)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if left[low * ID_BYTES : middle * ID_BYTES] == right[low * ID_BYTES : middle * ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
