"""Tool calls from a model that does not call tools by itself: a JSON schema that leaves it no other answer.

A server that can hold its output to a schema (llama.cpp, vLLM, SGLang) needs no tool support for this. The request
carries `response_format`: the answer is one object, either `{"name": …, "arguments": {…}}` for one of the offered
tools or, where the model may speak, `{"reply": …}`. `parse_constrained` turns that object back into a call or a text.

Two things follow from sampling token by token under a grammar. A field without a limit is a field that a small model
never leaves, so every string, array and integer gets one here and an object has only the members that are named; and a
keyword that a server does not know is refused by one and silently ignored by the next, so only the common ones are
kept. What remains is never wider than the tool's schema, except where a dropped keyword (`pattern`, `multipleOf`,
`uniqueItems`, `not`, a `format` of no fixed shape, …) forbade more: there the tool itself has the last word.

An answer that was cut off is not repaired: it comes back as the text that it is, for the caller to see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, ToolSpec

MAX_TEXT = 400
"""Characters of a reply."""
MAX_ARGUMENT = 120
"""Characters of a string argument whose schema gives no smaller limit."""
MAX_ITEMS = 8
"""Items of an array argument whose schema gives no smaller limit."""
MAX_INTEGER = 10**15 - 1
"""An integer without limits stays within this, so that it ends and every JSON reader keeps it exact."""
MAX_DEPTH = 12
"""Levels of nested schemas. Deeper members are left out."""

LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
FIXED_FORMATS = frozenset({"date", "time", "date-time", "uuid"})
"""Formats that servers enforce and that bound their own length."""


def response_format(
    tools: Sequence[ToolSpec],
    *,
    may_reply: bool = True,
    max_text: int = MAX_TEXT,
    max_argument: int = MAX_ARGUMENT,
) -> JSON:
    """The `response_format` of a request whose answer must be a call of one of `tools` or, if it may, a reply."""
    answers = [_call_schema(tool, max_argument) for tool in tools]
    if may_reply:
        answers.append(_closed_object({"reply": {"type": "string", "minLength": 1, "maxLength": max(1, max_text)}}))
    if not answers:
        raise ConfigError("a constrained answer needs at least one tool, or may_reply")
    schema = answers[0] if len(answers) == 1 else {"anyOf": answers}
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


class _ForcedCall(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    reply: str


_call_decoder = msgspec.json.Decoder(_ForcedCall)
_reply_decoder = msgspec.json.Decoder(_Reply)


def parse_constrained(content: str) -> tuple[str | None, list[tuple[str, str]]]:
    """What a constrained answer says: (text, [(tool name, arguments as JSON text)]). Never raises.

    A call gives no text and one pair, a reply gives its text. Anything else, such as an answer cut off by the token
    limit, is given back unchanged as text.
    """
    try:
        call = _call_decoder.decode(content)
        if bytes(call.arguments).startswith(b"{"):
            return None, [(call.name, msgspec.json.format(bytes(call.arguments), indent=-1).decode())]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return _reply_decoder.decode(content).reply, []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return content, []


def _call_schema(tool: ToolSpec, max_argument: int) -> JSON:
    within = _Within(tool.parameters, max_argument, frozenset(), 0)
    try:
        arguments = _narrowed({"type": "object", **tool.parameters}, within)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"tool {tool.name}: its parameters are no JSON schema: {error}") from error
    return _closed_object({"name": {"const": tool.name}, "arguments": arguments or _closed_object({})})


def _closed_object(properties: JSON, required: Sequence[str] | None = None) -> JSON:
    names = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


class _Within(NamedTuple):
    """Where in a tool's schema we stand."""

    root: JSON
    max_text: int
    open_refs: frozenset[str]
    """References that are being expanded. Meeting one again means that the schema contains itself."""
    depth: int

    def deeper(self) -> _Within:
        return self._replace(depth=self.depth + 1)


def _narrowed(schema: Any, within: _Within) -> JSON | None:
    """The same schema in common keywords and with every field bounded; None where nothing finite fits it."""
    if schema is False or within.depth > MAX_DEPTH:
        return None
    if not isinstance(schema, dict):
        return _text({}, within)
    if "$ref" in schema:
        return _narrowed_reference(schema, within)
    if schema.get("allOf"):
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            rest = _merged(rest, part)
        return _narrowed(rest, within.deeper())
    if "const" in schema:
        return {"const": schema["const"]}
    if "enum" in schema:
        return {"enum": list(schema["enum"])} if schema["enum"] else None
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            base = {key: value for key, value in schema.items() if key != keyword}
            return _any_of([_merged(base, option) for option in schema[keyword]], within)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _any_of([{**schema, "type": one} for one in kind], within)
    return _narrowed_type(kind or _implied_type(schema), schema, within)


