"""The tokens that a run of tests wrote down, read back by path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout.agents.formats import make_dialect
from rollout.core.messages import Toolset, ToolSpec
from rollout.models.chat_template import ChatTemplate, TemplateLabels
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.trajectories.token_view import TokenView, view_tokens
from tests.conftest import read_lines

OUT = Path("out.jsonl")


def labels_of(reader: JournalReader, line: dict[str, Any], template: ChatTemplate) -> tuple[TemplateLabels, str]:
    prompt = json.loads((reader.path.parent / "blobs" / f"{line['metadata']['prompt']}.json").read_text())
    tools = Toolset(tuple(ToolSpec.from_json(tool) for tool in prompt["tools"]))
    dialect = make_dialect(line["metadata"]["view"]["tool_format"])
    return TemplateLabels(template, tools, dialect.show), prompt["system"]


def views(tokenizer: Path | None = None) -> dict[str, TokenView]:
    """The tokens of every trajectory; with a tokenizer, of known kinds."""
    template = None if tokenizer is None else ChatTemplate.load(tokenizer)
    found = {}
    with open_reader(Path("run")) as reader:
        for line in read_lines(OUT):
            labels, system = (None, None) if template is None else labels_of(reader, line, template)
            found[line["id"]] = view_tokens(reader.whole_path("data", line["id"]), labels, system)
    return found


def requests_in(view: TokenView) -> list[tuple[list[int], list[int]]]:
    """Every prompt and completion that a view holds."""
    return [
        (segment.ids[: span.start].tolist(), segment.ids[span.start : span.end].tolist())
        for segment in view.segments
        for span in segment.spans
    ]
