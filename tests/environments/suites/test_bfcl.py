"""The suite bfcl_multi_turn: BFCL's tasks, its back ends, and a verdict that is BFCL's own.

The data are fetched from PyPI once (1.9 MB) and kept in the user's cache.
"""

from __future__ import annotations

import asyncio
import decimal
import inspect
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.find import find_environment
from rollout.environments.suites.bfcl import package
from rollout.environments.suites.bfcl.calls import read_call
from rollout.environments.suites.bfcl.environment import CATEGORIES, BfclMultiTurn, OpenBfcl
from rollout.environments.suites.bfcl.package import BfclPackage
from rollout.environments.suites.bfcl.schemas import to_json_schema
from rollout.environments.suites.bfcl.world import BfclWorld
from rollout.pipelines.export import Wish, export_sources
from rollout.pipelines.inputs import Prompts, find_sources
from rollout.testing import StubServer
from rollout.trajectories.exports.exporter import find_exporter
from rollout.trajectories.line import comparable
from rollout.trajectories.score import Score
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import read_lines, roll_out, stub_config
from tests.environments.opening import opened
from tests.trajectories.lines import trajectory

ERRORS = {"wrong_argument": 0.06, "unknown_tool": 0.02, "malformed_call": 0.02, "stop_early": 0.03, "repeat": 0.06}


@pytest.fixture(scope="module")
def suite() -> BfclMultiTurn:
    return BfclMultiTurn()


def task_of(suite: BfclMultiTurn, name: str) -> Task:
    return suite.tasks.read(suite.tasks.ids.index(f"multi_turn_{name}"))


def config(**dataset: Any) -> dict[str, Any]:
    return {
        "datasets": {
            "bfcl": {
                "suite": "bfcl_multi_turn",
                "output_path": "out.jsonl",
                "agent": "builtin/oracle",
                "max_steps_per_turn": 40,
                **dataset,
            }
        }
    }


# ---- all of it -------------------------------------------------------------------------------------------------------


async def test_reference_solves_all_800_tasks() -> None:
    opened = await roll_out(config())
    assert opened.summary is not None
    assert opened.summary.total.statuses == {"completed": 800}
    assert opened.summary.total.success_rate == 1.0
    lines = read_lines(Path("out.jsonl"))
    assert Counter(line["id"].rpartition("_")[0] for line in lines) == {
        f"multi_turn_{category}": 200 for category in CATEGORIES
    }
    assert sum(line["metadata"]["tool_call_count"] for line in lines) == 4625
    assert all(line["metadata"]["scored"] for line in lines)


async def test_idle_agent_solves_none(suite: BfclMultiTurn) -> None:
    await roll_out(config(agent={"model": "builtin/oracle", "params": {"stop_early": 1}}))
    lines = read_lines(Path("out.jsonl"))
    assert len(lines) == 800
    assert not any(line["success"] for line in lines)
    assert Counter(line["metadata"]["scores"][0]["evidence"]["check"] for line in lines) == {"nothing_called": 800}


async def test_verdicts_on_flawed_trajectories_are_bfcls_own(suite: BfclMultiTurn) -> None:
    flawed = {"model": "builtin/oracle", "params": ERRORS}
    await roll_out(config(agent=flawed, suite_params={"categories": ["miss_func", "long_context"]}))
    lines = read_lines(Path("out.jsonl"))
    checker = BfclChecker()
    differing = [
        line["id"] for line in lines if (line["metadata"]["scores"][0]["value"] == 1.0) != checker.accepts(line)
    ]
    assert differing == []
    checks = Counter(line["metadata"]["scores"][0].get("evidence", {}).get("check") for line in lines)
    assert all(checks[kind] >= 5 for kind in (None, "nothing_called", "state", "answers")), checks


