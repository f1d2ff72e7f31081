"""Token-exact records against a real tokenizer, chat template and model: in chats, and with token ids given."""

from __future__ import annotations

import importlib.util
import json
import math
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rollout.cli import main
from rollout.core.messages import Message
from rollout.core.task import Task
from rollout.core.world import Opening
from rollout.environments.functions import FunctionWorld
from rollout.models.chat_template import ChatTemplate
from rollout.models.token_forms import VllmForm
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.strategies.points import own_generations
from rollout.strategies.strategy import Beginning
from rollout.strategies.treerl import TreeRl
from rollout.trajectories.advantages.attempts import attempts_of_lines
from rollout.trajectories.generation import FIRST_TOKENS
from rollout.trajectories.line import comparable
from rollout.trajectories.saved import read_saved
from rollout.trajectories.token_view import Segment, TokenKind
from rollout.trajectories.tree import Leaf
from tests.conftest import read_lines, roll_out, write_tasks
from tests.token_views import requests_in, views

if TYPE_CHECKING:
    from tests.servers.tiny_lm import TinyServer

# torch takes seconds to import: only tests that are run pay for it.
pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "transformers"))), reason="needs torch and transformers"
)
OUT = Path("out.jsonl")
OPEN = FunctionWorld.open
SYSTEM = "You look things up for guests of the hotel and say what you found."
WORDS = ["the late reservation", "two rooms for Friday", "the bill of folio 17"]
FOUND = "Here is what I found, and it is all there is."


def call_then_words(prompt: str) -> str:
    """A model that looks up whatever it is asked, then says that it has found something."""
    heard = prompt.rsplit("<|im_start|>", 2)[1]
    if "<tool_response>" in heard:
        return FOUND
    asked = heard.removeprefix("user\n").partition("<|im_end|>")[0]
    call = json.dumps({"name": "echo", "arguments": {"text": asked}})
    return f"One moment. <tool_call>{call}</tool_call>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.servers.tiny_lm import make_tokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(folder)
    return folder


@pytest.fixture
async def tiny(tokenizer: Path) -> AsyncIterator[TinyServer]:
    from tests.servers.tiny_lm import TinyServer

    async with TinyServer(tokenizer, call_then_words) as server:
        yield server


def config(url: str, tokenizer: Path | None = None, *, provider: str = "vllm", **dataset: Any) -> dict[str, Any]:
    """Two tasks of three turns with a tool; with `tokenizer`, the model is given ids."""
    entry: dict[str, Any] = {"api_base": url, "provider": provider, "token_ids": True}
    if tokenizer is not None:
        entry |= {"token_in": True, "tokenizer": tokenizer}
    return {
        "seed": 5,
        "enable_monitor": False,
        "retries": {"attempts": 1},
        "models": {"agent": entry},
        "datasets": {
            "data": {
                "path": write_tasks(Path("tasks.jsonl"), WORDS[0], WORDS[2]),
                "output_path": OUT,
                "tools": ["tests.tools:echo"],
                "agent": {"model": "agent", "preamble": SYSTEM, "max_tokens": 200},
                "user": {"kind": "scripted", "messages": WORDS[1:]},
                "max_turns": 3,
                **dataset,
            }
        },
    }


def text_of(server: TinyServer, segment: Segment, kind: TokenKind) -> str:
    ids = [token for token, is_kind in zip(segment.ids, segment.kinds, strict=True) if is_kind == kind]
    return str(server.tokenizer.decode(ids))


