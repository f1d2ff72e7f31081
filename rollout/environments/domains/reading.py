"""`json.load` and `json.loads` as mock servers see them: a table that was read before is not read again.

What holds a list of rows comes back as a `SharedTable` over rows that all worlds of this process share; anything else
comes back as the real functions have it.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from rollout.environments.domains.tables import BaseTable, SharedTable

KEPT_TEXTS = 512
_files: dict[str, tuple[tuple[int, int], BaseTable]] = {}
_texts: dict[str, BaseTable] = {}


def load_json(file: Any, **options: Any) -> Any:
    """As `json.load`."""
    path = getattr(file, "name", None)
    if options or not isinstance(path, str):
        return json.load(file, **options)
    path = os.path.realpath(path)
    status = os.fstat(file.fileno())
    version = (status.st_mtime_ns, status.st_size)
    known = _files.get(path)
    if known is not None and known[0] == version:
        return SharedTable(known[1])
    found = json.load(file)
    if not _is_table(found):
        return found
    base = BaseTable(path, found, is_file=True)
    _files[path] = (version, base)
    return SharedTable(base)


def loads_json(text: Any, **options: Any) -> Any:
    """As `json.loads`."""
    if options or not isinstance(text, str) or not text.startswith("["):
        return json.loads(text, **options)
    known = _texts.get(text)
    if known is not None:
        return SharedTable(known)
    found = json.loads(text)
    if not _is_table(found):
        return found
    if len(_texts) >= KEPT_TEXTS:
        _texts.clear()
    base = _texts[text] = BaseTable(hashlib.sha256(text.encode()).hexdigest(), found)
    return SharedTable(base)


def _is_table(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(row, dict) for row in found)
