"""Texts that we add to a prompt, in one place and on record: a plan's system prompt is what the model is sent."""

from __future__ import annotations

from rollout.core.messages import Toolset, ToolSpec


def with_tool_list(system: str | None, toolset: Toolset) -> str:
    """The system prompt with the tools spelt out, for models that are not sent `tools` (`constrain_tools`)."""
    listed = "\n".join(_line(spec) for spec in toolset.specs)
    return f"{system}\n\n# Tools\n{listed}" if system else f"# Tools\n{listed}"


def _line(spec: ToolSpec) -> str:
    properties = spec.parameters.get("properties") or {}
    required = set(spec.parameters.get("required") or ())
    names = ", ".join(name if name in required else f"{name}?" for name in properties)
    first_sentence = spec.description.split(". ")[0].rstrip(".")
    return f"- {spec.name}({names}): {first_sentence}."