class BfclChecker:
    """BFCL's own multi-turn checker, fed with our lines."""

    def __init__(self) -> None:
        found = BfclPackage()
        name = "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
        self._check = found.module(name).multi_turn_checker
        self._entries = {}
        self._answers = {}
        for category in CATEGORIES:
            self._entries |= {entry["id"]: entry for entry in read_lines(found.questions(category))}
            self._answers |= {entry["id"]: entry["ground_truth"] for entry in read_lines(found.answers(category))}
        # It keeps its instances in globals, by model name, for ever: a name of its own for each trajectory.
        self._names = (f"model{number}" for number in itertools.count())

    def accepts(self, line: dict[str, Any]) -> bool:
        turns: list[list[list[str]]] = []
        for message in line["messages"]:
            if message["role"] == "user":
                turns.append([])
            for call in message.get("tool_calls", ()):
                try:
                    arguments = json.loads(call["function"]["arguments"])
                except ValueError:
                    continue
                listed = ",".join(f"{name}={value!r}" for name, value in arguments.items())
                turns[-1].append([f"{call['function']['name']}({listed})"])
        answers = self._answers[line["id"]]
        if len(turns) != len(answers):
            return False
        verdict = self._check(turns, answers, self._entries[line["id"]], "multi_turn", next(self._names))
        return bool(verdict["valid"])


def first_with(suite: BfclMultiTurn, class_name: str, category: str = "") -> str:
    """The first task that uses a back end."""
    return next(
        task.id.removeprefix("multi_turn_")
        for task in suite.tasks
        if category in task.id and class_name in task.info["bfcl"]["involved_classes"]
    )


# ---- tools by turn ---------------------------------------------------------------------------------------------------


def names_of(suite: BfclMultiTurn, task: Task, turn: int) -> list[str]:
    return [spec.name for spec in opened(suite).tools_for(task, turn).specs]


def test_held_back_functions_are_offered_from_their_turn_on(suite: BfclMultiTurn) -> None:
    task = task_of(suite, "miss_func_0")
    before, after = names_of(suite, task, 2), names_of(suite, task, 3)
    assert "sort" not in before
    assert after == [*before, "sort"]
    offering = opened(suite)
    assert offering.tools_for(task, 4) is offering.tools_for(task, 3)
    assert "sort" in names_of(suite, task_of(suite, "base_0"), 0)
    assert len(task.user_turns) == 4
    assert task.user_turns[2], "BFCL has no user message for the turn in which functions are handed out, only its own"


async def test_each_turn_is_sent_its_own_tools_and_the_record_says_so(suite: BfclMultiTurn) -> None:
    async with StubServer({"rules": [{"reply": {"content": "I cannot."}}]}, keep_requests=True) as stub:
        settings = stub_config(stub.url, Path("unused"))
        settings["datasets"]["data"] = config(agent={"model": "agent"}, limit=1)["datasets"]["bfcl"] | {
            "suite_params": {"categories": ["miss_func"]}
        }
        await roll_out(settings)
        (line,) = read_lines(Path("out.jsonl"))
        prompts = line["metadata"]["prompts"]
        assert [entry["turn"] for entry in prompts] == [0, 3]
        assert line["metadata"]["prompt"] == prompts[-1]["prompt"]
        blobs = [json.loads(Path(f"run/blobs/{entry['prompt']}.json").read_text()) for entry in prompts]
        sent = [request["tools"] for request in stub.requests]
    assert sent == [blobs[0]["tools"]] * 3 + [blobs[1]["tools"]] * 2
    wish = Wish(find_exporter("trl"), per_turn=True)
    export_sources(find_sources([Path("run")]), Prompts(), wish, Path("turns.jsonl"))
    assert [record["tools"] for record in read_lines(Path("turns.jsonl"))] == sent, "each turn with its own tools"


async def test_interrupted_conversation_goes_on_with_the_tools_of_its_turn() -> None:
    settings = config(suite_params={"categories": ["miss_func", "long_context"]}, limit=12)
    await roll_out(settings, Path("whole"))
    whole = {line["id"]: comparable(line) for line in read_lines(Path("out.jsonl"))}
    Path("out.jsonl").unlink()
    mismatches = 0
    for pause in (12, 40, 90, 100_000):
        opened = await roll_out(settings, pause_when=lambda progress, at=pause: progress.generations >= at)
        mismatches += opened.engine.replay_mismatches
    assert {line["id"]: comparable(line) for line in read_lines(Path("out.jsonl"))} == whole
    assert mismatches == 0