async def test_a_chat_keeps_every_prompt_and_completion_and_says_where_it_drifts(tiny: TinyServer) -> None:
    await roll_out(config(tiny.url))
    recorded = [request for view in views().values() for request in requests_in(view)]
    assert sorted(recorded) == sorted(tiny.asked)
    assert len(recorded) == 2 * 6
    for line, view in zip(read_lines(OUT), views().values(), strict=True):
        tokens = line["metadata"]["tokens"]
        assert tokens["exact"]
        assert [drift["cause"] for drift in tokens["drift"]] == [segment.cause for segment in view.segments[1:]]
        assert {drift["cause"] for drift in tokens["drift"]} == {"calls", "text"}, (
            "it spells otherwise than a tokenizer"
        )
        for drift, before, after in zip(tokens["drift"], view.segments, view.segments[1:], strict=False):
            at = drift["at"]
            assert before.ids[:at] == after.ids[:at]
            assert before.ids[at] != after.ids[at]
            assert len(before.ids) - at == drift["lost"]
    drifts = json.loads(Path("run/metrics.json").read_text())["tokens"]["data"]
    assert (drifts["exact"], drifts["inexact"], drifts["drifted"]) == (2, 0, 2)


@pytest.mark.parametrize("tool_format", ["native", "text"])
@pytest.mark.parametrize("provider", ["vllm", "sglang"])
async def test_with_ids_given_nothing_drifts(
    tiny: TinyServer, tokenizer: Path, tool_format: str, provider: str
) -> None:
    chosen = config(tiny.url, tokenizer, provider=provider)
    chosen["datasets"]["data"]["agent"]["tool_format"] = tool_format
    await roll_out(chosen)
    lines = read_lines(OUT)
    assert [line["metadata"]["tokens"] for line in lines] == [{"exact": True, "drift": []}] * 2
    assert all(line["metadata"]["tool_call_count"] == 3 for line in lines), "calls were read out of the text"
    found = views(tokenizer)
    assert sorted(request for view in found.values() for request in requests_in(view)) == sorted(tiny.asked)
    for view in found.values():
        (segment,) = view.segments
        said = [tiny.tokenizer.decode(segment.ids[span.start : span.end].tolist()) for span in segment.spans]
        assert said[1::2] == [f"{FOUND}<|im_end|>"] * 3
        scored = [not math.isnan(value) for value in segment.logprobs]
        assert scored == [kind == TokenKind.SAMPLED for kind in segment.kinds]


async def test_kinds_tell_observations_users_and_the_template_apart(tiny: TinyServer, tokenizer: Path) -> None:
    await roll_out(config(tiny.url, tokenizer))
    segment = views(tokenizer)["task0"].segments[0]
    assert TokenKind.CONTEXT not in segment.kinds
    assert text_of(tiny, segment, TokenKind.USER) == "".join(WORDS)
    assert text_of(tiny, segment, TokenKind.OBSERVATION) == "".join(f"echo: {words}" for words in WORDS)
    assert text_of(tiny, segment, TokenKind.SYSTEM) == SYSTEM
    glue = text_of(tiny, segment, TokenKind.GLUE)
    assert glue.count("<|im_start|>assistant\n") == 6
    assert "<tools>" in glue


async def test_without_a_template_only_what_was_sampled_is_known(tiny: TinyServer, tokenizer: Path) -> None:
    await roll_out(config(tiny.url, tokenizer))
    segment = views()["task0"].segments[0]
    assert set(segment.kinds) == {TokenKind.CONTEXT, TokenKind.SAMPLED}
    assert sum(segment.loss_mask) == sum(span.end - span.start for span in segment.spans)


async def test_an_answer_that_was_cut_is_ended_by_the_template(tokenizer: Path) -> None:
    from tests.servers.tiny_lm import TinyServer

    async with TinyServer(tokenizer) as server:
        chosen = config(server.url, tokenizer)
        chosen["datasets"]["data"]["agent"]["max_tokens"] = 4
        await roll_out(chosen)
        end = server.tokenizer.eos_token_id
        for view in views(tokenizer).values():
            (segment,) = view.segments
            for span in segment.spans[:-1]:
                assert span.finish_reason == "length"
                assert (segment.ids[span.end], segment.kinds[span.end]) == (end, TokenKind.GLUE)


