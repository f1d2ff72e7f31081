"""`rollout.run`, `arun`, `stream`, `load_run` and `export`, as a program uses them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.testing.server import StubServer
from rollout.trajectories.line import comparable
from tests.api.shop import Cart, busy_shop, order, seller, shop
from tests.conftest import Command, read_lines, write_yaml

REPOSITORY = Path(__file__).parents[2]
ERRING = {"model": "builtin/oracle", "params": {"wrong_argument": 0.3, "stop_early": 0.3}}


def run(*args: Any, **more: Any) -> rollout.Run:
    return rollout.run(*args, **{"model": "builtin/oracle", "progress": False, **more})


# ---- running ---------------------------------------------------------------------------------------------------


def test_a_run_has_its_figures_and_its_trajectories() -> None:
    result = run(shop, samples=4, run_dir="runs/shop")
    assert (result.solved, result.mean_reward, result.failed, len(result.trajectories)) == (4, 1.0, 0, 4)
    first = result.trajectories[0]
    assert first.messages[-1].content == "Done. Tell me if you need anything else."
    assert first.system == "You run a small shop."
    assert first.tools[0]["function"]["name"] == "add"
    assert [score.name for score in first.scores] == ["filled"]
    assert read_lines(Path("runs/shop/outputs/Cart.jsonl"))[0]["id"] == first.id


def test_without_a_folder_nothing_is_written_here() -> None:
    result = run(shop)
    assert list(Path().iterdir()) == []
    assert result.path.is_dir()


def test_the_same_call_again_pays_for_nothing() -> None:
    asked = 0

    async def counted(request: rollout.Request) -> Any:
        nonlocal asked
        asked += 1
        return await seller(request)

    for _ in range(2):
        assert run(shop, model=counted, samples=2, run_dir="runs/shop").solved == 2
    assert asked == 6
    assert run(shop, model=counted, samples=2, run_dir="runs/shop", resume=False).solved == 2
    assert asked == 12
    assert len(list(Path("runs").iterdir())) == 2


async def test_it_works_inside_a_running_loop() -> None:
    assert run(shop).solved == 1
    assert (await rollout.arun(shop, model=seller, progress=False)).solved == 1


async def test_a_real_server_answers_by_its_name_in_the_registry(stub: StubServer) -> None:
    models = {"small": {"api_base": stub.url, "api_key": "sk-0123456789abcdef"}}
    result = await rollout.arun(shop, model="small", progress=False, config={"models": models})
    assert result.finished == 1
    assert stub.requests[0]["messages"][0] == {"role": "system", "content": "You run a small shop."}


@pytest.mark.parametrize(
    "answer",
    [
        "Done.",
        {"content": "Done."},
        {"role": "assistant", "content": "Done."},
        rollout.Message(role="assistant", content="Done."),
        rollout.Generation(rollout.Message(role="assistant", content="Done.")),
    ],
)
def test_a_function_may_answer_in_any_of_these_forms(answer: Any) -> None:
    async def model(request: rollout.Request) -> Any:
        return answer

    assert run(shop, model=model).trajectories[0].messages[-1].content == "Done."


def test_a_function_that_returns_something_else_fails_the_attempt_and_is_named() -> None:
    async def model(request: rollout.Request) -> Any:
        return 42

    (attempt,) = run(shop, model=model).trajectories
    assert attempt.status == "failed"
    assert attempt.error is not None
    assert "model returned int; expected a Generation" in attempt.error.text


def test_a_model_that_wants_to_end_the_program_ends_its_attempt() -> None:
    async def model(request: rollout.Request) -> Any:
        raise SystemExit(3)

    (attempt,) = run(shop, model=model).trajectories
    assert attempt.error is not None
    assert "SystemExit" in attempt.error.text


def test_an_object_with_generate_is_a_model() -> None:
    class Fixed:
        name = "fixed"

        async def generate(self, request: rollout.Request) -> rollout.Generation:
            return rollout.Generation(rollout.Message(role="assistant", content=f"{len(request.tools)} tools"))

    assert run(shop, model=Fixed()).trajectories[0].messages[-1].content == "1 tools"


def test_a_user_of_ones_own_talks_to_the_agent() -> None:
    async def customer(request: rollout.Request) -> str:
        return "And nothing else. ###STOP###"

    (attempt,) = run(shop, model=seller, user=customer).trajectories
    assert attempt.stop_reason == "user_stop"
    assert attempt.messages[-1].content == "And nothing else."


def test_several_environments_are_named_by_themselves_or_by_the_caller() -> None:
    assert run([shop, busy_shop]).datasets == ["Cart", "busy"]
    result = run({"left": shop, "right": shop})
    assert result.datasets == ["left", "right"]
    assert len(result.trajectories.where(dataset="left")) == 1
    with pytest.raises(rollout.ConfigError, match="two environments are called 'Cart'"):
        run([shop, shop])


def test_a_configuration_file_runs_with_arguments_over_its_keys() -> None:
    dataset = {"environment": "tests.api.shop:busy_shop", "agent": {"model": "nobody", "temperature": 0.1}}
    path = write_yaml(Path("own.yml"), {"datasets": {"data": dataset}, "seed": 3})
    result = rollout.run("own.yml", model="builtin/oracle", limit=2, progress=False)
    assert (len(result.trajectories), result.path) == (2, Path("runs/own"))
    assert result.config["datasets"]["data"]["agent"]["temperature"] == 0.1
    assert result.config["seed"] == 3
    assert rollout.load_run(path.parent / "runs/own").solved == 2
    elsewhere = rollout.run("own.yml", model="builtin/oracle", progress=False, config={"run_dir": "elsewhere"})
    assert elsewhere.path == Path("elsewhere")


def test_tasks_come_as_dicts_texts_files_or_a_generator() -> None:
    def many() -> Iterator[rollout.Task]:
        return (order(f"g{number}") for number in range(30))

    Path("tasks.jsonl").write_text(json.dumps({"id": "f", "messages": [{"role": "user", "content": "Hello"}]}) + "\n")
    given: list[tuple[Any, list[str]]] = [
        ([{"id": "d", "messages": [{"role": "user", "content": "Hello"}]}], ["d"]),
        (["Hello", "Hello again"], ["0", "1"]),
        ("tasks.jsonl", ["f"]),
        (many(), sorted(f"g{number}" for number in range(30))),
    ]
    for tasks, ids in given:
        made = rollout.Environment(tasks=tasks, world=Cart)
        assert sorted(run(made, model=seller).trajectories.ids) == ids


def test_scorers_strategies_and_rewards_may_be_objects() -> None:
    from rollout.strategies.chain import Chain

    @rollout.scorer
    def politeness(trajectory: rollout.Trajectory) -> float:
        return 0.25

    bare = rollout.Environment(tasks=[order("t")], world=Cart)
    result = run(bare, model=seller, scoring={"custom": [politeness], "decide": ["politeness"]}, strategy=Chain(n=3))
    assert [attempt.reward for attempt in result.trajectories] == [0.25] * 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"smaples": 2}, "smaples"),
        ({"max_workers": 2}, r"max_workers: belongs to the whole run; say config="),
        ({"samples": 2, "strategy": "mcts"}, "would be ignored beside mcts"),
        ({"agent": {"model": "a"}}, "model: is short for"),
        ({"config": {"sede": 1}}, "sede"),
        ({"model": print}, "is no model"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(rollout.ConfigError, match=said):
        run(shop, **arguments)


def test_nothing_to_roll_out_is_said() -> None:
    with pytest.raises(rollout.ConfigError, match="expected an environment"):
        run()


# ---- reading back ----------------------------------------------------------------------------------------------


def test_a_run_is_read_back_as_it_was_returned() -> None:
    result = run(busy_shop, agent=ERRING, model=None, samples=4, run_dir="runs/shop")
    saved = rollout.load_run("runs/shop")
    assert saved.trajectories.ids == result.trajectories.ids
    assert (saved.solved, saved.mean_reward, saved.cost) == (result.solved, result.mean_reward, result.cost)
    solved = saved.trajectories.where(success=True)
    assert 0 < len(solved) == saved.solved < len(saved.trajectories)
    assert all(attempt.reward == 1.0 for attempt in solved)
    assert len(saved.trajectories.where(lambda attempt: (attempt.reward or 0) > 0.5)) == saved.solved
    assert {attempt.task_id for attempt in saved.trajectories.where(task_id=["t1", "t2"])} == {"t1", "t2"}
    assert [attempt.id for attempt in saved.trajectories[2:4]] == saved.trajectories.ids[2:4]
    with pytest.raises(TypeError, match="no attribute 'sucess'"):
        saved.trajectories.where(sucess=True)


def test_what_is_read_back_equals_the_line() -> None:
    result = run(busy_shop, agent=ERRING, model=None, run_dir="runs/shop")
    lines = {line["id"]: line for line in read_lines(Path("runs/shop/outputs/busy.jsonl"))}
    for attempt in result.trajectories:
        line = lines[attempt.id]
        assert attempt.metadata == line["metadata"]
        assert [message.content for message in attempt.messages] == [message["content"] for message in line["messages"]]


def test_a_run_without_nodes_is_read_from_its_lines() -> None:
    result = run(shop, config={"use_checkpoints": False})
    assert result.trajectories[0].messages[-1].role == "assistant"
    assert result.trajectories[0].nodes is None


def test_the_tree_shows_where_attempts_part() -> None:
    result = run(shop, agent=ERRING, model=None, strategy="random_tree")
    drawn = result.tree("t1").draw()
    assert drawn.startswith(f"t1: {len(result.trajectories)} attempts\nuser: Two mugs and a lamp, please.")
    assert drawn.count("user: Two mugs") == 1
    assert drawn.count("reward") == len(result.trajectories)
    assert len(result.tree("t1").trajectories) == len(result.trajectories)
    with pytest.raises(KeyError, match="no attempt at a task 't2'"):
        result.tree("t2")


def test_what_is_no_run_is_refused_by_name() -> None:
    with pytest.raises(rollout.ConfigError, match="nowhere: is not a run directory"):
        rollout.load_run("nowhere")


def test_the_best_attempts_are_exported_for_a_trainer() -> None:
    result = run(busy_shop, agent=ERRING, model=None, samples=4)
    best = result.trajectories.where(success=True)
    assert rollout.export(best, format="trl", path="train.jsonl") == len(best)
    record = read_lines(Path("train.jsonl"))[0]
    assert record["messages"][0]["role"] == "user" or record["messages"][0]["role"] == "system"
    assert record["tools"]
    with pytest.raises(rollout.ConfigError, match="nothing was written"):
        rollout.export([], path="other.jsonl")
    assert not Path("other.jsonl").exists()


def test_what_the_agents_program_wrote_is_context_and_never_learnt() -> None:
    async def clerk(task: rollout.Task, session: rollout.Session) -> None:
        await session.call("add", item="mug")
        await session.generate()
        await session.call()
        await session.generate()

    result = run(shop, model=seller, agent=clerk, run_dir="run")
    command = ["train-data", "run", "-o", "rows", "--form", "per_step", "--text", "--advantage", "none", "-f", "jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", "from rollout.cli import main; main()", *command],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (attempt,) = result.trajectories
    assert attempt.generated[1].is_scripted
    rows = read_lines(next(Path("rows").glob("*.jsonl")))
    assert len(rows) == 2
    assert "messages that the agent's program wrote" in " ".join(done.stdout.split())


def test_runs_of_one_file_in_folders_of_their_own_do_not_share_an_output() -> None:
    dataset = {"mcp_domain": "StudentAcademicPortal", "agent": "builtin/oracle", "user": "builtin/user", "limit": 2}
    path = write_yaml(Path("own.yml"), {"datasets": {"portal": dataset}})
    results = [rollout.run(path, run_dir=f"runs/{name}", progress=False) for name in ("one", "two")]
    for result in results:
        assert len(read_lines(result.path / "outputs" / "portal.jsonl")) == 2
    assert not Path("outputs").exists()


def test_a_run_of_a_file_goes_on_with_the_output_that_it_began_with(rollout: Command) -> None:
    dataset = {"mcp_domain": "StudentAcademicPortal", "agent": "builtin/oracle", "user": "builtin/user", "limit": 2}
    path = write_yaml(Path("own.yml"), {"datasets": {"portal": dataset}})
    assert rollout("run", str(path), "--set", "run_dir=runs/one").code == 0
    result = run(path, run_dir="runs/one", limit=3)
    assert len(read_lines(Path("outputs/portal.jsonl"))) == result.finished == 3


# ---- streaming -------------------------------------------------------------------------------------------------


def test_groups_are_streamed_as_they_finish() -> None:
    with rollout.stream(busy_shop, agent=ERRING, samples=4) as groups:
        found = {group.task.id: group.rewards for group in groups}
    assert sorted(found) == [f"t{number}" for number in range(6)]
    assert all(len(rewards) == 4 for rewards in found.values())


def test_attempts_of_groups_and_trees_are_exported_with_what_their_model_was_sent() -> None:
    with rollout.stream(shop, model=seller, samples=2, run_dir="run") as groups:
        (group,) = groups
    rollout.export(group.trajectories, path="streamed.jsonl")
    rollout.export(rollout.load_run("run").trajectories, path="read.jsonl")
    rollout.export(rollout.load_run("run").tree("t1").trajectories, path="tree.jsonl")
    records = {name: read_lines(Path(f"{name}.jsonl")) for name in ("streamed", "read", "tree")}
    assert records["streamed"] == records["read"] == records["tree"]
    assert records["streamed"][0]["messages"][0] == {"role": "system", "content": "You run a small shop."}
    assert records["streamed"][0]["tools"][0]["function"]["name"] == "add"


def test_an_export_without_the_prompt_that_was_sent_is_refused() -> None:
    result = run(shop, run_dir="run")
    for blob in Path("run/blobs").iterdir():
        blob.unlink()
    with pytest.raises(rollout.ConfigError, match=r"blobs/.*is gone; put it back"):
        rollout.export(result, path="out.jsonl")


async def test_groups_are_streamed_in_the_callers_loop() -> None:
    async with rollout.stream(busy_shop, model=seller, strategy="mcts") as groups:
        async for group in groups:
            assert [attempt.reward for attempt in group.trajectories] == group.rewards
            assert group.trajectories[0].messages[-1].content == "Done."


def test_a_group_that_was_not_asked_to_be_followed_comes_again() -> None:
    settings = {"model": seller, "run_dir": "run", "config": {"max_workers": 1}}
    with rollout.stream(busy_shop, **settings) as groups:
        first = next(iter(groups)).task.id
    with rollout.stream(busy_shop, **settings) as groups:
        again = [group.task.id for group in groups]
    assert again[0] == first
    assert sorted(again) == [f"t{number}" for number in range(6)]


def test_groups_are_counted_as_useful_by_their_rewards(caplog: pytest.LogCaptureFixture) -> None:
    @rollout.scorer
    def graded(trajectory: rollout.Trajectory) -> float:
        return 0.2 if "~" in trajectory.id else 0.6

    environment = rollout.Environment(tasks=["a", "b", "c"], world=Cart, scorers=[graded])
    dynamic = {"groups": 2, "oversample": 1}
    result = rollout.run(environment, model=seller, samples=2, config={"dynamic": dynamic}, progress=False)
    assert (result.finished, result.solved) == (4, 0)
    assert json.loads((result.path / "metrics.json").read_text())["dynamic"]["useful_groups"] == 2
    assert "useful" not in caplog.text


def test_a_group_has_the_advantages_of_each_answer() -> None:
    with rollout.stream(busy_shop, agent=ERRING, samples=4) as groups:
        useful = next(group for group in groups if group.is_useful)
    found = useful.advantages("grpo", scale="none")
    mean = sum(reward or 0 for reward in useful.rewards) / 4
    for trajectory, reward, values in zip(useful.trajectories, useful.rewards, found, strict=True):
        assert reward is not None
        assert values == pytest.approx([reward - mean] * len(trajectory.generated))


def test_a_stream_that_pauses_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: rollout.Request) -> str:
        raise OSError("the server is gone")

    tasks = rollout.Environment(tasks=[f"task {number}" for number in range(40)], world=Cart)
    config = {"max_workers": 4, "retries": {"attempts": 1}}
    with rollout.stream(tasks, model=broken, config=config) as groups:
        delivered = list(groups)
    assert len(delivered) < 40
    assert "unfinished attempts" in caplog.text


def test_leaving_a_stream_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    with rollout.stream(busy_shop, model=seller, config={"max_workers": 1}, ahead=1) as groups:
        next(iter(groups))
    assert "unfinished" not in caplog.text


def versions(group: rollout.Group) -> set[str | None]:
    return {made.weight_version for attempt in group.trajectories for made in attempt.generated.values()}


def test_a_trainer_says_which_weights_answer_from_now_on() -> None:
    threads: list[str] = []
    groups = rollout.stream(busy_shop, model=seller, ahead=1, config={"max_workers": 1})
    groups.weight_version = "start"
    with groups:
        waiting = iter(groups)
        first = next(waiting)
        assert groups.engine is not None
        groups.engine.control.on_version(lambda: threads.append(threading.current_thread().name))
        groups.weight_version = "update-1"
        *_, last = waiting
    assert (versions(first), versions(last)) == ({"start"}, {"update-1"})
    assert threads == ["rollout"], "whoever waits for a new version lives in the engine's loop"
    groups.weight_version = "update-2"  # after the end it changes nothing


async def test_weights_are_named_in_the_callers_loop() -> None:
    groups = rollout.stream(shop, model=seller)
    groups.weight_version = "start"
    async with groups:
        assert [versions(group) async for group in groups] == [{"start"}]


def test_a_stream_that_cannot_begin_says_why() -> None:
    def take_all() -> list[rollout.Group]:
        with rollout.stream(shop, model=print) as groups:
            return list(groups)

    with pytest.raises(rollout.ConfigError, match="is no model"):
        take_all()


def test_a_trainer_that_blocks_stalls_no_request() -> None:
    finished: list[float] = []

    async def timed(request: rollout.Request) -> Any:
        await asyncio.sleep(0)
        finished.append(time.monotonic())
        return await seller(request)

    with rollout.stream(busy_shop, model=timed, ahead=6, config={"max_workers": 1}) as groups:
        waiting = iter(groups)
        next(waiting)
        before = time.monotonic()
        deadline = before + 60
        while len(finished) < 18 and time.monotonic() < deadline:
            time.sleep(0.01)  # blocks this thread; the engine's goes on
        assert len(finished) == 18


# ---- killed ----------------------------------------------------------------------------------------------------

SCRIPT = """
import asyncio, sys
import rollout
from tests.api.shop import busy_shop, plan_first, seller

