"""All scorers of a dataset together, and the one verdict that follows from what they say.

Every scorer says what it has to say; some of them decide. By default those do whose check the task itself declares:
`state`, `communicate`, `milestones`, `minefields`, `nl_assertions`, and custom scorers. `actions` decide only where the
world has no state to compare, or where the reference changes none and nothing else is declared. `scoring.decide` of
the dataset chooses otherwise, else `task_info.scoring.decide` of the task.

A task is solved where every deciding score is a pass, and not solved where one is not. Where none failed but one could
not check what it should have, there is no verdict: unscored, with the reason, and never a pass. Where no deciding
scorer had anything to say, nothing was checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from rollout.core.async_tools import is_cancelled
from rollout.core.errors import ConfigError, describe_error
from rollout.core.task import Task
from rollout.core.world import World
from rollout.scoring.function import FunctionScorer
from rollout.scoring.rules import task_rules
from rollout.scoring.scorer import Scorer
from rollout.trajectories.generation import Generation
from rollout.trajectories.score import Score
from rollout.trajectories.stop import Status
from rollout.trajectories.trajectory import Trajectory

log = logging.getLogger(__name__)
NOTHING_CHECKED = "nothing was checked: the task declares nothing that can be"


class Verdict(msgspec.Struct, frozen=True):
    """What became of a trajectory in the eyes of its scorers."""

    scores: tuple[Score, ...] = ()
    solved: bool | None = None
    """None: unscored."""
    unscored: str | None = NOTHING_CHECKED
    """Why there is no verdict."""
    is_checkable: bool = False
    """Whether there was something to check: then an unscored trajectory is no success, however it ended."""

    @property
    def scored(self) -> bool:
        return self.solved is not None

    def is_success(self, status: str, *, ended_properly: bool) -> bool:
        """Solved, where it was scored. Where there is nothing to check, ending properly is the success."""
        if status != Status.COMPLETED:
            return False
        return self.solved if self.solved is not None else not self.is_checkable and ended_properly

    @property
    def asked(self) -> list[Generation]:
        """Everything that was asked of models."""
        return [generation for score in self.scores for generation in score.asked]


class Panel:
    """The scorers of a dataset."""

    def __init__(
        self, scorers: Sequence[Scorer] = (), *, decide: Sequence[str] | None = None, timeout: float = 600.0
    ) -> None:
        self._scorers = scorers
        self._decide = decide
        self._timeout = timeout
        self._logged: set[str] = set()
        """Errors of scorers whose traceback was logged: one of each kind is enough."""

    @property
    def names(self) -> list[str]:
        return [_name(scorer) for scorer in self._scorers]

    @property
    def custom(self) -> frozenset[str]:
        """The names of the scorers that are not part of this package."""
        return frozenset(_name(scorer) for scorer in self._scorers if _is_custom(scorer))

    @property
    def asks_models(self) -> bool:
        """Whether a scorer may ask a model, which costs something. A scorer says so by `asks_models = True`."""
        return any(getattr(scorer, "asks_models", False) for scorer in self._scorers)

    async def judge(
        self,
        task: Task,
        trajectory: Trajectory,
        world: World,
        close_world: Callable[[], Awaitable[None]] | None = None,
        recorded: Sequence[Score] | None = None,
    ) -> Verdict:
        """Ask every scorer: first those that look at the world, then, when it is closed, those that do not.

        With `recorded` there is no world any more: those that look at it are not asked, and what they said then counts.
        Nothing that goes wrong in one gets out of here: it leaves its part unscored.
        """
        scores: list[Score] = []
        unasked = [scorer for scorer in self._scorers if _applies(scorer, task)]
        unasked.sort(key=_needs_world, reverse=True)
        if recorded is not None:
            scores = [_carried(scorer, recorded) for scorer in unasked if _needs_world(scorer)]
            unasked = [scorer for scorer in unasked if not _needs_world(scorer)]
        if not unasked and not scores:
            return Verdict()
        try:
            async with asyncio.timeout(self._timeout):
                while unasked:
                    if close_world is not None and not _needs_world(unasked[0]):
                        await close_world()
                        close_world = None
                    score = await self._ask(unasked[0], task, trajectory, world)
                    unasked.pop(0)
                    if score is not None:
                        scores.append(score)
        except TimeoutError:
            late = f"no answer within {self._timeout:g} s (timeouts.scoring)"
            scores += [Score(_name(scorer), None, late) for scorer in unasked]
        return self._conclude(task, scores)

    async def _ask(self, scorer: Scorer, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        try:
            score = await scorer.score(task, trajectory, world)
            # Whoever chooses by name, `scoring.decide` or a reward, means the scorer's.
            return score if score is None else msgspec.structs.replace(score, name=_name(scorer))
        except ConfigError as error:
            return Score(_name(scorer), None, str(error))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return Score(_name(scorer), None, "could not be scored: it raised CancelledError")
        except Exception as error:
            # The work is done and paid for: what a scorer cannot say leaves it unscored, never failed.
            what = f"{_name(scorer)}: {describe_error(error)}"
            level = logging.DEBUG if what in self._logged else logging.ERROR
            self._logged.add(what)
            log.log(level, "%s: %s could not score it", trajectory.id, _name(scorer), exc_info=True)
            return Score(_name(scorer), None, f"could not be scored: {describe_error(error)}")

    def _conclude(self, task: Task, scores: Sequence[Score]) -> Verdict:
        try:
            deciding = self.chosen(task)
        except ConfigError as error:
            return Verdict(tuple(scores), unscored=str(error), is_checkable=True)
        if deciding is None:
            advisory = {_name(scorer) for scorer in self._scorers if getattr(scorer, "is_advisory", False)}
            deciding = {score.name for score in scores} - advisory
            # A state that did not have to change shows nothing; then what was called has to show it.
            shown = any(score.shows_work for score in scores if score.name not in ("actions", "minefields"))
            deciding -= {"actions"} if "state" in deciding and shown else set()
        marked = tuple(msgspec.structs.replace(score, decides=score.name in deciding) for score in scores)
        decisive = [score for score in marked if score.decides]
        if any(score.value is not None and not score.is_pass for score in decisive):
            return Verdict(marked, solved=False, unscored=None, is_checkable=True)
        open_ = [score for score in decisive if score.value is None]
        if open_:
            reason = "; ".join(f"{score.name}: {score.reason}" for score in open_)
            return Verdict(marked, unscored=reason, is_checkable=True)
        if decisive:
            return Verdict(marked, solved=True, unscored=None, is_checkable=True)
        return Verdict(marked)

    def chosen(self, task: Task) -> set[str] | None:
        """The scorers that were chosen to decide; None where none was chosen. Raises ConfigError where the task chooses
        what is not there."""
        declared = task_rules(task).decide
        if self._decide is not None or declared is None:
            return None if self._decide is None else set(self._decide)
        unknown = sorted(set(declared) - set(self.names))
        if unknown:
            raise ConfigError(
                f"task {task.id}: task_info.scoring.decide: there is no scorer {', '.join(unknown)}; "
                f"there are: {', '.join(self.names)}"
            )
        return set(declared)


def _carried(scorer: Scorer, recorded: Sequence[Score]) -> Score:
    """What a scorer said when there was a world for it to look at."""
    name = _name(scorer)
    found = next((score for score in recorded if score.name == name), None)
    if found is None:
        found = Score(name, None, "it needs the live world, and the record has no score of it")
    return msgspec.structs.replace(found, is_carried=True)


def _applies(scorer: Scorer, task: Task) -> bool:
    applies = getattr(scorer, "applies", None)
    return applies is None or bool(applies(task))


def _needs_world(scorer: Scorer) -> bool:
    return bool(getattr(scorer, "needs_world", True))


def _is_custom(scorer: Scorer) -> bool:
    kind = type(scorer)
    return kind is FunctionScorer or not kind.__module__.startswith("rollout.")


def _name(scorer: Scorer) -> str:
    return getattr(scorer, "name", type(scorer).__name__)
