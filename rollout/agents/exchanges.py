"""The exchanges of a saved trajectory: each request as it was sent, with its answer."""

from __future__ import annotations

from collections.abc import Iterator

from rollout.agents.viewing import read_requests, viewing_of
from rollout.core.messages import message_to_json
from rollout.store.run_dir import BLOBS
from rollout.trajectories.labels import Example
from rollout.trajectories.rows.exchange import Exchange


def exchanges_of(example: Example) -> Iterator[Exchange]:
    """The exchanges, in order, without ids. The URL of an image is the path of its file, where that is known, else its
    place in the run directory. Raises BadLine where an image that was sent is gone."""
    has_system = int(bool(example.messages) and example.messages[0].role == "system")
    system = example.messages[0].content if has_system else None
    messages = example.messages[has_system:]
    dialect = viewing_of(example).dialect
    users = passed = 0
    image_path = example.image_path or (lambda name: f"{BLOBS}/{name}")
    for place, request in read_requests(example, messages, system, image_path):
        users += sum(message.role == "user" for message in messages[passed:place])
        passed = place
        since = max((begin for begin in example.offers if begin < users), default=None)
        answer = messages[place]
        yield Exchange(
            request,
            dialect.export(answer),
            message_to_json(dialect.show(answer)),
            example.tools if since is None else example.offers[since],
        )


def count_opening(example: Example) -> int:
    """How many messages of an example the agent was given to begin with. Where that is not on record, those before its
    first answer."""
    has_system = int(bool(example.messages) and example.messages[0].role == "system")
    if example.view is not None:
        return has_system + example.opening
    roles = [message.role for message in example.messages]
    return roles.index("assistant") if "assistant" in roles else len(roles)
