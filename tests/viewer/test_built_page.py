"""The built page belongs to its source, is small, and asks nobody else for anything."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "frontend"
PAGE = ROOT / "rollout" / "viewer" / "page"
READ = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json", "src")
TOOLS = SOURCE / "node_modules"
BUILT = ("index.html", "app.js", "app.css")


def hash_sources() -> str:
    """As `frontend/build.mjs` makes it."""
    files = [path for name in READ for path in ([SOURCE / name, *(SOURCE / name).rglob("*")])]
    digest = hashlib.sha256()
    for name in sorted(path.relative_to(SOURCE).as_posix() for path in files if path.is_file()):
        content = (SOURCE / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def test_the_built_files_are_those_of_the_source() -> None:
    assert (PAGE / "sources.sha256").read_text().strip() == hash_sources(), "run `make page` and commit what it builds"


def test_the_page_is_under_300_kilobytes() -> None:
    assert sum((PAGE / name).stat().st_size for name in BUILT) < 300_000


def test_the_page_names_no_outside_address() -> None:
    for name in BUILT:
        addresses = set(re.findall(r"https?://[\w.-]+", (PAGE / name).read_text()))
        # Names of XML vocabularies, which nobody asks for anything.
        assert {each for each in addresses if not each.startswith("http://www.w3.org")} == set(), name


def test_no_source_makes_markup_of_text() -> None:
    for path in (SOURCE / "src").rglob("*.ts*"):
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", path.read_text()
        )
        assert found == [], path


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (SOURCE / "package-lock.json").read_text()


@pytest.mark.skipif(
    shutil.which("npm") is None or not TOOLS.is_dir(), reason="needs npm, and its packages: npm ci in frontend/"
)
def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    source = tmp_path / "frontend"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("node_modules"))
    (source / "node_modules").symlink_to(TOOLS)
    for command in (["npm", "run", "--silent", "check"], ["npm", "run", "--silent", "build"]):
        subprocess.run(command, cwd=source, check=True, env={**os.environ, "ROLLOUT_PAGE_DIR": str(tmp_path / "page")})
    for name in (*BUILT, "sources.sha256"):
        assert (tmp_path / "page" / name).read_bytes() == (PAGE / name).read_bytes(), name
