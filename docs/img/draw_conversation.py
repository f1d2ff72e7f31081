"""Draws the picture of the README: a task of a shipped domain, played and scored, as a terminal shows it.

python docs/img/draw_conversation.py docs/img/run.svg
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import rollout

TASK = 0
WIDTH = 96


def draw(trajectory: rollout.Trajectory) -> str:
    """The conversation and its scores as SVG, in the reader's own monospace font."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold", min_width=9)
    table.add_column()
    table.add_row("task", f"{trajectory.dataset} {trajectory.task_id}")
    for message in trajectory.messages:
        colour = {"user": "green", "assistant": "cyan"}.get(message.role, "bright_black")
        if message.content:
            text = " ".join(message.content.split())
            if message.role == "tool" and len(text) > 83:
                text = f"{text[:82]}…"
            table.add_row(Text(message.role, style=colour), Text(text))
        for call in message.tool_calls or ():
            table.add_row(Text("call", style="magenta"), Text(f"{call.name} {call.arguments}"))
    for score in trajectory.scores:
        sign = "✓" if score.value == 1 else "✗"
        table.add_row(Text("score", style="yellow"), Text(f"{sign} {score.name}: {score.reason}"))
    end = f"{trajectory.status}, {trajectory.stop_reason}, reward {trajectory.reward}"
    table.add_row(Text("end", style="yellow"), Text(end))
    console.print(table)
    svg = console.export_svg(title="rollout run default (built-in agent and user)", unique_id="conversation")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")


def main(path: Path) -> None:
    run = rollout.run(
        mcp_domain="StudentAcademicPortal",
        model="builtin/oracle",
        user="builtin/user",
        max_turns=20,
        limit=30,
        progress=False,
    )
    multi = run.trajectories.where(lambda one: one.success and one.turns == 2 and 3 <= one.tool_calls <= 4)
    path.write_text(draw(multi[TASK]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
