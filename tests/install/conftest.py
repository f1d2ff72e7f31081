"""The built package, and an environment that has nothing but it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2]
HIDDEN = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = "from hatchling.build import build_sdist, build_wheel; build_wheel({0!r}); build_sdist({0!r})"
    subprocess.run([sys.executable, "-c", build.format(str(folder))], cwd=SOURCE, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs `rollout`, or another program, of a new environment into which pip installed the wheel without extras."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    (wheel,) = built.glob("rollout_engine-*.whl")
    # Our own pip, since a new one takes as long as the installation. Only what is used is compiled, when it is.
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--constraint", SOURCE / "constraints.txt", wheel], check=True, capture_output=True)
    environment = {key: value for key, value in os.environ.items() if key not in HIDDEN}

    def run(*words: str, program: str = "rollout", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [folder / "bin" / program, *words],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
