"""The lines of a run in browsers as steps: with what its blobs say of the tools that were offered."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollout.messages import JSON, Toolset, ToolSpec
from rollout.trajectories.labels import Prompt, read_prompt
from rollout.trajectories.saved import SavedLine
from rollout.trajectories.web_metrics import WebRates
from rollout.trajectories.web_steps import IsReadable, is_action, steps_of
from rollout.worlds.calls import CallReader
from rollout.worlds.world import Invocation


class StepReader:
    """Makes steps of lines. Whether a call could be read is settled as it was then, by the tools that were offered."""

    def __init__(self, run_dir: Path) -> None:
        self._blobs = run_dir / "blobs"
        self._prompts: dict[str | None, Prompt | None] = {None: None}
        self._readers: dict[str | None, IsReadable] = {}

    def prompt_of(self, line: SavedLine) -> Prompt | None:
        """System prompt and tools of a line's agent; None where their blob is there no more."""
        name = line.prompt_name
        if name not in self._prompts:
            self._prompts[name] = self._read_blob(str(name))
        return self._prompts[name]

    def steps(self, line: SavedLine, info: JSON | None, prompts: Sequence[str | None] = ()) -> list[JSON]:
        """The steps of a line; see `steps_of`."""
        name = line.prompt_name
        if name not in self._readers:
            self._readers[name] = _reader_of(self.prompt_of(line))
        return steps_of(line, info, is_readable=self._readers[name], prompts=prompts)

    def _read_blob(self, name: str) -> Prompt | None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return read_prompt((self._blobs / f"{name}.json").read_bytes())
        return None


def _reader_of(prompt: Prompt | None) -> IsReadable:
    if prompt is None:
        return is_action
    reader = CallReader(Toolset(tuple(ToolSpec.from_json(tool) for tool in prompt.tools)))
    return lambda call: isinstance(reader.read(call), Invocation)


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
