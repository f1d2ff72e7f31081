"""The distributions of a run on the terminal: a line of figures and a small histogram each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollout.pipelines.runs.stats import DatasetStats, Distribution, RunStats
from rollout.terminal import figures
from rollout.terminal.figures import bar, dollars, per_cent, short_number
from rollout.trajectories.stop import stop_words

BAR_WIDTH = 16
LEAST_BAR = 6
MOST_TOOLS = 12
_LEVELS = "▁▂▃▄▅▆▇█"
_DISTRIBUTIONS: tuple[tuple[str, Callable[[DatasetStats], Distribution | None], Callable[[float], str]], ...] = (
    ("turns", lambda stats: stats.turns, short_number),
    ("steps", lambda stats: stats.steps, short_number),
    ("tool calls", lambda stats: stats.tool_calls, short_number),
    ("tokens", lambda stats: stats.tokens, short_number),
    ("time of an attempt", lambda stats: stats.seconds, figures.seconds),
    ("time of a request", lambda stats: stats.latency, figures.seconds),
)


def show_stats(console: Console, name: str, stats: RunStats, *, shows_all_tools: bool = False) -> None:
    """Print the figures of a run, and what differs between its datasets."""
    total = stats.total
    console.print(Text.assemble((name, "bold"), f": {_headline(total)}"), highlight=False)
    if not total.attempts:
        console.print("no attempt has ended yet", style="dim")
        return
    if total.turns is not None:
        console.print()
        console.print(_distributions(total))
    _show_shares(console, "stop reasons", total.stop_reasons, words=stop_words)
    _show_tools(console, stats, shows_all_tools)
    if total.causes:
        console.print()
        console.print(Text("failures by cause", "bold"))
        causes = Table.grid(padding=(0, 1))
        for cause in total.causes:
            causes.add_row(
                Text(f"{cause.count:>7,} ×", "red"), f"{cause.kind}: {cause.text}" if cause.kind else cause.text
            )
        console.print(causes)
    if len(stats.datasets) > 1:
        console.print()
        console.print(_datasets(stats))


def _headline(stats: DatasetStats) -> str:
    statuses = ", ".join(f"{number:,} {status}" for status, number in stats.statuses.items())
    parts = [f"{stats.attempts:,} attempts ({statuses})" if statuses else "0 attempts"]
    if stats.scored:
        parts.append(f"{stats.solved:,} of {stats.scored:,} solved ({stats.solved / stats.scored:.1%})")
    parts += [f"mean reward {stats.mean_reward:.3f}"] if stats.mean_reward is not None else []
    parts += [dollars(stats.cost)] if stats.cost else []
    return " · ".join(parts)


def _table(*columns: str, gap: int = 2) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0), show_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="right" if place else "left", no_wrap=place > 0)
    return table


def _distributions(stats: DatasetStats) -> Table:
    table = _table("per attempt", "mean", "p50", "p90", "p99", "most", "from least to most")
    table.columns[-1].justify = "left"
    for name, find, write in _DISTRIBUTIONS:
        found = find(stats)
        if found is None:
            continue
        numbers = (found.mean, found.p50, found.p90, found.p99, found.most)
        table.add_row(name, *map(write, numbers), _histogram(found))
    return table


def _histogram(found: Distribution) -> Text:
    """A column for each bin, its height the share of the highest."""
    highest = max(each.count for each in found.bins)
    columns = "".join(
        _LEVELS[min(len(_LEVELS) - 1, each.count * len(_LEVELS) // (highest + 1))] if each.count else " "
        for each in found.bins
    )
    return Text.assemble((columns, "cyan"))


def _show_shares(console: Console, title: str, counts: Mapping[str, int], words: Callable[[str], str]) -> None:
    console.print()
    console.print(Text(title, "bold"))
    total = sum(counts.values())
    width = max(len(name) for name in counts)
    # The bars leave room for the words.
    taken = len(f"  {'':<{width}} {0:>7,} {0:>6.1%}  ") + max(len(words(name)) for name in counts)
    strokes = max(LEAST_BAR, min(BAR_WIDTH, console.width - taken))
    for name, number in counts.items():
        text = f"  {name:<{width}} {number:>7,} {number / total:>6.1%} "
        line = Text.assemble(text, (bar(number / total, strokes).ljust(strokes), "cyan"))
        line.append(f" {words(name)}", "dim")
        line.truncate(console.width, overflow="ellipsis")
        console.print(line, highlight=False)


def _show_tools(console: Console, stats: RunStats, shows_all: bool) -> None:
    tools = stats.total.tools
    if not tools:
        return
    console.print()
    sampled = f" (of {stats.sampled:,} attempts)" if stats.sampled is not None else ""
    table = _table(f"tool{sampled}", "calls", "errors", "error rate", "")
    table.columns[-1].justify = "left"
    most = max(tool.calls for tool in tools)
    shown = tools if shows_all else tools[:MOST_TOOLS]
    for tool in shown:
        errors = Text(f"{tool.errors:,}", "red" if tool.errors else "dim")
        strokes = Text(bar(tool.calls / most, BAR_WIDTH), "cyan")
        table.add_row(tool.name, f"{tool.calls:,}", errors, f"{tool.error_rate:.1%}", strokes)
    console.print(table)
    if len(tools) > len(shown):
        console.print(f"… {len(tools) - len(shown)} more tools; --all shows them", style="dim", highlight=False)


def _datasets(stats: RunStats) -> Table:
    table = _table("dataset", "attempts", "solved", "reward", "turns", "steps", "calls", "failed", gap=1)
    for each in stats.datasets:
        solved = per_cent(each.solved / each.scored if each.scored else None)
        reward = "–" if each.mean_reward is None else f"{each.mean_reward:.2f}"
        means = [_mean(found) for found in (each.turns, each.steps, each.tool_calls)]
        failed = sum(cause.count for cause in each.causes)
        table.add_row(each.name, f"{each.attempts:,}", solved, reward, *means, str(failed) if failed else "–")
    return table


def _mean(found: Distribution | None) -> str:
    return "–" if found is None else f"{found.mean:.1f}"
