"""Files that are hostile or broken: every one is a ConfigError that names the file, never anything else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.config import Config, load_config
from rollout.config.load import parse_file
from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.environments.domains.domain import SHIPPED, load_domain, read_policy, read_tool_list
from rollout.pipelines.wiring.discover import with_discovered
from rollout.scoring.rules import Rules, load_rules
from rollout.store.blobs import file_url, image_url
from rollout.tasks.discovery import find_policy, find_queries, list_combinations
from rollout.tasks.jsonl import TaskFile
from rollout.tasks.sampling import WebTaskFile

FUZZ = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
PORTAL = "StudentAcademicPortal"


def refused(text: str | bytes) -> str:
    """What is said of a configuration file with this in it."""
    path = Path("c.yml")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    said = str(caught.value)
    assert "c.yml" in said
    assert said.isprintable() or "\n" in said
    return said


# ---- names of datasets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b", "/etc/x", "..", ".", ".hidden", "a\\b", "a\nb", "a\x1b[31mb", "a\x85b", " a", "a ", "", "x" * 300],
)
def test_dataset_name_cannot_leave_its_folder(name: str) -> None:
    document = json.dumps({"datasets": {name: {"path": "q.jsonl"}}})
    assert "datasets." in refused(document)
    assert "compare.strategies." in refused(json.dumps({"compare": {"strategies": {name: "chain"}}}))


@pytest.mark.parametrize("name", ["a", "A_B", "my-data 2", "v1.2", "Häuser", "数据", "a..b", "x" * 200])
def test_ordinary_names_stay_allowed(name: str) -> None:
    Path("c.yml").write_text(json.dumps({"datasets": {name: {"path": "q.jsonl"}}}))
    assert list(load_config(Path("c.yml")).datasets) == [name]


def test_name_of_a_found_dataset_is_checked_too(tmp_path: Path) -> None:
    copy_shipped(tmp_path)
    base = copy_shipped(tmp_path, "cross_domain")
    (queries,) = (base / "queries").glob("StudentAcademicPortal_StudentFinancialServices*")
    queries.rename(queries.with_name("StudentAcademicPortal_\x1bStudentFinancialServices.jsonl"))
    with pytest.raises(ConfigError, match="control characters"):
        with_discovered(Config.model_validate({"auto_discover": {"base_path": str(base)}}))


def test_missing_folder_of_queries_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="nowhere/queries"):
        with_discovered(Config.model_validate({"auto_discover": {"base_path": "nowhere"}}))


# ---- YAML ------------------------------------------------------------------------------------------------------------


def laughs(levels: int, form: str) -> str:
    """Aliases of aliases: nine times as much with each level."""
    lines = ["a0: &a0 {k: lol}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + form.format(aliases))
    return "\n".join(lines)


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_of_aliases_are_bounded(form: str) -> None:
    assert "aliases stand for more than 1,000,000 values" in refused(laughs(30, form))


def test_ordinary_aliases_and_merges_stay_allowed() -> None:
    text = "datasets:\n  a: &a {path: q.jsonl, agent: &m {model: builtin/oracle}}\n  b: {<<: *a, agent: *m, limit: 3}\n"
    Path("c.yml").write_text(text)
    config = load_config(Path("c.yml"))
    assert config.datasets["b"].agent == config.datasets["a"].agent
    assert config.datasets["b"].limit == 3


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}", "&a a: &b [c, {d: *b}]", "&a [*a]"])
def test_anchor_that_refers_to_itself_is_named_by_its_place(text: str) -> None:
    said = refused(text)
    assert "c.yml:1:" in said
    assert "refers to itself" in said


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"a: \xff\xfe", "not UTF-8"),
        (b'datasets: {"a\\0b": {path: q.jsonl}}', "NUL"),
        (b'datasets: {a: {path: "q\\0.jsonl"}}', "datasets.a.path: has a NUL"),
        (b'datasets: {a: {path: ["x", "q\\0.jsonl"]}}', r"datasets.a.path[1]: has a NUL"),
        (b'run_dir: "\\ud800"', "run_dir: has half a character"),
        (b"max_workers: " + b"9" * 5000, "c.yml"),
        (b"seed: 2024-99-99", "c.yml"),
        (b"seed: !!timestamp x", "c.yml"),
        (b"seed: !!python/object:os.system x", "c.yml"),
        (b"seed: !!float x", "c.yml"),
        (b"seed: !!binary x", "c.yml"),
        (b"? [a]\n: b", "c.yml"),
        (b"? {a: b}\n: b", "c.yml"),
        (b"1: 2", "c.yml"),
        (b"null: 2", "c.yml"),
        (b"2024-01-01: 2", "c.yml"),
        (b"datasets: {1: {path: q}}", "datasets"),
        (b"datasets: {null: {path: q}}", "datasets"),
        (b"--- a\n--- b", "c.yml"),
        (b"[" * 600, "nested too deeply"),
        (b"!!set {a, b}", "c.yml"),
        (b"a: b: c", "c.yml:1"),
        (b"\x00", "c.yml"),
        (b"a: \x1b[31m", "c.yml"),
    ],
)
def test_broken_configuration_is_said_with_file_and_key(text: bytes, named: str) -> None:
    assert named in refused(text)


def test_bytes_of_the_environment_that_are_no_text_are_refused() -> None:
    Path("c.yml").write_text("run_dir: ${PLACE}")
    with pytest.raises(ConfigError, match="run_dir: has half a character"):
        load_config(Path("c.yml"), {"PLACE": os.fsdecode(b"\xff")})


KEYS = [*Config.model_fields, *Dataset.model_fields]
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates(), st.binary(max_size=4)
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | scalars, inner, max_size=4),
    max_leaves=12,
)


@FUZZ
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), trees, max_size=4))
def test_any_tree_in_a_configuration_is_read_or_refused(tree: dict[str, Any]) -> None:
    only_config_errors(lambda path: load_config(path, {}), yaml.safe_dump(tree, allow_unicode=True).encode())
    only_config_errors(
        lambda path: load_config(path, {}), yaml.safe_dump({"datasets": {"a": tree}}, allow_unicode=True).encode()
    )


@FUZZ
@given(st.binary(max_size=60) | st.text("&*<>[]{}:,-?!|'\"\\ \n\tabu0", max_size=40).map(str.encode))
def test_any_bytes_in_a_configuration_are_read_or_refused(data: bytes) -> None:
    only_config_errors(lambda path: load_config(path, {}), data)
    only_config_errors(lambda path: parse_file(path, Rules, {}), data)


def only_config_errors(read: Callable[[Path], Any], data: bytes) -> None:
    path = Path("fuzzed")
    path.write_bytes(data)
    try:
        read(path)
    except ConfigError as error:
        assert "fuzzed" in str(error)


# ---- tasks and tools -------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
TASK_KEYS = [
    "id", "messages", "task_info", "tools", "user_system_prompt", "task_name", "website", "domain", "subdomain",
    "difficulty", "evaluator_reference", "start_url", "hosts",
]  # fmt: skip
MESSAGE_KEYS = ["role", "content", "tool_calls", "images", "reasoning", "raw", "tool_call_id"]
messages = st.lists(st.dictionaries(st.sampled_from(MESSAGE_KEYS), values, max_size=4), max_size=3)
tasks = st.dictionaries(st.sampled_from(TASK_KEYS), values | messages, max_size=6)
tools = st.lists(
    st.dictionaries(st.sampled_from(["type", "function", "name", "description", "parameters"]), values, max_size=4)
)


@FUZZ
@given(st.lists(tasks | values, max_size=3).map(lambda lines: "\n".join(map(json.dumps, lines)).encode()) | st.binary())
def test_any_line_of_a_task_file_is_a_task_or_a_named_problem(data: bytes) -> None:
    def read(path: Path) -> None:
        for kind in (TaskFile, WebTaskFile):
            found = kind(path)
            list(TaskFile.__iter__(found)) if kind is TaskFile else None
            assert all(str(problem).startswith("fuzzed:") for problem in found.problems)

    only_config_errors(read, data)


@FUZZ
@given((tools | values).map(lambda found: json.dumps(found).encode()) | st.binary())
def test_any_tool_list_is_read_or_refused(data: bytes) -> None:
    only_config_errors(read_tool_list, data)
    only_config_errors(read_policy, data)


@pytest.mark.parametrize(
    "data",
    [
        b'[{"function": {"name": "caf\xe9"}}]',
        b"\xff\xfe[]",
        b'[{"function": {"name": "a\\u0000b"}}]',
        b'[{"function": {"name": 5}}]',
        b'[{"function": {"name": ""}}]',
        b'[{"function": {"name": "a", "parameters": "x"}}]',
        b'[{"function": {"name": "a", "description": [1]}}]',
        b"[" * 10_000,
        b'{"a": 1}',
        b"5",
    ],
)
def test_broken_tool_list_is_named(data: bytes) -> None:
    Path("A.json").write_bytes(data)
    with pytest.raises(ConfigError, match=r"A\.json: not a list of tools"):
        read_tool_list(Path("A.json"))


def test_nul_in_a_path_or_an_id_is_said() -> None:
    with pytest.raises(ConfigError, match="null byte"):
        TaskFile(Path("a\0b"))
    with pytest.raises(ConfigError, match="null byte"):
        load_config(Path("a\0b"))
    Path("t.jsonl").write_text(json.dumps({"id": "a\0b", "messages": []}) + "\n")
    (problem,) = TaskFile(Path("t.jsonl")).problems
    assert "t.jsonl:1: not a task: id: has a NUL" in str(problem)


@pytest.mark.parametrize("name", ["../../secret.png", "/etc/passwd", "..", "a\0b"])
def test_image_of_a_message_cannot_be_another_file(name: str) -> None:
    for url_of in (image_url, file_url):
        with pytest.raises(ConfigError, match="an image has the name"):
            url_of(Path("run"), name)


# ---- links -----------------------------------------------------------------------------------------------------------


def copy_shipped(tmp_path: Path, kind: str = "single_domain") -> Path:
    base = tmp_path / "datasets" / kind
    shutil.copytree(SHIPPED / kind, base)
    return base


def lead_out(base: Path, part: str) -> Path:
    """Replace a part of a dataset folder by a link to the same elsewhere."""
    path = base / part
    outside = base.parent.parent / "outside"
    outside.mkdir(exist_ok=True)
    target = outside / path.name
    path.rename(target)
    path.symlink_to(target)
    return path


READERS: dict[str, Callable[[Path], Any]] = {
    f"mcp_servers/{PORTAL}.py": lambda base: load_domain(base, PORTAL, []),
    f"tool_lists/{PORTAL}.json": lambda base: load_domain(base, PORTAL, []),
    "tool_lists": lambda base: load_domain(base, PORTAL, []),
    "database": lambda base: load_domain(base, PORTAL, []),
    f"database/outputs/relationships/{PORTAL}": lambda base: load_domain(base, PORTAL, []),
    f"policies/{PORTAL}.md": lambda base: find_policy(base, [PORTAL]),
    f"queries/{PORTAL}.jsonl": lambda base: find_queries(base, [PORTAL]),
    "queries": list_combinations,
    f"scoring/{PORTAL}.yml": lambda base: load_rules(base, [PORTAL]),
}


@pytest.mark.parametrize("part", READERS)
def test_link_in_a_dataset_folder_cannot_leave_it(tmp_path: Path, part: str) -> None:
    base = copy_shipped(tmp_path)
    if part.startswith("scoring"):
        (base / "scoring").mkdir(exist_ok=True)
        (base / part).write_text("{}")
    assert READERS[part](base) is not None
    lead_out(base, part)
    with pytest.raises(ConfigError, match="is a link that leads out of"):
        READERS[part](base)


def test_single_table_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    base = copy_shipped(tmp_path)
    outputs = base / "database" / "outputs"
    for folder in (outputs / "relationships" / PORTAL, outputs / "entities"):
        table = lead_out(base, str(next(folder.rglob("*.json")).relative_to(base)))
        with pytest.raises(ConfigError, match="is a link that leads out of"):
            load_domain(base, PORTAL, [])
        table.unlink()


def test_links_within_a_dataset_folder_and_to_one_stay_allowed(tmp_path: Path) -> None:
    base = copy_shipped(tmp_path)
    server = base / "mcp_servers" / f"{PORTAL}.py"
    server.rename(base / "kept.py")
    server.symlink_to(base / "kept.py")
    (tmp_path / "linked").symlink_to(base)
    assert load_domain(tmp_path / "linked", PORTAL, []).servers == (PORTAL,)
    cross = copy_shipped(tmp_path, "cross_domain")
    shutil.rmtree(cross / "mcp_servers", ignore_errors=True)
    (cross / "mcp_servers").symlink_to(base / "mcp_servers")
    assert list_combinations(cross)


def test_link_that_goes_in_circles_is_said(tmp_path: Path) -> None:
    base = copy_shipped(tmp_path)
    tables = base / "database" / "outputs" / "relationships" / PORTAL
    (tables / "loop.json").symlink_to(tables / "loop.json")
    with pytest.raises(ConfigError, match="cannot be followed"):
        load_domain(base, PORTAL, [])
