"""The description of all endpoints."""

from __future__ import annotations

from rollout.core.messages import JSON
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.openapi import make_document


async def show_openapi(call: ApiCall) -> JSON:
    """The OpenAPI document of this server."""
    return make_document(call.viewer.endpoints, call.viewer.version)


ENDPOINTS = (Endpoint(path="openapi.json", summary="This document", handle=show_openapi, answer=dict),)
