"""Near-duplicates by comparing all pairs: slow, short, and right by inspection. What hashing must agree with."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rollout.core.messages import Message
from rollout.trajectories.filters.texts import words
from rollout.trajectories.trajectory import Trajectory


def exact_duplicates(
    trajectories: Sequence[Trajectory], similarity: float, n: int = 5, across: bool = True
) -> dict[str, str]:
    """The ids of duplicates, each with the id of the first trajectory that it is nearly the same as."""
    kept: list[Trajectory] = []
    found: dict[str, str] = {}
    for one in sorted(trajectories, key=_key):
        fellows = [other for other in kept if _group(other) == _group(one)]
        others = [other for other in kept if _group(other) != _group(one)] if across else []
        alike = [other for other in fellows if _similar(one, other, _start(one, other), n) >= similarity]
        alike += [other for other in others if _similar(one, other, 0, n) >= similarity]
        if alike:
            found[one.id] = alike[0].id
        else:
            kept.append(one)
    return found


def _key(one: Trajectory) -> tuple[str, str, int, str]:
    return (*_group(one), (one.metadata.get("branch") or {}).get("number", 0), one.id)


def _group(one: Trajectory) -> tuple[str, str]:
    return one.dataset, one.group


def _start(one: Trajectory, other: Trajectory) -> int:
    shared = [(each.metadata.get("branch") or {}).get("shared_messages", 0) for each in (one, other)]
    latest = max(*shared, one.opening, other.opening)
    common = 0
    for mine, its in zip(one.messages, other.messages, strict=False):
        if mine != its:
            break
        common += 1
    return min(latest, common)


def _similar(one: Trajectory, other: Trajectory, start: int, n: int) -> float:
    mine, its = (_shingles(each, start, n) for each in (one, other))
    return len(mine & its) / len(mine | its) if mine | its else 1.0


def _shingles(one: Trajectory, start: int, n: int) -> set[tuple[str, ...]]:
    return set[tuple[str, ...]]().union(*(_of_message(message, n) for message in one.messages[start:]))


@functools.cache
def _of_message(message: Message, n: int) -> frozenset[tuple[str, ...]]:
    calls = [part for call in message.tool_calls for part in (call.name, call.arguments)]
    told = [f"{message.role}:", *words(" ".join(filter(None, (message.reasoning, message.content, *calls))))]
    return frozenset(tuple(told[at : at + n]) for at in range(max(1, len(told) - n + 1)))
