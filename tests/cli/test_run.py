"""The command line as a person uses it: real processes, real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rollout.testing import StubProcess
from tests.conftest import read_lines, write_tasks, write_yaml

ROOT = Path(__file__).parents[2]
ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()"]


def rollout(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "160", **(environment or {})}
    return subprocess.run([*ROLLOUT, *arguments], capture_output=True, text=True, timeout=600, env=env, check=False)


def portal_config(**changes: Any) -> Path:
    dataset = {
        "mcp_domain": "StudentAcademicPortal",
        "agent": "builtin/oracle",
        "user": "builtin/user",
        "max_turns": 20,
        "limit": 4,
        "output_path": "out/portal.jsonl",
        **changes,
    }
    return write_yaml(Path("c.yml"), {"datasets": {"portal": dataset}, "run_dir": "run", "log_file": "logs/deep/r.log"})


def test_run_ends_with_a_summary_that_says_what_came_out_and_where() -> None:
    done = rollout("run", str(portal_config()), "--no-colors")
    assert done.returncode == 0, done.stderr
    assert "completed" in done.stdout
    assert "user_stop 4" in done.stdout
    assert "out/portal.jsonl" in done.stdout
    assert len(read_lines(Path("out/portal.jsonl"))) == 4
    assert Path("logs/deep/r.log").exists(), "the log's folder is made"
    assert "\x1b[" not in done.stdout


def test_run_twice_resumes_and_no_resume_moves_aside() -> None:
    config = str(portal_config())
    rollout("run", config)
    again = rollout("run", config)
    assert "4 of 4 trajectories are finished" in again.stdout
    anew = rollout("run", config, "--no-resume")
    assert "was there already: moved to" in anew.stdout
    assert len(list(Path("out").glob("portal.jsonl*"))) == 2


def test_a_strategy_can_be_named_for_one_command() -> None:
    done = rollout("run", str(portal_config()), "--strategy", "random_tree", "--no-colors")
    assert done.returncode == 0, done.stderr
    assert len(read_lines(Path("out/portal.jsonl"))) == 4 * 6
    wrong = rollout("run", str(portal_config()), "--strategy", "random_tre", "--no-resume")
    assert wrong.returncode == 2
    assert "there is no 'random_tre'; did you mean 'random_tree'?" in wrong.stderr


def test_dry_run_refuses_a_strategy_that_the_model_cannot_follow() -> None:
    text = "datasets.portal.strategy: treerl branches inside a generation, and builtin/oracle cannot go on"
    for options in (["--dry-run"], []):
        done = rollout("run", str(portal_config(strategy="treerl")), "--no-colors", *options)
        assert done.returncode == 2
        assert text in done.stdout + done.stderr
        assert not Path("run").exists()
        assert not Path("out").exists()


def test_dry_run_says_that_a_limit_in_dollars_limits_nothing() -> None:
    dataset = {"mcp_domain": "StudentAcademicPortal", "agent": "mine", "limit": 1}
    entry = {"api_base": "http://127.0.0.1:9/v1"}
    priced = {**entry, "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
    limited: dict[str, Any] = {**dataset, "strategy": {"budget": {"cost": 0.5}}}
    for model, given, expected in [
        (entry, limited, "portal: strategy.budget.cost: the price of mine is unknown"),
        (priced, limited, None),
        (entry, dataset, None),
    ]:
        config = write_yaml(Path("c.yml"), {"models": {"mine": model}, "datasets": {"portal": given}})
        done = rollout("run", str(config), "--dry-run")
        assert done.returncode == 0, done.stdout + done.stderr
        told = " ".join(done.stdout.split())
        assert ("the price of" in told) == (expected is not None)
        assert expected is None or expected in told


def test_seeds_entry_point_does_the_same() -> None:
    command = [
        sys.executable,
        str(ROOT / "run.py"),
        "--config",
        str(portal_config()),
        "--resume",
        "--dataset",
        "portal",
    ]
    done = subprocess.run([*command, "--verbose"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert len(read_lines(Path("out/portal.jsonl"))) == 4
    assert "authorize_student(" in done.stdout


def test_verbose_keeps_the_lines_of_a_conversation_together() -> None:
    done = rollout("run", str(portal_config(limit=12)), "--verbose", "--no-colors")
    assert done.returncode == 0, done.stderr
    open_now: str | None = None
    seen = 0
    for line in done.stdout.splitlines():
        if line.startswith("── portal / ") and line.endswith("begins ──"):
            assert open_now is None, "a conversation began inside another"
            open_now = line.split()[3]
            seen += 1
        elif line.startswith("── ") and ": completed" in line:
            assert line.split()[1].rstrip(":") == open_now
            open_now = None
    assert seen == 12


def test_dry_run_shows_what_would_run_and_writes_nothing() -> None:
    before = set(Path().rglob("*"))
    done = rollout("run", str(portal_config(samples=3)), "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 trajectories; no problems found" in done.stdout
    assert set(Path().rglob("*")) - before == {Path("c.yml")}


def test_dry_run_finds_everything_that_is_wrong_at_once() -> None:
    task = {"id": "same", "messages": [{"role": "user", "content": "x"}]}
    write_tasks(Path("tasks.jsonl"), task, task)
    Path("latin.md").write_bytes("Höflich".encode("latin-1"))
    datasets = {
        "dup": {"path": "tasks.jsonl", "mcp_domain": "StudentAcademicPortal", "agent": "openai/gpt-5"},
        "gone": {"path": "nowhere.jsonl", "mcp_domain": "NoSuchDomain", "agent": "unheard-of"},
        "prompt": {
            "mcp_domain": "StudentAcademicPortal",
            "agent": {"model": "builtin/oracle", "system_prompt_file": "p.md"},
        },
        "latin": {
            "mcp_domain": "StudentAcademicPortal",
            "agent": {"model": "builtin/oracle", "system_prompt_file": "latin.md"},
        },
        "talk": {"mcp_domain": "StudentAcademicPortal", "agent": "builtin/oracle", "max_turns": 5},
    }
    config = write_yaml(Path("c.yml"), {"datasets": datasets})
    done = rollout("run", str(config), "--dry-run", environment={"OPENAI_API_KEY": ""})
    assert done.returncode == 2
    for told in (
        "tasks.jsonl:2: id 'same' is already in tasks.jsonl:1",
        "no api_key; set OPENAI_API_KEY",
        "nowhere.jsonl: cannot read the tasks",
        "'NoSuchDomain' names no known servers",
        "'unheard-of' is not in the registry",
        "p.md: No such file or directory",
        "latin.md: is not UTF-8 text",
        "user: needed because max_turns is 5",
    ):
        assert told in done.stdout, f"{told!r} missing in\n{done.stdout}"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "nowhere.yml"], "nowhere.yml: cannot be read"),
        (["run", "c.yml", "--dataset", "portl"], "no dataset 'portl'; did you mean 'portal'?"),
        (["rnu", "c.yml"], "Did you mean 'run'?"),
        (["stub-server", "--fault", "nonsense"], "faults[0].kind"),
        (["stub-server", "--fault", "overload:often"], "expected KIND or KIND:RATE"),
    ],
)
def test_mistakes_are_answered_in_words_not_tracebacks(arguments: list[str], told: str) -> None:
    portal_config()
    done = rollout(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    done = rollout("--help")
    assert done.returncode == 0
    assert "stub-server" in done.stdout
    code = (
        "import sys\nfrom rollout.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "print('heavy:', {'typer', 'rich', 'pydantic', 'aiohttp', 'litellm', 'yaml', 'msgspec'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("heavy: set()\n")
    assert "--dry-run" in rollout("run", "--help").stdout


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"output_path": "tasks.jsonl"}, "tasks.jsonl holds the tasks of 'd'"),
        ({"output_path": "folder"}, "output_path: folder exists and is not a file"),
        ({"run_dir": "tasks.jsonl"}, "run_dir: tasks.jsonl cannot be used"),
    ],
)
def test_places_that_cannot_be_written_are_refused_and_left_alone(changes: dict[str, str], told: str) -> None:
    tasks = write_tasks(Path("tasks.jsonl"), "Question").read_bytes()
    Path("folder").mkdir()
    dataset = {"path": "tasks.jsonl", "output_path": "o.jsonl", "agent": "builtin/oracle", **changes}
    run_dir = dataset.pop("run_dir", "run")
    write_yaml(Path("c.yml"), {"run_dir": run_dir, "datasets": {"d": dataset}})
    done = rollout("run", "c.yml", "--resume")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert told in done.stderr
    assert Path("tasks.jsonl").read_bytes() == tasks


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_exits_as_shells_expect_and_resumes(number: signal.Signals, code: int) -> None:
    write_tasks(Path("tasks.jsonl"), *(f"Question {n}" for n in range(40)))
    # Slow enough that the signal finds a run that goes on, whatever else the machine does.
    with StubProcess({"latency": 0.5}) as stub:
        config = {
            "run_dir": "run",
            "max_workers": 4,
            "models": {"agent": {"api_base": stub.url}},
            "datasets": {
                "d": {
                    "path": "tasks.jsonl",
                    "output_path": "out.jsonl",
                    "agent": "agent",
                    "mcp_domain": "StudentAcademicPortal",
                }
            },
        }
        write_yaml(Path("c.yml"), config)
        child = subprocess.Popen(
            [*ROLLOUT, "run", "c.yml", "--no-colors"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while stub.stats().requests < 10:
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(number)
        output, _ = child.communicate(timeout=600)
        assert child.returncode == code
        assert "unfinished" in output
        assert "rollout run c.yml --resume" in output
        done = rollout("run", "c.yml", "--resume")
        assert done.returncode == 0, done.stderr
        assert stub.stats().repeats == 0, "a graceful stop pays for nothing twice"
    ids = [line["id"] for line in read_lines(Path("out.jsonl"))]
    assert sorted(ids) == sorted({f"task{n}" for n in range(40)})


def test_second_interrupt_stops_at_once_and_still_resumes() -> None:
    write_tasks(Path("tasks.jsonl"), "Only question")
    with StubProcess({"rules": [{"fault": {"kind": "hang", "times": "always"}}]}) as stub:
        config = {
            "run_dir": "run",
            "timeouts": {"grace": 3600},
            "models": {"agent": {"api_base": stub.url}},
            "datasets": {
                "d": {"path": "tasks.jsonl", "output_path": "out.jsonl", "agent": "agent", "tools": ["json:dumps"]}
            },
        }
        write_yaml(Path("c.yml"), {**config, "datasets": {"d": {**config["datasets"]["d"], "tools": []}}})  # type: ignore[index]
        child = subprocess.Popen(
            [*ROLLOUT, "run", "c.yml", "--no-colors"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while stub.stats().in_flight < 1:
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        line = child.stdout.readline() if child.stdout is not None else ""
        assert "stopping" in line
        child.send_signal(signal.SIGINT)
        output, complaints = child.communicate(timeout=600)
        assert child.returncode == 130, complaints
        assert "1 unfinished" in output


def test_no_secret_ever_reaches_a_file_or_the_terminal() -> None:
    key = "sk-topsecret-9f8e7d6c5b4a"
    write_tasks(Path("tasks.jsonl"), "Question")
    with StubProcess({"api_key": "another-key"}) as stub:
        config = {
            "run_dir": "run",
            "log_file": "logs/r.log",
            "log_level": "DEBUG",
            "models": {
                "agent": {"api_base": stub.url, "api_key": "${MY_KEY}", "headers": {"X-Auth": "header-secret-123456"}}
            },
            "datasets": {"d": {"path": "tasks.jsonl", "output_path": "out.jsonl", "agent": "agent"}},
        }
        write_yaml(Path("c.yml"), config)
        done = rollout("run", "c.yml", "--verbose", environment={"MY_KEY": key})
    assert done.returncode == 1, "the conversation failed: the server knows another key"
    assert key not in done.stdout + done.stderr
    for path in Path().rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert key.encode() not in data, path
            if path.name != "c.yml":
                assert b"header-secret-123456" not in data, path
    assert json.loads(Path("run/run.json").read_text())["config"]["models"]["agent"]["api_key"] == "**********"
