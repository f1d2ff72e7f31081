"""The OpenAPI document, made from the tables of endpoints and their structs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.messages import JSON
from rollout.viewer.endpoint import Endpoint

REF = "#/components/schemas/{name}"
_IN_PATH = re.compile(r"\{(\w+)\}")


def make_document(endpoints: Sequence[Endpoint], version: str) -> JSON:
    """The document."""
    types: list[Any] = [kind for each in endpoints for kind in (each.answer, each.body, each.query) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    found = iter(schemas)
    paths: JSON = {}
    for each in endpoints:
        answer, body, query = (
            next(found) if kind is not None else None for kind in (each.answer, each.body, each.query)
        )
        paths.setdefault(f"/api/{each.path}", {})[each.method.lower()] = _operation(
            each, answer, body, _resolved(query, components)
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rollout: runs and trajectories", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_ERROR: JSON = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
    "description": "What is wrong, what was expected, and what to do.",
}


def _operation(endpoint: Endpoint, answer: JSON | None, body: JSON | None, query: JSON | None) -> JSON:
    parameters: list[JSON] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _IN_PATH.findall(endpoint.path)
    ]
    if query is not None:
        needed = query.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in needed, "schema": schema}
            for name, schema in query.get("properties", {}).items()
        ]
    content = {endpoint.media: {"schema": answer if answer is not None else {"type": "string", "format": "binary"}}}
    operation: JSON = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}_{re.sub(r'[^a-z]+', '_', endpoint.path).strip('_')}",
        "parameters": parameters,
        "responses": {
            "200": {"description": endpoint.summary, "content": content},
            "default": {
                "description": "An error",
                "content": {"application/json": {"schema": {"$ref": REF.format(name="Error")}}},
            },
        },
    }
    if endpoint.method != "GET":
        operation["parameters"].append(
            {"name": "X-Rollout", "in": "header", "required": True, "schema": {"type": "string", "enum": ["1"]}}
        )
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _resolved(schema: JSON | None, components: dict[str, JSON]) -> JSON | None:
    if schema is None or "$ref" not in schema:
        return schema
    return components[str(schema["$ref"]).rpartition("/")[2]]
