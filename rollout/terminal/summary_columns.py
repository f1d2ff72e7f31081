"""The figures of the table at the end of a run, one entry each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rollout.pipelines.summary import DatasetSummary, Summary


class SummaryColumn(msgspec.Struct, frozen=True):
    """One figure of each dataset."""

    name: str
    cell: Callable[[DatasetSummary], str]
    is_shown: Callable[[Summary], bool] = lambda summary: True
    """Whether the run has anything to say about it."""


def _is_spared(summary: Summary) -> bool:
    return summary.total.not_needed > 0


def _solved(found: DatasetSummary) -> str:
    return "–" if found.solved_rate is None else f"{found.solved} ({found.solved_rate:.0%})"


def _unscored(found: DatasetSummary) -> str:
    """What was not checked; where nothing of it can be, at least how many ended properly."""
    proper = found.succeeded - found.solved
    return f"{found.unscored} ({proper} ended properly)" if proper else str(found.unscored)


def _tokens(found: DatasetSummary) -> str:
    return f"{found.prompt_tokens + found.completion_tokens:,}" if found.completion_tokens else "–"


COLUMNS = (
    SummaryColumn("planned", lambda found: str(found.planned)),
    SummaryColumn("completed", lambda found: str(found.statuses.get("completed", 0))),
    SummaryColumn("truncated", lambda found: str(found.statuses.get("truncated", 0))),
    SummaryColumn(
        "cut", lambda found: str(found.statuses.get("cut", 0)), lambda summary: "cut" in summary.total.statuses
    ),
    SummaryColumn("failed", lambda found: str(found.failed)),
    SummaryColumn("not needed", lambda found: str(found.not_needed), _is_spared),
    SummaryColumn("unfinished", lambda found: str(found.unfinished)),
    SummaryColumn("solved", _solved),
    SummaryColumn(
        "passed but truncated",
        lambda found: str(found.passed_but_truncated),
        lambda summary: summary.total.passed_but_truncated > 0,
    ),
    SummaryColumn("unscored", _unscored, lambda summary: summary.total.unscored > 0),
    SummaryColumn(
        "useful groups",
        lambda found: f"{found.useful_groups} of {found.groups}",
        lambda summary: _is_spared(summary) or summary.dynamic is not None,
    ),
    SummaryColumn("turns", lambda found: str(found.turns)),
    SummaryColumn("tool calls", lambda found: str(found.tool_calls)),
    SummaryColumn("tokens", _tokens),
    SummaryColumn("cost", lambda found: f"${found.cost:.4f}" if found.cost else "–"),
)


def summary_cells(summary: Summary) -> dict[str, dict[str, str]]:
    """The figures of each dataset and, where there are several, of all together."""
    sums = dict(summary.datasets)
    if len(sums) > 1:
        sums["all"] = summary.total
    shown = [column for column in COLUMNS if column.is_shown(summary)]
    cells = {name: {column.name: column.cell(found) for column in shown} for name, found in sums.items()}
    if summary.dynamic is not None:
        # What is wanted is wanted of all datasets together.
        wanted = ["–"] * (len(cells) - 1) + [str(summary.dynamic.wanted_groups)]
        for own, number in zip(cells.values(), wanted, strict=True):
            own["wanted groups"] = number
    return cells
