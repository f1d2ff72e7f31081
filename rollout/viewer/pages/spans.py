"""Timeline of an attempt: a list of spans from the opening of its world to the end of its scoring.

Nodes say when they were added, and the journal says when the attempt began and ended. In journals of versions that did
not keep the times of nodes, spans follow one another without gaps: answers and retries have their recorded durations,
and tools take no time. If a path continues another attempt, the time between the two is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from rollout.store.reading.episodes import NO_TIMES, EpisodeTimes
from rollout.trajectories.tree import NodeBody, NodeKey
from rollout.viewer.answers.pages import TimeSpan

LEAST_WAIT = 0.05
"""Seconds. Shorter gaps are the engine's own work."""
PlacedNode = tuple[int, NodeKey, NodeBody]
"""The index of a node's message, or of the next one where it adds none."""


def placed_nodes(path: Sequence[tuple[NodeKey, NodeBody]]) -> list[PlacedNode]:
    """Each node of a path with the index of its message."""
    found: list[PlacedNode] = []
    index = 0
    for key, body in path:
        found.append((index, key, body))
        index += body.said is not None
    return found


def spans_of(nodes: Sequence[PlacedNode], times: EpisodeTimes = NO_TIMES) -> list[TimeSpan]:
    """The spans of a path, in order. `times`: of the last episode of the path."""
    found: list[TimeSpan] = []
    clock, last, owner = 0.0, 0.0, None
    own = nodes[-1][1][0] if nodes else None
    for number, (index, (episode, _), body) in enumerate(nodes):
        if body.kind == "opening":
            continue
        is_first = episode != owner
        if is_first:
            owner, last = episode, min(times.started, body.added) if episode == own else 0.0
        passed = body.added - last if body.added and last else 0.0
        took = 0.0
        for part in _parts(body):
            took += part.seconds
        if is_first and passed - took >= LEAST_WAIT:
            found.append(TimeSpan(message=index, kind="opening", start=clock, seconds=passed - took, label=""))
            clock += passed - took
            passed = took
        if body.kind in ("tool", "user_tool", "observation"):
            # Results of one round of calls are added together: the first represents all.
            if passed > 0:
                found.append(
                    TimeSpan(message=index, kind="tool", start=clock, seconds=passed, label=_calls(nodes, number))
                )
                clock += passed
        else:
            if passed - took >= LEAST_WAIT:
                found.append(TimeSpan(message=index, kind="wait", start=clock, seconds=passed - took, label="waiting"))
                clock += passed - took
            for part in _parts(body):
                found.append(
                    TimeSpan(message=index, kind=part.kind, start=clock, seconds=part.seconds, label=part.label)
                )
                clock += part.seconds
        last = body.added
    if last and times.finished - last >= LEAST_WAIT:
        found.append(
            TimeSpan(message=nodes[-1][0], kind="ending", start=clock, seconds=times.finished - last, label="")
        )
    return [msgspec.structs.replace(span, start=round(span.start, 6), seconds=round(span.seconds, 6)) for span in found]


class _Piece(msgspec.Struct, frozen=True):
    kind: Literal["model", "retry", "user"]
    seconds: float
    label: str


def _parts(body: NodeBody) -> Iterator[_Piece]:
    """The recorded durations of a node."""
    generation = body.generation
    if generation is None:
        return
    for failure in generation.failures:
        status = "" if failure.status is None else f" {failure.status}"
        yield _Piece("retry", failure.waited or 0.0, f"{failure.kind}{status}: {failure.text}"[:200])
    if generation.latency or not generation.failures:
        is_user = body.kind in ("user", "user_call")
        yield _Piece(
            "user" if is_user else "model", generation.latency, generation.model or ("user" if is_user else "")
        )


def _calls(nodes: Sequence[PlacedNode], number: int) -> str:
    """The names of the tools that a round of calls asked for."""
    for place in range(number - 1, -1, -1):
        if calls := nodes[place][2].calls:
            return ", ".join(dict.fromkeys(call.name for call in calls))
    return "tools"
