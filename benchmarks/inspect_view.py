"""The same 50 trajectories in `rollout view` and in Inspect View: bytes, requests, and time to the first row.

A run of the shipped default configuration is written as an eval log by Inspect's own API, both servers are opened in
one Chromium, in turns and each time with an empty cache, and medians are compared. Inspect is no dependency:

    python -m venv .venv-inspect && .venv-inspect/bin/pip install inspect_ai
    python -m benchmarks.inspect_view --inspect .venv-inspect/bin/python [--pictures FOLDER]

With `--convert`, which the other Python runs, this file needs nothing but Inspect.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
DATASETS, LIMIT = 5, 5
"""Of each dataset so many tasks, with two attempts at each: 50."""
ROUNDS = 9
SIZE = {"width": 1440, "height": 900}


# ---- a run as a log, in the Python that has Inspect -----------------------------------------------------------------


def convert(source: Path, folder: Path) -> None:
    """Write trajectories as an eval log."""
    from inspect_ai.log import (  # type: ignore[import-not-found]
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalScore,
        EvalSpec,
        EvalStats,
        write_eval_log,
    )
    from inspect_ai.model import ModelUsage  # type: ignore[import-not-found]

    given = json.loads(source.read_text())
    samples = [_sample(one) for one in given]
    rewards = [one["reward"] or 0.0 for one in given]
    metrics = {"mean": EvalMetric(name="mean", value=statistics.fmean(rewards))}
    usage = {"builtin/oracle": ModelUsage(input_tokens=sum(one["prompt_tokens"] for one in given))}
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=now,
            task="default",
            model="builtin/oracle",
            dataset=EvalDataset(name="default", samples=len(samples), sample_ids=[sample.id for sample in samples]),
            config=EvalConfig(),
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=[EvalScore(name="reward", scorer="reward", metrics=metrics)],
        ),
        stats=EvalStats(started_at=now, completed_at=now, model_usage=usage),
        samples=samples,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_eval_log(log, str(folder / "default.eval"))


def _sample(one: dict[str, Any]) -> Any:
    from inspect_ai.event import ModelEvent, ScoreEvent, ToolEvent  # type: ignore[import-not-found]
    from inspect_ai.log import EvalSample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        ContentReasoning,
        ContentText,
        GenerateConfig,
        ModelOutput,
    )
    from inspect_ai.scorer import Score  # type: ignore[import-not-found]
    from inspect_ai.tool import ToolCall, ToolInfo, ToolParams  # type: ignore[import-not-found]

    messages: list[Any] = [ChatMessageSystem(content=one["system"])] if one["system"] else []
    events: list[Any] = []
    tools = [
        ToolInfo(
            name=tool["name"],
            description=tool.get("description") or tool["name"],
            parameters=ToolParams(properties=tool["parameters"].get("properties", {})),
        )
        for tool in one["tools"]
    ]
    calls: dict[str, Any] = {}
    for message in one["messages"]:
        if message["role"] == "user":
            messages.append(ChatMessageUser(content=message["content"] or ""))
        elif message["role"] == "tool":
            call = calls[message["call"]]
            said = ChatMessageTool(
                content=message["content"] or "", tool_call_id=message["call"], function=call.function
            )
            events.append(ToolEvent(id=call.id, function=call.function, arguments=call.arguments, result=said.content))
            messages.append(said)
        else:
            parts: list[Any] = [ContentReasoning(reasoning=message["reasoning"])] if message["reasoning"] else []
            parts.append(ContentText(text=message["content"] or ""))
            asked = [
                ToolCall(id=name, function=function, arguments=given) for name, function, given in message["calls"]
            ]
            calls |= {call.id: call for call in asked}
            said = ChatMessageAssistant(content=parts, tool_calls=asked or None, model="builtin/oracle")
            output = ModelOutput.from_message(said)
            events.append(
                ModelEvent(
                    model="builtin/oracle",
                    input=list(messages),
                    tools=tools,
                    tool_choice="auto",
                    config=GenerateConfig(),
                    output=output,
                )
            )
            messages.append(said)
    scores = {
        score["name"]: Score(value=score["value"], explanation=score["reason"])
        for score in one["scores"]
        if score["value"] is not None
    }
    scores["reward"] = Score(value=one["reward"] or 0.0)
    events += [ScoreEvent(score=score, scorer=name) for name, score in scores.items()]
    return EvalSample(
        id=f"{one['dataset']}/{one['task']}",
        epoch=one["attempt"],
        input=next((message["content"] or "" for message in one["messages"] if message["role"] == "user"), ""),
        target="",
        messages=messages,
        output=ModelOutput(model="builtin/oracle"),
        scores=scores,
        events=events,
        metadata={"status": one["status"], "stop_reason": one["stop_reason"]},
        total_time=one["seconds"],
    )


# ---- the run, and both servers ---------------------------------------------------------------------------------------


def make_run(folder: Path) -> Path:
    """Roll out the shipped default configuration: 50 trajectories."""
    import yaml

    config = yaml.safe_load((ROOT / "configs" / "default.yml").read_text())
    config["datasets"] = dict(list(config["datasets"].items())[:DATASETS])
    for name, dataset in config["datasets"].items():
        dataset["output_path"] = str(folder / f"{name}.jsonl")
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    code = "from rollout.cli import main; main()"
    words = ("run", folder / "config.yml", "--limit", str(LIMIT), "--output", folder / "default")
    command = [sys.executable, "-c", code, *map(str, words)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return folder / "default"


def write_plain(run_dir: Path, path: Path) -> int:
    """Write the trajectories of a run as JSON that `convert` reads; returns how many."""
    import rollout

    found: list[dict[str, Any]] = []
    run = rollout.load_run(run_dir)
    attempts: dict[tuple[str, str], int] = {}
    for one in run.trajectories:
        key = one.dataset, one.task_id
        attempts[key] = attempts.get(key, 0) + 1
        found.append(
            {
                "dataset": one.dataset,
                "task": one.task_id,
                "attempt": attempts[key],
                "system": one.system,
                "tools": [tool.get("function", tool) for tool in one.tools],
                "messages": [
                    {
                        "role": message.role,
                        "content": message.content,
                        "reasoning": message.reasoning,
                        "call": message.tool_call_id,
                        "calls": [(call.id, call.name, _arguments(call.arguments)) for call in message.tool_calls],
                    }
                    for message in one.messages
                ],
                "scores": [
                    {"name": score.name, "value": score.value, "reason": score.reason or ""} for score in one.scores
                ],
                "reward": one.reward,
                "status": one.status,
                "stop_reason": one.stop_reason,
                "prompt_tokens": sum(used.prompt_tokens for used in one.usage.values()),
                "seconds": one.timings.seconds,
            }
        )
    path.write_text(json.dumps(found))
    return len(found)


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"arguments": text}
    return found if isinstance(found, dict) else {"arguments": found}


@contextmanager
def inspect_view(python: str, logs: Path) -> Iterator[str]:
    """Inspect's viewer of a folder; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(python).with_name("inspect")), "view", "start", "--log-dir", str(logs), "--port", str(port)]
    with (logs.parent / "inspect.txt").open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                if child.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield address
    finally:
        child.terminate()
        child.wait(30)


