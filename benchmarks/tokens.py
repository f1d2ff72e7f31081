"""What token-exact records cost: memory of a tree of 22 leaves against 22 copied chains, and bytes in the journal.

The tree is random expansion with 22 attempts at one task (2 chains, then 2 rounds of 5 for each): each attempt has 8
generations of 120 tokens behind a prompt of 3,000, with results of 400 tokens in between. Copied chains keep what many
rollout libraries keep: for each request its whole prompt and completion as lists of ints, and a list of logprobs.

    python -m benchmarks.tokens
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.messages import Message
from rollout.store.journal import open_journal
from rollout.strategies.random_tree import RandomTree
from rollout.trajectories.generation import Generation, Tokens
from rollout.trajectories.stop import Status
from rollout.trajectories.token_path import TokenPath
from rollout.trajectories.tree import Leaf, Node, NodeBody, RolloutTree

PROMPT, SAMPLED, RESULT, GENERATIONS, VOCABULARY = 3000, 120, 400, 8, 150_000
STRATEGY = RandomTree(trees=2, expansions=5, rounds=2)
Request = tuple[list[int], list[int], list[float]]


def grow_tree(put: Callable[[int, int, NodeBody], None] = lambda episode, place, body: None) -> RolloutTree:
    """A tree of 22 attempts, its nodes as the engine makes them."""
    tree = RolloutTree("task", (Message("user", "hello"),), seed=1)
    first = numbers(random.Random(0), PROMPT)
    expansions = STRATEGY.begin(tree)
    number = 0
    while expansions:
        for expansion in expansions:
            for _ in range(expansion.count):
                grow_chain(tree, expansion.node, number, first, put)
                number += 1
        expansions = STRATEGY.after(tree)
    return tree


def grow_chain(
    tree: RolloutTree, start: Node, number: int, first: list[int], put: Callable[[int, int, NodeBody], None]
) -> None:
    path, node, place = TokenPath(), start, 0
    for above in start.path():
        if above.body.generation is not None:
            path.take(above.body.generation, 0)
    chance = random.Random(number)

    def add(body: NodeBody) -> None:
        nonlocal node, place
        put(number + 1, place, body)
        node, place = tree.append(node, body, number + 1, place), place + 1

    while path.generations < GENERATIONS:
        # What a world answers depends on the call alone here: attempts from one node are given the same result.
        known = msgspec.convert([*memoryview(bytes(path.known)).cast("I")], list[int])
        prompt = known + numbers(random.Random(repr(known[-8:])), RESULT) if known else first
        tokens = Tokens.of(prompt, numbers(chance, SAMPLED), [-chance.random() for _ in range(SAMPLED)])
        generation = Generation(Message("assistant", "an answer"), tokens=path.relate(tokens))
        path.take(generation, 0)
        add(NodeBody("generation", generation=generation))
        add(NodeBody("tool", message=Message("tool", "a result", tool_call_id="a")))
    tree.add_leaf(Leaf(node, number, Status.COMPLETED, 1.0, start))


def numbers(chance: random.Random, count: int) -> list[int]:
    return [chance.randrange(300, VOCABULARY) for _ in range(count)]


def copy_chains(tree: RolloutTree) -> list[list[Request]]:
    """The same attempts as lists of whole requests."""
    chains = []
    for leaf in tree.leaves:
        known: list[int] = []
        requests: list[Request] = []
        for node in leaf.node.path():
            tokens = node.body.generation.tokens if node.body.generation is not None else None
            if tokens is not None:
                prompt = [int(token) for token in known[: tokens.shared]] + tokens.new_ids.tolist()
                requests.append((prompt, tokens.completion_ids.tolist(), tokens.logprobs.tolist()))
                known = prompt + requests[-1][1]
        chains.append(requests)
    return chains


def one_sequence(tree: RolloutTree) -> list[Request]:
    """The same attempts as one sequence each: whole ids, a mask, logprobs."""
    rows = []
    for chain in copy_chains(tree):
        prompt, completion, _ = chain[-1]
        ids = prompt + completion
        rows.append((ids, [1] * len(ids), [0.0] * len(ids)))
    return rows


def measured(make: Callable[[], Any]) -> tuple[int, Any]:
    """Bytes that what it makes takes."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before, made


async def journal_bytes(as_arrays: bool) -> float:
    """Bytes of the journal for each attempt. `as_arrays`: ids as arrays of ints, whole prompts, as they came."""
    with tempfile.TemporaryDirectory() as folder:
        journal = open_journal(Path(folder) / "run")
        journal.begin_tree("d", "task", (Message("user", "hello"),))
        if as_arrays:
            # The same rows, but every prompt whole and every number by itself.
            sizes = sum(
                len(msgspec.msgpack.encode(request)) for chain in own_requests(grow_tree()) for request in chain
            )
            await journal.close()
            return sizes / STRATEGY.most

        def put(episode: int, place: int, body: NodeBody) -> None:
            journal.put(episode, place, [body])

        grow_tree(put)
        await journal.flush()
        pages = journal._db.execute("SELECT sum(length(body)) FROM nodes").fetchone()[0]
        pages += journal._db.execute("SELECT coalesce(sum(length(ids) + 16), 0) FROM token_pieces").fetchone()[0]
        await journal.close()
        return pages / STRATEGY.most


def own_requests(tree: RolloutTree) -> list[list[Request]]:
    """Of each attempt the requests that it made itself, not those that it shares."""
    whole = copy_chains(tree)
    return [
        chain[-sum(node.body.kind == "generation" for node in leaf.own_nodes()) :]
        for chain, leaf in zip(whole, tree.leaves, strict=True)
    ]


def main() -> None:
    ours, tree = measured(grow_tree)
    copied, _ = measured(lambda: copy_chains(tree))
    rows, _ = measured(lambda: one_sequence(tree))
    print(f"{len(tree.leaves)} leaves, {GENERATIONS} generations each, tokens on the longest path: ", end="")
    print(PROMPT + GENERATIONS * SAMPLED + (GENERATIONS - 1) * RESULT)
    print(f"{'memory of the tree, tokens included':48}{ours / 1e6:9.2f} MB")
    print(f"{'22 chains, one sequence each, lists of ints':48}{rows / 1e6:9.2f} MB  {rows / ours:6.1f}×")
    print(f"{'22 chains, every request whole, lists of ints':48}{copied / 1e6:9.2f} MB  {copied / ours:6.1f}×")
    packed, arrays = asyncio.run(journal_bytes(False)), asyncio.run(journal_bytes(True))
    print(f"{'journal for each attempt':48}{packed / 1e3:9.1f} KB")
    print(f"{'the same with whole prompts as msgpack arrays':48}{arrays / 1e3:9.1f} KB  {arrays / packed:6.1f}×")


if __name__ == "__main__":
    main()
