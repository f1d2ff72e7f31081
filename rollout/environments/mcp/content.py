"""Answers of MCP servers, as the observation that the agent reads.

Text stands as it is; structured content stands as JSON where there is no text (where there is, the text says the same
by the protocol's rule). Images are kept as images, with a line in the text at their place. What an agent cannot read
(audio, other bytes) is named. A text beyond its limit is cut, and says so.
"""

from __future__ import annotations

import base64
import binascii

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ResourceLink,
    TextContent,
)

from rollout.core.messages import Image, ToolResult
from rollout.core.results import to_result


def read_result(call_id: str, result: CallToolResult, max_chars: int) -> ToolResult:
    """The observation of a call."""
    parts: list[str] = []
    images: list[Image] = []
    has_text = False
    for block in result.content:
        image = _image_of(block)
        if image is not None:
            images.append(image)
        parts.append(_describe(block, image))
        has_text = has_text or isinstance(block, TextContent)
    if result.structured_content is not None and not has_text:
        parts.insert(0, to_result(call_id, result.structured_content).content)
    text = to_result(call_id, "\n".join(parts), max_chars)
    return msgspec.structs.replace(
        text, images=tuple(images), is_error=result.is_error, error_kind="tool" if result.is_error else None
    )


def _describe(block: ContentBlock, image: Image | None) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent):
        size = "not valid base64" if image is None else f"{len(image.data):,} bytes"
        return f"[image: {block.mime_type}, {size}]"
    if isinstance(block, AudioContent):
        return f"[audio: {block.mime_type}, {_decoded_size(block.data):,} bytes, not shown]"
    if isinstance(block, ResourceLink):
        return f"[resource {block.name}: {block.uri}]"
    resource = block.resource
    if isinstance(resource, BlobResourceContents):
        kind = resource.mime_type or "bytes"
        return f"[resource {resource.uri}: {kind}, {_decoded_size(resource.blob):,} bytes, not shown]"
    return resource.text


def _image_of(block: ContentBlock) -> Image | None:
    if not isinstance(block, ImageContent):
        return None
    try:
        return Image(block.mime_type, base64.b64decode(block.data, validate=True))
    except (binascii.Error, ValueError):
        return None


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")
