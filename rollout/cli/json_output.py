"""`--json`: a command's result as one JSON document on standard output, for programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(value: Any) -> None:
    """Print a record or plain data, indented."""
    encoded = msgspec.json.encode(value, enc_hook=_as_text)
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def _as_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))
