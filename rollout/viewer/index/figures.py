"""The figures of a run, from its index instead of the journal: the same numbers in a fraction of the time.

Offers what `rollout.pipelines.runs.stats` asks of a journal. Attempts that people added count for nothing.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path

from rollout.store.reading.counting import StatusCounts
from rollout.store.reading.figures import AttemptFigures, StepFigures, TaskFigures
from rollout.trajectories.line import Failed
from rollout.trajectories.person_marks import PERSON_SCORE
from rollout.trajectories.sums import Sums
from rollout.viewer.answers.runs import CauseCount, Facets, FacetValue, RankCount
from rollout.viewer.index.rows import shown_error
from rollout.viewer.index.schema import BY_PEOPLE

MOST_VALUES = 500
"""Values of a facet that are listed."""
_OWN = f"n < {BY_PEOPLE}"


class IndexFigures:
    """Reads figures from the index of a run."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    def datasets(self) -> list[str]:
        """The names of the datasets of which an attempt has ended."""
        return [name for (name,) in self._db.execute("SELECT DISTINCT dataset FROM attempts ORDER BY 1")]

    def attempt_figures(self) -> Iterator[AttemptFigures]:
        """The figures of every attempt, failed ones included."""
        rows = self._db.execute(
            "SELECT dataset, status, stop_reason, turns, steps, tool_calls, prompt_tokens, tokens - prompt_tokens, "
            f"seconds, model_seconds, error_kind, error_text, error_check FROM attempts WHERE {_OWN}"
        )
        for *figures, kind, text, check in rows:
            error = None if kind is None else Failed(kind, text, (), check)
            yield AttemptFigures(*(*figures, error))

    def step_figures(self, every: int = 1) -> Iterator[StepFigures]:
        """The answers and the results of tools of every N-th attempt, each once also where attempts share it."""
        rows = self._db.execute(f"SELECT n, dataset, latencies FROM attempts WHERE {_OWN} ORDER BY n")
        for number, (n, dataset, packed) in enumerate(rows):
            if number % every:
                continue
            for latency in array("f", packed):
                yield StepFigures(dataset, None, latency=latency)
            for tool, calls, errors in self._db.execute(
                "SELECT tool, own_calls, own_errors FROM tools WHERE n = ?", (n,)
            ):
                for place in range(calls):
                    yield StepFigures(dataset, tool, place < errors)

    def counts(self) -> list[StatusCounts]:
        """Counts of every dataset, by status and stop reason, with the sums that are known here."""
        rows = self._db.execute(
            "SELECT dataset, status, stop_reason, count(*), sum(success), sum(success AND scored), sum(scored), "
            f"sum(own_cost) FROM attempts WHERE {_OWN} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        return [StatusCounts(*(*found, Sums(scored=scored, cost=cost))) for *found, scored, cost in rows]

    def task_figures(self) -> list[TaskFigures]:
        """The attempts at every task, added up."""
        rows = self._db.execute(
            "SELECT dataset, task_id, count(*), sum(scored), sum(scored AND success), avg(reward), count(reward) "
            f"FROM attempts WHERE {_OWN} AND status != 'failed' GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return [TaskFigures(*row) for row in rows]

    # ---- what a run's page shows besides ------------------------------------------------------------------------

    def facets(self) -> Facets:
        """What the table can be filtered by."""

        def column(name: str) -> tuple[FacetValue, ...]:
            return self._values(f"SELECT {name}, count(*) FROM attempts WHERE {name} IS NOT NULL GROUP BY 1")

        def table(name: str, value: str) -> tuple[FacetValue, ...]:
            return self._values(f"SELECT {value}, count(*) FROM {name} GROUP BY 1")

        marked = "count(DISTINCT dataset || char(0) || id)"
        marks = f"SELECT kind AS v, {marked} AS c FROM marks GROUP BY 1"
        outcome = "CASE WHEN NOT scored THEN 'none' WHEN success THEN '1' ELSE '0' END"
        return Facets(
            outcomes=self._values(f"SELECT {outcome}, count(*) FROM attempts GROUP BY 1"),
            datasets=column("dataset"),
            statuses=column("status"),
            stop_reasons=column("stop_reason"),
            models=column("model"),
            tools=table("tools", "tool"),
            scores=self._values(
                "SELECT name, sum(c) FROM (SELECT name, count(*) AS c FROM scores GROUP BY 1 UNION ALL "
                f"SELECT '{PERSON_SCORE}', {marked} AS c FROM marks "
                "WHERE kind = 'verdict' AND message IS NULL HAVING c > 0) GROUP BY 1"
            ),
            marks=self._values(f"{marks} UNION ALL SELECT mark, count(*) FROM live_marks GROUP BY 1"),
            labels=self._values(
                f"SELECT text, {marked} FROM marks WHERE kind = 'label' AND text IS NOT NULL GROUP BY 1"
            ),
            authors=self._values(
                "SELECT author, count(*) FROM (SELECT author, dataset, id FROM attempts WHERE author IS NOT NULL "
                "UNION SELECT author, dataset, id FROM marks) GROUP BY 1"
            ),
            filters=table("filters", "filter"),
        )

    def filters(self) -> dict[str, int]:
        """On how many trajectories each filter has a mark."""
        return dict(self._db.execute("SELECT filter, count(*) FROM filters GROUP BY 1 ORDER BY 2 DESC, 1").fetchall())

    def ranks(self) -> list[RankCount]:
        """What each rank of a cluster made; nothing where there is none."""
        rows = self._db.execute(
            "SELECT rank, sum(status != 'failed'), sum(status = 'failed'), sum(scored AND success), sum(scored), "
            f"sum(own_cost), avg(reward) FROM attempts WHERE {_OWN} AND rank IS NOT NULL GROUP BY 1 ORDER BY 1"
        )
        return [RankCount(*row) for row in rows]

    def causes(self) -> list[CauseCount]:
        """Why attempts failed, the most frequent first, each with what the table is filtered by."""
        rows = self._db.execute(
            f"SELECT cause, error_text, error_check, count(*) FROM attempts WHERE cause IS NOT NULL AND {_OWN} "
            f"GROUP BY 1 ORDER BY 4 DESC, 1 LIMIT {MOST_VALUES}"
        )
        return [CauseCount(key, shown_error(text), check, count) for key, text, check, count in rows]

    def _values(self, sql: str) -> tuple[FacetValue, ...]:
        rows = self._db.execute(f"{sql} ORDER BY 2 DESC, 1 LIMIT {MOST_VALUES}")
        return tuple(FacetValue(str(value), count) for value, count in rows)
