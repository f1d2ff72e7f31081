"""Task files: one JSON object a line, of which only ids and places are kept in memory.

A file is scanned once. What is wrong with a line (undecodable, no messages, an id that was there before) is a `Problem`
with file and line, and the good lines still run. A task is decoded again when an episode asks for it, so the memory of
a run does not grow with its number of tasks.

A file may also be one JSON list of tasks, as some benchmarks have it. Its entries are kept in memory as lines.
"""

from __future__ import annotations

import codecs
import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import Message, Role, ToolSpec, message_from_json
from rollout.core.task import Action, Task
from rollout.tasks.benchmarks import AnswerFiles, ordinary_entry
from rollout.tasks.source import Problem

_decode = msgspec.json.Decoder().decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_MaxSteps = Annotated[int, msgspec.Meta(ge=1)] | None
_ROLES: tuple[Role, ...] = get_args(Role)
_IN_INFO = ("actions", "user_actions", "user_turns", "replies", "communicate", "max_steps")
"""Fields of `Task` that the JSONL form has in `task_info`."""
_BAD_LINE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


class TaskFile:
    """The tasks of one or several files, in order, each id once."""

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self.ids: list[str] = []
        self.problems: list[Problem] = []
        self._files = array("H")
        self._places = array("Q")
        self._lists: dict[int, list[bytes]] = {}
        """The entries of files that are one JSON list, by the number of the file. Places are theirs then."""
        self._answers = AnswerFiles()
        self._fingerprint = hashlib.sha256()
        self._seen: dict[str, str] = {}
        for number, path in enumerate(paths):
            try:
                self._scan(number, path)
            except OSError as error:
                text = f"{path}: cannot read the tasks: {error.strerror or error}; correct the dataset's path"
                raise ConfigError(text) from error
            except ValueError as error:  # a NUL
                raise ConfigError(f"{str(path)!r}: cannot read the tasks: {error}") from error

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Task]:
        return (self.read(index) for index in range(len(self.ids)))

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))

    def read(self, index: int) -> Task:
        """The task at this position of `ids`."""
        path = self.paths[self._files[index]]
        try:
            task = parse_task(self.entry(index))
        except _BAD_LINE as error:
            raise ConfigError(f"{path}: changed while the run was going on: {_describe(error)}") from error
        if task.id != self.ids[index]:
            raise ConfigError(f"{path}: changed while the run was going on (task {self.ids[index]!r} moved)")
        return task

    def entry(self, index: int) -> Any:
        """What the line at this position of `ids` holds, with its reference answer where a file beside it has one."""
        return self._decode(self._files[index], self.line(index))

    def line(self, index: int) -> bytes:
        """The line at this position of `ids`, as its file has it."""
        if self._files[index] in self._lists:
            return self._lists[self._files[index]][self._places[index]]
        with self.paths[self._files[index]].open("rb") as file:
            file.seek(self._places[index])
            return file.readline()

    def lines(self) -> Iterator[bytes]:
        """The good lines as the files have them, each with a newline."""
        return (self.line(index).strip() + b"\n" for index in range(len(self.ids)))

    @property
    def fingerprint(self) -> str:
        """A hash of all good lines, and of the reference answers beside them."""
        digest = self._fingerprint.copy()
        digest.update(self._answers.content)
        return digest.hexdigest()[:16]

    def _decode(self, number: int, line: bytes) -> Any:
        return self._answers.add_to(_decode(line), self.paths[number].parent)

    def _scan(self, number: int, path: Path) -> None:
        if path.exists() and not path.is_file():
            # A device never ends, and a pipe cannot be read twice.
            raise ConfigError(f"{path}: cannot read the tasks: expected a file, which this is not")
        entries = _read_list(path)
        if entries is not None:
            self._lists[number] = entries
            for place, entry in enumerate(entries):
                self._take(number, place, entry, f"{path}:entry {place + 1}")
            return
        place = 0
        with path.open("rb") as file:
            for line_number, line in enumerate(file, 1):
                start, place = place, place + len(line)
                if line_number == 1 and line.startswith(codecs.BOM_UTF8):
                    start, line = start + len(codecs.BOM_UTF8), line[len(codecs.BOM_UTF8) :]
                if not line.strip():
                    continue
                self._take(number, start, line, f"{path}:{line_number}")

    def _take(self, number: int, place: int, line: bytes, where: str) -> None:
        try:
            found = self._look(number, line)
        except _BAD_LINE as error:
            self.problems.append(Problem(where, f"not a task: {_describe(error)}"))
            return
        if found.id in self._seen:
            first = self._seen[found.id]
            self.problems.append(Problem(where, f"id {found.id!r} is already in {first}; this one is left out"))
            return
        self._seen[found.id] = where
        self.ids.append(found.id)
        self._files.append(number)
        self._places.append(place)
        self._fingerprint.update(line.strip())
        self._keep(found)

    def _look(self, number: int, line: bytes) -> Any:
        """The line of a file, by `id`. Raises as `parse_task` does on what is no task."""
        return parse_task(self._decode(number, line))

    def _keep(self, found: Any) -> None:
        """Note more of a line than its place: what `_look` made of it. Called for each good one."""


