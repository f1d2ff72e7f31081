"""Token ids of prompts in the journal: cut into pieces, each of which is stored once.

Every attempt begins with the same system prompt and tools, attempts at one task also with the same opening, and
attempts that branch from one node with the same tool results. Ids are cut from the beginning of a prompt, so equal
beginnings give equal pieces. A node keeps the names of its pieces (hashes) and the ids after the last whole piece.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from rollout.trajectories.generation import Tokens
from rollout.trajectories.tree import NodeBody

PIECE_BYTES = 1024
NAME_BYTES = 16


def take_apart(body: NodeBody) -> tuple[NodeBody, list[tuple[bytes, bytes]]]:
    """A node as it is stored, and its pieces with their names."""
    tokens = body.generation.tokens if body.generation is not None else None
    if tokens is None or len(tokens.new) < PIECE_BYTES:
        return body, []
    whole = len(tokens.new) // PIECE_BYTES * PIECE_BYTES
    pieces = []
    for start in range(0, whole, PIECE_BYTES):
        piece = tokens.new[start : start + PIECE_BYTES]
        pieces.append((hashlib.blake2b(piece, digest_size=NAME_BYTES).digest(), piece))
    names = b"".join(name for name, _ in pieces)
    return _with_tokens(body, msgspec.structs.replace(tokens, new=tokens.new[whole:], pieces=names)), pieces


def put_together(body: NodeBody, find: Callable[[bytes], bytes]) -> NodeBody:
    """A node as it was before `take_apart`."""
    tokens = body.generation.tokens if body.generation is not None else None
    if tokens is None or not tokens.pieces:
        return body
    names = (tokens.pieces[start : start + NAME_BYTES] for start in range(0, len(tokens.pieces), NAME_BYTES))
    new = b"".join((*map(find, names), tokens.new))
    return _with_tokens(body, msgspec.structs.replace(tokens, new=new, pieces=b""))


def _with_tokens(body: NodeBody, tokens: Tokens) -> NodeBody:
    assert body.generation is not None
    return msgspec.structs.replace(body, generation=msgspec.structs.replace(body.generation, tokens=tokens))
