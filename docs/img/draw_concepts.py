"""Draws the pictures of docs/concepts and docs/design: boxes and arrows that read well on light and on dark pages.

python docs/img/draw_concepts.py docs/img/concepts
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from pathlib import Path

STYLE = """
svg { background: #ffffff; }
text { font: 14px system-ui, sans-serif; fill: #24292f; text-anchor: middle; }
.small { font-size: 12px; fill: #57606a; }
rect { fill: #eef2ff; stroke: #4051b5; rx: 6; }
.plain { fill: none; stroke: #8c959f; stroke-dasharray: 4 3; }
.good { fill: #dafbe1; stroke: #2da44e; }
.bad { fill: #ffebe9; stroke: #cf222e; }
path { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip); }
#tip path { fill: #57606a; stroke: none; marker-end: none; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; }
text { fill: #e6edf3; } .small { fill: #9da7b3; }
rect { fill: #1f2547; stroke: #8c9eff; } .plain { fill: none; stroke: #6e7681; }
.good { fill: #12351f; stroke: #3fb950; } .bad { fill: #3d1417; stroke: #f85149; }
path { stroke: #9da7b3; } #tip path { fill: #9da7b3; }
}
""".strip()


class Picture:
    """One drawing. Coordinates are pixels from the top left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x: int, y: int, width: int, label: str, below: str = "", kind: str = "", height: int = 44) -> None:
        """A box with a label, and a smaller line under it."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        middle = x + width // 2
        if below:
            self.text(middle, y + height // 2 - 3, label)
            self.text(middle, y + height // 2 + 14, below, "small")
        else:
            self.text(middle, y + height // 2 + 5, label)

    def frame(self, x: int, y: int, width: int, height: int, label: str) -> None:
        """A dashed frame around other boxes, with its label inside of the top edge."""
        self.parts.append(f'<rect class="plain" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        self.text(x + width // 2, y + 18, label, "small")

    def text(self, x: int, y: int, text: str, kind: str = "") -> None:
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        """A line through these points, with a tip at the last one."""
        self.parts.append(f'<path d="M{" L".join(f"{x} {y}" for x, y in points)}"/>')

    def svg(self) -> str:
        """The file."""
        tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                f'<defs>{tip}<path d="M0 0L8 4L0 8z"/></marker></defs>',
                *self.parts,
                "</svg>\n",
            ]
        )


def task() -> Picture:
    picture = Picture(620, 110, "A task: what starts an attempt, and what it is scored against")
    picture.frame(10, 10, 600, 90, "task")
    picture.box(30, 40, 120, "id", "mugs")
    picture.box(165, 40, 200, "first message", "“Two mugs, please.”")
    picture.box(380, 40, 210, "scored against", "info, actions, checks")
    return picture


def environment() -> Picture:
    picture = Picture(620, 190, "An environment describes tasks, tools and scorers, and makes a world for each attempt")
    picture.frame(10, 10, 330, 170, "environment: a description")
    for row, (left, right) in enumerate([("tasks", "policy"), ("tools", "default user"), ("scorers", "world class")]):
        picture.box(30, 38 + row * 46, 135, left, height=36)
        picture.box(185, 38 + row * 46, 135, right, height=36)
    for row in range(3):
        picture.arrow((340, 95), (470, 40 + row * 55))
        picture.box(472, 20 + row * 55, 130, f"world {row + 1}", height=40)
    return picture


def world() -> Picture:
    picture = Picture(620, 150, "A world answers tool calls and keeps the state of one attempt")
    picture.box(10, 50, 130, "agent")
    picture.arrow((142, 62), (248, 62))
    picture.text(195, 54, "tool call", "small")
    picture.arrow((248, 84), (142, 84))
    picture.text(195, 102, "result", "small")
    picture.frame(250, 15, 360, 120, "world: owned by one attempt")
    picture.box(270, 50, 100, "tools")
    picture.arrow((372, 72), (408, 72))
    picture.box(410, 50, 80, "state")
    picture.arrow((492, 72), (518, 72))
    picture.box(520, 50, 80, "snapshot")
    picture.text(430, 120, "restored for resume and for branches", "small")
    return picture


def episode() -> Picture:
    picture = Picture(660, 190, "An episode: user message, generation, tool calls and results until the attempt ends")
    picture.box(10, 70, 90, "user")
    picture.arrow((102, 92), (138, 92))
    picture.frame(140, 20, 340, 150, "turn: until the agent answers the user")
    picture.box(160, 70, 120, "generation", "the model")
    picture.arrow((282, 84), (328, 84))
    picture.box(330, 70, 130, "tool calls", "the world")
    picture.arrow((395, 116), (395, 145), (220, 145), (220, 116))
    picture.text(308, 139, "results: one step", "small")
    picture.arrow((480, 92), (518, 92))
    picture.box(520, 70, 130, "trajectory", "a stop reason")
    picture.arrow((220, 68), (220, 46), (55, 46), (55, 68))
    picture.text(105, 40, "answer", "small")
    return picture


def tree() -> Picture:
    picture = Picture(640, 230, "A tree: attempts share the steps before they branch; its leaves are one group")
    picture.box(10, 90, 90, "task")
    picture.box(140, 90, 90, "step 1")
    picture.arrow((102, 112), (138, 112))
    picture.box(270, 40, 90, "step 2a")
    picture.box(270, 140, 90, "step 2b")
    picture.arrow((232, 112), (268, 62))
    picture.arrow((232, 112), (268, 162))
    for y, number, value in ((10, 0, 1), (80, 2, 0), (140, 1, 1)):
        label, below, kind = f"attempt {number}", f"reward {value}", "good" if value else "bad"
        picture.box(420, y, 110, label, below, kind)
        picture.arrow((362, 62 if y < 140 else 162), (418, y + 22))
    picture.frame(400, 2, 150, 193, "")
    picture.text(475, 215, "leaves: the group", "small")
    picture.text(250, 215, "shared steps are generated and stored once", "small")
    return picture


def reward() -> Picture:
    picture = Picture(640, 150, "Scorers read the trajectory and the world; a rule turns the scores into one reward")
    picture.box(10, 20, 120, "trajectory")
    picture.box(10, 85, 120, "world")
    picture.arrow((132, 42), (188, 66))
    picture.arrow((132, 107), (188, 80))
    picture.box(190, 50, 110, "scorers")
    picture.arrow((302, 72), (338, 72))
    picture.box(340, 50, 110, "scores", "with evidence")
    picture.arrow((452, 62), (498, 42))
    picture.arrow((452, 82), (498, 107))
    picture.box(500, 20, 130, "success", "yes or no", "good")
    picture.box(500, 85, 130, "reward", "a number or none", "good")
    return picture


def architecture() -> Picture:
    picture = Picture(760, 270, "The way of the data, from tasks to exports")
    picture.box(10, 100, 80, "tasks")
    picture.arrow((92, 122), (118, 122))
    picture.box(120, 100, 90, "strategy", "which node")
    picture.arrow((212, 122), (238, 122))
    picture.frame(240, 15, 200, 210, "episode")
    picture.box(275, 45, 130, "user", "model, script")
    picture.box(275, 102, 130, "agent", "and its model")
    picture.box(275, 165, 130, "world", "tools and state")
    picture.arrow((330, 91), (330, 100))
    picture.arrow((350, 148), (350, 163))
    picture.arrow((330, 163), (330, 148))
    picture.arrow((350, 100), (350, 91))
    picture.arrow((442, 122), (468, 122))
    picture.box(470, 100, 100, "tree", "nodes")
    picture.arrow((520, 146), (520, 180))
    picture.box(470, 182, 100, "journal", "SQLite")
    picture.arrow((572, 204), (610, 204))
    picture.box(612, 182, 130, "scores, filters")
    picture.arrow((677, 180), (677, 148))
    picture.box(612, 100, 130, "exports, rows")
    picture.arrow((520, 228), (520, 250), (165, 250), (165, 148))
    picture.text(340, 244, "the tree so far decides the next expansion", "small")
    return picture


DRAWINGS: tuple[Callable[[], Picture], ...] = (task, environment, world, episode, tree, reward, architecture)


def main(folder: Path) -> None:
    for draw in DRAWINGS:
        (folder / f"{draw.__name__}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
