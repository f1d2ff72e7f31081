"""Tokens of a path: stored once, put together again, masked, and every drift found."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.messages import Message, ToolCall
from rollout.trajectories.generation import Generation, Tokens
from rollout.trajectories.rows.exchange import ids_of_path
from rollout.trajectories.token_path import TokenPath, common_prefix
from rollout.trajectories.token_view import SampledSpan, Segment, TokenKind, TokenView, view_tokens
from rollout.trajectories.tree import NodeBody, RolloutTree

ids = st.lists(st.integers(0, 4), max_size=6)
some_ids = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6)


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Prompts and completions, each prompt beginning with all, some or nothing of what came before."""
    made: list[tuple[list[int], list[int]]] = []
    known: list[int] = []
    for _ in range(draw(st.integers(1, 6))):
        kept = known if draw(st.booleans()) else known[: draw(st.integers(0, len(known)))]
        prompt = kept + draw(ids if kept else some_ids)
        completion = draw(some_ids)
        made.append((prompt, completion))
        known = prompt + completion
    return made


def grow(made: list[tuple[list[int], list[int]]], **message: Any) -> tuple[list[NodeBody], TokenPath]:
    """The nodes of a path whose generations were asked for so."""
    path, bodies = TokenPath(), []
    for number, (prompt, completion) in enumerate(made):
        tokens = path.relate(Tokens.of(prompt, completion, [-0.5] * len(completion)))
        said = Message(role="assistant", content=f"answer {number}", **message)
        bodies.append(NodeBody("generation", generation=Generation(said, tokens=tokens)))
        path.take(bodies[-1].generation, number)  # type: ignore[arg-type]
    return bodies, path


def asked_in(view: TokenView) -> list[tuple[list[int], list[int]]]:
    return [
        (segment.ids[: span.start].tolist(), segment.ids[span.start : span.end].tolist())
        for segment in view.segments
        for span in segment.spans
    ]


@given(requests())
def test_what_is_stored_gives_back_every_prompt_and_completion(made: list[tuple[list[int], list[int]]]) -> None:
    bodies, path = grow(made)
    view = view_tokens(bodies)
    assert asked_in(view) == made
    assert view.is_exact
    assert path.is_exact
    assert path.known == array("I", [*made[-1][0], *made[-1][1]]).tobytes()


@given(requests())
def test_every_drift_is_found_where_it_is_and_nothing_else_is_one(made: list[tuple[list[int], list[int]]]) -> None:
    bodies, path = grow(made)
    wanted = []
    for number in range(1, len(made)):
        before = made[number - 1][0] + made[number - 1][1]
        if made[number][0][: len(before)] != before:
            prompt = made[number][0]
            at = next((i for i, (a, b) in enumerate(zip(before, prompt, strict=False)) if a != b), len(prompt))
            wanted.append((number, at, len(before) - at))
    assert [(drift.generation, drift.at, drift.lost) for drift in path.drifts] == wanted
    assert len(view_tokens(bodies).segments) == len(wanted) + 1


@given(requests())
def test_each_token_is_sampled_in_one_segment_and_logprobs_belong_to_it(
    made: list[tuple[list[int], list[int]]],
) -> None:
    view = view_tokens(grow(made)[0])
    assert sum(sum(segment.loss_mask) for segment in view.segments) == sum(len(completion) for _, completion in made)
    for segment in view.segments:
        assert len(segment.ids) == len(segment.kinds) == len(segment.logprobs)
        inside = {place for span in segment.spans for place in range(span.start, span.end)}
        for place, (kind, value) in enumerate(zip(segment.kinds, segment.logprobs, strict=True)):
            assert (kind == TokenKind.SAMPLED) == (place in inside) == (not math.isnan(value))


@given(requests())
def test_without_drift_every_id_is_stored_once(made: list[tuple[list[int], list[int]]]) -> None:
    grown: list[tuple[list[int], list[int]]] = []
    known: list[int] = []
    for prompt, completion in made:
        known = known + prompt
        grown.append((known, completion))
        known = known + completion
    bodies, path = grow(grown)
    stored = [body.generation.tokens for body in bodies if body.generation and body.generation.tokens]
    assert sum(len(tokens.new_ids) + len(tokens.completion_ids) for tokens in stored) == len(known)
    assert path.drifts == []


