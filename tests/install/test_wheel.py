"""The built package, outside of the source tree: everything that the documentation names comes with it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rollout.pipelines.new_project import KINDS, TEMPLATES


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip lays it down."""
    folder = tmp_path_factory.mktemp("site")
    (wheel,) = built.glob("rollout_engine-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def rollout(unpacked: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = "import rollout, sys; print(rollout.__file__, file=sys.stderr); from rollout.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    return subprocess.run(
        [sys.executable, "-c", program, *words], env=environment, capture_output=True, text=True, check=False
    )


def test_a_shipped_config_runs_by_its_name(unpacked: Path) -> None:
    done = rollout(unpacked, "run", "default", "-d", "HotelReservations", "--no-colors")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert str(unpacked) in done.stderr
    assert Path("outputs/HotelReservations.jsonl").is_file()


@pytest.mark.parametrize("config", ["example_new", "configs/example_new.yml", "web", "compare"])
def test_shipped_configs_find_their_files_anywhere(unpacked: Path, config: str) -> None:
    done = rollout(unpacked, "run", config, "--dry-run", "--no-colors")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no problems found" in done.stdout


def test_an_unknown_config_names_the_shipped_ones(unpacked: Path) -> None:
    done = rollout(unpacked, "run", "defualt", "--no-colors")
    assert done.returncode == 2
    assert "no such shipped config; did you mean 'default'?" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_templates_come_with_the_wheel(unpacked: Path, kind: str) -> None:
    done = rollout(unpacked, "init", "project", "--template", kind)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.relative_to("project") for path in Path("project").rglob("*") if path.is_file()}
    shipped = TEMPLATES / kind
    of_source = {path.relative_to(shipped) for path in shipped.rglob("*") if path.is_file()}
    assert made == {path for path in of_source if "__pycache__" not in path.parts}


def test_the_sdist_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("rollout_engine-*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    build = f"from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True)
    (again,), (wheel,) = tmp_path.glob("*.whl"), built.glob("*.whl")
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())