async def test_a_resumed_run_has_the_tokens_of_an_undisturbed_one(tiny: TinyServer, tokenizer: Path) -> None:
    await roll_out(config(tiny.url, tokenizer), Path("whole"))
    whole = {line["id"]: comparable(line) for line in read_lines(OUT)}
    asked = sorted(tiny.asked)
    OUT.unlink()
    tiny.asked.clear()
    for step in (3, 7):
        await roll_out(config(tiny.url, tokenizer), pause_when=lambda progress, step=step: progress.generations >= step)
    await roll_out(config(tiny.url, tokenizer))
    assert {line["id"]: comparable(line) for line in read_lines(OUT)} == whole
    assert sorted(tiny.asked) == asked, "the same prompts, and none of them paid for twice"
    assert sorted(request for view in views().values() for request in requests_in(view)) == asked


async def test_a_branch_shares_the_tokens_of_its_beginning(tiny: TinyServer, tokenizer: Path) -> None:
    strategy = {"name": "random_tree", "params": {"trees": 1, "expansions": 3, "rounds": 2}}
    await roll_out(config(tiny.url, tokenizer, strategy=strategy))
    lines = {line["id"]: line for line in read_lines(OUT)}
    branched = [line for line in lines.values() if "parent" in line["metadata"]["branch"]]
    assert branched
    found = views()
    asked = {(tuple(prompt), tuple(ids)) for prompt, ids in tiny.asked}
    assert {(tuple(p), tuple(c)) for view in found.values() for p, c in requests_in(view)} == asked
    with open_reader(Path("run")) as reader:
        for line in branched:
            own = reader.whole_path("data", line["id"])
            parent = reader.whole_path("data", line["metadata"]["branch"]["parent"])
            shared = line["metadata"]["branch"]["shared_messages"]
            assert own[:shared] == parent[:shared]
            assert own[shared] != parent[shared], "it spells its answer in its own way"
            assert found[line["id"]].segments[0].spans[0].generation == 0
            assert not line["metadata"]["tokens"]["drift"]


async def test_a_conversation_that_is_sent_otherwise_is_encoded_anew_and_says_so(
    tokenizer: Path,
) -> None:
    from tests.servers.tiny_lm import TinyServer

    def think_first(prompt: str) -> str:
        return "<think>what might that be</think>" + (call_then_words(prompt))

    async with TinyServer(tokenizer, think_first) as server:
        await roll_out(config(server.url, tokenizer))
        drifts = read_lines(OUT)[0]["metadata"]["tokens"]["drift"]
        assert [(drift["cause"], drift["turn"]) for drift in drifts] == [("reasoning", 2), ("reasoning", 3)]
        kept = config(server.url, tokenizer)
        kept["models"]["agent"]["reasoning"] = "keep_all"
        await roll_out(kept, Path("kept"), resume=False)
        assert all(line["metadata"]["tokens"] == {"exact": True, "drift": []} for line in read_lines(OUT))


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ({"prompt_token_ids": [1, 2]}, "other ids than it was sent"),
        ({"token_ids": None}, "took ids and gave none back"),
        ({"logprobs": 5}, "the answer cannot be read"),
        ({"token_ids": [-1]}, "the answer's tokens cannot be read"),
    ],
)
async def test_an_answer_that_cannot_be_trusted_is_an_error(
    tiny: TinyServer, tokenizer: Path, spoilt: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = VllmForm.read

    def spoil(self: VllmForm, answer: dict[str, Any]) -> Any:
        answer["choices"][0] |= spoilt
        return read(self, answer)

    monkeypatch.setattr(VllmForm, "read", spoil)
    await roll_out(config(tiny.url, tokenizer))
    assert not OUT.exists() or not read_lines(OUT)
    failed = read_lines(Path("run/failed.jsonl"))
    assert len(failed) == 2
    assert all(told in line["metadata"]["error"]["text"] for line in failed)


async def test_a_template_that_writes_answers_otherwise_gets_the_whole_conversation(
    tiny: TinyServer, tokenizer: Path
) -> None:
    template = Path("loud.jinja")
    template.write_text(
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | upper }}<|im_end|>\n"
        "{% endfor %}<|im_start|>assistant\n"
    )
    chosen = config(tiny.url, tokenizer)
    chosen["models"]["agent"]["chat_template"] = template
    chosen["datasets"]["data"]["mode"] = "no_tool"
    await roll_out(chosen)
    drifts = read_lines(OUT)[0]["metadata"]["tokens"]["drift"]
    assert drifts, "an answer in capitals is not the one that was sampled"
    assert sorted(request for view in views().values() for request in requests_in(view)) == sorted(tiny.asked)


