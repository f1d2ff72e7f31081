"""The lines of a run in browsers as steps: with what its blobs say of the tools that were offered."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollout.messages import JSON, ToolCall, Toolset, ToolSpec
from rollout.trajectories.labels import read_prompt
from rollout.trajectories.saved import SavedLine
from rollout.trajectories.web_metrics import WebRates
from rollout.trajectories.web_steps import IsReadable, is_action, steps_of
from rollout.worlds.calls import CallReader
from rollout.worlds.world import Invocation


class StepReader:
    """Makes steps of lines. Whether a call could be read is settled as it was then, by the tools that were offered."""

    def __init__(self, run_dir: Path) -> None:
        self._blobs = run_dir / "blobs"
        self._readers: dict[str | None, IsReadable] = {None: is_action}

    def steps(self, line: SavedLine, info: JSON | None, prompts: Sequence[str | None] = ()) -> list[JSON]:
        """The steps of a line; see `steps_of`."""
        name = line.prompt_name
        if name not in self._readers:
            self._readers[name] = self._offered(str(name))
        return steps_of(line, info, is_readable=self._readers[name], prompts=prompts)

    def _offered(self, name: str) -> IsReadable:
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, KeyError):
            tools = read_prompt((self._blobs / f"{name}.json").read_bytes()).tools
            reader = CallReader(Toolset(tuple(ToolSpec.from_json(tool) for tool in tools)))

            def is_readable(call: ToolCall) -> bool:
                return isinstance(reader.read(call), Invocation)

            return is_readable
        return is_action


class WebMeasure:
    """The section `web` of metrics.json: see `WebRates`."""

    name = "web"

    def __init__(self, run_dir: Path) -> None:
        self._steps = StepReader(run_dir)
        self._rates = WebRates()

    def take(self, line: SavedLine, info: JSON | None) -> None:
        self._rates.take(line, self._steps.steps(line, info))

    def result(self) -> JSON:
        return self._rates.result()
