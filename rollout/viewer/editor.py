"""The editor of one run: corrections, growths, and conversations that a person plays in.

`people/` is open for writing only while it is needed, so a program may add to the same run in between.
Work in the background is a task of the server and ends with it; unfinished growths can be resumed later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from rollout.config.schema import Config
from rollout.core.errors import ConfigError, RolloutError, describe_error
from rollout.core.messages import Message
from rollout.engine.engine import Engine
from rollout.pipelines.people.growth import (
    Growth,
    error_of,
    grow,
    growth_config,
    newest,
    read_growths,
    state_of,
    stop_growth,
)
from rollout.pipelines.people.people_run import PeopleRun, open_people
from rollout.pipelines.people.remote_person import Part, RemotePerson
from rollout.pipelines.run_code import refuse_code_of_runs
from rollout.store.reading.reader import JournalReader
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody
from rollout.viewer.answers.people import ShownGrowthState
from rollout.viewer.errors import not_found
from rollout.viewer.open_runs import OpenRun

log = logging.getLogger(__name__)
PUBLISHED_EVERY = 0.2
"""Seconds between two messages about the same growth, at least."""
Changed = Callable[[Growth], None]
T = TypeVar("T")


class _Job:
    """A running growth. It observes its engine, so it notices every change."""

    def __init__(self, growth: Growth) -> None:
        self.growth = growth
        self.person = None if growth.part is None else RemotePerson(growth.part, self._notice, growth.author)
        self.engine: Engine | None = None
        self.is_stopped = False
        self.changed = asyncio.Event()

    def _notice(self) -> None:
        self.changed.set()

    def watch(self, engine: Engine) -> None:
        """Called when the engine is about to run."""
        self.engine = engine
        if self.is_stopped:
            self.stop()

    def stop(self) -> None:
        """Stop it now, or as soon as it runs."""
        self.is_stopped = True
        if self.engine is not None:
            self.engine.pause("stopped")
            self.engine.cut()

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        self._notice()

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        self._notice()

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        self._notice()


class RunEditor:
    """Changes by people to one run. `changed` is called shortly after each change of a growth; `config_file` replaces
    the recorded configuration."""

    def __init__(
        self, run: OpenRun, tasks: asyncio.TaskGroup, changed: Changed, config_file: Path | None = None
    ) -> None:
        self._run = run
        self._tasks = tasks
        self._changed = changed
        self._config_file = config_file
        self._jobs: dict[int, _Job] = {}
        self._problems: dict[int, str] = {}
        """Why growths ended that could not be recorded as failed, by their numbers."""
        self._people: PeopleRun | None = None
        self._users = 0
        self._held = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[PeopleRun]:
        """`people/` of the run, open for writing. Several may be in the block at once."""
        async with self._opening:
            if self._people is None:
                self._people = await self._held.enter_async_context(open_people(self._run.path))
            self._users += 1
        try:
            yield self._people
        finally:
            async with self._opening:
                self._users -= 1
                if self._users == 0:
                    self._people = None
                    await self._held.aclose()

    async def config(self) -> Config:
        """The configuration for growths. Raises ConfigError."""

        def read() -> Config:
            config = growth_config(self._run.path, self._config_file)
            if self._config_file is None:
                refuse_code_of_runs(config)
            return config

        return await to_thread.run_sync(read)

    async def read(self, number: int) -> Growth:
        """The growth with this number. Raises RequestRefused if there is none."""
        found = next((each for each in await self.growths() if each.number == number), None)
        if found is None:
            raise not_found(f"{self._run.name}: there is no growth {number}")
        return found

    async def growths(self) -> list[Growth]:
        """All growths, oldest first."""
        return await self.reading(read_growths) if self._run.has_people else []

    async def reading(self, read: Callable[[JournalReader], T]) -> T:
        """The result of `read` on the journal of `people/`, with everything written so far."""
        if self._people is not None:
            await self._people.journal.flush()

        def look() -> T:
            with self._run.reading_people() as journal:
                return read(journal)

        return await to_thread.run_sync(look)

    def state(self, journal: JournalReader, growth: Growth) -> ShownGrowthState:
        """The state of a growth."""
        if growth.number in self._jobs:
            return "running"
        # It may have ended since it was read.
        found = state_of(journal, newest(journal, growth))
        if found != "unfinished":
            return found
        return "failed" if growth.number in self._problems else "waiting"

    def error(self, journal: JournalReader, growth: Growth) -> str | None:
        """Why a growth failed."""
        if growth.number in self._jobs:
            return None
        return error_of(journal, newest(journal, growth)) or self._problems.get(growth.number)

    def person(self, growth: Growth) -> RemotePerson:
        """The person who plays in a conversation. Raises ConfigError if the conversation is not running."""
        job = self._jobs.get(growth.number)
        if job is None or job.person is None:
            raise ConfigError(f"conversation {growth.number} is not running; resume it first")
        return job.person

    def waits_for(self, growth: Growth) -> Part | None:
        """Whose turn it is in a running conversation."""
        job = self._jobs.get(growth.number)
        if job is None or growth.part is None or job.person is None:
            return None
        other: Part = "user" if growth.part == "agent" else "agent"
        return growth.part if job.person.is_waiting else other

    def start(self, growth: Growth) -> None:
        """Grow it in the background. Raises ConfigError if it is running already."""
        if growth.number in self._jobs:
            raise ConfigError(f"growth {growth.number} is running already")
        self._problems.pop(growth.number, None)
        job = self._jobs[growth.number] = _Job(growth)
        self._tasks.create_task(self._grow(job))

    async def stop(self, growth: Growth) -> Growth:
        """Stop a growth."""
        async with self.writing() as people:
            stopped = stop_growth(people, growth)
            if (job := self._jobs.get(growth.number)) is not None:
                job.stop()
        self._changed(stopped)
        return stopped

    def close(self) -> None:
        """Stop everything; it can be resumed later."""
        for job in self._jobs.values():
            job.stop()

    async def _grow(self, job: _Job) -> None:
        growth = job.growth
        try:
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(job))
                try:
                    async with self.writing() as people:
                        config = await self.config()
                        await grow(people, growth, config, person=job.person, observers=[job], watch=job.watch)
                finally:
                    telling.cancel()
        except* RolloutError as group:
            self._problems[growth.number] = str(_first(group))
        except* Exception as group:
            # A growth that fails must not stop the server. It can be resumed.
            log.exception("growth %d of %s failed", growth.number, self._run.path)
            self._problems[growth.number] = f"unexpected {describe_error(_first(group))}"
        finally:
            del self._jobs[growth.number]
            self._changed(growth)

    async def _tell(self, job: _Job) -> None:
        while True:
            await job.changed.wait()
            job.changed.clear()
            self._changed(job.growth)
            await asyncio.sleep(PUBLISHED_EVERY)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