# ---- worlds ----------------------------------------------------------------------------------------------------------


async def begun(suite: BfclMultiTurn, name: str) -> BfclWorld:
    world = opened(suite, OpenBfcl).make_world(task_of(suite, name))
    await world.open(task_of(suite, name), 0)
    return world


def call(name: str, **arguments: Any) -> Invocation:
    return Invocation("c", name, arguments)


async def play(world: BfclWorld, task: Task) -> None:
    await world.call([call(action.name, **action.arguments) for action in task.actions or ()])


async def test_changes_are_rows_of_the_instances(suite: BfclMultiTurn) -> None:
    world = await begun(suite, "base_0")
    results = await world.call([call("cd", folder="document"), call("mkdir", dir_name="temp")])
    assert [result.is_error for result in results] == [False, False]
    assert (await world.changes())["GorillaFileSystem.root"].added == ({"path": "/workspace/document/temp"},)
    (refused,) = await world.call([call("mkdir", dir_name="temp")])
    assert refused.error_kind == "tool"
    assert "error" in json.loads(refused.content)
    (crashed,) = await world.call([call("mkdir", folder="temp")])
    assert crashed.error_kind == "crash"
    assert crashed.content.startswith("Error during execution: ")


async def test_snapshots_and_keys_are_by_value(suite: BfclMultiTurn) -> None:
    for name in ("base_0", "long_context_150", "miss_param_60", "base_199", "long_context_20"):
        task = task_of(suite, name)
        world, other = await begun(suite, name), await begun(suite, name)
        fresh = await world.snapshot()
        assert fresh is not None
        assert await other.state_key() == fresh.state_key
        await play(world, task)
        played = await world.snapshot()
        assert played is not None
        assert played.state_key != fresh.state_key
        changed = await world.changes()
        await other.restore(played)
        await world.restore(fresh)
        assert await world.changes() == {}
        assert await other.changes() == changed
        await play(world, task)
        assert await world.state_key() == played.state_key, "the same calls lead to the same state"


