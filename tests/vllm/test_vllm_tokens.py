"""Token-exact records against a real vLLM server: what is on record is what the server said, id for id."""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rollout.cli import main
from rollout.models.chat_template import ChatTemplate
from rollout.store.reading.reader import open_reader
from rollout.trajectories.generation import FIRST_TOKENS, Generation, Tokens
from rollout.trajectories.token_view import TokenKind, TokenView
from tests.conftest import read_lines, roll_out, write_tasks
from tests.servers.vllm_server import Listener
from tests.token_views import OUT, requests_in, views
from tests.vllm.conftest import Served

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]
only_tiny = pytest.mark.parametrize("served", ["tiny"], indirect=True)

SYSTEM = "You look things up for guests of the hotel and say what you found."
WORDS = ["Where is the late reservation?", "Two rooms for Friday.", "The bill of folio 17."]
CALL = r'<tool_call>\{"name": "echo", "arguments": \{"text": "[a-z ]{3,12}"\}\}</tool_call>'
CALL_OR_WORDS = {"structured_outputs": {"regex": rf"({CALL}|I [a-z ]{{3,20}}\.)"}}
"""What random weights would never write by themselves: about every second answer of the tiny model is a call."""
ONLY_CALL = {"structured_outputs": {"regex": CALL}}
Ids = list[int]
Asked = tuple[dict[str, Any], dict[str, Any]]


def config(
    listener: Listener, served: Served, *, token_in: bool = False, agent: dict[str, Any] | None = None, **dataset: Any
) -> dict[str, Any]:
    """Two tasks of three turns with a tool; with `token_in`, the model is given ids."""
    entry: dict[str, Any] = {"api_base": listener.url, "provider": "vllm", "model": "policy", "token_ids": True}
    if token_in:
        entry |= {"token_in": True, "tokenizer": served.folder}
    return {
        "seed": 5,
        "enable_monitor": False,
        "retries": {"attempts": 1},
        "models": {"policy": entry},
        "datasets": {
            "data": {
                "path": write_tasks(Path("tasks.jsonl"), WORDS[0], WORDS[2]),
                "output_path": OUT,
                "tools": ["tests.tools:echo"],
                "agent": {
                    "model": "policy", "preamble": SYSTEM, "max_tokens": 100, "temperature": 1.0,
                    "extra_body": CALL_OR_WORDS, **(agent or {}),
                },
                "user": {"kind": "scripted", "messages": WORDS[1:]},
                "max_turns": 3,
                "max_steps_per_turn": 4,
                **dataset,
            }
        },
    }  # fmt: skip


FREE: dict[str, Any] = {"extra_body": {}, "max_tokens": 24}
"""Whatever the model says: bytes that are no text, special tokens, answers that are cut."""


def generations_of(trajectory: str) -> list[Generation]:
    with open_reader(Path("run")) as reader:
        path = reader.whole_path("data", trajectory)
    return [body.generation for body in path if body.kind == "generation" and body.generation is not None]


def by_completion(listener: Listener) -> dict[tuple[tuple[int, ...], tuple[int, ...]], Asked]:
    """What was asked and answered, by the ids that the server reported."""
    pairs = zip(listener.told, listener.heard, strict=True)
    return {(tuple(prompt), tuple(ids)): (asked, answer) for (prompt, ids), (_, asked, answer) in pairs}


def exchanges_of(view: TokenView, listener: Listener) -> list[tuple[Ids, Ids, Asked]]:
    """The exchanges of a trajectory in order, with what was asked and answered."""
    heard = by_completion(listener)
    return [(prompt, ids, heard[tuple(prompt), tuple(ids)]) for prompt, ids in requests_in(view)]


def reported_logprobs(answer: dict[str, Any]) -> list[float]:
    told = answer["choices"][0]["logprobs"]
    return [entry["logprob"] for entry in told["content"]] if "content" in told else list(told["token_logprobs"])


def reported_alternatives(answer: dict[str, Any]) -> list[list[float]]:
    told = answer["choices"][0]["logprobs"]
    if "content" in told:
        return [[other["logprob"] for other in entry["top_logprobs"]] for entry in told["content"]]
    return [list(entry.values()) for entry in told["top_logprobs"]]


def as_kept(logprobs: Sequence[float]) -> list[float]:
    return array("f", logprobs).tolist()


