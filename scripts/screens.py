"""Make the pictures of the commands in docs/img: what a terminal shows, at 80x24 and 120x40, as SVG.

    python scripts/screens.py                 # all of them; takes a minute
    python scripts/screens.py show stats      # only these

Every picture is of a real command on runs that are made for it, in a temporary folder, without a model or the network.
"""

from __future__ import annotations

import functools
import io
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "img"
SIZES = ((80, 24), (120, 40))
RUN = "rollout run configs/default.yml --no-resume"
TREE_TASK = "f2a681b7"
COMMANDS = {
    "run": RUN,
    "show": "rollout show default --unsolved",
    "tree": f"rollout tree tree {TREE_TASK}",
    "ls": "rollout ls",
    "stats": "rollout stats default",
    "diff": "rollout diff default other-seed",
    "doctor": "rollout doctor",
}
WITH_LAST_LINES = ("run",)
"""Commands of which the last lines are shown instead of the first."""
ELSEWHERE = {sys.prefix: "/home/ada/.venv", platform.release(): platform.release().partition("-")[0]}
"""What is this machine's own, and what the pictures show in its place."""
# The page's own fonts: a picture in the docs loads nothing from elsewhere.
SVG = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
)


def rollout(command: str, folder: Path, columns: int = 80, *, has_colors: bool = True) -> str:
    """What a command prints on a terminal of this width."""
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"COLUMNS": str(columns), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    environment |= {"FORCE_COLOR": "1"} if has_colors else {}
    done = subprocess.run(
        [sys.executable, "-c", "from rollout.cli import main; main()", *shlex.split(command)[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return functools.reduce(lambda text, own: text.replace(own, ELSEWHERE[own]), ELSEWHERE, done.stdout)


def make_runs(folder: Path) -> None:
    """The runs that the pictures are of: a finished one, the same with another seed, and one whose attempts branch."""
    configs = folder / "configs"
    shutil.copytree(ROOT / "configs", configs)
    (folder / "rollout").symlink_to(ROOT / "rollout")
    default = yaml.safe_load((configs / "default.yml").read_text(encoding="utf-8"))
    other = {**default, "seed": 8, "datasets": {}}
    for name, dataset in default["datasets"].items():
        other["datasets"][name] = {**dataset, "output_path": f"outputs/other-seed/{name}.jsonl"}
    (configs / "other-seed.yml").write_text(yaml.safe_dump(other), encoding="utf-8")
    domain = "AirlineReservations_HotelReservations"
    dataset = {
        **default["datasets"][domain],
        "agent": {"model": "builtin/oracle", "params": {"stop_early": 0.3, "wrong_argument": 0.1}},
        "strategy": {"name": "mcts", "params": {"exploration": 0.2, "parallel": 1}},
        "output_path": "outputs/tree.jsonl",
        "samples": 1,
        "limit": 6,
    }
    tree = {"seed": 3, "datasets": {domain: dataset}}
    (configs / "tree.yml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    for name in ("other-seed", "tree", "default"):
        rollout(f"rollout run configs/{name}.yml", folder)


def draw(command: str, output: str, columns: int, rows: int, *, has_last_lines: bool) -> str:
    """A terminal of this size with a command and the part of its output that fits, as SVG."""
    lines = output.rstrip("\n").split("\n")
    room = rows - 1
    shown = lines[-room:] if has_last_lines else lines[:room]
    shown += [""] * (room - len(shown))
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), command), no_wrap=True, overflow="crop")
    for line in shown:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", highlight=False)
    # Otherwise the lower ends of the last line are cut off.
    console.print()
    name = f"{command.split()[1]}-{columns}x{rows}"
    drawn = console.export_svg(title=command, code_format=SVG, unique_id=name)
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


def main(names: list[str]) -> None:
    wanted = names or list(COMMANDS)
    unknown = [name for name in wanted if name not in COMMANDS]
    if unknown:
        sys.exit(f"there is no picture {', '.join(unknown)}; there are: {', '.join(COMMANDS)}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make_runs(folder)
        for columns, rows in SIZES:
            for name in wanted:
                # Progress is drawn by moving the cursor, which a picture cannot do.
                output = rollout(COMMANDS[name], folder, columns, has_colors=name != "run")
                picture = draw(COMMANDS[name], output, columns, rows, has_last_lines=name in WITH_LAST_LINES)
                path = IMAGES / f"{name}-{columns}x{rows}.svg"
                path.write_text(picture, encoding="utf-8")
                sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