def test_keys_are_the_same_in_every_process(suite: BfclMultiTurn) -> None:
    async def key() -> str:
        world = await begun(suite, "long_context_150")
        await play(world, task_of(suite, "long_context_150"))
        return await world.state_key()

    source = (
        "import asyncio\n"
        "from rollout.environments.suites.bfcl.environment import BfclMultiTurn\n"
        "from tests.environments.suites.test_bfcl import begun, play, task_of\n"
        "async def main():\n"
        "    suite = BfclMultiTurn(categories=['long_context'])\n"
        "    world = await begun(suite, 'long_context_150')\n"
        "    await play(world, task_of(suite, 'long_context_150'))\n"
        "    print(await world.state_key())\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=root, capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.strip() == asyncio.run(key())


async def test_long_context_data_are_not_shared_between_episodes(suite: BfclMultiTurn) -> None:
    name = first_with(suite, "TravelAPI", "long_context")
    one, other = await begun(suite, name), await begun(suite, name)
    given = task_of(suite, name).info["bfcl"]["initial_config"]["TravelAPI"]["credit_card_list"]
    card = next(card for card in one.instances["TravelAPI"].credit_card_list if card not in given)
    one.instances["TravelAPI"].credit_card_list[card]["balance"] = -1
    assert other.instances["TravelAPI"].credit_card_list[card]["balance"] != -1
    assert (await begun(suite, name)).instances["TravelAPI"].credit_card_list[card]["balance"] != -1


async def test_mathematics_that_takes_for_ever_costs_its_own_call_only(suite: BfclMultiTurn) -> None:
    name = first_with(suite, "MathAPI")
    world = await begun(suite, name)
    *endless, good = await world.call(
        [
            call("logarithm", value=10.0, base=3.0, precision=10**9),
            call("power", base=9, exponent=10**9),
            call("round_number", number=5, decimal_places=-(10**9)),
            call("add", a=1.0, b=2.0),
        ]
    )
    assert [result.error_kind for result in endless] == ["tool"] * 3
    assert json.loads(good.content) == {"result": 3.0}


async def test_precision_of_one_call_is_not_that_of_the_next(suite: BfclMultiTurn) -> None:
    before = decimal.getcontext().prec
    name = first_with(suite, "MathAPI")
    await (await begun(suite, name)).call([call("square_root", number=2.0, precision=3)])
    assert decimal.getcontext().prec == before


# ---- the verdict -----------------------------------------------------------------------------------------------------


def spoken(task: Task, *turns: Sequence[tuple[str, dict[str, Any]]]) -> Trajectory:
    """A trajectory that makes these calls in each turn. Its answers are not on record."""
    messages: list[Message] = []
    number = itertools.count()
    for said, calls in zip((task.messages[0].content, *task.user_turns), turns, strict=False):
        messages.append(Message(role="user", content=said))
        for name, arguments in calls:
            asked = ToolCall(f"c{next(number)}", name, json.dumps(arguments))
            messages.append(Message(role="assistant", tool_calls=(asked,)))
        messages.append(Message(role="assistant", content="Done."))
    return trajectory(*messages, id=task.id, reason=StopReason.SCRIPT_END)


def reference_turns(task: Task) -> list[list[tuple[str, dict[str, Any]]]]:
    turns: list[list[tuple[str, dict[str, Any]]]] = [[] for _ in range(1 + len(task.user_turns))]
    for action in task.actions or ():
        turns[action.turn].append((action.name, action.arguments))
    return turns


async def verdict(suite: BfclMultiTurn, task: Task, path: Trajectory) -> Score:
    scoring = opened(suite)
    scorer, _ = scoring.scorers(None, lambda task: 0)
    score = await scorer.score(task, path, scoring.make_world(task))
    assert score is not None
    return score


async def test_score_says_in_which_turn_what_differs(suite: BfclMultiTurn) -> None:
    task = task_of(suite, "base_0")
    turns = reference_turns(task)
    assert (await verdict(suite, task, spoken(task, *turns))).value == 1.0
    extra = [*turns[:1], [*turns[1], ("touch", {"file_name": "litter"})], *turns[2:]]
    score = await verdict(suite, task, spoken(task, *extra))
    assert (score.value, score.evidence["check"], score.evidence["turn"]) == (0.0, "state", 1)
    assert score.evidence["tables"]["GorillaFileSystem.root"]["extra"] == [
        {"path": "/workspace/document/temp/litter", "content": ""}
    ]
    unread = [turns[0], [turns[1][0], ("pwd", {})], *turns[2:]]
    score = await verdict(suite, task, spoken(task, *unread))
    assert (score.value, score.evidence["check"], len(score.evidence["missing"])) == (0.0, "answers", 1)
    score = await verdict(suite, task, spoken(task, *turns[:2]))
    assert (score.value, score.evidence["check"], score.evidence["turn"]) == (0.0, "ended_early", 2)


async def test_order_and_extra_reads_do_not_matter(suite: BfclMultiTurn) -> None:
    task = task_of(suite, "base_0")
    turns = reference_turns(task)
    reads = [[*turn, ("pwd", {}), ("ls", {})] for turn in turns]
    assert (await verdict(suite, task, spoken(task, *reads))).value == 1.0


async def test_answers_that_are_not_the_recorded_ones_leave_it_unscored(suite: BfclMultiTurn) -> None:
    task = task_of(suite, "base_0")
    messages = list(spoken(task, *reference_turns(task)).messages)
    first = messages[1].tool_calls[0]
    messages.insert(2, Message(role="tool", content="something else", tool_call_id=first.id))
    altered = trajectory(*messages, id=task.id, reason=StopReason.SCRIPT_END)
    score = await verdict(suite, task, altered)
    assert score.value is None
    assert "differently from the record" in score.reason


# ---- reading the data ------------------------------------------------------------------------------------------------

literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def _move(source: object, destination: object = None, *, force: object = False) -> None:
    """A function to be called."""


SIGNATURES = {"mv": inspect.signature(_move)}


@given(literals, literals, literals)
def test_call_strings_come_back_by_name_with_their_values(source: Any, destination: Any, force: Any) -> None:
    wanted = {"source": source, "destination": destination, "force": force}
    by_name = f"mv(source={source!r}, destination={destination!r}, force={force!r})"
    by_place = f" mv({source!r}, {destination!r}, force={force!r})"
    assert read_call(by_name, 2, SIGNATURES).arguments == read_call(by_place, 2, SIGNATURES).arguments == wanted


@given(st.text(max_size=30) | st.text(max_size=20).map(lambda inner: f"mv({inner})"))
def test_any_other_text_is_refused_and_never_run(text: str) -> None:
    try:
        action = read_call(text, 0, SIGNATURES)
    except ValueError:
        return
    assert action.name == "mv"
    json.dumps(action.arguments, default=repr)


@pytest.mark.parametrize(
    "text",
    ["mv(__import__('os'))", "os.remove('a')", "mv(*[1])", "mv(**{'source': 1})", "rm('a')", "mv()", "mv(1, 2, 3)"],
)
def test_what_is_no_plain_call_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(repr(text))):
        read_call(text, 0, SIGNATURES)


