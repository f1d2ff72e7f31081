"""The contract of a filter: a class that holds its parameters and finds what should not be learnt.

A filter is a section of the configuration. Its fields are the keys under `filters.<name>`, each with a docstring, and
are checked like all others. Its base class decides what it is shown, and in which of three passes over a run:

| base class | pass | is shown | policies |
|---|---|---|---|
| `TurnFilter` | 1 | one trajectory; its findings name turns | all |
| `WholeFilter` | 1 | one trajectory | drop, keep |
| `ComparingFilter` | 2 | all trajectories that the first pass did not drop | drop, keep |
| `GroupFilter` | 3 | what the attempts at one task are worth | drop, keep |

A filter never raises, whatever a trajectory holds, and keeps nothing from one trajectory to the next. One file with its
class and a line in the table of `rollout.config.filters` make a built-in filter. Filters of other packages are found by
the entry-point group `rollout.filters`, or as `module:Name`:

    class Short(TurnFilter):
        "Answers of few words."

        words: int = 3
        "The fewest words of an answer."

        def find(self, trajectory, turns):
            for turn in turns:
                if len(trajectory.spoken(turn.message)) < self.words:
                    yield Found(f"fewer than {self.words} words", turn=turn.turn)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import field_validator

from rollout.core.errors import ConfigError
from rollout.core.section import Section
from rollout.trajectories.filters.marks import Found, Policy
from rollout.trajectories.filters.traces import LoadTrace, Sketch, Trace
from rollout.trajectories.filters.turns import Turn
from rollout.trajectories.rewards import RECORDED, reward_rule
from rollout.trajectories.trajectory import Trajectory

__all__ = ["ComparingFilter", "Found", "GroupFilter", "Trajectory", "Turn", "TurnFilter", "WholeFilter"]

WholePolicy = Literal["drop_trajectory", "keep"]


class Filter(Section):
    """The keys that every filter has. Derive from one of the classes below."""

    enabled: bool = True
    """Whether it looks at all. `name: false` is short for it."""
    policy: Policy = "drop_trajectory"
    """What becomes of what it finds."""


class TrajectoryFilter(Filter):
    """A filter that needs nothing but the trajectory itself."""

    finds_broken: ClassVar[bool] = False
    """Whether what it finds is infrastructure that broke. Such a filter is also shown trajectories that failed; what it
    marks is compared with nothing and counts in no group."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        """What it finds, in order."""
        raise NotImplementedError


class TurnFilter(TrajectoryFilter):
    """A filter that finds turns."""

    policy: Policy = "drop_trajectory"
    """What becomes of what it finds. `name: mask_turn` is short for it."""


class WholeFilter(TrajectoryFilter):
    """A filter that finds whole trajectories."""

    policy: WholePolicy = "drop_trajectory"
    """What becomes of what it finds. `name: keep` is short for it."""


class ComparingFilter(Filter):
    """A filter that compares trajectories with one another.

    A run may be larger than memory: a trajectory's sketch stays in memory, its trace is stored and loaded when asked
    for.
    """

    policy: WholePolicy = "keep"
    """What becomes of what it finds."""

    def trace(self, trajectory: Trajectory, digests: Sequence[bytes]) -> tuple[Sketch, Trace]:
        """What to keep of a trajectory, and what to store. `digests`: those of its messages."""
        raise NotImplementedError

    def compare(self, sketches: Sequence[Sketch], load: LoadTrace) -> Iterator[tuple[int, Found]]:
        """What it finds, each with the place of the trajectory's sketch."""
        raise NotImplementedError


class GroupFilter(Filter):
    """A filter that takes or leaves whole groups."""

    policy: WholePolicy = "keep"
    """What becomes of what it finds."""
    reward: str = RECORDED
    """What an attempt is worth: recorded (the run's own rule), success, scores, partial, score:NAME, partial:NAME, or
    module:function."""

    @field_validator("reward")
    @classmethod
    def _is_a_rule(cls, value: str) -> str:
        try:
            reward_rule(value)
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("reward: ")) from error
        return value

    def judge(self, rewards: Sequence[float]) -> Found | None:
        """What is wrong with a group whose attempts are worth this, if anything. Rewards are sorted."""
        raise NotImplementedError
