"""Figures of single attempts and of single steps, for distributions: read in one pass, and no further than needed.

A run of 100,000 trajectories has a million nodes. So only the parts that are counted are decoded, one row at a time,
and a caller may ask for the steps of a sample of the attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rollout.store.damage import reads_journal
from rollout.store.reading.counting import CountsReader, TrajectoryKey
from rollout.trajectories.generation import Usage
from rollout.trajectories.line import Failed, Head, Timings

_KEY = "SELECT d.dataset, d.id, coalesce(t.task, d.id), d.status, d.stop_reason, d.success FROM trajectories d "
_JOINS = "LEFT JOIN episodes e ON e.id = d.episode LEFT JOIN trees t ON t.id = e.tree "


class AttemptFigures(msgspec.Struct, frozen=True):
    """The figures of one attempt, over its whole path."""

    dataset: str
    status: str
    stop_reason: str
    turns: int
    steps: int
    tool_calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    model_seconds: float
    error: Failed | None


class StepFigures(msgspec.Struct, frozen=True):
    """One answer of an agent's model, or the result of one tool call."""

    dataset: str
    tool: str | None
    """The tool that answered; None for an answer of the model, and where the call is not on record."""
    is_error: bool = False
    latency: float | None = None
    """Seconds of the request, for an answer of the model."""


class TaskFigures(msgspec.Struct, frozen=True):
    """The attempts at one task that did not fail."""

    dataset: str
    task_id: str
    attempts: int
    scored: int
    solved: int
    reward: float | None
    """The mean over the attempts that have one."""
    rewarded: int
    """How many have one."""


class _Error(msgspec.Struct):
    kind: str = ""
    text: str = ""