@given(
    st.recursive(
        st.fixed_dictionaries({"type": st.sampled_from(["string", "float", "integer", "boolean", "any"])}),
        lambda inner: st.one_of(
            st.fixed_dictionaries({"type": st.just("dict"), "properties": st.dictionaries(st.text(max_size=3), inner)}),
            st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        ),
        max_leaves=8,
    )
)
def test_schemas_have_only_types_of_json_schema(schema: dict[str, Any]) -> None:
    known = {"string", "number", "integer", "boolean", "object", "array"}

    def check(converted: dict[str, Any], original: dict[str, Any]) -> None:
        assert converted.get("type", "string") in known
        assert converted.keys() | {"type"} == original.keys() | {"type"}
        for name, inner in original.get("properties", {}).items():
            check(converted["properties"][name], inner)
        if "items" in original:
            check(converted["items"], original["items"])

    check(to_json_schema(schema), schema)


def test_parameter_named_type_stays_a_parameter() -> None:
    schema = {"type": "dict", "properties": {"type": {"type": "float"}, "items": {"type": "dict"}}}
    assert to_json_schema(schema)["properties"] == {"type": {"type": "number"}, "items": {"type": "object"}}


def test_categories_choose_tasks_and_are_checked() -> None:
    chosen = find_environment(
        "d", Dataset(suite="bfcl_multi_turn", suite_params={"categories": ["miss_param", "base"]})
    )
    assert len(chosen.tasks) == 400
    assert chosen.tasks.ids[0] == "multi_turn_base_0"
    for params, text in (
        ({"categories": ["easy"]}, r"suite_params\.categories\.0: .*'base', 'miss_func'"),
        ({"categories": []}, r"suite_params\.categories: "),
        ({"category": "base"}, r"suite_params\.category: .*did you mean 'categories'"),
    ):
        with pytest.raises(ConfigError, match=rf"datasets\.d: bfcl_multi_turn: {text}"):
            find_environment("d", Dataset(suite="bfcl_multi_turn", suite_params=params))


def test_package_that_cannot_be_fetched_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(package, "PACKAGE", "no-such-package-of-ours==9.9.9")
    monkeypatch.setattr(package, "NAME", "no_such_package_of_ours")
    with pytest.raises(ConfigError, match=r"no-such-package-of-ours==9\.9\.9 could not be fetched"):
        BfclPackage()
    assert list((tmp_path / "empty" / "rollout").iterdir()) == [], "nothing half-fetched stays"
