"""Two runs compared task by task: what got better, what got worse, and where two attempts first differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from rollout.core.messages import MALFORMED_CALL, Message, read_arguments
from rollout.pipelines.runs.stats import mean_reward
from rollout.store.reading.figures import TaskFigures
from rollout.store.reading.reader import JournalReader
from rollout.tasks.source import attempt_number
from rollout.trajectories.stop import Status

MOST_PARTINGS = 20
"""Lost and gained tasks, of each kind, whose attempts are read and compared, unless all are asked for."""
MOST_SHOWN = 160
"""Characters of a step that are kept of where attempts part."""
Change = Literal["gained", "lost"]


class Attempts(msgspec.Struct, frozen=True):
    """The attempts at a task in one run."""

    attempts: int
    scored: int
    solved: int
    reward: float | None
    """The mean of those that have one."""

    @property
    def share(self) -> float | None:
        """The share of the scored attempts that are solved; None where none was scored."""
        return self.solved / self.scored if self.scored else None


class Parting(msgspec.Struct, frozen=True):
    """The first step at which two attempts do different things."""

    step: int
    """Counted from 1."""
    first: str
    """What the attempt of the first run does there."""
    second: str
    first_id: str
    second_id: str


class Flip(msgspec.Struct, frozen=True):
    """A task that is solved more often in one run than in the other."""

    dataset: str
    task_id: str
    change: Change
    """`gained`: more often in the second run."""
    first: Attempts
    second: Attempts
    second_dataset: str
    """The dataset of the task in the second run. It has another name there where tasks are matched by id alone."""
    parting: Parting | None = None
    """None where it was not looked for, or where all steps are the same."""


class RunDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs, compared over the tasks that both have attempted."""

    shared: int
    """Tasks that both have attempted."""
    compared: int
    """Of these, the tasks that were scored in both."""
    same: int
    """Of these, the tasks that are solved equally often."""
    first: Attempts
    """The shared tasks' attempts in the first run, added up."""
    second: Attempts
    gained: int
    lost: int
    flips: tuple[Flip, ...]
    """Lost tasks first, each kind by how much changed."""
    only_first: tuple[tuple[str, str], ...]
    """Dataset and id of the tasks that only the first run has attempted."""
    only_second: tuple[tuple[str, str], ...]
    unscored: tuple[tuple[str, str], ...]
    """Dataset, in the first run, and id of the shared tasks that have no verdict in one of the runs."""


def compare_runs(first: JournalReader, second: JournalReader, most_partings: int | None = MOST_PARTINGS) -> RunDiff:
    """Compare two runs. A task is the same in both by dataset and id, or by its id alone where the runs have no dataset
    in common. `most_partings`: for how many lost and for how many gained tasks attempts are
    compared step by step; None for all."""
    by_id_alone = not set(first.datasets()) & set(second.datasets())
    ours, theirs = _by_task(first, by_id_alone), _by_task(second, by_id_alone)
    shared = [key for key in ours if key in theirs]
    flips = sorted(filter(None, (_flip(ours[key], theirs[key]) for key in shared)), key=_order)
    unscored = [key for key in shared if not (ours[key].scored and theirs[key].scored)]
    compared = len(shared) - len(unscored)
    gained = sum(flip.change == "gained" for flip in flips)
    looked_at: Counter[Change] = Counter()
    for place, flip in enumerate(flips):
        looked_at[flip.change] += 1
        if most_partings is None or looked_at[flip.change] <= most_partings:
            parting = _find_parting(first, second, flip)
            flips[place] = msgspec.structs.replace(flip, parting=parting)
    return RunDiff(
        shared=len(shared),
        compared=compared,
        same=compared - len(flips),
        first=_added_up([ours[key] for key in shared]),
        second=_added_up([theirs[key] for key in shared]),
        gained=gained,
        lost=len(flips) - gained,
        flips=tuple(flips),
        only_first=tuple((task.dataset, task.task_id) for key, task in ours.items() if key not in theirs),
        only_second=tuple((task.dataset, task.task_id) for key, task in theirs.items() if key not in ours),
        unscored=tuple((ours[key].dataset, ours[key].task_id) for key in unscored),
    )


def _by_task(journal: JournalReader, by_id_alone: bool) -> dict[tuple[str, str], TaskFigures]:
    return {("" if by_id_alone else task.dataset, task.task_id): task for task in journal.task_figures()}


def _attempts_of(task: TaskFigures) -> Attempts:
    return Attempts(task.attempts, task.scored, task.solved, task.reward)


def _added_up(tasks: Sequence[TaskFigures]) -> Attempts:
    return Attempts(
        sum(task.attempts for task in tasks),
        sum(task.scored for task in tasks),
        sum(task.solved for task in tasks),
        mean_reward(tasks),
    )


def _flip(ours: TaskFigures, theirs: TaskFigures) -> Flip | None:
    first, second = _attempts_of(ours), _attempts_of(theirs)
    if first.share is None or second.share is None or first.share == second.share:
        return None
    change: Change = "gained" if second.share > first.share else "lost"
    return Flip(ours.dataset, ours.task_id, change, first, second, theirs.dataset)


def _order(flip: Flip) -> tuple[bool, float, str, str]:
    changed = abs((flip.first.share or 0.0) - (flip.second.share or 0.0))
    return flip.change == "gained", -changed, flip.dataset, flip.task_id


def _find_parting(first: JournalReader, second: JournalReader, flip: Flip) -> Parting | None:
    """Where a solved attempt of the one run and an unsolved one of the other part."""
    is_gain = flip.change == "gained"
    ours = _choose(first, flip.dataset, flip.task_id, is_solved=not is_gain)
    other = _choose(second, flip.second_dataset, flip.task_id, is_solved=is_gain)
    if ours is None or other is None:
        return None
    left, right = _steps_of(first, flip.dataset, ours), _steps_of(second, flip.second_dataset, other)
    place = first_difference(left, right)
    if place is None:
        return None
    one, two = (steps[place] if place < len(steps) else None for steps in (left, right))
    return Parting(place + 1, describe_step(one), describe_step(two), ours, other)


def first_difference(left: Sequence[Message], right: Sequence[Message]) -> int | None:
    """The place of the first step at which two attempts do different things; None where all steps are the same."""
    for place in range(max(len(left), len(right))):
        if place >= len(left) or place >= len(right) or _deed(left[place]) != _deed(right[place]):
            return place
    return None


def _choose(journal: JournalReader, dataset: str, task: str, *, is_solved: bool) -> str | None:
    """The first attempt with this verdict."""
    keys = [key for key in journal.task_keys(dataset, task) if key.success is is_solved]
    sound = [key.id for key in keys if key.status != Status.FAILED]
    return min(sound, key=lambda name: attempt_number(task, name), default=None)


def _steps_of(journal: JournalReader, dataset: str, trajectory: str) -> list[Message]:
    """The answers of the agent."""
    return [message for message in journal.messages(dataset, trajectory) if message.role == "assistant"]


def _deed(message: Message) -> object:
    """What a step does: its calls, whatever they are called with in which order of keys. All words are the same."""
    return [(call.name, read_arguments(call)) for call in message.tool_calls]


def describe_step(message: Message | None) -> str:
    """What a step does, in a line; None for one that is there no longer."""
    if message is None:
        return "has ended"
    if not message.tool_calls:
        said = " ".join((message.content or "").split())
        return _short(f"says: {said}") if said else "says nothing"
    calls = (
        "a malformed call" if call.name == MALFORMED_CALL else f"{call.name}({call.arguments})"
        for call in message.tool_calls
    )
    return _short(", ".join(calls))


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
