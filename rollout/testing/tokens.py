"""A tokenizer and a chat template just real enough to train a pipeline on.

Text becomes tokens by taking its UTF-8 bytes two at a time: id = low byte + 256 * high byte, and an odd last byte
becomes 65536 + byte. Ids above that mark who speaks and what follows. So ids are small, need no vocabulary file, and
can be turned back into text.

Each part of a message (reasoning, text, a call's name, its arguments) is tokenised by itself, and a prompt is the
messages one after the other plus the mark of the assistant. Hence the property that trainers rely on: as long as a
chat only grows, prompt + completion of one request is a prefix of the prompt of the next.

The count of tokens, which every answer's `usage` needs, comes from lengths alone; ids are made only when asked for.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rollout.testing.chat import Chat, ChatMessage, Part

Piece = int | str | bytes
"""A mark, or text that is tokenised by itself."""

_SINGLE: Final = 1 << 16
_MARKS: Final = ("end", "system", "user", "assistant", "tool", "think", "call", "arguments", "tools", "image")
_FIRST_MARK: Final = _SINGLE + 256
END, SYSTEM, USER, ASSISTANT, TOOL, THINK, CALL, ARGUMENTS, TOOLS, IMAGE = range(_FIRST_MARK, _FIRST_MARK + len(_MARKS))
VOCABULARY: Final = _FIRST_MARK + len(_MARKS)

_ROLES: Final = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}


def encode_pieces(pieces: Iterable[Piece]) -> list[int]:
    """The token ids of pieces."""
    ids: list[int] = []
    for piece in pieces:
        if isinstance(piece, int):
            ids.append(piece)
            continue
        data = piece.encode() if isinstance(piece, str) else piece
        pairs = len(data) // 2
        ids += struct.unpack_from(f"<{pairs}H", data)
        if len(data) % 2:
            ids.append(_SINGLE + data[-1])
    return ids


def count_pieces(pieces: Iterable[Piece]) -> int:
    """How many ids `encode_pieces` would give."""
    count = 0
    for piece in pieces:
        if isinstance(piece, int):
            count += 1
        elif isinstance(piece, bytes) or piece.isascii():
            count += (len(piece) + 1) >> 1
        else:
            count += (len(piece.encode()) + 1) >> 1
    return count


def token_bytes(token: int) -> bytes:
    """What one token stands for; a mark reads `<|end|>`."""
    if token < _SINGLE:
        return token.to_bytes(2, "little")
    if token < _FIRST_MARK:
        return bytes((token - _SINGLE,))
    return f"<|{_MARKS[token - _FIRST_MARK]}|>".encode()


def decode_tokens(tokens: Sequence[int]) -> str:
    """The text of token ids, marks included."""
    return b"".join(map(token_bytes, tokens)).decode(errors="replace")


def prompt_pieces(chat: Chat) -> list[Piece]:
    """A request as the model would read it: tools, messages, and the mark that makes the assistant speak."""
    pieces = _tools_pieces(chat)
    for message in chat.messages:
        pieces += _message_pieces(message)
    pieces.append(ASSISTANT)
    return pieces


def count_prompt(chat: Chat) -> int:
    """How many ids the prompt has. Every answer needs it, so plain text is counted without making its pieces."""
    count = count_pieces(_tools_pieces(chat)) + 1
    for message in chat.messages:
        content = message.content
        if message.role != "assistant" and isinstance(content, str) and content.isascii():
            count += 2 + ((len(content) + 1) >> 1)
        else:
            count += count_pieces(_message_pieces(message))
    return count


def completion_pieces(
    reasoning: str | None, content: str | None, calls: Iterable[tuple[str, str]], *, is_cut: bool = False
) -> list[Piece]:
    """What the assistant writes after its mark. A cut answer (`finish_reason: length`) has no end."""
    pieces = _assistant_pieces(reasoning, content, calls)
    if not is_cut:
        pieces.append(END)
    return pieces


def logprob_entries(tokens: Sequence[int], alternatives: int = 0) -> list[dict[str, Any]]:
    """`choices[0].logprobs.content` for these tokens; the values are made up, always the same and below 0.

    Of `top_logprobs` the first is the sampled token, as vLLM has it; each of the others has half of what is
    left.
    """
    entries: list[dict[str, Any]] = []
    for position, token in enumerate(tokens):
        logprob = -(1 + (token * 31 + position * 17) % 999) / 1000
        others = [
            _logprob_entry((token + number) % VOCABULARY, math.log((1 - math.exp(logprob)) / 2**number))
            for number in range(1, alternatives)
        ]
        sampled = _logprob_entry(token, logprob)
        entries.append({**sampled, "top_logprobs": [sampled, *others] if alternatives else []})
    return entries


def _logprob_entry(token: int, logprob: float) -> dict[str, Any]:
    data = token_bytes(token)
    return {"token": data.decode(errors="replace"), "logprob": logprob, "bytes": list(data)}


def _tools_pieces(chat: Chat) -> list[Piece]:
    tools = bytes(chat.tools)
    return [] if tools in (b"", b"[]", b"null") else [TOOLS, tools, END]


def _message_pieces(message: ChatMessage) -> list[Piece]:
    content = message.content
    mark = _ROLES[message.role]
    if mark == ASSISTANT:
        return [mark, *_past_pieces(message), END]
    if isinstance(content, str):
        return [mark, content, END]
    return [mark, *_part_pieces(content or ()), END]


def _assistant_pieces(reasoning: str | None, content: str | None, calls: Iterable[tuple[str, str]]) -> list[Piece]:
    pieces: list[Piece] = [THINK, reasoning, END] if reasoning else []
    if content:
        pieces.append(content)
    for name, arguments in calls:
        pieces += (CALL, name, ARGUMENTS, arguments)
    return pieces


def _past_pieces(message: ChatMessage) -> list[Piece]:
    content = message.content
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    reasoning = message.reasoning_content or message.reasoning
    if isinstance(content, str) or content is None:
        return _assistant_pieces(reasoning, content, calls)
    return [*_assistant_pieces(reasoning, None, ()), *_part_pieces(content), *_assistant_pieces(None, None, calls)]


def _part_pieces(parts: Iterable[Part]) -> Iterator[Piece]:
    for part in parts:
        if part.text is not None:
            yield part.text
        else:
            # An image costs the same few tokens whatever its size, and another image gives others.
            yield IMAGE
            yield hashlib.blake2b(bytes(part.image_url), digest_size=16).digest()
