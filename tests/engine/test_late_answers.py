"""What an agent no longer waits for is no part of the record: a finished path does not grow."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.store.reading.reader import open_reader
from tests.conftest import read_lines

OUT, RUN = Path("out.jsonl"), Path("run")


class Held:
    """Something of the first task that is asked for, and comes when the second task's agent is at work."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_come = asyncio.Event()
        self.left: list[asyncio.Task[Any]] = []

    async def wait(self) -> None:
        self.is_asked.set()
        await self.may_come.wait()


class Slow(rollout.World):
    """A world with one slow tool."""

    held: Held

    @rollout.tool
    async def look(self) -> str:
        """Look around."""
        await type(self).held.wait()
        return "Nothing."


def is_first(messages: Sequence[rollout.Message]) -> bool:
    return any(message.content == "First." for message in messages)


@pytest.mark.parametrize(
    ("ask", "recorded"),
    [
        (lambda session: session.generate(), []),
        (lambda session: session.generate("And now?"), ["note"]),
        (lambda session: session.generate([{"role": "user", "content": "First."}]), []),
        (lambda session: session.say("Hello."), ["generation"]),
        (lambda session: session.call("look"), ["generation", "tool"]),
    ],
    ids=["answer", "noted", "aside", "reply", "call"],
)
@pytest.mark.parametrize("record_states", [False, True])
async def test_what_comes_after_the_end_is_not_recorded(
    ask: Callable[[rollout.Session], Awaitable[Any]],
    recorded: list[str],
    record_states: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = Slow.held = Held()

    async def model(request: rollout.Request) -> str:
        if is_first(request.messages):
            await held.wait()
        return "An answer."

    async def user(request: rollout.Request) -> str:
        if any("Hello." in (message.content or "") for message in request.messages):
            await held.wait()
        return "A reply."

    async def impatient(task: rollout.Task, session: rollout.Session) -> None:
        if task.id == "first":
            held.left.append(asyncio.ensure_future(ask(session)))
            await held.is_asked.wait()
            return
        held.may_come.set()
        await asyncio.wait(held.left)
        await session.generate()

    tasks = [rollout.Task("first", "First."), rollout.Task("second", "Second.")]
    await rollout.arun(
        rollout.Environment(tasks=tasks, world=Slow),
        model=model,
        user=user,
        agent=impatient,
        run_dir=RUN,
        output_path=OUT,
        record_states=record_states,
        progress=False,
        config={"max_workers": 1},
    )
    lines = {line["id"]: line for line in read_lines(OUT)}
    run = rollout.load_run(RUN)
    assert [attempt.status for attempt in run.trajectories] == ["completed", "completed"]
    for attempt in run.trajectories:
        assert [message.content for message in attempt.messages] == [
            message["content"] for message in lines[attempt.id]["messages"]
        ]
    assert [body.kind for body in run.trajectories[0].nodes or ()] == ["opening", *recorded]
    with open_reader(RUN) as reader:
        built = {id: reader.line("Slow", id) for id in lines}
    assert [built[id] for id in ("first", "second")] == OUT.read_bytes().splitlines(keepends=True)
    held.left.clear()
    gc.collect()
    assert "never retrieved" not in caplog.text, "asyncio reports what nobody waits for"
