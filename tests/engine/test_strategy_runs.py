"""Strategies in real runs: on resume, within budgets, with temperatures, with a tail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.config.exploring import Budget
from rollout.core.errors import ConfigError
from rollout.pipelines.compare import read_figures
from rollout.store.reading.reader import open_reader
from rollout.strategies.strategy import Expansion
from rollout.testing import StubServer
from rollout.trajectories.line import comparable
from rollout.trajectories.tree import RolloutTree
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
ERRS = {"model": "builtin/oracle", "params": {"wrong_argument": 0.2, "stop_early": 0.2}}


def config(strategy: dict[str, Any], limit: int = 4, **changes: Any) -> dict[str, Any]:
    portal = {
        "mcp_domain": "StudentAcademicPortal",
        "output_path": OUT,
        "agent": ERRS,
        "user": "builtin/user",
        "max_turns": 20,
        "max_steps_per_turn": 15,
        "limit": limit,
        "strategy": strategy,
    }
    return {"seed": 3, "mock_servers": {"isolation": "none"}, "datasets": {"portal": portal}, **changes}


def lines() -> dict[str, dict[str, Any]]:
    return {line["id"]: comparable(line) for line in read_lines(OUT)}


def metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("run/metrics.json").read_text())["total"]
    return found


MCTS = {"name": "mcts", "params": {"simulations": 9, "parallel": 3}}
ENTROPY = {"name": "entropy_tree", "params": {"initial": 3, "expansions": 2, "rounds": 3}}
BUDGET = {"name": "arpo", "params": {"n": 30, "initial": 2}, "budget": {"generations": 30}}


@pytest.mark.parametrize("strategy", [MCTS, ENTROPY, BUDGET], ids=["mcts", "entropy_tree", "arpo with a budget"])
@pytest.mark.parametrize("after", [7, 45])
async def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(strategy: dict[str, Any], after: int) -> None:
    await roll_out(config(strategy), Path("whole"))
    whole = lines()
    OUT.unlink()
    for step in (after, after + 20):
        await roll_out(config(strategy), pause_when=lambda progress, step=step: progress.generations >= step)
    await roll_out(config(strategy))
    assert lines() == whole
    assert metrics()["unfinished"] == 0


async def test_branches_follow_the_logprobs_that_a_server_gives_also_after_a_stop(stub: StubServer) -> None:
    path = write_tasks(Path("tasks.jsonl"), "one", "two")
    strategy = {"name": "entropy_tree", "params": {"initial": 2, "expansions": 2, "rounds": 2}}
    given = stub_config(stub.url, path, strategy=strategy)
    await roll_out(given, Path("whole"))
    whole = lines()
    reasons = [line["metadata"]["branch"]["reason"] for line in whole.values()]
    assert sorted(set(reasons)) == ["entropy", "init"]
    assert all(request["logprobs"] for request in stub.requests), "nobody has to ask for them"
    OUT.unlink()
    await roll_out(given, pause_when=lambda progress: progress.generations >= 13)
    await roll_out(given)
    assert lines() == whole


async def test_alternatives_are_asked_for_together_with_logprobs(stub: StubServer) -> None:
    """A server refuses the one without the other."""
    path = write_tasks(Path("tasks.jsonl"), "one", "two")
    agent = {"model": "agent", "top_logprobs": 5}
    await roll_out(stub_config(stub.url, path, agent=agent, user={"kind": "scripted", "messages": ["more"]}))
    assert len(read_lines(OUT)) == 2
    assert all(request["logprobs"] and request["top_logprobs"] == 5 for request in stub.requests)


async def test_arpo_branches_by_the_entropies_of_the_alternatives(stub: StubServer) -> None:
    strategy = {"name": "arpo", "params": {"n": 6, "initial": 2, "branch_probability": 0.9}}
    path = write_tasks(Path("tasks.jsonl"), "one", "two")
    agent = {"model": "agent", "top_logprobs": 5}
    await roll_out(stub_config(stub.url, path, agent=agent, strategy=strategy))
    assert {line["metadata"]["branch"]["reason"] for line in read_lines(OUT)} == {"init", "entropy"}
    with open_reader(Path("run")) as reader:
        path_nodes = reader.whole_path("data", "task0")
    tokens = [body.generation.tokens for body in path_nodes if body.generation is not None]
    assert all(entry is not None and len(entry.entropies) == min(20, len(entry.logprobs)) for entry in tokens)


async def test_a_budget_holds_for_each_task_and_what_was_not_asked_for_is_not_needed() -> None:
    strategy = {"name": "random_tree", "params": {"rounds": 50}, "budget": {"generations": 20}}
    opened = await roll_out(config(strategy))
    by_task: dict[str, int] = {}
    with open_reader(Path("run")) as reader:
        attempts = reader.counted_attempts("portal")
    for task, made in attempts.items():
        by_task[task] = sum(attempt.generations for attempt in made)
        assert sum(attempt.generations for attempt in made[: len(made) // 2]) < 20
    assert all(20 <= used < 50 for used in by_task.values()), by_task
    total = metrics()
    assert total["planned"] == 4 * 20, "no task can have more attempts than generations"
    assert total["not_needed"] == total["planned"] - total["finished"] > 0
    assert total["unfinished"] == 0
    assert opened.engine.progress.finished == opened.engine.progress.total
    again = await roll_out(config(strategy))
    assert again.engine.progress.finished == again.engine.progress.total == total["finished"]


async def test_a_group_with_both_outcomes_is_enough() -> None:
    strategy = {"name": "chain", "params": {"n": 12}, "stop_when_mixed": True}
    await roll_out(config(strategy, limit=8))
    with open_reader(Path("run")) as reader:
        groups = reader.groups_by_task("portal")
    assert any(group.is_mixed and group.attempts < 12 for group in groups.values())
    assert all(group.is_mixed or group.attempts == 12 for group in groups.values())


async def test_each_attempt_is_sampled_at_its_own_temperature(stub: StubServer) -> None:
    path = write_tasks(Path("tasks.jsonl"), "one")
    strategy = {"name": "chain", "params": {"n": 3, "temperature": [0.1, 1.0]}}
    await roll_out(stub_config(stub.url, path, strategy=strategy))
    branches = {id: line["metadata"]["branch"] for id, line in lines().items()}
    assert branches["task0"] == {"number": 0, "reason": "init", "temperature": 0.1}
    assert [branches[id]["temperature"] for id in ("task0~1", "task0~2")] == [1.0, 0.1]
    sent = [request["temperature"] for request in stub.requests]
    assert (sent.count(0.1), sent.count(1.0)) == (8, 4), "an attempt has four answers"


async def test_treerl_is_refused_where_the_model_takes_no_tokens_in() -> None:
    with pytest.raises(ConfigError, match=r"datasets.portal.strategy: treerl branches inside a generation"):
        await roll_out(config({"name": "treerl"}))


async def test_a_search_needs_a_journal_with_all_nodes() -> None:
    with pytest.raises(ConfigError, match=r"mcts decides by what earlier attempts did.*use_checkpoints: true"):
        await roll_out(config(MCTS, use_checkpoints=False))


async def test_wrong_parameters_are_told_with_the_dataset() -> None:
    with pytest.raises(ConfigError, match=r"datasets.portal.strategy mcts: params.widht: .*did you mean 'width'"):
        await roll_out(config({"name": "mcts", "params": {"widht": 3}}))


async def test_a_failed_attempt_of_a_tree_is_tried_again_by_resume() -> None:
    path = write_tasks(Path("tasks.jsonl"), "one")
    strategy = {"name": "random_tree", "params": {"trees": 2, "expansions": 1, "rounds": 1}}
    async with StubServer({"faults": [{"kind": "error500", "rate": 1.0, "times": "always"}]}) as broken:
        given = stub_config(broken.url, path, strategy=strategy)
        opened = await roll_out(given)
        assert opened.summary is not None
        assert opened.summary.total.failed == 4
    async with StubServer() as mended:
        given["models"]["agent"]["api_base"] = mended.url
        opened = await roll_out(given)
    assert opened.summary is not None
    assert (opened.summary.total.failed, opened.summary.total.finished) == (0, 4)


async def test_after_the_tail_was_cut_no_search_begins_anything_new() -> None:
    rules = [
        {
            "when": {"contains": "stuck", "step": 0},
            "reply": {"tool_calls": [{"name": "slow", "arguments": {"text": "x"}}]},
        },
        {"reply": {"content": "All done."}},
    ]
    path = write_tasks(Path("tasks.jsonl"), *["quick"] * 9, "stuck")
    async with StubServer({"rules": rules}) as stub:
        strategy = {"name": "mcts", "params": {"simulations": 4, "parallel": 2}}
        given = stub_config(stub.url, path, tools=["tests.tools:slow"], strategy=strategy)
        opened = await roll_out({**given, "timeouts": {"tool": 3600}, "tail": {"threshold": 0.9, "grace": 0}})
    assert opened.summary is not None
    total = opened.summary.total
    assert total.statuses == {"completed": 36, "cut": 2}
    assert (total.not_needed, total.unfinished) == (2, 0)


async def test_figures_count_attempts_while_the_budget_lasts() -> None:
    await roll_out(config({"name": "chain", "params": {"n": 6}}))
    with open_reader(Path("run")) as reader:
        whole = read_figures({"run": reader}, ["portal"], Budget())["run"]
        some = read_figures({"run": reader}, ["portal"], Budget(generations=12))["run"]
        made = reader.counted_attempts("portal")
    assert (whole.tasks, whole.attempts, whole.over) == (4, 24, 0)
    assert whole.generations == metrics()["generations"]
    assert whole.solved == sum(any(attempt.success for attempt in each) for each in made.values())
    assert some.attempts + some.over == 24
    assert 0 < some.generations <= 4 * 12
    assert some.outcomes <= some.attempts


class Twice:
    """Two attempts, then a look at them. One task's tree is too much for it."""

    has_rounds = True
    branches = False
    needs: frozenset[Any] = frozenset()
    most = 2

    def __init__(self, at: str = "after", answer: str = "raise") -> None:
        self.at, self.answer = at, answer

    def begin(self, tree: RolloutTree) -> Any:
        return self._odd(tree, "begin") or [Expansion(tree.trunk, 2, "init")]

    def after(self, tree: RolloutTree) -> Any:
        return self._odd(tree, "after") or []

    def _odd(self, tree: RolloutTree, at: str) -> Any:
        if tree.task_id != "task1" or at != self.at:
            return None
        if self.answer == "raise":
            raise ZeroDivisionError("no attempt worked")
        return 3 if self.answer == "number" else ["task1"]