@pytest.mark.parametrize(
    "asked", [{"enable_thinking": True}, {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}]
)
async def test_the_template_is_told_to_think(tiny: TinyServer, tokenizer: Path, asked: dict[str, Any]) -> None:
    template = Path("thinking.jinja")
    template.write_text(
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n{% if enable_thinking %}Think first.\n{% endif %}"
    )
    chosen = config(tiny.url, tokenizer, mode="no_tool")
    chosen["models"]["agent"]["chat_template"] = template
    chosen["datasets"]["data"]["agent"] |= asked
    await roll_out(chosen)
    prompts = [tiny.tokenizer.decode(prompt) for prompt, _ in tiny.asked]
    assert len(prompts) > 2
    assert all(prompt.endswith("assistant\nThink first.\n") for prompt in prompts)


def test_template_ends_answers_with_one_token_and_encodes_only_what_is_new(tokenizer: Path) -> None:
    template = ChatTemplate.load(tokenizer)
    said = [Message("user", "one"), Message("assistant", "two")]
    later = [Message("tool", "three", tool_call_id="a"), Message("user", "four")]
    assert template.end is not None
    whole = template.encode([*said, *later])
    begun = template.encode(said[:1])
    answer = template.encode([*said, Message("user", "x")])[len(begun) :]
    answer = answer[: answer.index(template.end) + 1]
    known = begun + answer
    assert known + template.encode_suffix(known, later) == whole
    cut = known[:-1]
    assert cut + template.encode_suffix(cut, later) == whole


def continuing(prompt: str) -> str:
    """The same model, which may be given the beginning of its answer."""
    begun = prompt.rsplit("<|im_start|>assistant\n", 1)[1]
    whole = call_then_words(prompt.removesuffix(begun))
    assert whole.startswith(begun), "what was sampled before is what it is shown"
    return whole.removeprefix(begun)


TREERL = {"name": "treerl", "params": {"trees": 2, "tokens": 1, "continuations": 2}}


async def _open_and_show(self: FunctionWorld, task: Task, seed: int) -> Opening:
    opening = await OPEN(self, task, seed)
    return msgspec.structs.replace(opening, observation=Message("user", WORDS[0]))


def _in_the_first(self: TreeRl, leaves: Sequence[Leaf]) -> list[Beginning]:
    """Near the end of the first generation."""
    node = own_generations(leaves[0])[0]
    assert node.body.generation is not None
    assert node.body.generation.tokens is not None
    return [Beginning(node, len(node.body.generation.tokens.completion_ids) - 2)]


