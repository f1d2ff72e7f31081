"""Giving each reference action a call of its own: as many as possible, in order where order is asked for.

`fits[i]` lists the calls, in order, that would do for action i. No call serves two actions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Fits = Sequence[Sequence[int]]


def match_actions(fits: Fits, ordered: Collection[int]) -> list[int | None]:
    """A call for each action, or None. Actions in `ordered` get calls in increasing order; they choose first."""
    chosen: list[int | None] = [None] * len(fits)
    chain = sorted(ordered)
    for action, call in zip(chain, match_in_order([fits[action] for action in chain]), strict=True):
        chosen[action] = call
    taken = {call for call in chosen if call is not None}
    free = [action for action in range(len(fits)) if action not in ordered]
    rest = [[call for call in fits[action] if call not in taken] for action in free]
    for action, call in zip(free, match_most(rest), strict=True):
        chosen[action] = call
    return chosen


def match_most(fits: Fits) -> list[int | None]:
    """As many actions as possible with a call each (augmenting paths)."""
    owner: dict[int, int] = {}

    def find_call(action: int, tried: set[int]) -> bool:
        for call in fits[action]:
            if call in tried:
                continue
            tried.add(call)
            if call not in owner or find_call(owner[call], tried):
                owner[call] = action
                return True
        return False

    for action in range(len(fits)):
        find_call(action, set())
    by_action = {action: call for call, action in owner.items()}
    return [by_action.get(action) for action in range(len(fits))]


def match_in_order(fits: Fits) -> list[int | None]:
    """As many actions as possible with a call each, later actions with later calls (longest common subsequence)."""
    calls = sorted({call for each in fits for call in each})
    sets = [set(each) for each in fits]
    # best[i][j]: how many of actions i… can be matched with calls j…
    best = [[0] * (len(calls) + 1) for _ in range(len(fits) + 1)]
    for i in range(len(fits) - 1, -1, -1):
        for j in range(len(calls) - 1, -1, -1):
            with_both = best[i + 1][j + 1] + 1 if calls[j] in sets[i] else 0
            best[i][j] = max(with_both, best[i + 1][j], best[i][j + 1])
    chosen: list[int | None] = [None] * len(fits)
    i = j = 0
    while i < len(fits) and j < len(calls):
        if calls[j] in sets[i] and best[i][j] == best[i + 1][j + 1] + 1:
            chosen[i] = calls[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return chosen
