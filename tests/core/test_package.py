"""The package as a whole: what a newcomer finds when looking for a name, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import rollout

PACKAGE = Path(rollout.__file__).parent
DATASETS = PACKAGE / "examples" / "datasets"


def modules() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(DATASETS)]


def test_no_two_classes_have_the_same_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_the_record_of_an_attempt_is_read_by_its_properties() -> None:
    its_own = {"trajectories/line.py", "engine/outcome.py"}
    of_others = {"models/completion.py", "compat/web_results.py"}  # a server's answer, a .pt file
    found = []
    for path in modules():
        if path.relative_to(PACKAGE).as_posix() in its_own | of_others:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Subscript) and not (isinstance(node, ast.Attribute) and node.attr == "get"):
                continue
            if getattr(node.value, "attr", getattr(node.value, "id", None)) == "metadata":
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []


def test_the_engine_and_the_pipelines_know_no_environment_by_name() -> None:
    kinds = [f"rollout.environments.{kind}" for kind in ("domains", "functions", "mcp", "web", "suites")]
    # The iterations of `rollout web` are about browsers by definition, labels may be made from tool lists, and
    # `rollout doctor` looks for what each kind needs.
    about_one_kind = {"web_iterations.py", "web_saving.py", "inputs.py", "discover.py", "doctor.py"}
    for room in ("engine", "pipelines", "distributed", "agents", "scoring", "strategies", "store"):
        for path in (PACKAGE / room).rglob("*.py"):
            if path.name not in about_one_kind:
                text = path.read_text(encoding="utf-8")
                assert not [kind for kind in kinds if kind in text], path


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, rollout; print(sorted({'aiohttp', 'pydantic', 'ray', 'msgspec', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in rollout.__all__:
        found = getattr(rollout, name)
        assert found.__doc__, name
    assert set(rollout.__all__) <= set(dir(rollout))
