"""The contract of a form of training data, and finding one by its name.

A form is given the attempts at one task at a time and makes records of them, all with the same columns. Its fields are
its parameters, checked like those of a configuration. One file with its class and a line in the table of
`rollout.trajectories.rows` make a built-in form. Others come by the entry-point group `rollout.row_forms` or as
`module:Name`:

    class Prompts(RowForm):
        "The first message of each task."

        columns = {"task_id": "text", "prompt": "text"}
        longest: int = 1000
        "Characters of a prompt at most."

        def records(self, group, account):
            first = group[0]
            yield {"task_id": first.head.task_id, "prompt": (first.messages[-1].content or "")[: self.longest]}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import ClassVar, Protocol

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.core.plugins import find_plugin
from rollout.core.section import Section
from rollout.trajectories.exports.parquet import IMAGE, IMAGE_PATH, Column, Columns
from rollout.trajectories.rows import BUILT_IN
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.tokenising import ChatTokenizer

__all__ = ["Account", "Attempted", "Columns", "RecordMaker", "RowForm", "TokenChoice"]


class Account(Protocol):
    """Counts what became of attempts. Reasons name no trajectory, so that equal ones are counted together."""

    def drop(self, reason: str) -> None:
        """An attempt is left out."""
        ...

    def note(self, text: str) -> None:
        """Something worth counting that leaves nothing out."""
        ...


class RecordMaker(Protocol):
    """Makes the records of one export."""

    @property
    def columns(self) -> Columns:
        """What its records have."""
        ...

    @property
    def compares(self) -> bool:
        """Whether its records tell of attempts that are left out, too: then it is given them (`is_learnt`)."""
        ...

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        """The records of the attempts at one task."""
        ...


class TokenChoice(msgspec.Struct, frozen=True):
    """What the values of records are: token ids or messages, and images."""

    text: bool | None = None
    """True: messages. False: token ids. None: nothing was asked for."""
    tokenizer: ChatTokenizer | None = None
    """Makes token ids of text."""
    any_ids: bool = False
    """Whether any of the trajectories has token ids on record."""
    any_images: bool = False
    """Whether the model of any of the trajectories was sent images."""
    embeds_images: bool = True
    """Whether a table holds the bytes of images, not only the paths of their files."""

    @property
    def image_column(self) -> Column | None:
        """The type of an image in a table; None where there are no images."""
        if not self.any_images:
            return None
        return IMAGE if self.embeds_images else IMAGE_PATH

    def has_ids(self, by_default: bool) -> bool:
        """Whether records hold token ids; `by_default`, where nothing was asked for."""
        return not self.text if self.text is not None else self.tokenizer is not None or by_default


class RowForm(Section):
    """One form of training data. Set `columns` and write `records`, or write `maker` where these depend on whether
    there are token ids. What it leaves out it tells its account, so that the numbers add up."""

    has_advantages: ClassVar[bool] = False
    """Whether advantages are worked out for it."""
    needs_ids: ClassVar[bool] = False
    """Whether its records hold token ids in any case."""
    compares: ClassVar[bool] = False
    """As of `RecordMaker`."""
    keeps_grown_on: ClassVar[bool] = False
    """Whether it is also given corrections from which attempts were grown on. Others would learn these twice."""
    columns: ClassVar[Columns] = {}
    """As of `RecordMaker`, with their types (`rollout.trajectories.exports.parquet.Column`)."""

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        """What makes the records of one export: by default the form itself."""
        return self

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        """The records of the attempts at one task."""
        raise NotImplementedError


def find_form(name: str) -> type[RowForm]:
    """The class of a form: built in, an entry point, or `module:Name`. Raises ConfigError."""
    found = find_plugin("rollout.row_forms", BUILT_IN.get(name, name))
    if found is None:
        known = [*BUILT_IN, *(point.name for point in entry_points(group="rollout.row_forms"))]
        raise ConfigError(f"--form: there is no {name!r}; there are {', '.join(known)}, or your own as module:Name")
    if not (isinstance(found, type) and issubclass(found, RowForm)):
        raise ConfigError(f"--form: {name}: is no form; expected a subclass of {__name__}:RowForm")
    return found
