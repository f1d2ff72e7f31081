"""Training data of a web run whose model sees screenshots: each step as it was sent, for TRL, verl and `datasets`."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import rollout
from rollout.cli import main
from rollout.core.messages import JSON
from tests.conftest import read_lines, roll_out, skip_without, write_tasks
from tests.environments.web.vision import TOKENS_OF_IMAGE, make_model, make_processor

skip_without("datasets", "needs the extra rollout-engine[train]")
PAGES = {name: f"<title>{name}</title><h1>{name}</h1><a href={after}.html>Go on</a>" for name, after in
         [("index", "second"), ("second", "third"), ("third", "index")]}  # fmt: skip
STEPS = 4


class Agent:
    """A model server whose agent follows three links and answers, rightly only in its first attempt."""

    def __init__(self) -> None:
        self.requests: list[JSON] = []
        self._answers = 0

    async def reply(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        step = _count_answers(body["messages"])
        call: JSON = {"name": "click", "arguments": {"element": 1}}
        if step == STEPS - 1:
            self._answers += 1
            call = {"name": "answer", "arguments": {"text": "index" if self._answers == 1 else "none"}}
        content = f"Step {step}.\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
        message = {"role": "assistant", "content": content}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop", "index": 0}]})


def _count_answers(messages: list[JSON]) -> int:
    """The answers in the window, and those that are folded into the task's message."""
    task = next(message["content"] for message in messages if message["role"] == "user")
    return sum(message["role"] == "assistant" for message in messages) + str(task).count("\nStep ")


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[JSON]]:
    """A run of two attempts by an agent with a window of two rounds and two images, and the requests it sent."""
    folder = tmp_path_factory.mktemp("browsed")
    site = folder / "pages"
    site.mkdir()
    for name, page in PAGES.items():
        (site / f"{name}.html").write_text(f"<!doctype html>{page}")
    task = {
        "id": "walk",
        "messages": [{"role": "user", "content": "Follow three links. Where are you?"}],
        "task_info": {"website": "http://pages.test/index.html", "answer": {"equals": "index"}},
    }
    agent = Agent()

    async def run() -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", agent.reply)
        async with TestServer(app) as server:
            config = {
                "models": {"agent": {"api_base": str(server.make_url("/v1")), "images": True}},
                "datasets": {
                    "web": {
                        "path": write_tasks(folder / "tasks.jsonl", task),
                        "output_path": folder / "out.jsonl",
                        "samples": 2,
                        "agent": {"model": "agent", "tool_format": "text", "max_rounds": 2, "max_images": 2},
                        "web": {"sites": [str(site)], "mode": "set_of_marks"},
                    }
                },
            }
            await roll_out(config, folder / "run")

    asyncio.run(run())
    assert sorted(line["success"] for line in read_lines(folder / "out.jsonl")) == [False, True]
    return folder / "run", agent.requests


def seen(messages: list[JSON], images: list[bytes]) -> str:
    """Messages and images in a form that can be counted."""
    return json.dumps([messages, [hashlib.sha256(image).hexdigest() for image in images]], sort_keys=True)


def as_sent(request: JSON) -> str:
    """A request with its images apart."""
    images: list[bytes] = []
    messages = []
    for message in request["messages"]:
        if isinstance(message["content"], list):
            parts = []
            for part in message["content"]:
                if part["type"] == "image_url":
                    images.append(base64.b64decode(part["image_url"]["url"].partition(",")[2]))
                    part = {"type": "image"}
                parts.append(part)
            message = {**message, "content": parts}
        elif isinstance(message["content"], str):
            message = {**message, "content": [{"type": "text", "text": message["content"]}]}
        messages.append(message)
    assert images
    return seen(messages, images)


def command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 0


