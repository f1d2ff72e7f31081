"""From real browsers to what WebGym's users load: `.pt`, Parquet, metrics.json and the table."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rollout.config.schema import Config
from rollout.environments.web.rates import calculate_rollout_metrics
from rollout.pipelines.run import open_run
from rollout.pipelines.web_saving import save_iteration
from rollout.terminal.web_metrics import show_web_metrics
from rollout.testing import StubServer
from rollout.trajectories.pt import read_pt
from tests.conftest import roll_out
from tests.environments.web.test_web_run import calls, web_config

RULES: list[dict[str, Any]] = [
    {"when": {"answers": 0}, "reply": calls(("click", {"element": 1}))},
    {"when": {"answers": 1}, "reply": calls(("click", {"element": 0}))},
    {"when": {"answers": 2}, "reply": calls(("clack", {}))},
    {"when": {"answers": 3}, "reply": calls(("wait", {"seconds": 0.01}))},
    {"reply": calls(("answer", {"text": "one"}))},
]
PT = Path("saved/train_trajectories/train_trajectories.pt.iteration3")


async def test_a_run_in_browsers_is_saved_as_the_seed_saves_it() -> None:
    async with StubServer({"rules": RULES}) as stub:
        config = web_config(stub.url, {"difficulty": 2}, {"difficulty": 9, "website": "http://gone.test/"})
        await roll_out(config, Path("saved/train_trajectories/iteration3"))
    run_dir = Path("saved/train_trajectories/iteration3")
    save_iteration(run_dir, PT.parent, "train", 3, {"solution_model": "agent"})
    done, lost = read_pt(PT)

    keys = [step["action"]["action"]["key"] for step in done]
    assert keys == ["click", "invalid_step", "invalid_step", "wait", "answer"]
    assert [step["observation"]["page_metadata"]["title"] for step in done] == ["Counter"] + ["at 1"] * 4
    assert [step["same_as_next_screenshot"] for step in done] == [False, True, True, True, False]
    for step in done:
        assert (run_dir / step["observation"]["image_path"]).read_bytes().startswith(b"\x89PNG")
    assert [step["action"]["action"]["key"] for step in lost] == ["invalid_url"]
    assert lost[0]["observation"]["task"]["website"] == "http://gone.test/"

    metrics = json.loads((run_dir / "metrics.json").read_bytes())["web"]["web"]
    assert metrics["by_status"]["crashed_rate"] == 0.5
    assert metrics["by_status"]["invalid_steps"] == 2
    assert metrics["by_difficulty"]["hard"]["failed"] == 1
    assert calculate_rollout_metrics("saved", "train", 100) == metrics["seed"]
    assert metrics["seed"]["avg_steps"] == 5

    shown = io.StringIO()
    show_web_metrics(Console(file=shown, width=100), metrics)
    assert "failed (infrastructure)" in shown.getvalue()
    assert "50.0" in shown.getvalue()


async def test_torch_loads_what_a_browser_showed() -> None:
    torch = pytest.importorskip("torch")
    async with StubServer({"rules": RULES}) as stub:
        await roll_out(web_config(stub.url))
    save_iteration(Path("run"), PT.parent, "train", 3, {})
    loaded = torch.load(PT, weights_only=True)
    assert loaded["trajectories"] == list(read_pt(PT))
    assert loaded["metadata"]["iteration"] == 3
    assert loaded["metadata"]["trajectories"] == 1


async def test_rates_stay_in_the_metrics_when_another_dataset_is_worked_on() -> None:
    async with StubServer({"rules": RULES}) as stub:
        config = web_config(stub.url)
        plain = {"path": "tasks.jsonl", "output_path": "plain.jsonl", "agent": "agent"}
        both = Config.model_validate(config | {"datasets": config["datasets"] | {"plain": plain}})
        for names in (["web"], ["plain"]):
            async with open_run(both, Path("run"), datasets=names, resume=True) as opened:
                await opened.engine.run()
            metrics = json.loads(Path("run/metrics.json").read_bytes())
            assert metrics["web"]["web"]["by_status"]["trajectories"] == 1
            assert list(metrics["web"]) == ["web"]
    assert metrics["datasets"]["plain"]["finished"] == 1