async def noted(request):
    with open("asked", "a") as file:
        file.write("x")
    await asyncio.sleep(0.005)
    return await seller(request)

if __name__ == "__main__":
    strategy = sys.argv[1]
    samples = {"samples": 8} if strategy == "chain" else {}
    result = rollout.run(
        busy_shop, model=noted, agent=plan_first, strategy=strategy, run_dir="run", progress=False,
        config={"max_workers": 4}, **samples)
    print(len(result.trajectories), result.solved)
"""


@pytest.mark.parametrize("strategy", ["chain", "random_tree"])
def test_a_script_that_is_killed_goes_on_when_it_is_run_again(strategy: str, tmp_path: Path) -> None:
    Path("script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", strategy]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    calm = start()
    (done, _) = calm.communicate(timeout=600)
    undisturbed = sorted((comparable(line) for line in read_lines(Path("run/outputs/busy.jsonl"))), key=by_id)
    for folder in ("run", "asked"):
        Path(folder).rename(f"calm-{folder}")
    whole = Path("calm-asked").stat().st_size
    for share in (0.2, 0.5):
        process = start()
        while not (Path("asked").exists() and Path("asked").stat().st_size > share * whole):
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (again, _) = start().communicate(timeout=600)
    assert again == done
    lines = read_lines(Path("run/outputs/busy.jsonl"))
    assert sorted((comparable(line) for line in lines), key=by_id) == undisturbed
    # Only what was in flight at a kill is asked again.
    assert Path("asked").stat().st_size <= whole + 2 * 4


def test_ctrl_c_pauses_the_run_and_the_same_call_goes_on() -> None:
    Path("script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [sys.executable, "script.py", "chain"], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        while not Path("asked").exists():
            assert process.poll() is None
            time.sleep(0.002)  # for the process to get that far
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    assert process.returncode != 0
    assert said.rstrip().endswith("KeyboardInterrupt")
    done = rollout.load_run("run").finished
    again = subprocess.run(
        [sys.executable, "script.py", "chain"], env=environment, capture_output=True, text=True, check=True
    )
    assert again.stdout == "48 48\n"
    assert done < 48


def by_id(line: dict[str, Any]) -> str:
    return str(line["id"])


def test_a_run_started_while_its_module_is_imported_is_refused(tmp_path: Path) -> None:
    Path("careless.py").write_text(
        "import rollout\nfrom tests.api.shop import Cart, filled, order\n"
        "shop = rollout.Environment(tasks=[order('t1')], world=Cart, scorers=[filled])\n"
        "rollout.run(shop, model='builtin/oracle', run_dir='run', progress=False)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "careless.py"], env=environment, check=True)
    scored = subprocess.run(
        [sys.executable, "-c", "from rollout.cli import main; main()", "score", "run"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert scored.returncode != 0
    assert 'if __name__ == "__main__":' in scored.stderr + scored.stdout
    assert "Traceback" not in scored.stderr


def test_the_score_command_finds_the_environment_of_a_script(tmp_path: Path) -> None:
    Path("careful.py").write_text(
        "import rollout\nfrom tests.api.shop import Cart, filled, order\n"
        "shop = rollout.Environment(tasks=[order('t1')], world=Cart, scorers=[filled])\n"
        "if __name__ == '__main__':\n"
        "    rollout.run(shop, model='builtin/oracle', run_dir='run', progress=False)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "careful.py"], env=environment, check=True)
    command = [sys.executable, "-c", "from rollout.cli import main; main()", "score", "run"]
    scored = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "filled" in scored.stdout