def load(path: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    import datasets

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()
    return datasets.load_dataset(path.rpartition(".")[2].replace("jsonl", "json"), data_files=path, split="train",
                                 cache_dir="cache")  # fmt: skip


def raw(loaded: Any) -> Any:
    """The rows with images as they are stored."""
    import datasets

    return loaded.cast_column("images", datasets.List(datasets.Image(decode=False)))


@pytest.mark.parametrize("images", ["bytes", "paths"])
@pytest.mark.parametrize("form", ["per_step", "prefix_merge"])
def test_rows_hold_every_request_as_it_was_sent(
    browsed: tuple[Path, list[JSON]], form: str, images: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, requests = browsed
    command("train-data", str(run), "-o", "data", "--form", form, "--images", images)
    rows = list(raw(load(f"data/{form}.parquet", monkeypatch)))
    assert len(rows) == len(requests) == 2 * STEPS
    stored = [[image["bytes"] or Path(image["path"]).read_bytes() for image in row["images"]] for row in rows]
    assert all((image["bytes"] is None) == (images == "paths") for row in rows for image in row["images"])
    given = Counter(seen(row["prompt"], pictures) for row, pictures in zip(rows, stored, strict=True))
    assert given == Counter(map(as_sent, requests)), "folded steps and older images as the model saw them"
    assert max(len(pictures) for pictures in stored) == 2
    advantages = {row["success"]: set(row["advantages"]) for row in rows}
    assert min(advantages[True]) > 0 > max(advantages[False])
    assert all([message["role"] for message in row["completion"]] == ["assistant"] for row in rows)


def test_a_vision_language_model_learns_answers_from_the_rows(
    browsed: tuple[Path, list[JSON]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs torch")
    trl = pytest.importorskip("trl", reason="needs trl")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    command("train-data", str(browsed[0]), "-o", "data", "--form", "per_step")
    loaded = load("data/per_step.parquet", monkeypatch)
    processor = make_processor()
    settings = trl.SFTConfig(
        output_dir="trained", max_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True, bf16=False,
        save_strategy="no", max_length=None, disable_tqdm=True,
    )  # fmt: skip
    model = make_model(processor)
    trainer = trl.SFTTrainer(model, settings, train_dataset=loaded, processing_class=processor)
    rows = [loaded[place] for place in (0, 1)]
    batch = trainer.data_collator([{**row} for row in rows])
    assert batch["pixel_values"].shape[0] == sum(len(row["images"]) for row in rows) == 3
    image_id = model.config.image_token_id
    assert (batch["input_ids"] == image_id).sum() == 3 * TOKENS_OF_IMAGE
    for labels, row in zip(batch["labels"], rows, strict=True):
        learnt = processor.tokenizer.decode(labels[labels >= 0])
        assert learnt.strip() == row["completion"][0]["content"][0]["text"] + "<|im_end|>"
    before = {name: value.clone() for name, value in model.named_parameters()}
    trainer.train()
    changed = {name for name, value in model.named_parameters() if not value.equal(before[name])}
    assert any("vision" in name for name in changed), "the images had a share in it"


@pytest.mark.parametrize("format_", ["trl", "parquet"])
def test_export_writes_the_steps_with_their_images(
    browsed: tuple[Path, list[JSON]], format_: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, requests = browsed
    command("export", str(run), "--format", format_, "-o", f"steps.{format_}")
    assert "written step by step" in " ".join(capsys.readouterr().out.split())
    path = Path(f"steps.{format_}").rename(f"steps.{'jsonl' if format_ == 'trl' else format_}")
    rows = list(raw(load(str(path), monkeypatch)))
    stored = [[image["bytes"] or Path(image["path"]).read_bytes() for image in row["images"]] for row in rows]
    given = Counter(seen(row["prompt"], pictures) for row, pictures in zip(rows, stored, strict=True))
    assert given == Counter(map(as_sent, requests))
    assert rollout.export(rollout.load_run(run), format=format_, path="again") == 2 * STEPS


def test_steps_for_verl_have_a_word_for_each_image(
    browsed: tuple[Path, list[JSON]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    command("train-data", str(browsed[0]), "-o", "data", "--form", "verl_steps")
    rows = list(raw(load("data/verl_steps.parquet", monkeypatch)))
    assert len(rows) == 2 * STEPS
    for row in rows:
        text = "".join(message["content"] for message in row["prompt"])
        assert text.count("<image>") == len(row["images"]) > 0
        assert row["messages"][:-1] == row["prompt"]
        assert row["messages"][-1]["content"].startswith("Step ")
        assert all(Image.open(io.BytesIO(image["bytes"])).size[0] > 100 for image in row["images"])
        assert row["extra_info"]["advantage"] != 0


def test_an_image_that_is_gone_leaves_its_trajectories_out(browsed: tuple[Path, list[JSON]], tmp_path: Path) -> None:
    line = (browsed[0].parent / "out.jsonl").read_text().splitlines()[0]
    Path("alone.jsonl").write_text(line + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["train-data", "alone.jsonl", "-o", "data", "--advantage", "none"])
    assert ended.value.code == 2
    command("train-data", "alone.jsonl", "-o", "data", "--advantage", "none", "--run", str(browsed[0]))


def test_pairs_that_have_no_place_for_images_say_so(
    browsed: tuple[Path, list[JSON]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train-data", str(browsed[0]), "-o", "data", "--form", "preferences"])
    assert ended.value.code == 2
    assert "none is left (has images 2)" in " ".join(capsys.readouterr().err.split())
