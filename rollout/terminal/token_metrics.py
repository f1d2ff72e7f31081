"""`tokens` of metrics.json, for a person to read."""

from __future__ import annotations

from rich.console import Console

from rollout.core.messages import JSON


def show_token_metrics(console: Console, found: JSON, name: str) -> None:
    """How many trajectories have all their token ids, and where prompts drifted."""
    causes = ", ".join(f"{cause} {number}" for cause, number in found["drift"].items()) or "none"
    text = f"tokens of {name}: {found['exact']} exact, {found['inexact']} not; drift: {causes}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
