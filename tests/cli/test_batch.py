"""The batch commands on a folder laid out by hand as AgentSkiller has it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollout.cli.check import check_config
from rollout.config.schema import Config
from tests.cli.in_process import rollout
from tests.cli.test_run import ROOT
from tests.conftest import read_lines

ORACLE = ["--agent-model", "builtin/oracle", "--user-model", "builtin/user"]
SERVER = """
class {name}Server:
    def __init__(self, domain_name):
        self.domain_name = domain_name
        self.sessions = {{}}

    def _get_session(self, session_id):
        session = type("Session", (), {{}})
        session.databases = {{"{name}Log": []}}
        return self.sessions.setdefault(session_id, session)

    def invoke(self, session_id, tool_name, **arguments):
        self._get_session(session_id).databases["{name}Log"].append({{"tool": tool_name, **arguments}})
        return {{"domain": self.domain_name, "server": "{name}", "tool": tool_name}}
"""


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


def query(identifier: str, *names: str) -> str:
    actions = [{"name": name, "arguments": {"item": identifier}} for name in names]
    record = {
        "id": identifier,
        "messages": [{"role": "user", "content": f"Please do {identifier}."}],
        "user_system_prompt": f"You want {identifier}.",
        "task_info": {"trajectory": list(names), "actions": actions},
    }
    return json.dumps(record) + "\n"


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """Single domains with an acronym and shared initials; a combination whose parts stand in three orders."""
    root = tmp_path / "datasets"
    for kind, servers in (
        ("single", ["LibraryDesk", "LeaseDepot", "HRPortal"]),
        ("cross", ["LibraryDesk", "LeaseDepot"]),
    ):
        base = root / f"{kind}_domain"
        for folder in ("queries", "policies", "tool_lists", "mcp_servers", "database/outputs/entities"):
            (base / folder).mkdir(parents=True)
        for server in servers:
            (base / "mcp_servers" / f"{server}.py").write_text(SERVER.format(name=server))
            (base / "tool_lists" / f"{server}.json").write_text(json.dumps([tool("add"), tool("list")]))
    single, cross = root / "single_domain", root / "cross_domain"
    for server in ("LibraryDesk", "LeaseDepot", "HRPortal"):
        (single / "queries" / f"{server}.jsonl").write_text(
            query(f"{server}1", "add") + query(f"{server}2", "add", "list")
        )
        (single / "database/outputs/relationships" / server).mkdir(parents=True)
    for server in ("LibraryDesk", "LeaseDepot"):
        (single / "policies" / f"{server}.md").write_text(f"Policy of {server}.")
    (cross / "queries" / "LibraryDesk_LeaseDepot.jsonl").write_text(query("both", "LibraryDesk.add", "LeaseDepot.add"))
    (cross / "policies" / "LeaseDepot_LibraryDesk.md").write_text("Policy of both.")
    (cross / "database/outputs/relationships/LeaseDepot_LibraryDesk").mkdir(parents=True)
    return root


def sent(line: dict[str, Any]) -> Any:
    """System prompt and tools as they were sent."""
    return json.loads((Path("out/run/blobs") / f"{line['metadata']['prompt']}.json").read_text())


def test_single_list_shows_domains_and_what_is_missing(datasets: Path) -> None:
    done = rollout("single", "--list", "--base-path", str(datasets))
    assert done.returncode == 0, done.stderr
    rows = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("│")}
    assert set(rows) == {"LibraryDesk", "LeaseDepot", "HRPortal"}
    cells = {name: [cell.strip() for cell in row.split("│")[1:-1]] for name, row in rows.items()}
    assert cells["HRPortal"][3:] == ["–", "yes", "policy"]
    assert cells["LibraryDesk"][1:] == ["2", "2", "yes", "yes", "–"], "tools, queries, policy, database, missing"


def test_all_single_domains_run_in_one_run(datasets: Path) -> None:
    done = rollout(
        "single", "--all", *ORACLE, "--base-path", str(datasets), "--output-dir", "out", "--max-workers", "3"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for server in ("LibraryDesk", "LeaseDepot", "HRPortal"):
        lines = read_lines(Path("out") / f"{server}.jsonl")
        assert [line["success"] for line in lines] == [True, True]
        assert "never make one up" in sent(lines[0])["system"], "the preamble is in what the model saw"
    again = rollout("single", "--all", *ORACLE, "--base-path", str(datasets), "--output-dir", "out")
    assert "6 of 6 trajectories are finished" in again.stdout


BROKEN = {
    "loading": "raise OSError('bad day')",
    "import": "import a_package_with_a_bad_day  # bad day",
    "constructor": SERVER.format(name="HRPortal").replace("):\n", "):\n        raise OSError('bad day')\n", 1),
    "session": SERVER.format(name="HRPortal").replace(
        "        session =", "        raise OSError('bad day')\n        session ="
    ),
}


@pytest.mark.parametrize("isolation", ["process", "none"])
@pytest.mark.parametrize("where", BROKEN)
def test_a_server_that_does_not_start_fails_the_dry_run(datasets: Path, where: str, isolation: str) -> None:
    base = datasets / "single_domain"
    (base / "mcp_servers" / "HRPortal.py").write_text(BROKEN[where])
    config = {
        "mock_servers": {"isolation": isolation},
        "datasets": {
            name: {"mcp_domain": name, "base_path": base, "agent": "builtin/oracle"}
            for name in ("HRPortal", "LibraryDesk")
        },
    }
    broken, sound = check_config(Config.model_validate(config), ["HRPortal", "LibraryDesk"])
    (problem,) = broken.problems
    assert "HRPortal" in problem
    assert "bad day" in problem.replace("_", " ")
    assert sound.problems == []


def test_a_server_that_does_not_start_fails_every_batch_command_with_words(datasets: Path) -> None:
    (datasets / "single_domain" / "mcp_servers" / "HRPortal.py").write_text(BROKEN["constructor"])
    listed = rollout("single", "--list", "--base-path", str(datasets))
    assert listed.returncode == 2
    assert "a server that starts" in listed.stdout
    assert "LibraryDesk" in listed.stdout, "the others are listed all the same"
    dry = rollout("single", "--domains", "HRPortal", *ORACLE, "--base-path", str(datasets), "--dry-run")
    assert dry.returncode == 2
    run = rollout("single", "--domains", "HRPortal", *ORACLE, "--base-path", str(datasets), "--output-dir", "out")
    assert run.returncode == 2
    assert not Path("out").exists(), "no conversation was begun"
    for told in (listed.stderr, dry.stdout, run.stderr):
        assert "HRPortal" in told
        assert "bad day" in told
        assert "Traceback" not in told


@pytest.mark.parametrize("where", ["loading", "constructor"])
def test_broken_server_costs_its_own_domain_only(datasets: Path, where: str) -> None:
    (datasets / "single_domain" / "mcp_servers" / "HRPortal.py").write_text(BROKEN[where])
    queries = datasets / "single_domain" / "queries"
    with (queries / "LeaseDepot.jsonl").open("a") as file:
        file.write("{not json\n")
    (queries / "Nobody.jsonl").write_text(query("x", "add"))
    done = rollout("single", "--all", *ORACLE, "--base-path", str(datasets), "--output-dir", "out")
    assert done.returncode == 1
    assert "HRPortal is left out: " in done.stderr
    assert "bad day" in done.stderr
    assert "Nobody is left out" in done.stderr
    for server in ("LibraryDesk", "LeaseDepot"):
        assert [line["success"] for line in read_lines(Path("out") / f"{server}.jsonl")] == [True, True]
    assert Path("out/run/failed.jsonl").read_text() == "", "no conversation was begun on it"


def test_cross_combination_is_a_set_and_its_parts_may_stand_in_any_order(datasets: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "batch_rollout_cross.py")]
    options = ["--domains", "LeaseDepot", "LibraryDesk", *ORACLE, "--base-path", str(datasets), "--output-dir", "out"]
    done = subprocess.run([*script, *options], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = read_lines(Path("out/LibraryDesk_LeaseDepot.jsonl"))
    results = [json.loads(message["content"]) for message in line["messages"] if message["role"] == "tool"]
    assert {result["server"] for result in results} == {"LibraryDesk", "LeaseDepot"}
    assert {result["domain"] for result in results} == {"LeaseDepot_LibraryDesk"}, "the database's own order"
    assert sent(line)["system"] == "Policy of both."
    names = {entry["function"]["name"] for entry in sent(line)["tools"]}
    called = {call["function"]["name"] for message in line["messages"] for call in message.get("tool_calls", [])}
    assert len(names) == 4, "shared initials, and no tool lost"
    assert called <= names


def test_generated_config_runs_as_it_stands(datasets: Path) -> None:
    options = ["--base-path", str(datasets), *ORACLE, "--output-dir", "out", "--config-output-dir", "generated"]
    done = rollout("cross", "--generate-configs", *options)
    assert done.returncode == 0, done.stderr
    path = Path("generated/all_cross_domain.yml")
    assert list(yaml.safe_load(path.read_text())["datasets"]) == ["LibraryDesk_LeaseDepot"]
    assert not Path("out").exists(), "nothing was run"
    assert rollout("run", str(path)).returncode == 0
    assert len(read_lines(Path("out/LibraryDesk_LeaseDepot.jsonl"))) == 1


def test_scattered_queries_run_together_and_merge_into_one_file(datasets: Path) -> None:
    queries = datasets / "cross_domain" / "queries"
    (queries / "LibraryDesk_LeaseDepot.jsonl").unlink()
    folder = queries / "LibraryDesk_LeaseDepot"
    folder.mkdir()
    (folder / "one.jsonl").write_text(query("a", "LibraryDesk.add") + "{broken\n")
    (folder / "two.jsonl").write_text(query("a", "LibraryDesk.add") + query("b", "LeaseDepot.add"))
    done = rollout("cross", "--all", *ORACLE, "--base-path", str(datasets), "--output-dir", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line["id"] for line in read_lines(Path("out/LibraryDesk_LeaseDepot.jsonl"))) == ["a", "b"]
    assert "one.jsonl:2: not a task" in done.stdout
    merged = rollout("cross", "--merge-queries", "--base-path", str(datasets))
    assert "2 queries" in merged.stdout
    assert "1 duplicates dropped, 1 bad lines left out" in merged.stdout
    assert [json.loads(line)["id"] for line in (folder / "queries.jsonl").read_text().splitlines()] == ["a", "b"]
    assert "is there already" in rollout("cross", "--merge-queries", "--base-path", str(datasets)).stdout


def test_folder_may_be_named_from_where_one_stands(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(datasets.parent)
    done = rollout("single", "--domains", "HRPortal", *ORACLE, "--base-path", datasets.name, "--output-dir", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no policy for HRPortal" in done.stdout + done.stderr
    place = datasets.parent / "rollout" / "tools"
    place.mkdir(parents=True)
    datasets.rename(place / "datasets")
    listed = rollout("single", "--list")
    assert "HRPortal" in listed.stdout, "AgentSkiller's own place is the default where it is there"


def test_list_names_a_tool_list_that_cannot_be_read(datasets: Path) -> None:
    (datasets / "single_domain" / "tool_lists" / "HRPortal.json").write_text("[{")
    done = rollout("single", "--list", "--base-path", str(datasets))
    assert "HRPortal.json" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["single"], "say what to do"),
        (["single", "--domains", "Nowhere"], "no domain Nowhere; there are: HRPortal, LeaseDepot, LibraryDesk"),
        (["cross", "--domains", "LibraryDesk", "HRPortal"], "no combination of LibraryDesk, HRPortal"),
        (["cross", "--all", "--require-policy", "--min-domains", "3"], "nothing to roll out"),
    ],
)
def test_what_cannot_be_found_is_said(datasets: Path, arguments: list[str], told: str) -> None:
    done = rollout(*arguments, "--base-path", str(datasets))
    assert done.returncode == 2
    assert told in done.stderr


def test_folder_without_datasets_is_refused_by_name(tmp_path: Path) -> None:
    done = rollout("single", "--list", "--base-path", str(tmp_path))
    assert done.returncode == 2
    assert "no folder `queries`" in done.stderr


@pytest.mark.parametrize(("kind", "dated"), [("single", "outputs_single_0114"), ("cross", "outputs_cross_domain_0114")])
def test_only_the_scripts_write_to_folders_with_a_date(kind: str, dated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    script = [sys.executable, str(ROOT / "scripts" / f"batch_rollout_{kind}.py"), "--help"]
    assert dated in subprocess.run(script, capture_output=True, text=True, check=True).stdout
    said = rollout(kind, "--help").stdout
    assert f"outputs_{kind}" in said
    assert dated not in said


@pytest.mark.parametrize("kind", ["single", "cross"])
def test_scripts_take_the_options_of_their_commands(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    script = [sys.executable, str(ROOT / "scripts" / f"batch_rollout_{kind}.py"), "--help"]
    of_script = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    options = [re.findall(r"--?[a-z][a-z-]*\b-?", said) for said in (of_script, rollout(kind, "--help").stdout)]
    assert set(options[0]) == set(options[1])
    assert {"--all", "--list", "--no-resume", "-v"} <= set(options[0])
