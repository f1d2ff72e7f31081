"""A filter's verdict carried out on an example: its end cut off, its masked answers noted for the format to say."""

from __future__ import annotations

import msgspec

from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.labels import Example


def filtered(example: Example, record: Filtered) -> Example:
    """The example as the verdict leaves it. It ends with the last answer that is learnt: what comes after teaches
    nothing, and a masked answer at the end needs no mask."""
    before = sum(1 for message in example.messages[:1] if message.role == "system")
    end = len(example.messages) if record.end is None else record.end + before
    masked = frozenset(place + before for place in record.masked_messages)
    learnt = [
        place
        for place, message in enumerate(example.messages[:end])
        if message.role == "assistant" and place not in masked
    ]
    end = max(learnt, default=-1) + 1
    return msgspec.structs.replace(
        example, messages=example.messages[:end], masked=frozenset(place for place in masked if place < end)
    )
