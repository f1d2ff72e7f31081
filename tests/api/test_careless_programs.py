"""Programs that make mistakes, or do what is natural and hard to serve: attempts stay apart, errors have one line."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import rollout
from rollout.environments.environment import OpenWorlds
from rollout.trajectories.exports.exporter import JsonLinesExporter
from rollout.trajectories.labels import Example
from tests.api.shop import Cart, busy_shop, filled, order, seller, shop


class Ids(JsonLinesExporter):
    """An exporter of one's own."""

    def convert(self, example: Example) -> dict[str, Any]:
        return {"id": example.id}


def run(*args: Any, **more: Any) -> rollout.Run:
    return rollout.run(*args, **{"progress": False, **more})


async def sell_twice(request: rollout.Request) -> Any:
    answers = sum(message.role == "assistant" for message in request.messages)
    if answers < 2:
        return {"tool_calls": [{"function": {"name": "sell", "arguments": {"item": "mug"}}}]}
    return "Done."


class Stock(rollout.World):
    def __init__(self, task: rollout.Task) -> None:
        self.stock = task.info["stock"]

    @rollout.tool
    def sell(self, item: str) -> str:
        """Sell one."""
        self.stock[item] -= 1
        return f"{self.stock[item]} left"


@rollout.scorer
def left(world: Stock) -> float:
    return float(world.stock["mug"])


@pytest.mark.parametrize("how", [{"samples": 4}, {"strategy": "mcts"}, {"strategy": "random_tree"}])
def test_a_world_that_changes_its_tasks_data_shares_it_with_no_other(how: dict[str, Any]) -> None:
    task = rollout.Task("a", "Sell two mugs.", info={"stock": {"mug": 10}})
    result = run(rollout.Environment(tasks=[task], world=Stock, scorers=[left]), model=sell_twice, **how)
    assert {attempt.reward for attempt in result.trajectories} == {8.0}
    assert task.info == {"stock": {"mug": 10}}


def test_an_agent_that_changes_its_tasks_data_shares_it_with_no_other() -> None:
    async def counting(task: rollout.Task, session: rollout.Session) -> None:
        task.info["seen"] = task.info.get("seen", 0) + 1
        await session.say(f"seen {task.info['seen']}")

    result = run(shop, agent=counting, samples=3)
    assert {attempt.messages[-1].content for attempt in result.trajectories} == {"seen 1"}


def test_an_attempt_that_failed_at_its_first_request_has_its_opening() -> None:
    async def down(request: rollout.Request) -> str:
        raise ConnectionError("the server is down")

    (attempt,) = run(shop, model=down).trajectories
    assert [message.content for message in attempt.messages] == ["Two mugs and a lamp, please."]


CALL = {"id": "a", "function": {"name": "add", "arguments": "{}"}}


@pytest.mark.parametrize(
    "answer",
    [
        {"tool_calls": [{**CALL, "function": {"name": 3, "arguments": "{}"}}]},
        {"tool_calls": [{**CALL, "id": 3}]},
        {"tool_calls": [CALL, CALL]},
        rollout.Message(role="assistant", content=3),  # type: ignore[arg-type]
        rollout.Generation(rollout.Message(role="assistant", content="x"), finish_reason="banana"),  # type: ignore[arg-type]
        rollout.Generation(rollout.Message(role="assistant", content="x"), cost=float("nan")),
        rollout.Message(role="assistant", tool_calls=(rollout.ToolCall("a", "add", {"item": "x"}),)),  # type: ignore[arg-type]
    ],
)
def test_an_answer_of_wrong_types_fails_its_attempt_and_damages_nothing(answer: Any) -> None:
    async def model(request: rollout.Request) -> Any:
        return answer if request.messages[0].content == "Bad." else "Done."

    tasks = [rollout.Task("bad", "Bad."), rollout.Task("good", "Good.")]
    result = run(rollout.Environment(tasks=tasks, world=Cart), model=model)
    statuses = {attempt.task_id: (attempt.status, len(attempt.messages)) for attempt in result.trajectories}
    assert statuses == {"bad": ("failed", 1), "good": ("completed", 2)}


def test_words_that_are_no_text_fail_the_agents_attempt_alone() -> None:
    async def odd(task: rollout.Task, session: rollout.Session) -> None:
        await session.say(3 if task.id == "t1" else "Hello.")  # type: ignore[arg-type]

    result = run(rollout.Environment(tasks=[order("t1"), order("t2")], world=Cart), agent=odd)
    assert {attempt.id: attempt.status for attempt in result.trajectories} == {"t1": "failed", "t2": "completed"}