@pytest.mark.parametrize("shows_first", [False, True])
async def test_branches_inside_the_first_generation_go_on_from_its_tokens_also_where_the_world_shows_something_first(
    tokenizer: Path, shows_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.servers.tiny_lm import TinyServer

    monkeypatch.setattr(TreeRl, "_beginnings", _in_the_first)
    if shows_first:
        monkeypatch.setattr(FunctionWorld, "open", _open_and_show)
    async with TinyServer(tokenizer, continuing) as server:
        await roll_out(config(server.url, tokenizer, strategy=TREERL, limit=1))
    lines = {line["id"]: line for line in read_lines(OUT)}
    assert lines["task0"]["metadata"]["branch"] == {"number": 0, "reason": "init"}
    branches = {id: line["metadata"]["branch"] for id, line in lines.items() if id not in ("task0", "task0~1")}
    assert [(branch["parent"], branch["lineage"]) for branch in branches.values()] == (
        [("task0", [[0, 0]])] * 2 + [("task0~1", [[1, 0]])] * 2
    )
    with open_reader(Path("run")) as reader:
        for id, branch in branches.items():
            own, parent = (_sampled(reader, one)[0] for one in (id, branch["parent"]))
            assert own[: branch["token_offset"]] == parent[: branch["token_offset"]]
    attempts = attempts_of_lines(read_saved(text) for text in OUT.read_bytes().splitlines())
    assert sorted(attempt.chain for attempt in attempts) == [0, 0, 0, 1, 1, 1]
    with pytest.raises(SystemExit) as ended:
        main(["train-data", "run", "-o", "data", "--form", "tree", "--format", "jsonl", "--advantage", "none"])
    assert ended.value.code == 0
    (tree,) = read_lines(Path("data/tree.jsonl"))
    nodes = zip(tree["node_lengths"], tree["node_weights"], tree["node_attempts"], strict=True)
    shared = [(length, attempt) for length, weight, attempt in nodes if attempt >= 0 and weight == 0.5]
    offsets = {branch["lineage"][0][0]: branch["token_offset"] for branch in branches.values()}
    assert sorted(shared) == sorted((offset, attempt) for attempt, offset in offsets.items()), "each beginning once"


async def test_branches_inside_a_generation_go_on_from_its_tokens(tokenizer: Path) -> None:
    from tests.servers.tiny_lm import TinyServer

    async with TinyServer(tokenizer, continuing) as server:
        await roll_out(config(server.url, tokenizer, strategy=TREERL))
    lines = {line["id"]: line for line in read_lines(OUT)}
    assert len(lines) == 2 * 6
    branched = [line for line in lines.values() if line["metadata"]["branch"]["reason"] == "surprisal"]
    assert len(branched) == 2 * 4
    shown = views()
    for line in branched:
        said = [message["content"] for message in line["messages"] if message["role"] == "assistant"]
        assert said[0].startswith("One moment."), "its words are whole"
        assert line["metadata"]["tokens"]["exact"]
        for segment in shown[line["id"]].segments:
            assert all(span.end - span.start <= 200 for span in segment.spans), "max_tokens is of the whole answer"
            sampled = [place for place, kind in enumerate(segment.kinds) if kind == TokenKind.SAMPLED]
            assert sampled
            assert all(not math.isnan(segment.logprobs[place]) for place in sampled), "each has its logprob"
    texts = [
        [message["content"] for message in line["messages"]] for line in lines.values() if line["task_id"] == "task0"
    ]
    assert all(text == texts[0] for text in texts), "going on from a token leads to the words that it began"
    with open_reader(Path("run")) as reader:
        for line in branched:
            branch = line["metadata"]["branch"]
            place = sum(count for _, count in branch["lineage"])
            own, parent = (_sampled(reader, id)[place] for id in (line["id"], branch["parent"]))
            assert own[: branch["token_offset"]] == parent[: branch["token_offset"]]
    attempts = attempts_of_lines(read_saved(text) for text in OUT.read_bytes().splitlines())
    assert {attempt.chain for attempt in attempts} == {0, 1}, "each belongs to the chain that it goes on from"


def _sampled(reader: JournalReader, trajectory: str) -> list[list[int]]:
    """What each generation of a trajectory sampled."""
    generations = [body.generation for body in reader.whole_path("data", trajectory) if body.kind == "generation"]
    return [one.tokens.completion_ids.tolist() for one in generations if one is not None and one.tokens is not None]


async def test_a_continuation_that_was_begun_goes_on_from_the_same_tokens_whatever_the_strategy_says_now(
    tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.servers.tiny_lm import TinyServer

    def others(self: TreeRl, leaves: Sequence[Leaf]) -> list[Beginning]:
        return [Beginning(own_generations(leaf)[-1], 1) for leaf in leaves[:1]]

    async with TinyServer(tokenizer, continuing) as server:
        given = {**config(server.url, tokenizer, strategy=TREERL, limit=1), "max_workers": 4}
        await roll_out(given, Path("whole"))
        whole = {line["id"]: comparable(line) for line in read_lines(OUT)}
        OUT.unlink()
        await roll_out(given, pause_when=lambda progress: progress.finished == 2)
        with open_reader(Path("run")) as reader:
            begun = [saved.id for saved in reader.unfinished("data").values()]
        assert len(begun) == 4
        # As if it had been killed before any of them was answered.
        database = sqlite3.connect("run/journal.db")
        database.execute("DELETE FROM nodes WHERE episode > 2")
        database.commit()
        database.close()
        monkeypatch.setattr(TreeRl, "_beginnings", others)
        await roll_out(given)
    assert {line["id"]: comparable(line) for line in read_lines(OUT)} == whole


async def test_an_answer_that_is_gone_on_with_keeps_to_its_length(tokenizer: Path) -> None:
    """Random weights hardly ever end an answer by themselves: most are as long as they may be, and none is longer."""
    from tests.servers.tiny_lm import TinyServer

    strategy = {"name": "treerl", "params": {"trees": 1, "tokens": 2, "continuations": 2}}
    async with TinyServer(tokenizer) as server:
        chosen = config(server.url, tokenizer, strategy=strategy)
        chosen["datasets"]["data"]["agent"]["max_tokens"] = 12
        await roll_out(chosen)
    spans = [span for view in views().values() for segment in view.segments for span in segment.spans]
    assert max(span.end - span.start for span in spans) == 12
    assert {span.end - span.start for span in spans if span.finish_reason == "length"} == {12}


@pytest.mark.parametrize("provider", ["vllm", "sglang"])
@pytest.mark.parametrize("token_in", [False, True], ids=["chat", "ids given"])
async def test_entropies_are_the_models_own(tiny: TinyServer, tokenizer: Path, provider: str, token_in: bool) -> None:
    chosen = config(tiny.url, tokenizer if token_in else None, provider=provider)
    chosen["datasets"]["data"]["agent"]["top_logprobs"] = len(tiny.tokenizer)
    await roll_out(chosen)
    import torch

    with open_reader(Path("run")) as reader:
        path = reader.whole_path("data", "task0")
    generations = [body.generation for body in path if body.generation is not None]
    for generation, (prompt, ids) in zip(generations, requests_in(views()["task0"]), strict=True):
        with torch.no_grad():
            scores = torch.log_softmax(tiny.model(torch.tensor([prompt + ids])).logits[0], -1)
        own = -(scores.exp() * scores).sum(-1)[len(prompt) - 1 : -1][:FIRST_TOKENS]
        assert generation.tokens is not None
        assert list(generation.tokens.entropies) == pytest.approx(own.tolist(), abs=1e-3)


async def test_without_alternatives_no_entropy_is_made_up(tiny: TinyServer, tokenizer: Path) -> None:
    """The one alternative that comes with each logprob of `/v1/completions` tells nothing of the others."""
    await roll_out(config(tiny.url, tokenizer))
    with open_reader(Path("run")) as reader:
        path = reader.whole_path("data", "task0")
    assert {body.generation.tokens.entropies for body in path if body.generation and body.generation.tokens} == {()}


@pytest.mark.parametrize("token_in", [False, True], ids=["chat", "ids given"])
@pytest.mark.parametrize("room", [-1, 0], ids=["too long", "full to the last token"])
async def test_a_full_context_ends_the_conversation_and_keeps_it(tokenizer: Path, token_in: bool, room: int) -> None:
    from tests.servers.tiny_lm import TinyServer

    async with TinyServer(tokenizer, lambda prompt: FOUND) as whole:
        await roll_out(config(whole.url, tokenizer if token_in else None), Path("whole"))
        longest = max(len(prompt) for prompt, _ in whole.asked)
    OUT.unlink()
    async with TinyServer(tokenizer, lambda prompt: FOUND, context=longest + room) as server:
        await roll_out(config(server.url, tokenizer if token_in else None))
    reasons = {line["metadata"]["stop_reason"] for line in read_lines(OUT)}
    assert "context_length" in reasons
    assert not Path("run/failed.jsonl").exists() or not read_lines(Path("run/failed.jsonl"))
    assert all(line["metadata"]["tokens"]["exact"] for line in read_lines(OUT))
