"""Judges of tests answer with the nonce of their instructions, as a real one does."""

from __future__ import annotations

import json
import re

from rollout.models.model import Request


def read_nonce(request: Request) -> str:
    """The nonce that a judge's instructions hold."""
    found = re.search(r'"nonce": "([0-9a-f]+)"', json.loads(request.wire[0])["content"])
    assert found is not None, "the instructions hold no nonce"
    return found[1]


def with_nonce(text: str, nonce: str) -> str:
    """An answer with the nonce put into its first object, however damaged the rest is."""
    before, brace, after = text.partition("{")
    if not brace:
        return text
    return f'{before}{{"nonce": "{nonce}"{"" if after.lstrip().startswith("}") else ", "}{after}'