def test_a_whole_completion_is_an_answer() -> None:
    async def model(request: rollout.Request) -> Any:
        return {"choices": [{"message": {"role": "assistant", "content": "Whole."}}]}

    assert run(shop, model=model).trajectories[0].messages[-1].content == "Whole."


class Notes(rollout.World):
    call_timeout = 0.5

    @rollout.tool
    def read(self, path: str) -> str:
        """Read a file."""
        return (self.workdir / path).read_text()

    @rollout.tool
    async def wait(self) -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "late"


def test_results_name_the_worlds_folder_alike_in_every_attempt() -> None:
    async def reading(task: rollout.Task, session: rollout.Session) -> None:
        await session.call("read", path="missing.txt")

    result = run(rollout.Environment(tasks=["Read."], world=Notes), agent=reading, samples=3)
    (said,) = {attempt.messages[-1].content for attempt in result.trajectories}
    assert "/workdir/missing.txt" in (said or "")


def test_the_time_limit_of_a_world_holds_for_its_tools() -> None:
    async def waiting(task: rollout.Task, session: rollout.Session) -> None:
        await session.call("wait")

    (attempt,) = run(rollout.Environment(tasks=["Wait."], world=Notes), agent=waiting).trajectories
    assert dict(attempt.tool_errors) == {"timeout": 1}


class Item(BaseModel):
    name: str
    count: int = 1


def test_a_tool_may_return_pydantic_models() -> None:
    class Shelf(rollout.World):
        @rollout.tool
        def items(self) -> list[Item]:
            """All items."""
            return [Item(name="mug")]

    async def looking(task: rollout.Task, session: rollout.Session) -> None:
        (result,) = await session.call("items")
        assert result.content == '[{"name":"mug","count":1}]'

    assert run(rollout.Environment(tasks=["Look."], world=Shelf), agent=looking).failed == 0


@pytest.mark.parametrize("strategy", ["mcts", "random_tree"])
def test_calls_of_the_agents_own_at_once_are_recorded_in_order(strategy: str) -> None:
    async def eager(task: rollout.Task, session: rollout.Session) -> None:
        await asyncio.gather(*(session.call("add", item=f"item {number}") for number in range(4)))
        for _ in range(3):
            await session.generate("Go on.")

    async def chatty(request: rollout.Request) -> str:
        return f"Answer {request.seed}."

    result = run(shop, agent=eager, model=chatty, strategy=strategy)
    for attempt in result.trajectories:
        assert [message.content for message in attempt.messages if message.role == "tool"] == [
            f"1 × item {number}" for number in range(4)
        ]
    assert any(attempt.branch and attempt.branch.parent for attempt in result.trajectories)


def test_questions_aside_count_as_answers_of_the_agent() -> None:
    async def doubtful(task: rollout.Task, session: rollout.Session) -> None:
        while (await session.generate([{"role": "user", "content": "Sure?"}])).content != "yes":
            pass

    async def no(request: rollout.Request) -> str:
        return "no"

    (attempt,) = run(shop, agent=doubtful, model=no, max_steps_per_turn=5).trajectories
    assert attempt.stop_reason == "max_steps"


def test_a_score_that_is_no_number_leaves_the_attempt_unscored() -> None:
    @rollout.scorer
    def odd(task: rollout.Task) -> float:
        return float("inf")

    (attempt,) = run(rollout.Environment(tasks=["Hello"], scorers=[odd]), model=seller).trajectories
    assert (attempt.scored, attempt.reward) == (False, None)


def test_a_task_may_be_written_with_dicts_and_a_number_for_its_id() -> None:
    task = rollout.Task(
        7,  # type: ignore[arg-type]
        [{"role": "user", "content": "Two mugs."}],  # type: ignore[list-item]
        info={"want": {"mug": 2}},
        actions=[{"name": "add", "arguments": {"item": "mug"}}],  # type: ignore[list-item]
    )
    result = run(rollout.Environment(tasks=[task], world=Cart, scorers=[filled]), model="builtin/oracle")
    assert (result.trajectories.ids, result.solved) == (["7"], 1)


class Loose(rollout.World):
    @rollout.tool
    def take(self, *items: str) -> str:
        """Take anything."""
        return "taken"


class Held(rollout.World):
    @rollout.tool
    def take(self, lock: threading.Thread) -> str:
        """Take what no model can name."""
        return "taken"


async def two_things(request: rollout.Request, more: str) -> str:
    return more


