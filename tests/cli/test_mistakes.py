"""Typical mistakes of newcomers: each is answered with the file or key, what was expected, and what to do."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout.core.calls import CallReader
from rollout.core.messages import ToolCall, Toolset, ToolSpec
from rollout.core.world import Invocation
from rollout.testing import StubProcess
from tests.conftest import Command, write_tasks, write_yaml

PORTAL: dict[str, Any] = {
    "mcp_domain": "StudentAcademicPortal",
    "agent": "builtin/oracle",
    "user": "builtin/user",
    "max_turns": 20,
    "limit": 1,
    "output_path": "out/portal.jsonl",
}
INVOKE = "    def invoke(self, session_id, tool_name, **arguments): pass\n"


def config(dataset: dict[str, Any] | None = None, **top: Any) -> str:
    """A configuration that works but for what is passed."""
    document = {"datasets": {"portal": {**PORTAL, **(dataset or {})}}, "run_dir": "run", **top}
    return str(write_yaml(Path("c.yml"), document))


def functions(**dataset: Any) -> dict[str, Any]:
    """A dataset whose one tool is a function of ours, in place of the portal."""
    write_tasks(Path("tasks.jsonl"), *dataset.pop("tasks", ["hello"]))
    base = {"path": "tasks.jsonl", "tools": ["tests.tools:echo"], "output_path": "out.jsonl", "max_turns": 1}
    return {"datasets": {"d": {**base, "agent": "m", **dataset}}, "run_dir": "run", "enable_monitor": False}


def text(content: str, name: str = "c.yml") -> str:
    Path(name).write_text(content)
    return name


def own_domain(server: str) -> dict[str, Any]:
    """A domain folder whose server is this code."""
    for folder in ("queries", "policies", "tool_lists", "mcp_servers", "database/outputs"):
        Path("own", folder).mkdir(parents=True)
    Path("own/mcp_servers/Desk.py").write_text(server)
    Path("own/policies/Desk.md").write_text("Be kind.")
    Path("own/tool_lists/Desk.json").write_text("[]")
    write_tasks(Path("own/queries/Desk.jsonl"), "hello")
    return {"base_path": "own", "mcp_domain": "Desk", "max_turns": 1, "user": None, "agent": "m"}


def typo_in_a_key() -> str:
    return config({"max_trns": 5})


def typo_at_the_top() -> str:
    return config(max_worker=3)


def unset_variable() -> str:
    return config(models={"m": {"api_base": "http://localhost:1/v1", "api_key": "${NO_SUCH_VARIABLE}"}})


def tab_in_yaml() -> str:
    return text("max_workers: 3\ndatasets:\n\tportal: {}\n")


def negative_number() -> str:
    return config({"limit": -3})


def wrong_type() -> str:
    return config(max_workers="many")


def missing_config() -> str:
    return "nowhere.yml"


def other_ending_of_a_config() -> str:
    text("datasets: {}\n", "project.yml")
    return "project.yaml"


def config_without_its_ending() -> str:
    text("datasets: {}\n", "project.yml")
    return "project"


def another_kind_of_file() -> str:
    return text("".join(f"user{number}: secret{number}\n" for number in range(40)))


def unknown_strategy_with_samples() -> str:
    return config({"strategy": {"name": "mtcs"}, "samples": 2})


def schema_that_is_none() -> str:
    dataset = own_domain(f"class DeskServer:\n{INVOKE}")
    tool = {"name": "open", "parameters": {"type": "objekt"}}
    Path("own/tool_lists/Desk.json").write_text(json.dumps([{"type": "function", "function": tool}]))
    return config({**dataset, "agent": "gone"}, models={"m": {"api_base": "http://localhost:1/v1"}})


def oracle_without_actions() -> str:
    tasks = write_tasks(Path("plain.jsonl"), {"id": "p7", "messages": [{"role": "user", "content": "x"}]})
    return config({"path": str(tasks)})


def missing_task_file() -> str:
    return config({"path": "nowhere.jsonl"})


def empty_task_file() -> str:
    return config({"path": text("", "empty.jsonl")})


def broken_line() -> str:
    return config({"path": text('{"id": "a", "messages": [\n', "broken.jsonl")})


def duplicate_ids() -> str:
    task = {"id": "same", "messages": [{"role": "user", "content": "x"}]}
    return config({"path": str(write_tasks(Path("twice.jsonl"), task, task))})


def misspelt_domain() -> str:
    return config({"mcp_domain": "StudentAcademicPotal"})


def unknown_strategy() -> str:
    return config({"strategy": "entropy_treee"})


def unknown_environment() -> str:
    return config({"mcp_domain": None, "environment": "no_such_module:shop", "user": None, "max_turns": 1})


def module_without_the_name() -> str:
    text("shop = 3\n", "my_shop.py")
    return config({"mcp_domain": None, "environment": "my_shop:shopp", "user": None, "max_turns": 1})


def bad_tool_list() -> str:
    dataset = own_domain(f"class DeskServer:\n{INVOKE}")
    Path("own/tool_lists/Desk.json").write_text('[{"type": "function",')
    return config(dataset, models={"m": {"api_base": "http://localhost:1/v1"}})


def server_that_raises() -> str:
    lines = ["class DeskServer:", "    def __init__(self, name):", "        raise KeyError('no table Loans')", INVOKE]
    return config(own_domain("\n".join(lines)), models={"m": {"api_base": "http://localhost:1/v1"}})


def mcp_command_that_is_not_there() -> str:
    document = functions(mcpServers={"notes": {"command": "no-such-mcp-server"}}, tools=[])
    return str(write_yaml(Path("c.yml"), {**document, "models": {"m": {"api_base": "http://localhost:1/v1"}}}))


def unknown_model() -> str:
    return config({"agent": "my-agnet"}, models={"my-agent": {"api_base": "http://localhost:1/v1"}})


def missing_key() -> str:
    return config({"agent": "openai/gpt-5"})


def placeholder_key() -> str:
    return config(
        {"agent": "m"}, models={"m": {"api_base": "http://your-api-endpoint/v1", "api_key": "sk-your-api-key"}}
    )


def wrong_address() -> str:
    return config({"agent": "m"}, models={"m": {"api_base": "localhost:8000/v1"}})


def log_file_is_a_folder() -> str:
    Path("logs").mkdir()
    return config(log_file="logs")


def output_under_a_file() -> str:
    text("", "results")
    return config({"output_path": "results/portal.jsonl"})


def run_dir_is_a_file() -> str:
    text("", "runfile")
    return config(run_dir="runfile")


def run_dir_is_another_folder() -> str:
    Path("photos").mkdir()
    text("", "photos/one.jpg")
    return config(run_dir="photos", resume=False)


def environment_factory_that_raises() -> str:
    text("def shop():\n    raise RuntimeError('no shop today')\n", "raising_shop.py")
    return str(
        write_yaml(Path("c.yml"), {"datasets": {"d": {"environment": "raising_shop:shop", "agent": "builtin/oracle"}}})
    )


def strategy_that_raises() -> str:
    text("class Wild:\n    def __init__(self):\n        raise RuntimeError('no way')\n", "raising_strategy.py")
    return config({"strategy": "raising_strategy:Wild"})


def missing_registry() -> str:
    return config(models_config_file="no-models.yml")


def control_character() -> str:
    return text("datasets: {}\n\x07\n")


def task_with_an_unknown_role() -> str:
    text('{"id": "a", "messages": [{"role": "usr", "content": "hi"}]}\n', "roles.jsonl")
    return config({"path": "roles.jsonl"})


def task_with_bad_actions() -> str:
    line = '{"id": "a", "messages": [{"role": "user", "content": "hi"}], "task_info": {"actions": "add"}}'
    text(f"{line}\n", "actions.jsonl")
    return config({"path": "actions.jsonl"})


def tasks_in_another_encoding() -> str:
    line = '{"id": "a", "messages": [{"role": "user", "content": "caf\xe9"}]}'
    Path("latin.jsonl").write_bytes(f"{line}\n".encode("latin-1"))
    return config({"path": "latin.jsonl"})


def yes_for_a_number() -> str:
    return config({"max_turns": True})


def reward_by_no_score() -> str:
    return config({"reward": "score:stat"})


def value_by_no_score() -> str:
    return config({"strategy": {"name": "mcts", "params": {"value": "partial:elegance"}}})


MISTAKES: list[tuple[Callable[[], str], list[str]]] = [
    (typo_in_a_key, ["c.yml", "datasets.portal.max_trns", "did you mean 'max_turns'?"]),
    (typo_at_the_top, ["c.yml", "max_worker", "did you mean 'max_workers'?"]),
    (unset_variable, ["c.yml", "models.m.api_key", "NO_SUCH_VARIABLE is not set", "set it"]),
    (tab_in_yaml, ["c.yml:3:1", "is not valid YAML", "\\t", "indent with spaces"]),
    (negative_number, ["c.yml", "datasets.portal.limit", "greater than or equal to 1", "-3"]),
    (wrong_type, ["c.yml", "max_workers", "expected a whole number", "'many'"]),
    (missing_config, ["nowhere.yml", "No such file"]),
    (other_ending_of_a_config, ["project.yaml", "No such file", "did you mean 'project.yml'?"]),
    (config_without_its_ending, ["project: there is no such file", "did you mean 'project.yml'?"]),
    (another_kind_of_file, ["user4", "and 35 more unknown keys; is this a configuration"]),
    (unknown_strategy_with_samples, ["datasets.portal.strategy", "'mtcs'", "did you mean 'mcts'?"]),
    (schema_that_is_none, ["tool open: its parameters are not a valid JSON schema", '"objekt"', "(at type)"]),
    (oracle_without_actions, ["builtin/oracle needs tasks with reference actions", "'p7'"]),
    (missing_task_file, ["nowhere.jsonl", "path"]),
    (empty_task_file, ["empty.jsonl", "there is no task in it", "expected one JSON object a line"]),
    (broken_line, ["broken.jsonl:1", "not a task"]),
    (duplicate_ids, ["twice.jsonl:2", "'same'", "is already in"]),
    (misspelt_domain, ["StudentAcademicPotal", "did you mean 'StudentAcademicPortal'?"]),
    (unknown_strategy, ["datasets.portal.strategy", "'entropy_treee'", "did you mean 'entropy_tree'?"]),
    (unknown_environment, ["datasets.portal", "no_such_module"]),
    (module_without_the_name, ["my_shop", "shopp", "did you mean 'shop'?"]),
    (bad_tool_list, ["Desk.json", "JSON"]),
    (server_that_raises, ["Desk", "could not start", "no table Loans"]),
    (mcp_command_that_is_not_there, ["no-such-mcp-server", "notes"]),
    (unknown_model, ["my-agnet", "did you mean 'my-agent'?"]),
    (missing_key, ["openai/gpt-5", "no api_key", "set OPENAI_API_KEY"]),
    (placeholder_key, ["api_key is still the example's placeholder"]),
    (wrong_address, ["model 'm'", "api_base", "'localhost:8000/v1' is not an address", "http://localhost:8000/v1"]),
    (log_file_is_a_folder, ["log_file", "logs is a folder", "expected a file"]),
    (output_under_a_file, ["output_path", "results is a file", "expected a folder"]),
    (run_dir_is_a_file, ["run_dir", "runfile is a file", "expected a folder"]),
    (run_dir_is_another_folder, ["run_dir", "photos", "is not a run directory", "choose another"]),
    (environment_factory_that_raises, ["datasets.d", "raising_shop:shop cannot be made", "no shop today"]),
    (strategy_that_raises, ["datasets.portal.strategy", "raising_strategy:Wild", "cannot be made", "no way"]),
    (missing_registry, ["c.yml: models_config_file", "there is no no-models.yml", "correct the path"]),
    (control_character, ["c.yml", "control character #x07", "remove it"]),
    (task_with_an_unknown_role, ["roles.jsonl:1", "messages[0].role", "expected one of system", "'usr'"]),
    (task_with_bad_actions, ["actions.jsonl:1", "task_info.actions", "expected a list of {name, arguments}"]),
    (yes_for_a_number, ["datasets.portal.max_turns", "expected a whole number", "got True"]),
    (reward_by_no_score, ["datasets.portal.reward", "no scorer gives a score 'stat'", "did you mean 'state'?"]),
    (value_by_no_score, ["datasets.portal.strategy.params.value", "'elegance'", "its scores: state, actions"]),
    (tasks_in_another_encoding, ["latin.jsonl:1", "is not UTF-8", "save the file as UTF-8"]),
]


@pytest.mark.parametrize(("mistake", "expected"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
def test_check_says_what_is_wrong_and_what_to_do(
    mistake: Callable[[], str], expected: list[str], rollout: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = mistake()
    before = set(Path().rglob("*"))
    done = rollout("check", path, "--no-colors")
    said = done.out + done.err
    assert done.code == 2, said
    assert "Traceback" not in said
    flat = " ".join(said.split())
    assert [part for part in expected if part not in flat] == [], said
    left = {path for path in set(Path().rglob("*")) - before if "__pycache__" not in path.parts}
    assert left == set(), "a check leaves nothing behind"


def test_check_warns_of_a_temperature_that_is_not_sent(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    done = rollout("check", config({"agent": {"model": "openai/gpt-5", "temperature": 0.2}}), "--no-colors")
    assert "datasets.portal.agent.temperature: openai/gpt-5 takes none but its own" in " ".join(done.out.split())
    assert "temperature" not in rollout("check", config({"agent": "openai/gpt-5"}), "--no-colors").out


ABORTS = [unset_variable, tab_in_yaml, misspelt_domain, server_that_raises, log_file_is_a_folder, output_under_a_file,
          run_dir_is_a_file, run_dir_is_another_folder, empty_task_file]  # fmt: skip


@pytest.mark.parametrize("mistake", ABORTS, ids=lambda value: value.__name__)
def test_run_refuses_the_same_without_a_traceback(mistake: Callable[[], str], rollout: Command) -> None:
    done = rollout("run", mistake(), "--no-colors")
    assert done.code == 2, done.out + done.err
    assert done.err.startswith("error ")
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize(
    ("status", "check"),
    [(401, "check api_key in models.yml"), (404, "check model and api_base in models.yml")],
)
def test_a_refusal_is_one_line_with_its_number_and_the_key_to_check(status: int, check: str, rollout: Command) -> None:
    fault = {"kind": "status", "status": status, "times": "always"}
    with StubProcess({"faults": [fault]}) as stub:
        write_yaml(Path("models.yml"), {"models": {"m": {"api_base": stub.url, "api_key": "sk-0123456789"}}})
        document = functions(tasks=[f"hello {number}" for number in range(5)])
        path = str(write_yaml(Path("c.yml"), {**document, "models_config_file": "models.yml"}))
        asked = rollout("check", path, "--ping", "--no-colors")
        done = rollout("run", path, "--no-colors")
    assert asked.code == 2
    assert f"m: HTTP {status}" in asked.out
    assert check in asked.out
    assert done.code == 1
    assert f"failed 5 × m: HTTP {status}" in done.out
    assert done.out.count(f"HTTP {status}") == 2, "once when it first happens, once in the summary"
    assert check in done.out
    assert json.loads(Path("run/metrics.json").read_text())["failures"][0]["count"] == 5


def test_a_server_that_is_down_or_a_wrong_port(rollout: Command) -> None:
    document = functions()
    document["models"] = {"m": {"api_base": "http://127.0.0.1:9/v1"}}
    document["retries"] = {"attempts": 1}
    path = str(write_yaml(Path("c.yml"), document))
    asked = rollout("check", path, "--ping", "--no-colors")
    done = rollout("run", path, "--no-colors")
    for said in (asked.out, done.out):
        assert "connection to http://127.0.0.1:9/v1/chat/completions failed: Connection refused" in said
        assert "is the server running? (check api_base in the models registry)" in said
        assert "Traceback" not in said


def test_a_problem_that_all_datasets_share_is_reported_once(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    datasets = {name: {**PORTAL, "output_path": f"out/{name}.jsonl"} for name in ("one", "two")}
    path = str(write_yaml(Path("c.yml"), {"datasets": datasets, "run_dir": "run"}))
    done = rollout("check", path, "--agent-model", "openai/gpt-5", "--no-colors")
    assert "problem every dataset: model 'openai/gpt-5': no api_key; set OPENAI_API_KEY" in done.out
    assert "1 problem; nothing was run." in done.out


def test_a_run_in_which_nothing_works_pauses_and_says_why(rollout: Command) -> None:
    fault = {"kind": "status", "status": 401, "times": "always"}
    with StubProcess({"faults": [fault]}) as stub:
        document = functions(tasks=[f"hello {number}" for number in range(60)])
        document["models"] = {"m": {"api_base": stub.url}}
        done = rollout("run", str(write_yaml(Path("c.yml"), {**document, "max_workers": 4})), "--no-colors")
    assert done.code == 3
    said = " ".join(done.out.split())
    assert "Paused: the first 20 conversations all failed (last error: m: HTTP 401" in said
    assert "Fix the cause first. To go on, run: rollout run c.yml --resume" in said


def test_a_resume_that_pauses_before_all_failed_attempts_are_tried_again_says_so(rollout: Command) -> None:
    fault = {"kind": "status", "status": 401, "times": "always"}
    with StubProcess({"faults": [fault]}) as stub:
        document = functions(tasks=[f"hello {number}" for number in range(60)])
        document["models"] = {"m": {"api_base": stub.url}}
        path = str(write_yaml(Path("c.yml"), document))
        rollout("run", path, "--set", "max_workers=60", "--no-colors")
        done = rollout("run", path, "--resume", "--set", "max_workers=4", "--no-colors")
    assert done.code == 3
    assert "0 unfinished" in " ".join(done.out.split())


def test_a_missing_extra_is_one_line_that_names_it() -> None:
    document = functions(mcpServers={"notes": {"command": sys.executable}}, tools=[])
    document["models"] = {"m": {"api_base": "http://localhost:1/v1"}}
    without = "import sys; sys.modules['mcp'] = None; from rollout.cli import main; main()"
    command = [sys.executable, "-c", without, "check", str(write_yaml(Path("c.yml"), document)), "--no-colors"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "datasets.d.mcpServers needs the extra: pip install 'rollout-engine[mcp]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_scorer_that_fails_alike_each_time_is_logged_once_with_its_traceback(rollout: Command) -> None:
    text("import rollout\n@rollout.scorer\ndef broken(task):\n    return task.info['nothing']\n", "broken_scorer.py")
    path = config({"scoring": {"custom": ["broken_scorer:broken"]}, "limit": 4, "samples": 2})
    done = rollout("run", path, "--no-colors")
    said = done.out + done.err
    assert done.code == 0
    assert said.count("broken could not score it") == said.count("Traceback") == 1
    assert said.count("KeyError: 'nothing'") == 2, "below its traceback, and in the summary"
    assert "unscored 8 × broken: could not be scored: KeyError: 'nothing'" in " ".join(said.split())


def test_a_scorer_that_returns_words_is_unscored_with_what_was_expected(rollout: Command) -> None:
    text("import rollout\n@rollout.scorer\ndef worded(task):\n    return 'yes'\n", "worded_scorer.py")
    done = rollout("run", config({"scoring": {"custom": ["worded_scorer:worded"]}}), "--no-colors")
    assert "Traceback" not in done.out + done.err
    (line,) = Path("out/portal.jsonl").read_text().splitlines()
    assert "the scorer returned 'yes'; expected a number, a bool, a Score or None" in line


def test_a_broken_schema_is_one_warning_whatever_the_number_of_attempts(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        reader = CallReader(Toolset((ToolSpec("shut", parameters={"type": "objekt"}),)))
        assert isinstance(reader.read(ToolCall("1", "shut", "{}")), Invocation)
    assert caplog.text.count("tool shut: its parameters are not a valid JSON schema") == 1


def test_a_misspelt_provider_is_not_only_a_missing_extra() -> None:
    without = "import sys; sys.modules['litellm'] = None; from rollout.cli import main; main()"
    for command in ("check", "run"):
        words = [command, config({"agent": "opnai/gpt-5"}), "--no-colors"]
        done = subprocess.run(
            [sys.executable, "-c", without, *words], capture_output=True, text=True, timeout=300, check=False
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 2, said
        assert said.count("model 'opnai/gpt-5' (did you mean 'openai'?) needs the extra: pip install") == 1
        assert "rollout-engine[litellm]" in said


def test_a_full_disk_ends_a_run_with_the_file_and_what_to_do() -> None:
    """Files may not grow beyond a limit, which is what a full disk is to a program."""
    path = config({"limit": None, "samples": 20})

    def few_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = subprocess.run(
        [sys.executable, "-c", "from rollout.cli import main; main()", "run", path, "--no-colors"],
        capture_output=True, text=True, timeout=300, check=False, preexec_fn=few_bytes, env={**os.environ},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "Traceback" not in said
    assert "cannot be written" in said or "disk" in said
    assert "--resume" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_log_is_one_warning_and_the_run_goes_on() -> None:
    path = config(log_file="/dev/full", log_level="DEBUG")
    command = [sys.executable, "-c", "from rollout.cli import main; main()", "run", path, "--no-colors"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("log_file: /dev/full cannot be written: No space left on device") <= 1


def test_keys_on_the_command_line_are_checked_like_those_of_the_file(rollout: Command) -> None:
    path = config()
    for setting, expected in [
        ("max_worker=3", "max_worker: there is no such key; did you mean 'max_workers'?"),
        ("datasets.potal.limit=3", "--set datasets.potal.limit: there is no dataset 'potal'; did you mean 'portal'?"),
        ("datasets.portal.limit=few", "datasets.portal.limit: expected a whole number"),
        ("max_workers", "--set: 'max_workers' is not key=value"),
        ("max_workers.deep=1", "max_workers"),
    ]:
        done = rollout("check", path, "--set", setting)
        assert done.code == 2
        assert expected in " ".join(done.err.split())


def test_a_command_that_does_not_exist_is_answered_with_the_nearest(rollout: Command) -> None:
    done = rollout("rum")
    assert done.code == 2
    assert "Did you mean 'run'?" in done.err


def test_a_project_that_cannot_be_copied_is_one_reason_and_not_one_for_each_file() -> None:
    command = [sys.executable, "-c", "from rollout.cli import main; main()", "init", "shop"]

    def no_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, preexec_fn=no_bytes, env={**os.environ}
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("cannot be written: File too large; choose another folder") == 1
    assert "Errno" not in done.stderr


def test_training_data_into_a_file_is_refused_by_name(rollout: Command) -> None:
    assert rollout("run", config(), "--no-colors").code == 0
    text("", "taken")
    done = rollout("train-data", "run", "-o", "taken", "--form", "sft")
    assert done.code == 2
    assert "taken: is a file; expected a folder to write into" in done.err


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('no scale')", "could not be scored: RuntimeError: no scale"),
        ("return 'good'", "the scorer returned 'good'; expected a number, a bool, a Score or None"),
    ],
)
def test_a_run_says_why_nothing_was_scored(body: str, reason: str, rollout: Command) -> None:
    text(f"import rollout\n\n@rollout.scorer\ndef weigh(task):\n    {body}\n\n"
         "shop = rollout.Environment(tasks=[rollout.Task('a', 'hi', actions=[])], world=rollout.World, "
         "scorers=[weigh])\n", f"shop_{len(body)}.py")  # fmt: skip
    dataset = {"environment": f"shop_{len(body)}:shop", "agent": "builtin/oracle", "samples": 3}
    path = str(write_yaml(Path("c.yml"), {"datasets": {"d": dataset}, "run_dir": "run"}))
    done = rollout("run", path, "--no-colors")
    assert done.code == 0, done.out + done.err
    assert f"unscored 3 × weigh: {reason}" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("def __init__(self, task): self.coins = task.info['coins']", "Till cannot be set up: KeyError: 'coins'"),
        ("def setup(self): raise OSError('no key')", "Till cannot be set up: OSError: no key"),
        ("def setup(self): return {'a': 1}", "Till cannot be set up: setup returned a dict; expected a text"),
    ],
)
def test_a_world_that_raises_is_found_by_check(method: str, reason: str, rollout: Command) -> None:
    name = f"till_{len(method)}"
    made = "rollout.Environment(tasks=[rollout.Task('a', 'hi', actions=[])], world=Till)"
    text(f"import rollout\n\nclass Till(rollout.World):\n    {method}\n\nshop = {made}\n", f"{name}.py")
    dataset = {"environment": f"{name}:shop", "agent": "builtin/oracle"}
    done = rollout("check", str(write_yaml(Path("c.yml"), {"datasets": {"d": dataset}, "run_dir": "run"})))
    assert done.code == 2, done.out + done.err
    said = " ".join((done.out + done.err).split())
    assert "Till cannot be opened for task 'a'" in said
    assert reason in said
    assert "Traceback" not in said