def parse_task(entry: Any) -> Task:
    """Read one decoded line, also one with the fields of `Task` or of a web benchmark (`rollout.tasks.benchmarks`).

    Raises KeyError, TypeError or msgspec's ValidationError on what is no task.
    """
    if not isinstance(entry, dict):
        raise TypeError(f"expected an object, got {type(entry).__name__}")
    entry = _as_line(ordinary_entry(entry))
    raw_messages = entry["messages"]
    if not isinstance(raw_messages, list):
        raise TypeError(f"messages: expected a list, got {type(raw_messages).__name__}")
    messages = tuple(_message(message, place) for place, message in enumerate(raw_messages))
    info = entry.get("task_info") or {}
    actions = info.get("actions")
    tools = entry.get("tools")
    identifier = entry.get("id")
    if isinstance(identifier, str) and "\0" in identifier:
        raise ValueError(f"id: has a NUL character in it: {identifier!r}")
    return Task(
        id=str(identifier) if identifier not in (None, "") else _content_id(entry),
        messages=messages,
        user_system_prompt=entry.get("user_system_prompt") or "",
        tools=None if tools is None else tuple(ToolSpec.from_json(tool) for tool in tools),
        actions=None if actions is None else _actions(actions, "actions"),
        user_actions=_actions(info["user_actions"], "user_actions") if info.get("user_actions") else (),
        user_turns=_texts(info, "user_turns"),
        replies=_texts(info, "replies"),
        communicate=_texts(info, "communicate"),
        max_steps=None if (most := info.get("max_steps")) is None else msgspec.convert(most, _MaxSteps),
        info=info,
    )


def _as_line(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the JSONL form, where it has fields of `Task` by their own names."""
    line = dict(entry)
    if isinstance(line.get("messages"), str):
        line["messages"] = [{"role": "user", "content": line["messages"]}]
    own = {name: line.pop(name) for name in _IN_INFO if name in line}
    if "info" in line or own:
        line["task_info"] = {**(line.pop("info", None) or {}), **own, **(line.get("task_info") or {})}
    return line


def _message(entry: Any, place: int) -> Message:
    where = f"messages[{place}]"
    if not isinstance(entry, dict):
        raise TypeError(f"{where}: expected an object with role and content, got {type(entry).__name__}")
    role = entry.get("role")
    if role not in _ROLES:
        raise ValueError(f"{where}.role: expected one of {', '.join(_ROLES)}, got {role!r}")
    return message_from_json(entry)


def _read_list(path: Path) -> list[bytes] | None:
    """The entries of a file that is one JSON list, each on one line; None for any other file."""
    with path.open("rb") as file:
        begin = file.read(64).removeprefix(codecs.BOM_UTF8).lstrip()
        if not begin.startswith(b"["):
            return None
        file.seek(0)
        content = file.read().removeprefix(codecs.BOM_UTF8)
    try:
        return [msgspec.json.format(entry, indent=-1) for entry in _decode_list(content)]
    except (msgspec.MsgspecError, RecursionError):
        return None  # Lines, whatever the first of them is.


def _actions(entries: Any, key: str) -> tuple[Action, ...]:
    try:
        return msgspec.convert(entries, tuple[Action, ...])
    except msgspec.ValidationError as error:
        raise ValueError(f"task_info.{key}: {error}; expected a list of {{name, arguments}}") from error


def _texts(info: dict[str, Any], key: str) -> tuple[str, ...]:
    found = info.get(key)
    if not found:
        return ()
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise TypeError(f"task_info.{key}: expected a list of texts")
    return tuple(found)


def _content_id(entry: dict[str, Any]) -> str:
    """An id for a task that has none: two different tasks never get the same one, the same task always does."""
    return hashlib.sha256(msgspec.json.encode(entry, order="sorted")).hexdigest()[:16]


def _describe(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; save the file as UTF-8"
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        return f"it is not JSON: {error}"
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