class Untyped(rollout.World):
    @rollout.tool
    def take(self, item, count=1):  # type: ignore[no-untyped-def]
        """Take something."""
        return f"{count} {item}"


def test_parameters_without_types_take_anything() -> None:
    async def taking(task: rollout.Task, session: rollout.Session) -> None:
        (result,) = await session.call("take", item=["mug"])
        assert result.content == "1 ['mug']"

    assert run(make(world=Untyped), agent=taking).failed == 0


def make(**parts: Any) -> rollout.Environment:
    return rollout.Environment(**{"tasks": ["Hello"], "world": Cart, **parts})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: rollout.Task("a", "x", info=[1]), "task 'a': info: expected a dict"),  # type: ignore[arg-type]
        (lambda: rollout.Task("a", "x", user_turns="hello"), "task 'a': user_turns: expected a list"),
        (lambda: rollout.Task("a", [{"foo": 1}]), "task 'a': messages"),  # type: ignore[list-item]
        (lambda: rollout.Task("a", "x", max_steps="x"), "task 'a': max_steps"),  # type: ignore[arg-type]
        (lambda: make(tasks=3), "tasks: expected a list"),
        (lambda: make(tasks=None), "tasks: expected a list"),
        (lambda: make(tasks={"a": 1}), "tasks: expected a list"),
        (lambda: make(tasks=[]), "tasks: there are none"),
        (lambda: make(scorers=filled), "scorers: expected a list"),
        (lambda: make(scorers=[lambda: 1, lambda: 2]), "scorers: several are called <lambda>; give them names"),
        (lambda: make(max_turns=0), "max_turns: expected a number"),
        (lambda: make(system=3), "system: expected the text"),
        (lambda: run(shop, model=seller, config=[1]), "config: expected a dict"),
        (lambda: run(shop, model=seller, run_dir=3), "run_dir: expected the path"),
        (lambda: run(shop, model=seller, run_dir=""), "run_dir: expected the path"),
        (lambda: run(shop, model=seller, resume="yes"), "resume: expected True or False"),
        (lambda: run(shop, model=seller, strategy=5), "is no strategy"),
        (lambda: run(shop, model=seller, agent=Stock), "the agent cannot be made"),
        (lambda: run(make(world=Loose), model=seller), "name each parameter"),
        (lambda: run(shop, model=seller, config={"datasets": {}}), "config: datasets"),
        (lambda: run(3, model=seller), "expected a rollout.Environment, or module:Name, got 3"),
        (lambda: run(shop, model=two_things), r"two_things': cannot be called with \(request\): missing .*'more'"),
        (lambda: run(shop, agent=seller), r"seller: cannot be called with \(task, session\): too many"),
        (lambda: run(make(world=Held), model=seller), "tool take: its parameters have no JSON schema"),
        (lambda: rollout.stream(shop, model=seller, ahead=0), "ahead: expected a number of groups, at least 1, got 0"),
        (lambda: rollout.export([1], path="x.jsonl"), "expected rollout.Trajectory"),  # type: ignore[list-item]
        (lambda: rollout.export([], path="."), "is a folder"),
    ],
)
def test_wrong_arguments_are_named_in_one_line(wrong: Any, said: str) -> None:
    with pytest.raises(rollout.ConfigError, match=said) as raised:
        wrong()
    assert "\n" not in str(raised.value)


