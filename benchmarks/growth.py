"""How the cost of each command grows with the run: 1,000, 10,000 and 100,000 trajectories of 4 generations.

Each command is a process of its own on a run that the engine made (`benchmarks.generated`). Measured are its CPU time
(user + system), wall time and peak memory. The exponent is the slope of a line through log(CPU) over log(trajectories),
with the least that the command took (starting Python, importing) taken off first: 1 is linear, 2 quadratic. The table
ends with what one machine's noise does to it: the same command measured three times.

Then, with `--live` and `--turns`, the same question of the engine: CPU and memory of a rollout at 20 to 5,000 live, CPU
of a turn at turn 10 to 400.

    python -m benchmarks.growth                          # the table; takes 20 to 30 minutes
    python -m benchmarks.growth --sizes 1000,10000       # a quick look
    python -m benchmarks.growth --plot docs/img/growth.svg
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.generated import END_AT_FIRST, write_config

ROOT = Path(__file__).resolve().parents[1]
ROLLOUT = (sys.executable, "-c", "from rollout.cli import main; main()")
SIZES = (1_000, 10_000, 100_000)
SMALLEST = 4
MAKES_THE_RUN = "run"
REPEATED = "resume, finished"
SHORT = 2.0
"""A command of at most this many CPU seconds mostly starts up, so it is measured five times and the least counts."""
REPEATS = 5
MOST_EXPONENT = 1.15
NOISE = 0.01
"""CPU seconds by which two measurements of the same start-up differ."""


class Measured(msgspec.Struct, frozen=True):
    """What one process took."""

    cpu: float
    wall: float
    memory_mb: float


def measure(command: Sequence[str], log: Path, **environment: str) -> Measured:
    """Run a command to its end. Raises where it fails."""
    began = time.perf_counter()
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}:\n{log.read_text()[-2000:]}")
    return Measured(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024)


def rollout(*arguments: str | Path) -> Callable[[Path], Measured]:
    """Measure a command of ours. `{}` in an argument is the folder of the run."""

    def run(folder: Path) -> Measured:
        words = [str(argument).format(folder) for argument in arguments]
        return measure([*ROLLOUT, *words], folder / "log.txt")

    return run


def to_first_request(folder: Path) -> Measured:
    """Resume a half-finished run until its first new request."""
    words = ("run", str(folder / "half" / "config.yml"), "--resume")
    return measure([*ROLLOUT, *words], folder / "log.txt", **{END_AT_FIRST: "1"})


def save_iteration(folder: Path) -> Measured:
    """Write an iteration's `.pt` and Parquet, and learn what is blocked: a generated journal stands in for browsers."""
    code = (
        "import sys; from pathlib import Path; from rollout.pipelines.web_saving import save_iteration\n"
        "run = Path(sys.argv[1]); save_iteration(run / 'run', run / 'saved', 'train', 0, {})"
    )
    return measure([sys.executable, "-c", code, str(folder)], folder / "log.txt")


def recover(folder: Path) -> Measured:
    """Rebuild a journal from its pages."""
    shutil.rmtree(folder / "recovered", ignore_errors=True)
    return rollout("recover", "{}/run", "-o", "{}/recovered")(folder)


COMMANDS: dict[str, Callable[[Path], Measured]] = {
    "run": rollout("run", "{}/config.yml"),
    "resume, finished": rollout("run", "{}/config.yml", "--resume"),
    "resume, half, to first request": to_first_request,
    "run --dry-run": rollout("run", "{}/config.yml", "--dry-run"),
    "ls": rollout("ls", "{}"),
    "show": rollout("show", "{}/run", "--unsolved", "--random"),
    "stats": rollout("stats", "{}/run"),
    "diff": rollout("diff", "{}/run", "{}/half/run"),
    "filter": rollout("filter", "{}/run"),
    "score --write": rollout("score", "{}/run", "--write"),
    "export": rollout("export", "{}/run", "--format", "trl", "-o", "{}/export/trl.jsonl"),
    "export --filters": rollout("export", "{}/run", "--filters", "--format", "trl", "-o", "{}/export/filtered.jsonl"),
    "export, merging two runs": rollout(
        "export", "{}/run", "{}/half/run", "--format", "trl", "-o", "{}/export/merged.jsonl"
    ),
    "label": rollout("label", "{}/run", "-o", "{}/export/labelled.jsonl"),
    "train-data": rollout("train-data", "{}/run", "--form", "prefix_merge", "--text", "-f", "jsonl", "-o", "{}/rows"),
    "train-data, tokens": rollout("train-data", "{}/tokens/run", "--form", "prefix_merge", "-o", "{}/rows"),
    "compare, finished": rollout("compare", "{}/compare.yml", "--strategies", "chain", "--output", "{}/compared"),
    "recover": recover,
    "web iteration": save_iteration,
}


