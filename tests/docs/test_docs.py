"""What the documentation says is so: its commands run, its keys exist, its tables are whole."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rollout.agents.users import faults
from rollout.config.docs import SECTIONS, describe, describe_web
from rollout.config.load import load_config
from rollout.config.models import AgentConfig
from rollout.config.schema import Config
from rollout.environments.find import find_environment
from rollout.models.builtin.oracle import ERRORS
from rollout.testing import FAULT_KINDS, load_script
from rollout.trajectories.exports.exporter import BUILT_IN
from rollout.trajectories.stop import StopReason, status_of
from tests.conftest import Command, Done

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GETTING_STARTED = "docs/getting-started/index.md"  # test_getting_started.py plays it in its order
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (page.relative_to(ROOT).as_posix(), body)
        for page in PAGES
        for kind, body in FENCE.findall(page.read_text())
        if kind == language
    ]


def command_blocks() -> list[tuple[str, list[str]]]:
    """Commands that stand together are run together, one after the other in the same folder."""
    found = [(page, body) for page, body in blocks("bash") if page != GETTING_STARTED]
    split = [(page, [line for line in body.splitlines() if line and line[0] != "#"]) for page, body in found]
    return [(page, lines) for page, lines in split if lines]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Where to run blocks that begin with this command, and where to keep what it leaves. Most begin with the same
    run, which is rolled out once. They use the same folder, since a run knows where its files are.
    """
    folder = tmp_path_factory.mktemp("blocks")

    def find(command: str) -> tuple[Path, Path]:
        name = re.sub(r"\W+", "-", command)
        return folder / name / "here", folder / name / "kept"

    return find


@pytest.mark.parametrize(("page", "commands"), command_blocks())
def test_every_command_of_the_docs_runs(
    page: str,
    commands: list[str],
    begun: Callable[[str], tuple[Path, Path]],
    rollout: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(command: str) -> None:
        program, *arguments = command.split()
        if program == "pip":
            return  # tests/install installs the package
        if program == "make":
            makefile = (ROOT / "Makefile").read_text()
            assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in arguments), command
            return
        assert program == "rollout", f"{page}: {command}: only rollout, make and pip are known to this test"
        done = (run_alone if "--cluster" in arguments else rollout)(*arguments)
        assert done.code == 0, f"{page}: {command}\n{done.out}\n{done.err}"

    first, *others = commands
    here, kept = begun(first)
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    if kept.exists():
        shutil.copytree(kept, here, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copytree(ROOT / "configs", "configs")
        Path("rollout").symlink_to(ROOT / "rollout")
        run(first)
        shutil.copytree(here, kept, symlinks=True)
    for command in others:
        run(command)


def run_alone(*arguments: str) -> Done:
    """A command in a process of its own: Ray takes the process that it is started from for its driver."""
    program = [sys.executable, "-c", "from rollout.cli import main; main()", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def test_configuration_page_is_what_the_schema_says() -> None:
    assert (ROOT / "docs" / "reference" / "configuration.md").read_text() == describe(), (
        "run: python -m rollout.config.docs > docs/reference/configuration.md"
    )


@pytest.mark.parametrize("key", ["actions", "hosts", "private_hosts", "sites"])
def test_a_key_that_takes_a_list_says_so(key: str) -> None:
    web = describe().partition("## `datasets.<name>.web`")[2].partition("\n## ")[0]
    assert f"\n| `{key}` | list of text | – |" in web


def test_page_of_the_web_has_every_key() -> None:
    pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")
    assert (ROOT / "docs" / "reference" / "web.md").read_text().endswith(f"\n\n{describe_web()}"), (
        "put what rollout.config.docs.describe_web() says at the end of docs/reference/web.md"
    )


def test_every_configuration_key_has_a_meaning() -> None:
    silent = [
        f"{section.__name__}.{name}"
        for _, section in SECTIONS
        for name, field in section.model_fields.items()
        if not field.description
    ]
    assert silent == []


def test_every_stop_reason_is_listed_with_its_status() -> None:
    page = (ROOT / "docs" / "reference" / "stop-reasons.md").read_text()
    for reason in StopReason:
        assert f"| `{reason}` | `{status_of(reason)}` |" in page, f"{reason} is not under {status_of(reason)}"


def test_yaml_examples_are_valid() -> None:
    for page, body in blocks("yaml"):
        document = yaml.safe_load(body)
        if "rules" in document:
            load_script(document)
        elif set(document) == {"agent"}:
            AgentConfig.model_validate(document["agent"])
        else:
            Config.model_validate(document)
        assert document, page


def whole_configurations() -> list[tuple[str, str]]:
    return [(page, body) for page, body in blocks("yaml") if "datasets" in yaml.safe_load(body)]


MISSING_FILES = re.compile(r"cannot be imported|cannot read the tasks|no servers found|is not a folder|is no clone")
"""Problems of an example that uses files of the reader's own."""


@pytest.mark.parametrize(("page", "body"), whole_configurations())
def test_configurations_of_the_docs_would_run(
    page: str, body: str, rollout: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(variable, "sk-0123456789abcdef")
    Path("c.yml").write_text(body, encoding="utf-8")
    done = rollout("check", "c.yml", "--json")
    report = json.loads(done.out) if done.out else {"problems": [done.err]}
    problems = [*report.get("problems", ()), *(text for one in report.get("datasets", ()) for text in one["problems"])]
    assert [text for text in problems if not MISSING_FILES.search(text)] == [], page
    assert problems or done.code == 0, done.err


def test_names_of_faults_errors_and_marks_are_all_documented() -> None:
    pages = ("stub-server.md", "users.md", "models.md")
    stub, users, models = ((ROOT / "docs" / "how-to" / name).read_text() for name in pages)
    assert all(f"`{kind}`" in stub for kind in FAULT_KINDS)
    assert all(f"`{error}`" in models for error in ERRORS)
    marks = [faults.CONFIRMED_AND_LEFT, faults.TOLD_UNKNOWN, faults.SPOKE_AS_ASSISTANT, faults.REPEATED]
    assert all(f"`{mark}`" in users for mark in marks)


def test_every_format_of_an_export_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "exports.md").read_text()
    assert all(f"\n## `{name}`\n" in page for name in BUILT_IN)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_nothing_of_a_workplace_is_in_the_repository() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    pattern = re.compile(rb"/" + rb"work/|/" + rb"root/|\.lib" + rb"rary|sk-proj-[A-Za-z0-9]{20}")
    found = [name for name in tracked if (ROOT / name).is_file() and pattern.search((ROOT / name).read_bytes())]
    assert found == []


def test_getting_started_says_how_much_make_run_rolls_out() -> None:
    config = load_config(ROOT / "configs" / "default.yml")
    tasks = sum(len(find_environment(name, dataset).tasks) for name, dataset in config.datasets.items())
    (samples,) = {dataset.samples for dataset in config.datasets.values()}
    text = " ".join((ROOT / GETTING_STARTED).read_text(encoding="utf-8").split())
    assert f"rolls out {tasks * samples} conversations" in text
    assert f"two attempts at each of the {tasks} tasks" in text
    assert samples == 2


def test_text_names_the_tools_that_it_is_compatible_with() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"\bthe seed's (?!(own )?value)|\bseed (forgot|has|does)\b|the seed tool", re.IGNORECASE)
    texts = [
        name for name in tracked if name.endswith((".py", ".md", ".yml", ".yaml", ".sh")) and "datasets/" not in name
    ]
    own = Path(__file__).relative_to(ROOT).as_posix()
    found = [name for name in texts if name != own and pattern.search((ROOT / name).read_text(encoding="utf-8"))]
    assert found == []
