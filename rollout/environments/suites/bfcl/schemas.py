"""BFCL's function documents as tools: its own names of types become those of JSON schema."""

from __future__ import annotations

from rollout.core.messages import JSON, ToolSpec

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "bool": "boolean"}


def to_spec(document: JSON) -> ToolSpec:
    """One function. What it returns is documented too, but no tool schema has a place for that."""
    return ToolSpec(document["name"], document["description"], to_json_schema(document["parameters"]))


def to_json_schema(schema: JSON) -> JSON:
    """A schema with the types of JSON schema, however deep. `any` is a value of any type."""
    out: JSON = {}
    for key, value in schema.items():
        if key == "type":
            if value != "any":
                out["type"] = _TYPES.get(value, value)
        elif key == "properties":
            out[key] = {name: to_json_schema(inner) for name, inner in value.items()}
        elif key == "items":
            out[key] = to_json_schema(value)
        else:
            out[key] = value
    return out