def _narrowed_reference(schema: JSON, within: _Within) -> JSON | None:
    reference = schema["$ref"]
    if reference in within.open_refs:
        return None
    siblings = {key: value for key, value in schema.items() if key != "$ref"}
    inside = within.deeper()._replace(open_refs=within.open_refs | {reference})
    return _narrowed(_merged(siblings, _resolved(reference, within.root)), inside)


def _resolved(reference: Any, root: JSON) -> Any:
    """The schema a local reference points to; True, which accepts anything, for one that leads elsewhere."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return True
    found: Any = root
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return True if found is None else found


def _merged(base: JSON, extra: Any) -> Any:
    """A schema that asks for both. Where both set a keyword the second wins, but members and requirements add up."""
    if not isinstance(extra, dict):
        return base if extra is True else extra
    both = {**base, **extra}
    if "properties" in base and "properties" in extra:
        both["properties"] = {**base["properties"], **extra["properties"]}
    if "required" in base and "required" in extra:
        both["required"] = list(dict.fromkeys([*base["required"], *extra["required"]]))
    if "allOf" in base and "allOf" in extra:
        both["allOf"] = [*base["allOf"], *extra["allOf"]]
    if "$ref" in base and "$ref" in extra:
        both["allOf"] = [*both.get("allOf", ()), {"$ref": base["$ref"]}]
    return both


def _any_of(options: Sequence[Any], within: _Within) -> JSON | None:
    fitting = [found for option in options if (found := _narrowed(option, within.deeper())) is not None]
    if not fitting:
        return None
    return fitting[0] if len(fitting) == 1 else {"anyOf": fitting}


def _implied_type(schema: JSON) -> str:
    if schema.keys() & {"properties", "required", "additionalProperties"}:
        return "object"
    if schema.keys() & {"items", "prefixItems", "minItems", "maxItems"}:
        return "array"
    if schema.keys() & set(LIMITS):
        return "number"
    return "string"


def _narrowed_type(kind: str, schema: JSON, within: _Within) -> JSON | None:
    match kind:
        case "object":
            return _object(schema, within)
        case "array":
            return _array(schema, within)
        case "integer":
            return _integer(schema)
        case "number":
            return {"type": "number", **{key: schema[key] for key in LIMITS if _is_number(schema.get(key))}}
        case "boolean" | "null":
            return {"type": kind}
        case _:
            return _text(schema, within)


def _object(schema: JSON, within: _Within) -> JSON | None:
    declared = dict(schema.get("properties") or {})
    required = list(schema.get("required") or ())
    for name in required:
        declared.setdefault(name, schema.get("additionalProperties", True))
    members = {name: _narrowed(member, within.deeper()) for name, member in declared.items()}
    if any(members[name] is None for name in required):
        return None
    return _closed_object({name: member for name, member in members.items() if member is not None}, required)


def _array(schema: JSON, within: _Within) -> JSON | None:
    items = schema.get("items", True)
    places = schema.get("prefixItems") or (items if isinstance(items, list) else None)
    if places:
        each = [_narrowed(place, within.deeper()) for place in places]
        if None in each:
            return None
        return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    least = _count(schema, "minItems", 0)
    item = _narrowed(items, within.deeper())
    if item is None:
        return None if least else {"type": "array", "items": {"type": "null"}, "maxItems": 0}
    most = max(least, min(_count(schema, "maxItems", MAX_ITEMS), MAX_ITEMS))
    return {"type": "array", "items": item, "minItems": least, "maxItems": most}


def _integer(schema: JSON) -> JSON | None:
    """Both limits, inclusive and whole: servers that know `minimum` may not know `exclusiveMinimum` or 0.5."""
    limits = {key: schema[key] for key in LIMITS if _is_number(schema.get(key))}
    lows = [math.ceil(limits["minimum"])] if "minimum" in limits else []
    lows += [math.floor(limits["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in limits else []
    highs = [math.floor(limits["maximum"])] if "maximum" in limits else []
    highs += [math.ceil(limits["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in limits else []
    low = max(lows) if lows else min([-MAX_INTEGER, *highs])
    high = min(highs) if highs else max(MAX_INTEGER, low)
    return {"type": "integer", "minimum": low, "maximum": high} if low <= high else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _count(schema: JSON, keyword: str, default: int) -> int:
    return max(0, int(schema[keyword])) if _is_number(schema.get(keyword)) else default


def _text(schema: JSON, within: _Within) -> JSON:
    if schema.get("format") in FIXED_FORMATS:
        return {"type": "string", "format": schema["format"]}
    least = _count(schema, "minLength", 0)
    most = max(least, min(_count(schema, "maxLength", within.max_text), within.max_text))
    return {"type": "string", **({"minLength": least} if least else {}), "maxLength": most}