@pytest.mark.parametrize("at", ["begin", "after"])
@pytest.mark.parametrize(
    ("answer", "cause"), [("raise", "no attempt worked"), ("number", "int"), ("text", "Expansion")]
)
@pytest.mark.parametrize("workers", [1, 8])
async def test_a_strategy_that_fails_for_one_task_costs_that_task_alone(
    stub: StubServer, caplog: pytest.LogCaptureFixture, at: str, answer: str, cause: str, workers: int
) -> None:
    path = write_tasks(Path("tasks.jsonl"), "one", "two", "three")
    params = {"at": at, "answer": answer}
    strategy = {"name": f"{__name__}:Twice", "params": params}
    given = {**stub_config(stub.url, path, strategy=strategy), "max_workers": workers}
    done = {"task0", "task0~1", "task2", "task2~1"}
    tried = {"task1", "task1~1"} if at == "after" else set()
    for _ in range(2):
        caplog.clear()
        opened = await roll_out(given)
        assert opened.summary is not None
        assert opened.engine.control.reason is None
        assert set(lines()) == done | tried
        (said,) = [record for record in caplog.records if "strategy failed" in record.message]
        assert "task1" in said.message
        assert cause in said.message
    assert stub.stats.requests == sum(line["metadata"]["generations"] for line in lines().values())
