"""The documentation builds as a site, without a warning, and the site loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT

LOADED = re.compile(
    r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//"""
)


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra rollout-engine[docs]")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outside = [
        f"{path.relative_to(tmp_path)}: {found[0]}"
        for path in (tmp_path / "site").rglob("*")
        if path.suffix in {".html", ".css", ".svg"}
        for found in LOADED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert outside == []
