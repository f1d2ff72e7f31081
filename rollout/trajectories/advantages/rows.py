"""Rows of a batch, and which of them belong together: groups, trajectories, padding.

Every statistic here is taken over *trajectories*, not rows. A trajectory that was cut into several rows (segments)
counts once, whatever their number, and all its rows get the same advantage. A row that only fills a batch up counts
nowhere. A trajectory without a reward counts nowhere either; its advantage is nan, which no loss swallows in silence,
until the caller chooses what it should be.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """One number for each row, or for each node."""

    values: Floats
    """nan where there is none: no reward, padding, or nothing that was sampled."""

    @property
    def known(self) -> Bools:
        """Where there is one: the mask for a loss."""
        return ~np.isnan(self.values)

    def zeroed(self) -> Floats:
        """The same with 0 where there is none: for losses that multiply by `known` anyway."""
        return np.where(self.known, self.values, 0.0)


class Rows:
    """Which group and which trajectory each row belongs to.

    Without `trajectories` every row is a trajectory of its own. With them, rows of the same group and the same
    trajectory are its segments or its steps, in order.
    """

    def __init__(
        self,
        groups: npt.ArrayLike,
        *,
        trajectories: npt.ArrayLike | None = None,
        is_padding: npt.ArrayLike | None = None,
    ) -> None:
        self.group = codes(groups, "groups")
        """The number of each row's group."""
        count = len(self.group)
        self.is_padding: Bools = (
            np.zeros(count, dtype=np.bool_) if is_padding is None else np.asarray(is_padding, dtype=np.bool_)
        )
        _check_length(self.is_padding, count, "is_padding")
        own = np.arange(count) if trajectories is None else codes(trajectories, "trajectories")
        _check_length(own, count, "trajectories")
        real = np.flatnonzero(~self.is_padding)
        _, first, unit = np.unique(pair_codes(self.group, own)[real], return_index=True, return_inverse=True)
        self.first: Ints = real[first]
        """The first row of each trajectory."""
        self.trajectory: Ints = np.full(count, -1, dtype=np.intp)
        """The number of each row's trajectory; -1 for padding."""
        self.trajectory[real] = unit
        self.groups = int(self.group.max(initial=-1)) + 1
        """How many groups there are."""

    def __len__(self) -> int:
        return len(self.group)

    def split(self, labels: npt.ArrayLike) -> Rows:
        """The same rows in smaller groups: those of a group that have the same label."""
        own = np.where(self.is_padding, -1, self.trajectory)
        finer = pair_codes(self.group, codes(labels, "labels"))
        return Rows(finer, trajectories=own, is_padding=self.is_padding)

    def steps(self) -> Rows:
        """The same rows and groups, each row counted for itself."""
        return Rows(self.group, is_padding=self.is_padding)

    def of_trajectories(self, values: npt.ArrayLike, name: str = "rewards") -> Floats:
        """One number for each trajectory, from one for each row. None and nan mean that there is none.

        The rows of a trajectory must agree. A reward that stands on its last segment alone would make the others look
        like failures, so it is refused.
        """
        given = self.numbers(values, name)
        chosen = given[self.first]
        real = np.flatnonzero(~self.is_padding)
        theirs = chosen[self.trajectory[real]]
        differs = (given[real] != theirs) & ~(np.isnan(given[real]) & np.isnan(theirs))
        if differs.any():
            row = int(real[differs.argmax()])
            raise ValueError(
                f"{name}: row {row} has {given[row]:g}, but the same trajectory has "
                f"{chosen[self.trajectory[row]]:g} in row {self.first[self.trajectory[row]]}; expected the "
                "trajectory's own number in each of its rows"
            )
        return chosen

    def numbers(self, values: npt.ArrayLike, name: str) -> Floats:
        """One float for each row: nan for None and for padding. What is infinite is refused."""
        array = np.array(values, dtype=np.float64)
        _check_length(array, len(self), name)
        array[self.is_padding] = np.nan
        if np.isinf(array).any():
            raise ValueError(f"{name}: row {int(np.isinf(array).argmax())} is infinite")
        return array

    def spread(self, values: Floats) -> Floats:
        """One number for each row from one for each trajectory; nan for padding."""
        return np.where(self.is_padding, np.nan, np.append(values, np.nan)[self.trajectory])


def codes(labels: npt.ArrayLike, name: str) -> Ints:
    """Labels (texts or numbers) as numbers from 0."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one label for each row, got an array of shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.intp)


def sum_by(places: Ints, values: Floats, size: int) -> Floats:
    """The sums of the values that go to each place."""
    return np.bincount(places, values, size).astype(np.float64)


def pair_codes(one: Ints, other: Ints) -> Ints:
    """A number from 0 for each pair that occurs."""
    wide = one * (other.max(initial=0) - other.min(initial=0) + 1) + (other - other.min(initial=0))
    return np.unique(wide, return_inverse=True)[1].astype(np.intp)


def _check_length(array: npt.NDArray[np.generic], count: int, name: str) -> None:
    if array.shape != (count,):
        raise ValueError(f"{name}: expected {count} rows, got an array of shape {array.shape}")
