"""Arguments that a tool's JSON schema accepts, as small as can be.

Only required properties are given, each the plainest value of its type: the first of an enum, "x", 1, true, [].
"""

from __future__ import annotations

from typing import Any, Final

MAX_DEPTH: Final = 16
"""A schema that refers to itself ends here, with null."""
MAX_ITEMS: Final = 64


def synthesise_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments for a tool with this `parameters` schema."""
    value = _synthesise({"type": "object", **schema}, schema, MAX_DEPTH)
    return value if isinstance(value, dict) else {}


def _synthesise(schema: Any, root: dict[str, Any], depth: int) -> Any:
    if not isinstance(schema, dict) or depth == 0:
        return None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if "$ref" in schema:
        return _synthesise(_resolve(schema["$ref"], root), root, depth - 1)
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            chosen = next((option for option in schema[union] if option != {"type": "null"}), None)
            return _synthesise(chosen, root, depth - 1)
    match _type_of(schema):
        case "object":
            properties = schema.get("properties") or {}
            return {
                name: _synthesise(properties.get(name, {}), root, depth - 1) for name in schema.get("required") or ()
            }
        case "array":
            return [_synthesise(schema.get("items", {}), root, depth - 1)] * min(schema.get("minItems", 0), MAX_ITEMS)
        case "integer" | "number":
            return min(max(1, schema.get("minimum", 1)), schema.get("maximum", float("inf")))
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "x" * max(1, schema.get("minLength", 1))


def _type_of(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((option for option in kind if option != "null"), "null")
    return str(kind)


def _resolve(reference: Any, root: dict[str, Any]) -> Any:
    target: Any = root
    for part in str(reference).removeprefix("#").strip("/").split("/"):
        target = target.get(part) if isinstance(target, dict) else None
    return target
