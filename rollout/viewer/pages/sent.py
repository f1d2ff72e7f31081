"""The exact request of a step, and how each message of the conversation became part of it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec

from rollout.agents.exchanges import exchanges_of
from rollout.agents.viewing import viewing_of
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message
from rollout.store.files.run_file import recorded_part
from rollout.trajectories.labels import example_of
from rollout.trajectories.saved import BadLine
from rollout.trajectories.trajectory import Trajectory
from rollout.viewer.answers.pages import Sent, SentState
from rollout.viewer.errors import not_found
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.trajectory_page import ReadTrajectory

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "presence_penalty", "frequency_penalty", "stop")
"""The keys of an agent's configuration that are fields of a request."""
NO_PROMPT = "The system prompt and the tools are not on record."
IMAGES = "Images are named by their addresses here; the model was sent the images themselves."


def read_sent(run: OpenRun, read: ReadTrajectory, step: int) -> Sent:
    """The request of a step, counted from 1 as the page does. Raises RequestRefused."""
    trajectory = read.trajectory
    places = [index for index, message in enumerate(trajectory.messages) if message.role == "assistant"]
    if not 1 <= step <= len(places):
        raise not_found(f"{trajectory.id}: there is no step {step}; it has {len(places)}")
    place = places[step - 1]
    given = sum(index < trajectory.opening for index in places)
    if step <= given:
        return _unsent(trajectory.model, "This answer belongs to the task; no model was asked.")
    generation = trajectory.generated.get(place)
    model = (generation.model if generation is not None else "") or trajectory.model
    if generation is not None and generation.is_scripted:
        return _unsent(model, "The agent's program wrote this answer; no model was asked.")
    try:
        shown_at = msgspec.structs.replace(trajectory, image_path=lambda name: f"api/runs/{run.name}/blobs/{name}")
        exchange = next(itertools.islice(exchanges_of(example_of(shown_at)), step - given - 1, None))
        states = _states(trajectory, place)
    except (BadLine, ConfigError, StopIteration) as error:
        return _unsent(model, f"It cannot be rebuilt: {error}")
    notes = [NO_PROMPT] if trajectory.prompt_name is None else []
    notes += [IMAGES] if any(isinstance(entry.get("content"), list) for entry in exchange.request) else []
    body: JSON = {"model": model, "messages": exchange.request}
    if exchange.tools:
        body["tools"] = exchange.tools
    body |= _sampling(run, read.dataset, trajectory)
    if generation is not None and generation.seed is not None:
        body["seed"] = generation.seed
    return Sent(
        model=model,
        messages=tuple(exchange.request),
        tools=tuple(exchange.tools),
        shown=tuple(states),
        note=" ".join(notes) or None,
        curl=_as_curl(body),
        python=_as_python(body),
    )


def _unsent(model: str | None, note: str) -> Sent:
    return Sent(model=model, messages=(), tools=(), shown=(), note=note, curl="", python="")


def _states(trajectory: Trajectory, place: int) -> list[SentState]:
    """How each message before an answer became part of its request. The view that made the requests makes them
    again; its records are matched with the messages from the last one backwards, because a window leaves out the first
    ones."""
    viewing = viewing_of(trajectory)
    view = viewing.open(trajectory.system, trajectory.opening, lambda name: name)
    captions = {caption["message"]: caption for caption in (trajectory.view or {}).get("captions") or ()}
    before = list(trajectory.messages[:place])
    for index, message in enumerate(before):
        view.add(message, captions.get(index))
    begin = int(trajectory.system is not None)
    records, shown = view.records[begin:], view.messages[begin:]
    states: dict[int, SentState] = {}
    left = len(records) - 1
    head = trajectory.opening
    for index in range(place - 1, -1, -1):
        # The opening stays first; only its text may have grown by the list of earlier steps.
        in_head = index < head
        number = index if in_head else left
        if number >= 0 and number < len(records) and (in_head or _is_of(records[number], before[index])):
            whole = viewing.dialect.show(before[index])
            same = _looks(shown[number], viewing.images is not None) == _looks(whole, True)
            states[index] = SentState(index, "sent" if same else "folded")
            left -= not in_head
        else:
            states[index] = SentState(index, "folded" if before[index].role == "assistant" else "left_out")
    return [states[index] for index in range(place)]


def _is_of(record: Message, message: Message) -> bool:
    return record.content == message.content and record.tool_calls == message.tool_calls


def _looks(message: Message, with_images: bool) -> tuple[Any, ...]:
    return message.content, message.tool_calls, message.reasoning, message.images if with_images else ()


def _sampling(run: OpenRun, dataset: str, trajectory: Trajectory) -> JSON:
    """The sampling parameters, as the run's configuration has them and a strategy changed them."""
    config = recorded_part(run.path, "config", dict[str, Any]) or {}
    section = (config.get("datasets") or {}).get(dataset)
    agent = section.get("agent") if isinstance(section, dict) else None
    found = {name: agent[name] for name in SAMPLING if agent.get(name)} if isinstance(agent, dict) else {}
    if isinstance(agent, dict) and agent.get("temperature") == 0:
        found["temperature"] = 0
    branch = trajectory.branch
    if branch is not None and branch.temperature is not None:
        found["temperature"] = branch.temperature
    return found


def _as_curl(body: JSON) -> str:
    text = json.dumps(body, ensure_ascii=False, indent=1).replace("'", "'\\''")
    return (
        'curl "$API_BASE/chat/completions" \\\n  -H "Authorization: Bearer $API_KEY" \\\n'
        f"  -H 'Content-Type: application/json' \\\n  -d '{text}'"
    )


def _as_python(body: JSON) -> str:
    text = json.dumps(json.dumps(body, ensure_ascii=False))
    return (
        "import json, os, urllib.request\n\n"
        f"body = json.loads({text})\n"
        "request = urllib.request.Request(\n"
        '    os.environ["API_BASE"] + "/chat/completions",\n'
        "    json.dumps(body).encode(),\n"
        '    {"Authorization": "Bearer " + os.environ["API_KEY"], "Content-Type": "application/json"},\n'
        ")\n"
        "print(json.load(urllib.request.urlopen(request)))\n"
    )