class _Tokens(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Record(msgspec.Struct):
    status: str
    stop_reason: str
    total_turns: int = 0
    generations: int | None = None
    tool_call_count: int = 0
    usage: dict[str, _Tokens] = {}
    timings: Timings | None = None
    error: _Error | None = None


class _CountedHead(msgspec.Struct):
    """The part of a head that is counted."""

    metadata: _Record


class _NamedCall(msgspec.Struct):
    id: str
    name: str


class _Said(msgspec.Struct):
    tool_calls: tuple[_NamedCall, ...] = ()
    tool_call_id: str | None = None


class _CountedAnswer(msgspec.Struct):
    message: _Said
    latency: float = 0.0


class _CountedNode(msgspec.Struct):
    """The part of a node that is counted."""

    kind: str
    message: _Said | None = None
    generation: _CountedAnswer | None = None
    error_kind: str | None = None


_counted_head = msgspec.msgpack.Decoder(_CountedHead)
_counted_node = msgspec.msgpack.Decoder(_CountedNode)
_whole_head = msgspec.msgpack.Decoder(Head)


@reads_journal
class FiguresReader(CountsReader):
    """Reads what distributions are made of, and finds trajectories by what is known of them."""

    def attempt_figures(self) -> Iterator[AttemptFigures]:
        """The figures of every attempt, failed ones included."""
        for dataset, head in self._db.execute("SELECT dataset, head FROM trajectories"):
            try:
                found = _counted_head.decode(head).metadata
            except msgspec.ValidationError:
                # Written by an earlier version or another tool.
                yield _figures_of(dataset, _whole_head.decode(head))
                continue
            timings = found.timings or Timings()
            yield AttemptFigures(
                dataset,
                found.status,
                found.stop_reason,
                found.total_turns,
                found.generations or 0,
                found.tool_call_count,
                sum(each.prompt_tokens for each in found.usage.values()),
                sum(each.completion_tokens for each in found.usage.values()),
                timings.seconds,
                timings.model_seconds,
                None if found.error is None else Failed(found.error.kind, found.error.text),
            )

    def step_figures(self, every: int = 1) -> Iterator[StepFigures]:
        """Every answer of an agent and every result of a tool in ended attempts, each once also where attempts share
        it. `every`: only those of every N-th attempt."""
        datasets = dict(self._db.execute("SELECT episode, dataset FROM trajectories").fetchall())
        chosen = sorted(datasets)[::every]
        if every == 1:
            rows = self._db.execute("SELECT episode, body FROM nodes ORDER BY episode, place")
            yield from _steps(rows, datasets)
            return
        for episode in chosen:
            rows = self._db.execute("SELECT episode, body FROM nodes WHERE episode = ? ORDER BY place", (episode,))
            yield from _steps(rows, datasets)

    def task_figures(self) -> list[TaskFigures]:
        """The attempts at every task, added up."""
        rows = self._db.execute(
            "SELECT d.dataset, coalesce(t.task, d.id), count(*), sum(d.scored), sum(d.scored AND d.success), "
            f"avg(d.reward), count(d.reward) FROM trajectories d {_JOINS}"
            "WHERE d.status != 'failed' GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return [TaskFigures(*row) for row in rows]

    def task_keys(self, dataset: str, task: str) -> list[TrajectoryKey]:
        """The attempts at one task."""
        rows = self._db.execute(
            f"{_KEY}{_JOINS}WHERE d.dataset = ? AND d.episode IN "
            "(SELECT e.id FROM trees t JOIN episodes e ON e.tree = t.id WHERE t.dataset = ? AND t.task = ?)",
            (dataset, dataset, task),
        )
        return _keys(rows)

    def find_keys(self, name: str, datasets: Sequence[str] = ()) -> list[TrajectoryKey]:
        """The trajectories that a name means: the one with this id, else the attempts at the task of this id, else
        those whose id begins with it."""
        within = f" AND {_one_of('d.dataset', datasets)}" if datasets else ""
        # An index serves each of these: ids are compared as they are, and a prefix as a range.
        for condition, values in (
            ("d.id = ?", (name,)),
            ("d.episode IN (SELECT e.id FROM trees t JOIN episodes e ON e.tree = t.id WHERE t.task = ?)", (name,)),
            ("d.id >= ? AND d.id < ?", (name, name + chr(0x10FFFF))),
        ):
            rows = self._db.execute(
                f"{_KEY}{_JOINS}WHERE {condition}{within} ORDER BY d.dataset, d.id", (*values, *datasets)
            )
            if found := _keys(rows):
                return found
        return []

    def choose_keys(
        self,
        *,
        datasets: Sequence[str] = (),
        statuses: Sequence[str] = (),
        is_unsolved: bool = False,
        is_random: bool = False,
        most: int | None = 1,
    ) -> list[TrajectoryKey]:
        """The first trajectories for which all of this holds, in the order in which they ended, or any of them.
        `is_unsolved`: only those that scorers see as not solved. `most`: how many; None for all."""
        columns = {"d.dataset": datasets, "d.status": statuses}
        wanted = [_one_of(column, values) for column, values in columns.items() if values]
        wanted += ["d.scored", "NOT d.success"] if is_unsolved else []
        where = f"WHERE {' AND '.join(wanted)} " if wanted else ""
        order = "random()" if is_random else "d.status = 'failed', d.finished, d.id"
        rows = self._db.execute(
            f"{_KEY}{_JOINS}{where}ORDER BY {order} LIMIT ?", (*datasets, *statuses, -1 if most is None else most)
        )
        return _keys(rows)

    def find_tasks(self, name: str, datasets: Sequence[str] = (), most: int = 20) -> list[tuple[str, str]]:
        """The tasks, each with its dataset, that a name means: those of this id, else those whose id begins with it."""
        within = f" AND {_one_of('dataset', datasets)}" if datasets else ""
        for condition, values in (("task = ?", (name,)), ("task >= ? AND task < ?", (name, name + chr(0x10FFFF)))):
            sql = f"SELECT DISTINCT dataset, task FROM trees WHERE {condition}{within} ORDER BY 1, 2 LIMIT ?"
            if found := self._db.execute(sql, (*values, *datasets, most)).fetchall():
                return [(str(owner), str(task)) for owner, task in found]
        return []

    def last_written(self) -> float | None:
        """When the last trajectory ended, in seconds since 1970; None where none has."""
        (found,) = self._db.execute("SELECT max(finished) FROM trajectories").fetchone()
        return None if found is None else float(found)


def _one_of(column: str, values: Sequence[str]) -> str:
    """The condition that a column has one of these values."""
    return f"{column} IN ({', '.join('?' * len(values))})"


def _keys(rows: Iterator[tuple[str, str, str, str, str, int]]) -> list[TrajectoryKey]:
    return [
        TrajectoryKey(dataset, trajectory, task, status, stop_reason, bool(success))
        for dataset, trajectory, task, status, stop_reason, success in rows
    ]


def _figures_of(dataset: str, head: Head) -> AttemptFigures:
    usage = sum(head.usage.values(), Usage())
    return AttemptFigures(
        dataset,
        head.status,
        head.stop_reason,
        head.turns,
        head.generations or 0,
        head.tool_calls,
        usage.prompt_tokens,
        usage.completion_tokens,
        head.timings.seconds,
        head.timings.model_seconds,
        head.error,
    )


def _steps(rows: Iterator[tuple[int, bytes]], datasets: dict[int, str]) -> Iterator[StepFigures]:
    owner: int | None = None
    asked: list[_NamedCall] = []
    for episode, body in rows:
        dataset = datasets.get(episode)
        if dataset is None:
            continue
        if episode != owner:
            owner, asked = episode, []
        node = _counted_node.decode(body)
        if node.kind == "generation" and node.generation is not None:
            asked = list(node.generation.message.tool_calls)
            yield StepFigures(dataset, None, latency=node.generation.latency)
        elif node.kind == "tool" and node.message is not None:
            call = next((each for each in asked if each.id == node.message.tool_call_id), None)
            if call is not None:
                # Two calls may have the same id; results are in the order of the calls.
                asked.remove(call)
            yield StepFigures(dataset, None if call is None else call.name, node.error_kind is not None)