def make_runs(folder: Path, size: int) -> None:
    """The runs of one size, but for the one that the first command makes."""
    path = write_config(folder, size)
    generated = (sys.executable, "-m", "benchmarks.generated")
    measure([*generated, str(folder / "half"), "--trajectories", str(size), "--finished", "0.5"], folder / "log.txt")
    measure([*generated, str(folder / "tokens"), "--trajectories", str(size), "--tokens"], folder / "log.txt")
    config = json.loads(path.read_text())
    config["compare"] = {"budget": {"generations": 16}}
    (folder / "compare.yml").write_text(json.dumps(config))
    # Once, so that the measured command only has to read what is there.
    COMMANDS["compare, finished"](folder)


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of the line of least squares through the logarithms. Points that are within the noise are left out or,
    where only one would be left, count as the noise itself."""
    points = [(size, cpu) for size, cpu in points if cpu >= NOISE] if points[-2][1] >= NOISE else points
    xs = [math.log(size) for size, _ in points]
    ys = [math.log(max(cpu, NOISE)) for _, cpu in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def start_up(points: Sequence[tuple[int, Measured]]) -> float:
    """CPU seconds that a command takes however small the run is: the least of all measurements."""
    return min(measured.cpu for _, measured in points)


def commands_table(sizes: Sequence[int], chosen: Sequence[str]) -> dict[str, list[tuple[int, Measured]]]:
    found: dict[str, list[tuple[int, Measured]]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as name:
        for size in (SMALLEST, *sizes):
            folder = Path(name) / str(size)
            make_runs(folder, size)
            for command, run in COMMANDS.items():
                if command not in found and command != MAKES_THE_RUN:
                    continue
                measured = run(folder)
                if measured.cpu <= SHORT and command != MAKES_THE_RUN:
                    again = (run(folder) for _ in range(REPEATS - 1))
                    measured = min(measured, *again, key=lambda measured: measured.cpu)
                if command in found:
                    found[command].append((size, measured))
                    print(f"  {size:>7,} {command}: {measured.cpu:.2f} s CPU", file=sys.stderr)
            if size != sizes[-1]:
                shutil.rmtree(folder)
        noise = sorted(COMMANDS[REPEATED](folder).cpu for _ in range(3))
    heads = "".join(f"{f'{size:,}':>10}" for size in sizes)
    print(f"{'CPU s':34}{heads}{'wall s':>10}{'MB':>7}{'exponent':>10}")
    for command, points in found.items():
        base = start_up(points)
        cells = "".join(f"{measured.cpu:10.2f}" for _, measured in points[1:])
        last = points[-1][1]
        slope = exponent([(size, measured.cpu - base) for size, measured in points[1:]])
        mark = "" if slope <= MOST_EXPONENT else "  more than linear"
        print(f"{command:34}{cells}{last.wall:10.1f}{last.memory_mb:7.0f}{slope:10.2f}{mark}")
    print(f"noise: {REPEATED}, three times: {noise[0]:.2f} to {noise[-1]:.2f} s")
    return found


def plot(found: dict[str, list[tuple[int, Measured]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for command, points in found.items():
        base = start_up(points)
        axes.loglog(
            [size for size, _ in points[1:]],
            [max(measured.cpu - base, 1e-3) for _, measured in points[1:]],
            marker="o",
            label=command,
        )
    sizes = [size for size, _ in next(iter(found.values()))[1:]]
    axes.loglog(sizes, [size / sizes[0] * 0.02 for size in sizes], "k:", label="linear")
    axes.set_xlabel("trajectories")
    axes.set_ylabel("CPU seconds beyond start-up")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(fontsize=7, ncol=2)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def live_table(counts: Sequence[int]) -> None:
    from benchmarks.engine import SCRIPT, one
    from rollout.testing import StubProcess

    print(f"\n{'live':>6}{'CPU ms/rollout':>16}{'peak MB':>9}{'KB/live':>9}")
    with StubProcess(SCRIPT) as stub:
        least = None
        for live in counts:
            found = one("engine", stub.url, live, max(2000, 4 * live))
            least = least or (live, found["rss_mb"])
            each = f"{(found['rss_mb'] - least[1]) * 1024 / (live - least[0]):.1f}" if live > least[0] else "-"
            print(f"{live:6,}{found['cpu_ms']:16.2f}{found['rss_mb']:9.0f}{each:>9}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--commands", help="Only these, separated by semicolons.")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    chosen = options.commands.split(";") if options.commands else list(COMMANDS)
    found = commands_table([int(size) for size in options.sizes.split(",")], chosen)
    if options.plot is not None:
        plot(found, options.plot)
    if options.live:
        live_table((20, 128, 1000, 5000))
    if options.turns:
        from benchmarks.turns import main as turns

        print()
        turns()


if __name__ == "__main__":
    main()