def assert_records_are_the_servers(listener: Listener, found: dict[str, TokenView]) -> None:
    """Every prompt, completion and logprob of the records is one that the server reported, and none is missing."""
    assert not listener.refused
    assert sorted(request for view in found.values() for request in requests_in(view)) == sorted(listener.told)
    for trajectory, view in found.items():
        exchanges = exchanges_of(view, listener)
        generations = generations_of(trajectory)
        assert len(exchanges) == len(generations)
        for (_, ids, (_, answer)), generation in zip(exchanges, generations, strict=True):
            assert generation.tokens is not None
            assert generation.is_exact
            assert generation.tokens.logprobs.tolist() == as_kept(reported_logprobs(answer))
            assert generation.usage.completion_tokens == len(ids)
        for segment in view.segments:
            sampled = [kind == TokenKind.SAMPLED for kind in segment.kinds]
            known = [not math.isnan(value) for value in segment.logprobs]
            assert all(has or not is_sampled for has, is_sampled in zip(known, sampled, strict=True))


def first_difference(one: Ids, other: Ids) -> int:
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


@pytest.mark.parametrize("agent", [{}, FREE], ids=["calls and words", "whatever it says"])
async def test_chat_records_are_the_servers_own_ids_and_drift_is_counted(
    served: Served, listener: Listener, agent: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    await roll_out(config(listener, served, agent=agent, samples=4))
    found = views(served.folder)
    assert_records_are_the_servers(listener, found)
    assert {path for path, _, _ in listener.heard} == {"/v1/chat/completions"}
    template = ChatTemplate.load(served.folder)
    causes: Counter[str] = Counter()
    later_prompts = 0
    for line in read_lines(OUT):
        exchanges = exchanges_of(found[line["id"]], listener)
        for _, ids, (_, answer) in exchanges:
            said = answer["choices"][0]["message"]
            if not said.get("tool_calls"):
                # vLLM keeps back the first bytes of a character that never comes.
                assert template.decode(ids).rstrip("\ufffd") == said["content"].rstrip("\ufffd")
            else:
                assert template.decode(ids).startswith('<tool_call>{"name": "echo"')
        later_prompts += len(exchanges) - 1
        breaks = []
        for number, ((prompt, ids, _), (later, _, _)) in enumerate(pairwise(exchanges), start=1):
            before = prompt + ids
            if later[: len(before)] != before:
                at = first_difference(before, later)
                breaks.append((number, at, len(before) - at))
        tokens = line["metadata"]["tokens"]
        assert tokens["exact"]
        assert [(drift["generation"], drift["at"], drift["lost"]) for drift in tokens["drift"]] == breaks
        causes.update(drift["cause"] for drift in tokens["drift"])
        kinds = {kind for segment in found[line["id"]].segments for kind in segment.kinds}
        assert {TokenKind.SAMPLED, TokenKind.SYSTEM, TokenKind.USER, TokenKind.GLUE} <= kinds
    counted = json.loads(Path("run/metrics.json").read_text())["tokens"]["data"]
    assert (counted["exact"], counted["inexact"]) == (8, 0)
    assert counted["drift"] == causes
    with capsys.disabled():
        what = "whatever it says" if agent else "calls and words"
        drifted = ", ".join(f"{cause} {count}" for cause, count in sorted(causes.items())) or "none"
        sys.stdout.write(f"\nvLLM, {served.name}, chat, {what}: {later_prompts} later prompts, drifted: {drifted}\n")
    assert set(causes) <= {"calls", "text"}
    if served.name == "tiny":
        assert causes["text" if agent else "calls"], "random weights spell otherwise than the tokenizer"


@only_tiny
async def test_calls_that_the_server_parsed_are_written_anew_and_drift(served: Served, listener: Listener) -> None:
    """Hermes' parser takes the call out of the text, and the template puts it back, spelt as the tokenizer spells."""
    agent = {"extra_body": ONLY_CALL}
    await roll_out(config(listener, served, agent=agent, max_turns=1, max_steps_per_turn=3))
    assert_records_are_the_servers(listener, views())
    for line in read_lines(OUT):
        assert line["metadata"]["tool_call_count"] >= 3
        assert line["metadata"]["tool_errors"] in ({}, None)
        assert {drift["cause"] for drift in line["metadata"]["tokens"]["drift"]} == {"calls"}


@only_tiny
async def test_calls_with_arguments_of_any_kind_do_not_end_a_run(served: Served, listener: Listener) -> None:
    """`tool_choice: required` lets random weights write arguments that are no object, and some answers are cut."""
    agent = {"tool_choice": "required", "extra_body": {}, "max_tokens": 120}
    await roll_out(config(listener, served, agent=agent, max_turns=1, max_steps_per_turn=3))
    lines = read_lines(OUT)
    assert [line["metadata"]["tokens"]["exact"] for line in lines] == [True, True]
    assert_records_are_the_servers(listener, views())


@pytest.mark.parametrize("agent", [{}, FREE], ids=["calls and words", "whatever it says"])
async def test_with_ids_given_only_what_is_new_is_encoded_and_nothing_drifts(
    served: Served, listener: Listener, agent: dict[str, Any]
) -> None:
    await roll_out(config(listener, served, token_in=True, agent=agent))
    found = views(served.folder)
    assert_records_are_the_servers(listener, found)
    assert {path for path, _, _ in listener.heard} == {"/v1/completions"}
    template = ChatTemplate.load(served.folder)
    for line in read_lines(OUT):
        assert line["metadata"]["tokens"] == {"exact": True, "drift": []}
        view = found[line["id"]]
        (segment,) = view.segments
        for (prompt, ids, _), (later, _, _) in pairwise(exchanges_of(view, listener)):
            assert later[: len(prompt) + len(ids)] == prompt + ids
        said = [template.decode(ids) for _, ids in requests_in(view)]
        kept = [generation.message for generation in generations_of(line["id"])]
        for text, message in zip(said, kept, strict=True):
            assert text == (message.raw if message.raw is not None else message.content or "")
        assert TokenKind.CONTEXT not in segment.kinds
        users = [message["content"] for message in line["messages"] if message["role"] == "user"]
        told = [token for token, kind in zip(segment.ids, segment.kinds, strict=True) if kind == TokenKind.USER]
        assert template.decode(told) == "".join(users)
        assert line["metadata"]["usage"]["agent"]["completion_tokens"] == sum(segment.loss_mask)
        assert line["metadata"]["usage"]["agent"]["prompt_tokens"] == sum(span.start for span in segment.spans)


async def test_the_server_and_we_write_a_conversation_alike(served: Served, listener: Listener) -> None:
    """The first prompt of a chat, which vLLM's template wrote, is the one that ours writes, tools and all."""
    await roll_out(config(listener, served, max_turns=1), Path("chat"))
    chats = {tuple(answer["prompt_token_ids"]) for _, asked, answer in listener.heard if len(asked["messages"]) == 2}
    listener.heard.clear()
    await roll_out(config(listener, served, token_in=True, max_turns=1), Path("ids"), resume=False)
    given = {tuple(asked["prompt"]) for _, asked, _ in listener.heard}
    assert len(chats) == 2
    assert chats <= given


def shared_requests(one: list[tuple[Ids, Ids]], other: list[tuple[Ids, Ids]]) -> int:
    return next(number for number, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs)


def tokens_at(trajectory: str, place: int) -> Tokens:
    tokens = generations_of(trajectory)[place].tokens
    assert tokens is not None
    return tokens


async def test_branches_inside_an_answer_go_on_from_its_tokens(served: Served, listener: Listener) -> None:
    strategy = {"name": "treerl", "params": {"trees": 2, "tokens": 2, "continuations": 2}}
    await roll_out(config(listener, served, token_in=True, agent=FREE, strategy=strategy))
    assert not listener.refused
    lines = {line["id"]: line for line in read_lines(OUT)}
    branched = [line for line in lines.values() if line["metadata"]["branch"]["reason"] == "surprisal"]
    assert len(lines) == 2 * 10
    assert len(branched) == 2 * 8
    sent = [(asked["prompt"], ids) for (_, asked, _), (_, ids) in zip(listener.heard, listener.told, strict=True)]
    found = views()
    for line in branched:
        assert line["metadata"]["tokens"] == {"exact": True, "drift": []}
        offset = line["metadata"]["branch"]["token_offset"]
        own = requests_in(found[line["id"]])
        # A branch inside a first answer starts before anything that it could share with a parent.
        named = line["metadata"]["branch"].get("parent")
        elders = [named] if named else [other for other in lines if lines[other]["task_id"] == line["task_id"]]
        place = 0 if named is None else shared_requests(own, requests_in(found[named]))
        mine = tokens_at(line["id"], place)
        begun = (mine.completion_ids[:offset], mine.logprobs[:offset])
        others = [tokens_at(elder, place) for elder in elders if elder != line["id"]]
        assert begun in [(tokens.completion_ids[:offset], tokens.logprobs[:offset]) for tokens in others]
        assert len(mine.completion_ids) == len(mine.logprobs) <= FREE["max_tokens"]
        prompt, ids = own[place]
        assert (prompt + ids[:offset], ids[offset:]) in sent, "the server was given the beginning and told the rest"


@pytest.mark.parametrize("token_in", [False, True], ids=["chat", "ids given"])
@pytest.mark.parametrize(
    "strategy",
    [
        {"name": "entropy_tree", "params": {"initial": 2, "expansions": 2, "rounds": 2}},
        {"name": "arpo", "params": {"n": 5, "initial": 2, "branch_probability": 0.9}},
    ],
    ids=["entropy_tree", "arpo"],
)
@only_tiny
async def test_trees_grow_by_the_servers_logprobs(
    served: Served, listener: Listener, strategy: dict[str, Any], token_in: bool
) -> None:
    await roll_out(config(listener, served, token_in=token_in, agent={"top_logprobs": 5}, strategy=strategy))
    assert not listener.refused
    reasons = Counter(line["metadata"]["branch"]["reason"] for line in read_lines(OUT))
    assert reasons["entropy"]
    assert not reasons["random"]
    found = views()
    assert {(tuple(prompt), tuple(ids)) for view in found.values() for prompt, ids in requests_in(view)} == {
        (tuple(prompt), tuple(ids)) for prompt, ids in listener.told
    }
    for trajectory, view in found.items():
        for (_, _, (_, answer)), generation in zip(
            exchanges_of(view, listener), generations_of(trajectory), strict=True
        ):
            known = reported_alternatives(answer)[:FIRST_TOKENS]
            assert all(len(entry) <= 6 for entry in known)
            entropies = [-sum(math.exp(value) * value for value in entry) for entry in known]
            assert generation.first_entropy == pytest.approx(sum(entropies) / len(entropies))


@pytest.mark.parametrize("token_in", [False, True], ids=["chat", "ids given"])
async def test_training_rows_are_the_ids_that_the_server_reported(
    served: Served, listener: Listener, token_in: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    await roll_out(config(listener, served, token_in=token_in, samples=2))
    heard = by_completion(listener)
    for form in ("per_step", "prefix_merge"):
        with pytest.raises(SystemExit) as ended:
            main(["train-data", "run", "-o", "data", "--form", form, "--advantage", "none", "--format", "jsonl"])
        assert ended.value.code == 0, capsys.readouterr().out
    steps = read_lines(Path("data/per_step.jsonl"))
    made = [(row["input_ids"][: row["prompt_length"]], row["input_ids"][row["prompt_length"] :]) for row in steps]
    assert sorted(made) == sorted(listener.told)
    for row, (prompt, ids) in zip(steps, made, strict=True):
        assert row["exact"]
        assert row["loss_mask"] == [0] * len(prompt) + [1] * len(ids)
        reported = reported_logprobs(heard[tuple(prompt), tuple(ids)][1])
        assert as_kept(row["logprobs"]) == [0.0] * len(prompt) + as_kept(reported)
    merged: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_lines(Path("data/prefix_merge.jsonl")):
        merged[row["trajectory_id"]].append(row)
    prompts_and_answers = {tuple(prompt + ids) for prompt, ids in listener.told}
    for line in read_lines(OUT):
        rows = merged[line["id"]]
        assert [row["begins"] for row in rows[1:]] == [drift["cause"] for drift in line["metadata"]["tokens"]["drift"]]
        assert all(tuple(row["input_ids"]) in prompts_and_answers for row in rows), "each ends where an answer does"
        assert sum(sum(row["loss_mask"]) for row in rows) == line["metadata"]["usage"]["agent"]["completion_tokens"]
        if token_in:
            assert len(rows) == 1


@only_tiny
@pytest.mark.parametrize("temperature", [1.0, 0.6])
async def test_logprobs_are_the_models_own_before_temperature(
    served: Served, listener: Listener, temperature: float
) -> None:
    torch = pytest.importorskip("torch")
    from transformers import LlamaForCausalLM

    await roll_out(config(listener, served, token_in=True, agent={**FREE, "temperature": temperature}))
    model = LlamaForCausalLM.from_pretrained(str(served.folder)).eval()
    for view in views().values():
        (segment,) = view.segments
        ids = torch.tensor([segment.ids.tolist()])
        with torch.no_grad():
            scores = torch.log_softmax(model(ids).logits[0], -1)
        for span in segment.spans:
            own = [float(scores[place - 1, segment.ids[place]]) for place in range(span.start, span.end)]
            assert segment.logprobs[span.start : span.end].tolist() == pytest.approx(own, abs=1e-3)


@only_tiny
@pytest.mark.parametrize("token_in", [False, True], ids=["chat", "ids given"])
async def test_a_full_context_ends_the_conversation_and_keeps_it(
    served: Served, listener: Listener, token_in: bool
) -> None:
    """The server has room for 2,048 tokens."""
    talk = {"user": {"kind": "scripted", "messages": ["and then? " * 120] * 9}, "max_turns": 10, "mode": "no_tool"}
    await roll_out(config(listener, served, token_in=token_in, agent=FREE, **talk))
    assert {status for status, _ in listener.refused} == {400}
    for line in read_lines(OUT):
        assert line["metadata"]["stop_reason"] == "context_length"
        assert line["metadata"]["tokens"]["exact"]