# ---- the browser -----------------------------------------------------------------------------------------------------


class Opened:
    """What opening a page took."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.bytes = 0
        self.seconds = 0.0


def open_page(browser: Any, address: str, row: str, picture: Path | None) -> Opened:
    """Open an address with an empty cache, and wait for a row."""
    found = Opened()
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")

    def asked(event: Any) -> None:
        if not event["request"]["url"].startswith("data:"):
            found.requests.append(event["request"]["url"])

    def loaded(event: Any) -> None:
        found.bytes += int(event["encodedDataLength"])

    session.on("Network.requestWillBeSent", asked)
    session.on("Network.loadingFinished", loaded)
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.locator(row).first.wait_for(timeout=120_000)
    found.seconds = time.perf_counter() - began
    # What is loaded behind the first row counts, too.
    page.wait_for_timeout(1500)
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=picture)
    context.close()
    return found


def compare(pages: dict[str, dict[str, tuple[str, str]]], pictures: Path | None) -> None:
    """Open all pages in turns, and print medians. `pages`: by name, address and row of each viewer."""
    from playwright.sync_api import sync_playwright

    from rollout.environments.web.chromium import find_chromium

    found: dict[tuple[str, str], list[Opened]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium())
        for number in range(ROUNDS + 1):
            for name, viewers in pages.items():
                for viewer, (address, row) in viewers.items():
                    picture = pictures / f"{viewer}-{name}.png".replace(" ", "-") if pictures and not number else None
                    opened = open_page(browser, address, row, picture)
                    # The first round warms the servers.
                    if number:
                        found.setdefault((name, viewer), []).append(opened)
        browser.close()
    print(f"{'':34}{'requests':>10}{'KB':>9}{'first row, ms':>15}")
    for name, viewers in pages.items():
        times = {}
        for viewer in viewers:
            each = found[name, viewer]
            times[viewer] = statistics.median(one.seconds for one in each)
            outside = [url for one in each for url in one.requests if "//127.0.0.1" not in url]
            print(
                f"{f'{name}, {viewer}':34}{statistics.median(len(one.requests) for one in each):10.0f}"
                f"{statistics.median(one.bytes for one in each) / 1000:9.0f}{1000 * times[viewer]:15.0f}"
                f"{'  asks outside: ' + outside[0] if outside else ''}"
            )
        ours, theirs = times.values()
        print(f"{name}: {theirs / ours:.1f} times as long in Inspect View")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inspect", metavar="PYTHON", help="A Python that has inspect_ai.")
    parser.add_argument("--pictures", type=Path, help="Save a screenshot of each page here.")
    parser.add_argument("--convert", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.convert:
        convert(*options.convert)
        return
    if options.inspect is None:
        parser.error(
            "--inspect: expected a Python that has inspect_ai: python -m venv .venv-inspect && "
            ".venv-inspect/bin/pip install inspect_ai"
        )
    from benchmarks.view_server import Server

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder)
        count = write_plain(run, folder / "plain.json")
        logs = folder / "logs"
        words = [options.inspect, __file__, "--convert", str(folder / "plain.json"), str(logs)]
        subprocess.run(words, check=True)
        size = (logs / "default.eval").stat().st_size
        print(f"{count} trajectories; the log of Inspect is {size / 1000:.0f} KB")
        with Server(run, folder / "log.txt") as server, inspect_view(options.inspect, logs) as theirs:
            one = json.loads(server.ask("trajectories", limit=1, sort="tool_calls"))["rows"][0]
            # What the user says first stands in both.
            words = " ".join(one["first"].split()[:5])
            ours = f"{server.address}#/run/{server.run}"
            log = f"{theirs}/#/logs/default.eval/samples"
            sample = quote(f"{one['dataset']}/{one['task_id']}", safe="")
            pages = {
                "list": {"rollout view": (ours, ".row-link"), "Inspect View": (log, 'a[role="row"]')},
                "trajectory": {
                    "rollout view": (f"{ours}/t/{quote(one['dataset'])}/{quote(one['id'])}", f"text={words}"),
                    "Inspect View": (f"{log}/sample/{sample}/1/", f"text={words}"),
                },
            }
            compare(pages, options.pictures)


if __name__ == "__main__":
    main()
