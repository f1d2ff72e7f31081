"""Reading a tokenizer from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout.core.errors import ConfigError
from rollout.core.extras import install_command


def load_tokenizer(source: Path, key: str) -> Any:
    """A tokenizer as `transformers` saves it in a folder, or out of a GGUF file. Asks no network; imports transformers,
    which takes seconds. Raises ConfigError, which names `key`: what asked for it."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise ConfigError(f"{key}: needs the package transformers: {install_command('train')}") from error
    if not source.exists():
        raise ConfigError(f"{key}: {source} is not there; expected a folder with a tokenizer, or a GGUF file")
    folder, named = (source.parent, {"gguf_file": source.name}) if source.is_file() else (source, {})
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, **named)
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{key}: {source} cannot be read as a tokenizer: {error}") from error