@given(st.lists(st.integers(0, 3), max_size=9), st.lists(st.integers(0, 3), max_size=9))
def test_common_prefix_is_the_longest(one: list[int], other: list[int]) -> None:
    length = common_prefix(array("I", one).tobytes(), array("I", other).tobytes())
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


CALL = {"tool_calls": (ToolCall("a", "echo"),)}


@pytest.mark.parametrize(
    ("message", "second", "cause"),
    [
        (CALL, [1, 2, 9], "calls"),
        ({}, [1, 2, 9], "text"),
        ({"reasoning": "so"}, [1, 2, 9], "reasoning"),
        ({}, [1, 9, 3, 4], "template"),
        ({}, [1, 2, 3], "text"),
    ],
)
def test_a_drift_is_named_by_where_it_lies(message: dict[str, Any], second: list[int], cause: str) -> None:
    _, path = grow([([1, 2], [3, 4]), (second, [5])], **message)
    assert [drift.cause for drift in path.drifts] == [cause]


def test_what_the_view_did_goes_before_what_the_place_suggests() -> None:
    path = TokenPath()
    path.take(Generation(Message("assistant", "a"), tokens=Tokens.of([1, 2], [3])), 0)
    assert path.relate(Tokens.of([1, 9], [4]), "window").drift == "window"
    assert path.relate(Tokens.of([1, 2, 3, 4], [4]), "window").drift is None


def test_a_generation_without_ids_is_not_exact_and_hides_no_later_one() -> None:
    bodies, _ = grow([([1, 2], [3])])
    bodies.append(NodeBody("generation", generation=Generation(Message("assistant", "no ids"))))
    path = TokenPath()
    for body in bodies:
        path.take(body.generation, 0)  # type: ignore[arg-type]
    later = path.relate(Tokens.of([1, 2, 3, 7, 8], [9]))
    assert (later.shared, list(later.new_ids)) == (3, [7, 8])
    bodies.append(NodeBody("generation", generation=Generation(Message("assistant", "ids"), tokens=later)))
    view = view_tokens(bodies)
    assert not view.is_exact
    assert view.segments[0].ids.tolist() == [1, 2, 3, 7, 8, 9]
    assert [span.generation for span in view.segments[0].spans] == [0, 2]


@given(requests(), st.sets(st.integers(0, 5)))
def test_rows_have_every_prompt_also_behind_generations_that_sampled_nothing(
    made: list[tuple[list[int], list[int]]], silent: set[int]
) -> None:
    made = [(prompt, [] if number in silent else completion) for number, (prompt, completion) in enumerate(made)]
    bodies, _ = grow(made)
    found = ids_of_path(body.generation for body in bodies if body.generation is not None)
    assert [ids and (ids.prompt.tolist(), ids.completion.tolist()) for ids in found] == [
        (prompt, completion) if completion else None for prompt, completion in made
    ]


def test_attempts_from_one_node_hold_the_same_prompt_in_memory_once() -> None:
    tree = RolloutTree("t", (Message("user", "hi"),))
    nodes = [
        tree.append(
            tree.trunk,
            NodeBody("generation", generation=Generation(Message("assistant", "a"), tokens=Tokens.of(range(999), [n]))),
            n,
            0,
        )
        for n in range(3)
    ]
    held = {
        id(node.body.generation.tokens.new) for node in nodes if node.body.generation and node.body.generation.tokens
    }
    assert len(held) == 1


def test_a_value_for_each_answer_is_spread_over_the_tokens_that_were_sampled_in_it() -> None:
    segment = Segment(
        array("I", range(8)),
        bytearray([0, 1, 1, 0, 0, 1, 0, 0]),
        array("f", [math.nan] * 8),
        [SampledSpan(0, 1, 3), SampledSpan(2, 5, 6)],
    )
    assert segment.per_token([0.5, 9.0, -1.0]) == [0, 0.5, 0.5, 0, 0, -1.0, 0, 0]