def test_a_file_without_one_good_task_says_what_is_wrong_with_its_first_line() -> None:
    Path("tasks.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
    with pytest.raises(rollout.ConfigError, match=r"2 lines cannot be read \(tasks.jsonl:1: .*'messages' is missing"):
        run(make(tasks="tasks.jsonl"), model=seller)


@pytest.mark.parametrize("mistake", [{"sampels": 2}, {"max_turns": 3}], ids=["in the keys", "in the wiring"])
def test_a_call_that_is_refused_leaves_no_folder(
    mistake: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with pytest.raises(rollout.ConfigError):
        run(shop, model=seller, **mistake)
    assert not list((tmp_path / "temporary").iterdir())


def test_what_is_not_in_a_run_is_a_missing_key() -> None:
    result = run(shop, model=seller)
    with pytest.raises(KeyError, match="no attempt 'nobody'"):
        result.read_trajectory("Cart", "nobody")
    with pytest.raises(KeyError, match="there is no dataset 'nope'; there are Cart"):
        result.tree("t1", dataset="nope")


def test_a_stream_takes_what_a_run_takes() -> None:
    with rollout.stream(shop, model=seller, progress=True, samples=2) as groups:
        assert [len(group.rewards) for group in groups] == [2]


def test_an_agent_that_always_fails_shows_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(task: rollout.Task, session: rollout.Session) -> None:
        raise ValueError("not written yet")

    assert rollout.run(busy_shop, agent=broken, progress=False).failed == 6
    assert sum(record.exc_info is not None for record in caplog.records if record.levelname == "WARNING") == 1


def test_an_agent_that_exits_fails_its_attempt_and_not_the_program() -> None:
    async def leaving(task: rollout.Task, session: rollout.Session) -> None:
        sys.exit("usage: …")

    (attempt,) = run(shop, agent=leaving).trajectories
    assert attempt.error is not None
    assert attempt.error.text == "the agent failed: SystemExit: usage: …"


def test_a_stream_is_used_once() -> None:
    groups = rollout.stream(shop, model=seller)
    with groups:
        assert len(list(groups)) == 1
    with pytest.raises(RuntimeError, match="used once"), groups:
        pass


def test_a_whole_run_may_be_exported() -> None:
    assert rollout.export(run(shop, model=seller, samples=2), path="all.jsonl") == 2
    assert Path("all.jsonl").exists()


def test_an_agent_that_cancels_its_own_task_fails_and_is_accounted_for() -> None:
    async def quitter(task: rollout.Task, session: rollout.Session) -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await session.generate()

    result = rollout.run(busy_shop, model=seller, agent=quitter, progress=False)
    assert (result.finished, result.failed) == (0, 6)
    error = result.trajectories[0].error
    assert error is not None
    assert "CancelledError" in error.text


def test_leaving_a_stream_early_does_not_wait_for_a_model_that_swallows_its_cancellation() -> None:
    is_over = threading.Event()
    asked = 0

    async def deaf(request: rollout.Request) -> str:
        nonlocal asked
        asked += 1
        if asked > 1:
            while not is_over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.05)
        return "Done."

    try:
        with rollout.stream(busy_shop, model=deaf, config={"timeouts": {"grace": 0}}) as groups:
            for group in groups:
                assert group.trajectories[0].messages[-1].content == "Done."
                break
    finally:
        is_over.set()


class Stocked(rollout.World):
    """A world that is not made from the task alone."""

    def __init__(self, stock: int) -> None:
        self.stock = stock

    @rollout.tool
    def add(self, item: str) -> str:
        """Put an item into the cart."""
        self.stock -= 1
        return f"{self.stock} left"


@pytest.mark.parametrize("strategy", ["chain", "mcts"])
def test_a_function_may_make_worlds_with_arguments_of_its_own(strategy: str) -> None:
    stocked = rollout.Environment(tasks=[order("t1")], world=lambda: Stocked(8))
    for attempt in run(stocked, model=seller, strategy=strategy).trajectories:
        assert [one.content for one in attempt.messages if one.role == "tool"] == ["7 left", "6 left"]


def test_a_world_that_asks_for_what_nobody_gives_is_refused_before_the_run() -> None:
    with pytest.raises(rollout.ConfigError, match=r"Stocked\.__init__ asks for stock; it may ask for task and seed"):
        run(rollout.Environment(tasks=[order("t1")], world=Stocked), model=seller)


def test_an_environment_of_an_imported_module_is_known_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("market.py").write_text("import rollout\nstall = rollout.Environment(tasks=['Hello?'], name='stall')\n")
    monkeypatch.syspath_prepend(tmp_path)
    market = importlib.import_module("market")
    result = run(market.stall, model=seller)
    assert result.config["datasets"]["stall"]["environment"] == "market:stall"


class Deaf(rollout.World):
    """Its tool swallows every cancellation."""

    call_timeout = 0.1

    @rollout.tool
    async def listen(self) -> str:
        """Listen."""
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)


deaf = rollout.Environment(tasks=[rollout.Task("t1", "Hello?", actions=[rollout.call("listen")])], world=Deaf)


def test_a_run_ends_although_a_tool_swallows_its_cancellation() -> None:
    (attempt,) = run(deaf, model="builtin/oracle").trajectories
    assert set(attempt.error_kinds.values()) == {"timeout"}


