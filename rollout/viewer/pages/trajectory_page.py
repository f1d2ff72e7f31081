"""The page of one trajectory."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.errors import JournalError
from rollout.core.messages import JSON
from rollout.pipelines.runs.transcript import ShownMessage, make_transcript
from rollout.store.files.run_file import recorded_part
from rollout.store.reading.episodes import NO_TIMES, EpisodeTimes
from rollout.store.reading.reader import JournalReader
from rollout.trajectories.line import with_person_marks
from rollout.trajectories.stop import StopReason, stop_words
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import OPENING, NodeBody, NodeKey
from rollout.viewer.answers.pages import (
    CanGrow,
    Commands,
    ContextSize,
    Has,
    PageMessage,
    ShownScore,
    ShownTask,
    Sibling,
    TokenCounts,
    TrajectoryPage,
)
from rollout.viewer.errors import not_found
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.spans import PlacedNode, placed_nodes, spans_of

log = logging.getLogger(__name__)
NOT_KEPT = "its steps were not kept (use_checkpoints: false)"
READ_ONLY = "this server only reads (--read-only)"
MOST_SIBLINGS = 40
"""Other attempts that a page lists: a task may have thousands, and a report holds a page for each of them."""


class ReadTrajectory(msgspec.Struct, frozen=True):
    """A recorded trajectory with its path."""

    dataset: str
    trajectory: Trajectory
    nodes: tuple[PlacedNode, ...]
    """Empty where nodes were not kept."""
    times: EpisodeTimes = NO_TIMES


def read_trajectory(run: OpenRun, dataset: str, name: str) -> ReadTrajectory:
    """A trajectory of a run, or one that people added. Raises RequestRefused where there is none."""
    with run.reading_of(name) as journal:
        found = journal.trajectory(dataset, name)
        if found is None:
            raise not_found(f"{run.name}: there is no trajectory {name[:200]!r} in the dataset {dataset[:200]!r}")
        nodes = placed_nodes(keyed_nodes(journal, dataset, found))
        times = journal.times_of(dataset, name)
        # Read now: the messages of a line are read lazily, and the reader is returned before that.
        _ = found.messages
    return ReadTrajectory(dataset, found, tuple(nodes), times)


def keyed_nodes(journal: JournalReader, dataset: str, trajectory: Trajectory) -> list[tuple[NodeKey, NodeBody]]:
    """The path of a trajectory from its opening on, each node with its key; empty where nodes were not kept."""
    place = journal.episode_of(dataset, trajectory.id)
    if place is None or trajectory.nodes is None:
        return []
    keys = [key for key, _ in journal.keyed_path(place[0])]
    opening = len(trajectory.nodes) - len(keys)
    return list(zip([*((OPENING, number) for number in range(opening)), *keys], trajectory.nodes, strict=True))


def make_page(run: OpenRun, read: ReadTrajectory, *, is_reader: bool = True) -> TrajectoryPage:
    """The page of a trajectory. `is_reader`: whether the server is read-only."""
    trajectory, dataset = read.trajectory, read.dataset
    siblings, sibling_count = _siblings(run, dataset, trajectory)
    filtered, marks = run.filtered(dataset, trajectory), run.marks_of(dataset, trajectory.id)
    # The page asks for images by their names.
    transcript = make_transcript(msgspec.structs.replace(trajectory, image_path=None), filtered)
    keyed = {index: (key, body) for index, key, body in read.nodes if body.said is not None}
    task = run.tasks.find(dataset, trajectory.task_id)
    # An id may begin like an option.
    named = [*(["--"] if trajectory.id.startswith("-") else []), str(run.directory_of(trajectory.id)), trajectory.id]
    show = ["rollout", "show", "--dataset", dataset, "--full", *named]
    replay = ["rollout", "score", "--dataset", dataset, *named]
    return TrajectoryPage(
        dataset=dataset,
        id=trajectory.id,
        task_id=trajectory.task_id,
        author=trajectory.author,
        status=trajectory.status,
        stop_reason=trajectory.stop_reason,
        stop_words=stop_words(trajectory.stop_reason),
        success=trajectory.success,
        scored=trajectory.scored,
        unscored=trajectory.unscored,
        reward=trajectory.reward,
        cost=trajectory.cost,
        usage={name: TokenCounts(**msgspec.structs.asdict(used)) for name, used in trajectory.usage.items()},
        turns=trajectory.turns,
        steps=trajectory.generations,
        tool_calls=trajectory.tool_calls,
        model=trajectory.model,
        user_model=trajectory.user_model,
        seed=trajectory.seed,
        timings=trajectory.timings,
        finished=read.times.finished or None,
        branch=trajectory.branch,
        error=trajectory.error,
        is_exact=trajectory.is_exact,
        drift_causes=trajectory.drift_causes,
        live_marks=trajectory.marks,
        scores=tuple(
            ShownScore(
                name=score.name,
                value=score.value,
                reason=score.reason,
                partial=score.partial,
                decides=score.decides,
                evidence=score.evidence,
            )
            for score in with_person_marks(trajectory, marks).scores
        ),
        brief=None if task is None else task.user_system_prompt or "\n".join(task.user_turns) or None,
        task=None
        if task is None
        else ShownTask(
            info=task.info or None,
            actions=None if task.actions is None else tuple(msgspec.to_builtins(action) for action in task.actions),
        ),
        system=trajectory.system,
        tools=tuple(trajectory.tools),
        messages=tuple(page_message(message, keyed.get(message.index)) for message in transcript.messages),
        spans=tuple(spans_of(read.nodes, read.times)),
        context=tuple(
            ContextSize(index, generation.usage.prompt_tokens)
            for index, generation in sorted(trajectory.generated.items())
            if generation.usage.prompt_tokens
        ),
        marks=tuple(marks),
        filtered=filtered,
        siblings=tuple(siblings),
        sibling_count=sibling_count,
        has=Has(
            states=bool(read.nodes) and trajectory.called and not is_reader,
            tokens=any(generation.tokens is not None for generation in trajectory.generated.values()),
            nodes=bool(read.nodes),
        ),
        can_grow=_can_grow(run, read, is_reader=is_reader),
        commands=Commands(
            show=shlex.join(show),
            replay=shlex.join(replay),
        ),
    )


def _can_grow(run: OpenRun, read: ReadTrajectory, *, is_reader: bool) -> CanGrow:
    reason = READ_ONLY if is_reader else None if read.nodes else NOT_KEPT
    if reason is None and not os.access(run.path, os.W_OK):
        reason = f"{run.path} cannot be written"
    config = recorded_part(run.path, "config", dict[str, Any]) or {}
    section = (config.get("datasets") or {}).get(read.dataset)
    names = set(section.get("irreversible") or ()) if isinstance(section, dict) else set()
    asking = [index for index, _, body in read.nodes if any(call.name in names for call in body.calls)]
    if asking and read.trajectory.stop_reason == StopReason.CORRECTED and asking[0] == read.nodes[-1][0]:
        # The calls of a correction have not been made.
        asking = []
    if asking:
        return CanGrow(reason is None, reason, asking[0] - 1, "it would make an irreversible call again")
    ends = _ends_at(read.nodes)
    return CanGrow(reason is None, reason, *(() if ends is None else (ends - 1, "the conversation ends there")))


def _ends_at(nodes: Sequence[PlacedNode]) -> int | None:
    """The message with which a conversation ends, or whose results end it; None if it was left open."""
    if not nodes or nodes[-1][2].end is None:
        return None
    return next((index for index, _, body in reversed(nodes) if body.kind != "tool"), None)


def page_message(message: ShownMessage, node: tuple[NodeKey, NodeBody] | None) -> PageMessage:
    """A message of a transcript, with the details of its node."""
    shown: JSON = {name: getattr(message, name) for name in message.__struct_fields__}
    if node is None:
        return PageMessage(**shown)
    key, body = node
    return PageMessage(
        **shown,
        at=body.added or None,
        key=key,
        weight_version=None if body.generation is None else body.generation.weight_version,
    )


def _siblings(run: OpenRun, dataset: str, trajectory: Trajectory) -> tuple[list[Sibling], int]:
    """Other attempts at the task, at most `MOST_SIBLINGS` of the run and of people each, and how many there are."""
    found, count = _attempts(run.reading(), dataset, trajectory)
    try:
        if run.has_people:
            of_people, more = _attempts(run.reading_people(), dataset, trajectory)
            found, count = found + of_people, count + more
    except JournalError as error:
        log.warning("%s", error)
    return found, count


def _attempts(
    borrowed: contextlib.AbstractContextManager[JournalReader], dataset: str, trajectory: Trajectory
) -> tuple[list[Sibling], int]:
    with borrowed as journal:
        others = [key.id for key in journal.task_keys(dataset, trajectory.task_id) if key.id != trajectory.id]
        others.sort(key=lambda name: (len(name), name))  # ~2 before ~10
        heads = [journal.head(dataset, other) for other in others[:MOST_SIBLINGS]]
    shown = [
        Sibling(
            id=head.id,
            author=head.author,
            status=head.status,
            success=head.success,
            scored=head.scored,
            reward=head.reward,
        )
        for head, _ in filter(None, heads)
    ]
    return shown, len(others)
