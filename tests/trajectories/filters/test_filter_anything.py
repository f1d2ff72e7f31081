"""Whatever a trajectory holds, filters say something of it, the same however it is asked, and the numbers add up."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.config.schema import Config
from rollout.core.messages import Message, ToolCall, message_to_json
from rollout.pipelines.filter import FilteredInput, filter_trajectories
from rollout.pipelines.wiring.active_filters import FiltersByDataset
from rollout.store.files.filter_file import read_records, write_records
from rollout.trajectories.filters.filtering import Filtering
from rollout.trajectories.filters.marks import VERDICTS, Filtered, Mark, settle
from rollout.trajectories.filters.summary import FilterSummary
from rollout.trajectories.generation import Generation, Tokens, Usage
from rollout.trajectories.stop import StopReason, status_of
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.lines import TOOLS, arguments, make_nodes, names, texts, values, write

POLICIES = ("drop_trajectory", "mask_turn", "truncate_before", "keep")
words = texts | st.sampled_from(["", "again and again " * 20, "###STOP###", "<tool_call>", "Which one?", "\ufffd"])
messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "tool"]),
        content=st.none() | words,
        reasoning=st.none() | words,
        tool_calls=st.lists(st.builds(ToolCall, st.just("c") | names, names, arguments), max_size=2).map(tuple),
        tool_call_id=st.none() | st.just("c"),
    ),
    max_size=6,
)
anything = st.dictionaries(
    st.sampled_from(["scores", "branch", "view", "error", "group", "scored", "dataset", "prompt", "prompts"]),
    values,
    max_size=4,
)
kinds = st.sampled_from(["unknown_tool", "bad_arguments", "timeout", "tool"])


@st.composite
def trajectories(draw: st.DrawFn, number: int) -> Trajectory:
    said = draw(messages)
    places = range(len(said))
    reason = draw(st.sampled_from(list(StopReason)))
    known = {"status": str(status_of(reason)), "stop_reason": str(reason), "scored": draw(st.booleans())}
    generations = {
        place: Generation(
            said[place],
            finish_reason=draw(st.sampled_from(["stop", "length", "abort", "tool_calls"])),
            usage=Usage(completion_tokens=draw(st.integers(0, 3))),
            tokens=draw(st.none() | st.just(Tokens.of((1,), (2, 3), (-0.5, -1.0)))),
        )
        for place in places
        if said[place].role == "assistant" and draw(st.booleans())
    }
    failed = {place: draw(kinds) for place in places if said[place].role == "tool" and draw(st.booleans())}
    nodes = make_nodes(said, opening=draw(st.integers(0, 2)), errors=failed, generations=generations)
    task, system = draw(st.sampled_from(["t", "u"])), draw(st.none() | texts)
    told = {**draw(anything), **known, "dataset": "d"}
    return Trajectory(f"a{number}", task, draw(st.booleans()), told, nodes=nodes, prompt=lambda: (system, []))


several = st.integers(1, 5).flatmap(lambda count: st.tuples(*(trajectories(number) for number in range(count))))
rules: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"counts_in_group": st.booleans()},
    optional={
        **{
            name: st.sampled_from(POLICIES) for name in ("void_turns", "premature_end", "repetition", "malformed_calls")
        },
        **{name: st.sampled_from(["drop_trajectory", "keep"]) for name in ("near_duplicates", "constant_groups")},
        "unknown_tools": st.booleans(),
    },
)


def filtered(given_: tuple[Trajectory, ...], filters: Any) -> list[Filtered]:
    filtering = Filtering(FiltersByDataset(Config.model_validate({"filters": filters})).of)
    for trajectory in given_:
        filtering.add(trajectory)
    return list(filtering.records())


@given(several, rules, st.randoms(use_true_random=False))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_records_do_not_depend_on_the_order_and_come_out_again(
    given_: tuple[Trajectory, ...], filters: Any, chance: random.Random
) -> None:
    records = {record.id: record for record in filtered(given_, filters)}
    assert set(records) == {trajectory.id for trajectory in given_}
    shuffled = list(given_)
    chance.shuffle(shuffled)
    assert {record.id: record for record in filtered(tuple(shuffled), filters)} == records
    assert {record.id: record for record in filtered(given_, dict(reversed(filters.items())))} == records


@given(several, rules)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_counts_add_up_and_records_survive_their_file(given_: tuple[Trajectory, ...], filters: Any) -> None:
    records = filtered(given_, filters)
    summary = FilterSummary()
    for record in records:
        summary.add(record)
        assert record.status == next(s.status for s in given_ if s.id == record.id)
        assert set(record.masked) <= {turn.turn for turn in record.turns}
        assert [record.turns[number].message for number in record.masked] == list(record.masked_messages)
        assert msgspec.json.decode(msgspec.json.encode(record), type=Filtered) == record
    told = summary.to_json()
    assert told["trajectories"] == len(given_) == sum(told[f"verdict_{verdict}"] for verdict in VERDICTS)
    assert sum(sum(counts.values()) for counts in told["statuses"].values()) == len(given_)
    assert sum(told["parse_statuses"].values()) == told["turns"]
    for count in told["filters"]:
        with_mark = [r for r in records if any(m.filter == count["filter"] for m in r.marks)]
        assert count["trajectories"] == len(with_mark) >= count["decided"]


@given(several, st.lists(st.sampled_from(POLICIES), max_size=4), st.randoms(use_true_random=False))
def test_verdict_does_not_depend_on_the_order_of_marks(
    given_: tuple[Trajectory, ...], policies: list[Any], chance: random.Random
) -> None:
    turns = filtered(given_, {})[0].turns
    marks = [Mark(f"f{n}", policy, "x", turn=n % len(turns) if turns else None) for n, policy in enumerate(policies)]
    settled = settle(marks, turns)
    chance.shuffle(marks)
    assert settle(marks, turns) == settled


entries = st.fixed_dictionaries(
    {"messages": messages.map(lambda said: [message_to_json(message) for message in said]) | values},
    optional={
        "id": values,
        "task_id": values,
        "success": values,
        "error": values,
        "metadata": anything | values,
        "tools": st.just(TOOLS) | values,
    },
)


@given(lines=st.lists(entries, max_size=4))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_lines_that_others_wrote_never_break_it(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *(json.dumps(entry).encode() + b"\n" for entry in lines))
    found = FilteredInput(path)
    summary = FilterSummary()
    records = list(filter_trajectories(found, FiltersByDataset(Config()), summary))
    assert len(records) + len(found.unreadable) == len(lines)
    write_records(tmp_path / "filters.jsonl", records)
    assert set(read_records(tmp_path / "filters.jsonl")) == {(record.dataset, record.id) for record in records}