def test_a_command_ends_although_a_tool_swallows_its_cancellation() -> None:
    dataset = {"environment": f"{__name__}:deaf", "agent": "builtin/oracle", "output_path": "out.jsonl"}
    Path("deaf.yml").write_text(json.dumps({"datasets": {"deaf": dataset}}))
    command = [sys.executable, "-c", "from rollout.cli import main; main()", "run", "deaf.yml"]
    here = Path(__file__)
    places = {"PYTHONPATH": f"{here.parent}{os.pathsep}{here.parents[2]}"}
    done = subprocess.run(command, env={**os.environ, **places}, timeout=120, check=False)
    assert done.returncode == 0
    assert rollout.load_run("runs/deaf").finished == 1


def test_calls_without_an_id_get_one_that_the_conversation_does_not_have_yet() -> None:
    async def nameless(request: rollout.Request) -> Any:
        if len(request.messages) > 5:
            return "Done."
        call = {"function": {"name": "add", "arguments": {"item": "mug"}}}
        return {"tool_calls": [call, call]}

    (attempt,) = run(shop, model=nameless, config={"enable_monitor": False}).trajectories
    ids = [call.id for message in attempt.messages for call in message.tool_calls]
    assert len(ids) == len(set(ids)) > 2


def test_trajectories_are_equal_by_value_and_can_be_pickled() -> None:
    result = rollout.run(busy_shop, model=seller, samples=2, progress=False)
    first, second = result.trajectories[0], result.trajectories[1]
    again = rollout.load_run(result.path).trajectories[0]
    assert first == again
    assert len({first, again, second}) == 2
    copied = pickle.loads(pickle.dumps(first))
    shutil.rmtree(result.path)
    assert copied == first
    assert (copied.system, copied.tools, copied.scores) == (first.system, first.tools, first.scores)
    assert copied.messages[-1].content == "Done."


def test_a_score_under_another_name_is_still_that_of_its_scorer() -> None:
    @rollout.scorer
    def half(world: Cart) -> rollout.Score:
        return rollout.Score("something else", 0.5)

    carts = rollout.Environment(tasks=[order("t1")], world=Cart, scorers=[half])
    (trajectory,) = run(carts, model=seller).trajectories
    assert ([score.name for score in trajectory.scores], trajectory.reward) == (["half"], 0.5)


def test_a_stream_that_was_read_to_its_end_has_nothing_more() -> None:
    with rollout.stream(shop, model=seller) as groups:
        assert len(list(groups)) == 1
        assert list(groups) == []
    with pytest.raises(RuntimeError, match="inside of its block"):
        list(groups)


@pytest.mark.parametrize("is_object", [False, True])
def test_a_model_that_speaks_as_somebody_else_is_asked_once(is_object: bool) -> None:
    asked = 0

    async def impostor(request: rollout.Request) -> rollout.Generation:
        nonlocal asked
        asked += 1
        return rollout.Generation(rollout.Message(role="user", content="Hello."))

    class Impostor:
        name = "impostor"
        capabilities: frozenset[rollout.Capability] = frozenset()

        async def generate(self, request: rollout.Request) -> rollout.Generation:
            return await impostor(request)

        async def close(self) -> None:
            pass

    result = run(shop, model=Impostor() if is_object else impostor)
    assert (asked, result.failed) == (1, 1)


def test_an_environment_takes_a_reward_and_a_user_as_objects() -> None:
    async def content(request: rollout.Request) -> str:
        return "###STOP###"

    carts = rollout.Environment(
        tasks=[order("t1")], world=Cart, scorers=[filled], reward=lambda trajectory: trajectory.turns / 8, user=content
    )
    (trajectory,) = run(carts, model=seller).trajectories
    assert (trajectory.reward, trajectory.stop_reason) == (trajectory.turns / 8, "user_stop")


def test_a_strategy_takes_its_value_as_an_object() -> None:
    valued = 0

    def value(trajectory: rollout.Trajectory) -> float:
        nonlocal valued
        valued += 1
        return 0.5

    run(shop, model=seller, strategy={"name": "mcts", "params": {"simulations": 4, "value": value}})
    assert valued > 0


def test_arguments_of_a_call_are_given_by_name() -> None:
    async def hasty(task: rollout.Task, session: rollout.Session) -> None:
        await session.call("add", "lamp")

    (trajectory,) = run(shop, model=seller, agent=hasty).trajectories
    assert trajectory.error is not None
    assert "give its arguments by name" in trajectory.error.text


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"mcp_domain": "HotelReservations", "environment_params": {"a": 1}}, "environment_params: there is no envir"),
        ({"mcp_domain": "HotelReservations", "suite_params": {"a": 1}}, "suite_params: there is no suite"),
    ],
)
def test_parameters_that_nothing_takes_are_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(rollout.ConfigError, match=said):
        run(None, model=seller, **keys)


