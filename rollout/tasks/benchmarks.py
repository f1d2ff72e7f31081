"""Task files of web benchmarks as ordinary tasks: WebGym, WebVoyager, Online-Mind2Web.

`ordinary_entry` recognises an entry by a key that only its benchmark has, and turns it into the form that every task
line has. Another benchmark is one more function and one more entry of `_CONVERTERS`.

WebVoyager and Online-Mind2Web say nothing about when a task is solved: people or a judge look at it. Such a task gets a
rubric of one fact, that the task was done in full, which needs a judge (`scoring.judge`). WebVoyager's reference
answers are in a file of their own, `reference_answer.json` beside the tasks. A `golden` one becomes
`task_info.reference_answer`, with which the judge compares the agent's answer. Other answers that were possible when
the file was written are kept as `task_info.possible_answer` and not compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.tasks.web import Text, full_url, task_id_of, web_entry

REFERENCES = "reference_answer.json"
"""The file of WebVoyager's reference answers, beside its tasks."""
_DIFFICULTIES = {"easy": 1, "medium": 4, "hard": 7}
"""The lowest difficulty of each group."""
_DONE = "The task was done in full, as it was asked: {}"


class VoyagerLine(msgspec.Struct, frozen=True):
    """A line of WebVoyager's task file."""

    ques: Text
    """The instruction."""
    web: Text
    """The page it begins at."""
    web_name: str = ""
    id: str | int | None = None

    def __post_init__(self) -> None:
        full_url(self.web)


class Mind2WebEntry(msgspec.Struct, frozen=True):
    """An entry of Online-Mind2Web's task file."""

    confirmed_task: Text
    """The instruction."""
    website: Text
    task_id: str | int | None = None
    level: str | None = None
    """easy, medium or hard, in any case; nothing where it was not graded."""

    def __post_init__(self) -> None:
        full_url(self.website)
        if self.difficulty is None and self.level:
            raise ValueError(f"level {self.level!r}: expected easy, medium or hard")

    @property
    def difficulty(self) -> int | None:
        """The lowest difficulty of its level."""
        return _DIFFICULTIES.get((self.level or "").strip().lower())


class VoyagerAnswer(msgspec.Struct, frozen=True):
    """A reference answer of WebVoyager."""

    id: int | str
    ans: str | int | float | None
    type: str = "possible"


class _SiteAnswers(msgspec.Struct, frozen=True):
    answers: list[VoyagerAnswer] = []


class AnswerFiles:
    """The reference answers beside task files. Each folder is looked into once, when a task first asks for it."""

    def __init__(self) -> None:
        self._found: dict[Path, dict[str, VoyagerAnswer]] = {}

    @property
    def content(self) -> bytes:
        """All answers that were found, in a form to be hashed; empty where there are none."""
        return b"".join(msgspec.json.encode(answers) for answers in self._found.values() if answers)

    def add_to(self, entry: Any, folder: Path) -> Any:
        """An entry with the reference answer that a file in `folder` has for it; any other entry as it is. Raises
        ConfigError where that file cannot be read."""
        if not (isinstance(entry, dict) and "ques" in entry and "messages" not in entry):
            return entry
        if folder not in self._found:
            self._found[folder] = _read_answers(folder / REFERENCES)
        answer = self._found[folder].get(str(entry.get("id")))
        if answer is None or answer.ans is None:
            return entry
        key = "reference_answer" if answer.type == "golden" else "possible_answer"
        return {key: str(answer.ans), **entry}


def ordinary_entry(entry: JSON) -> JSON:
    """An ordinary task line of an entry of any known benchmark; one that is ordinary as it is. Raises msgspec's
    ValidationError that names what is wrong."""
    if "messages" not in entry:
        for key, convert in _CONVERTERS.items():
            if key in entry:
                return convert(entry)
    return entry


def voyager_entry(entry: JSON) -> JSON:
    """An ordinary task line of a line of WebVoyager's."""
    line = msgspec.convert(entry, VoyagerLine)
    info = _kept(entry, "id", "ques", "web", "web_name")
    return _ordinary(line.id, entry, line.ques, {**info, "website": full_url(line.web), "domain": line.web_name})


def mind2web_entry(entry: JSON) -> JSON:
    """An ordinary task line of an entry of Online-Mind2Web's."""
    found = msgspec.convert(entry, Mind2WebEntry)
    info = _kept(entry, "task_id", "confirmed_task") | {"website": full_url(found.website)}
    if found.difficulty is not None:
        info["difficulty"] = found.difficulty
    return _ordinary(found.task_id, entry, found.confirmed_task, info)


_CONVERTERS: dict[str, Callable[[JSON], JSON]] = {
    "task_name": web_entry,
    "ques": voyager_entry,
    "confirmed_task": mind2web_entry,
}
"""By the key that holds a benchmark's instruction."""


def _kept(entry: JSON, *replaced: str) -> JSON:
    return {key: value for key, value in entry.items() if key not in replaced}


def _ordinary(given_id: str | int | None, entry: JSON, instruction: str, info: JSON) -> JSON:
    if not any(key in info for key in ("rubric", "checks", "answer", "definite_answer")):
        info = {**info, "rubric": [{"description": _DONE.format(instruction), "difficulty": 1}]}
    return {
        "id": task_id_of(given_id, entry),
        "messages": [{"role": "user", "content": instruction}],
        "task_info": info,
    }


def _read_answers(path: Path) -> dict[str, VoyagerAnswer]:
    """The answers by the ids of their tasks: `<site>--<number>`. None where there is no such file."""
    try:
        sites = msgspec.json.decode(path.read_bytes(), type=dict[str, _SiteAnswers])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the reference answers: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        text = 'expected {"<site>": {"answers": [{"id": 0, "type": "golden", "ans": "…"}]}}'
        raise ConfigError(f"{path}: not WebVoyager's reference answers: {error}; {text}") from error
    return {f"{site}--{answer.id}": answer for site, found in sites.items() for answer in found.answers}
