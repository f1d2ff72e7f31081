"""The contract of an exporter, and where exporters are found.

An exporter turns one labelled trajectory into one record and knows how records are written. The built-in ones are
listed below; further ones come by the entry-point group `rollout.exporters` or as `module:Name`. Subclass
`JsonLinesExporter` and write `convert`, and you have a format:

    class Prompts(JsonLinesExporter):
        def convert(self, example):
            return {"id": example.id, "prompt": example.messages[-1].content}
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.core.plugins import find_plugin
from rollout.trajectories.exports.writing import JsonLines, Writer
from rollout.trajectories.labels import Example

__all__ = ["Example", "Exporter", "JsonLinesExporter", "Unfit", "Writer"]

BUILT_IN = {
    "add_key": "rollout.compat.add_key:AddKey",
    "openai": "rollout.trajectories.exports.openai:OpenAI",
    "sharegpt": "rollout.trajectories.exports.sharegpt:ShareGPT",
    "trl": "rollout.trajectories.exports.conversational:Conversational",
    "parquet": "rollout.trajectories.exports.parquet:Parquet",
}
NO_ANSWER = "no answer of the agent"
MASKED = "has masked turns, which the format cannot express"


class Unfit(Exception):
    """A format cannot hold a trajectory. The text says why, in words that can be counted: it names no trajectory."""


class Exporter(Protocol):
    """How trajectories are written for one kind of reader."""

    suffix: str
    """How the names of its files end."""
    holds_reasoning: bool
    """Whether reasoning is in its records; where not, the export says how many trajectories lost theirs."""

    def convert(self, example: Example) -> JSON:
        """The record. Raises Unfit."""
        ...

    def open(self, path: Path) -> Writer:
        """Begin a file of such records."""
        ...


class JsonLinesExporter:
    """An exporter that writes one JSON object a line."""

    suffix = ".jsonl"
    holds_reasoning = True
    holds_masks = False
    """Whether its records say of single answers that they are not to be learnt (`Example.masked`)."""
    holds_context = False
    """Whether its records say where what is to be learnt begins (`Example.context`)."""

    def convert(self, example: Example) -> JSON:
        raise NotImplementedError

    def open(self, path: Path) -> Writer:
        return JsonLines(path)


def find_exporter(name: str | Exporter | type[Exporter]) -> Exporter:
    """The exporter of a name: built in, an entry point, or `module:Name`. It may also be given as class or object."""
    found: Any = find_plugin("rollout.exporters", BUILT_IN.get(name, name)) if isinstance(name, str) else name
    if found is None:
        known = [*BUILT_IN, *(point.name for point in entry_points(group="rollout.exporters"))]
        raise ConfigError(f"format: there is no {name!r}; there are {', '.join(known)}, or your own as module:Name")
    try:
        made: Any = found() if isinstance(found, type) or not hasattr(found, "convert") else found
    except TypeError as error:
        raise ConfigError(f"format: {name}: expected a class that is made without arguments: {error}") from error
    missing = [part for part in ("convert", "open", "suffix", "holds_reasoning") if not hasattr(made, part)]
    if missing:
        raise ConfigError(f"format: {name}: has no {', '.join(missing)}; subclass {__name__}:JsonLinesExporter")
    exporter: Exporter = made
    return exporter


def can_mask(exporter: Exporter, *, per_turn: bool) -> bool:
    """Whether a conversation with masked answers can be written without teaching them. A single turn can also where
    the answers before it are said to be context."""
    named = ("holds_masks", "holds_context") if per_turn else ("holds_masks",)
    return any(getattr(exporter, name, False) for name in named)


def refuse_images(example: Example) -> None:
    """For formats that have no place for images: a record without them would teach something else."""
    if any(message.images for message in example.messages):
        raise Unfit("has images")


def up_to_last_answer(example: Example) -> Example:
    """The example without what follows the agent's last answer: nothing is learnt from it, and readers refuse it."""
    answers = (place for place, message in enumerate(example.messages) if message.role == "assistant")
    end = max(answers, default=-1) + 1
    if end <= example.learnt_from:
        raise Unfit(NO_ANSWER)
    if end == len(example.messages):
        return example
    return msgspec.structs.replace(example, messages=example.messages[:end])