def test_tools_that_could_not_be_called_are_refused_when_they_are_defined() -> None:
    with pytest.raises(TypeError, match="is no name of a tool"):
        rollout.tool(name="a b/c")
    with pytest.raises(TypeError, match="directly above the def"):
        rollout.tool(5)  # type: ignore[call-overload]

    class Positional(rollout.World):
        @rollout.tool
        def add(self, item: str, /) -> str:
            """Add."""
            return item

    with pytest.raises((TypeError, rollout.ConfigError), match="leave out the /"):
        run(rollout.Environment(tasks=["go"], world=Positional), model=seller)


def test_an_export_takes_an_exporter_and_any_fields() -> None:
    result = run(shop, model=seller)
    assert rollout.export(result, format=Ids, path="ids.jsonl") == 1
    assert Path("ids.jsonl").read_text() == '{"id":"t1"}\n'
    assert rollout.export(result, format="parquet", path="rows.parquet", fields={"round": 3, "tags": ["a"]}) == 1
    datasets = pytest.importorskip("datasets")
    (row,) = datasets.load_dataset("parquet", data_files="rows.parquet", cache_dir="cache")["train"]
    assert (row["round"], row["tags"]) == (3, ["a"])


def test_a_mistake_in_a_call_has_a_traceback_that_ends_at_the_call(tmp_path: Path) -> None:
    run(shop, model="builtin/oracle", run_dir=tmp_path / "run")
    for mistake in ({"sampels": 4}, {"run_dir": tmp_path / "run", "model": "openai/gpt-5"}):
        with pytest.raises(rollout.RolloutError) as raised:
            run(shop, **{"model": "builtin/oracle", **mistake})
        places = [Path(frame.path).parent.name for frame in raised.traceback]
        assert places[-2:] == ["api", "api"], places
        assert len(places) <= 3, places


def raises_at(*calls: int) -> Callable[[], rollout.World]:
    """A function that makes worlds, and raises at these calls. The first is made when the run starts."""
    numbers = itertools.count(1)

    def make() -> rollout.World:
        if next(numbers) in calls:
            raise ConnectionError("the database is down")
        return Cart()

    return make


def test_a_world_that_cannot_be_made_fails_its_attempt_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    sold = rollout.Environment(tasks=[order("t1"), order("t2")], world=raises_at(2), scorers=[filled])
    result = run(sold, model=seller, run_dir="run", config={"max_workers": 1})
    done, failed = result.trajectories
    assert (done.id, done.status) == ("t2", "completed")
    assert (failed.id, failed.status, failed.reward) == ("t1", "failed", None)
    assert failed.error is not None
    assert failed.error.kind == "world"
    assert failed.error.text == "the world cannot be made: ConnectionError: the database is down"
    assert "Traceback" not in caplog.text
    again = run(sold, model=seller, run_dir="run", config={"max_workers": 1})
    assert [attempt.status for attempt in again.trajectories] == ["completed", "completed"]


def test_a_run_whose_worlds_cannot_be_made_pauses() -> None:
    tasks = [order(f"t{number}") for number in range(40)]
    sold = rollout.Environment(tasks=tasks, world=raises_at(*range(2, 100)))
    result = run(sold, model=seller, run_dir="run", config={"max_workers": 1})
    assert result.failed == 20, "the first 20 all failed: nothing works"


def test_a_world_that_is_never_made_is_refused_before_the_run() -> None:
    sold = rollout.Environment(tasks=[order("t1")], world=raises_at(1), name="sold")
    with pytest.raises(rollout.ConfigError, match=r"'sold': world: ConnectionError: the database is down"):
        run(sold, model=seller)


def test_an_environment_that_cannot_make_one_world_fails_that_attempt_alone() -> None:
    class Picky(OpenWorlds):
        def make_world(self, task: rollout.Task) -> rollout.World:
            if task.id == "t1":
                raise LookupError("no such floor")
            return super().make_world(task)

    class Building(rollout.Environment):
        def open(self, resources: Any, **how: Any) -> Any:
            return contextlib.nullcontext(Picky(Cart, (), 60.0))

    result = run(Building(tasks=[order("t1"), order("t2")]), model=seller)
    assert [(attempt.id, attempt.status) for attempt in result.trajectories] == [("t2", "completed"), ("t1", "failed")]
    assert result.trajectories[1].error is not None
    assert result.trajectories[1].error.text == "the world cannot be made: LookupError: no such floor"
