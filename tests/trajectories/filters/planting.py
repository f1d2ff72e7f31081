"""The erring oracle, with a record of every error that it made: what filters have to find, known without them."""

from __future__ import annotations

import msgspec

from rollout.core import seeds
from rollout.models.builtin.oracle import OracleModel
from rollout.models.model import Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.trajectories.generation import Generation

RATES = {"unknown_tool": 0.08, "malformed_call": 0.08, "void_turn": 0.08, "repeat": 0.08}
PLANTED: dict[int, set[str]] = {}
"""The errors of each answer, by the seed of its request, which the journal has, too."""


class Planting(ReferenceModel):
    """Errs as the oracle does. An error counts as planted where the answer differs from that of an oracle that does
    not err. A repeated call has the errors of the call that it repeats, and the same error twice is a repetition,
    unless the user spoke in between."""

    def __init__(self) -> None:
        self._erring = OracleModel(RATES)
        self._flawless = OracleModel()
        self._of_call: dict[str, set[str]] = {}

    async def play(self, request: Request, reference: Reference) -> Generation:
        seed, messages = request.seed or 0, reference.path
        kind = self._erring._draw(seeds.stream(seed, "oracle", len(messages)))
        answer = await self._erring.play(request, reference)
        right = await self._flawless.play(request, reference)
        errors = set() if kind is None or answer.message == right.message else {kind}
        last = next((calls[-1] for message in reversed(messages) if (calls := message.tool_calls)), None)
        if errors == {"repeat"} and last is not None:
            errors |= self._of_call[last.id]
        since = next((said for said in reversed(messages) if said.tool_calls or said.role == "user"), None)
        if since is None or since.role == "user":
            errors.discard("repeat")
            last = None
        for call in answer.message.tool_calls if errors and last is not None else ():
            if (call.name, call.arguments) == (last.name, last.arguments):
                errors |= {"repeat"}
        for call in answer.message.tool_calls:
            self._of_call[call.id] = errors
        PLANTED[seed] = errors
        return msgspec.structs.replace(answer, seed=seed)
