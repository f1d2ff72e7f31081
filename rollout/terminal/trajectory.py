"""A trajectory on the terminal: what became of it, the conversation with each call beside its result, and why it was
scored so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from rollout.core.secrets import redact
from rollout.pipelines.runs.find import FoundTrajectory
from rollout.pipelines.runs.transcript import ShownCall, ShownMessage
from rollout.terminal.figures import dollars, seconds, shortened
from rollout.terminal.marks import MARK_STYLE, remark
from rollout.terminal.outline import in_line, outline, text_outline
from rollout.trajectories.generation import Usage
from rollout.trajectories.person_marks import PERSON_SCORE
from rollout.trajectories.score import Score
from rollout.trajectories.stop import Status, stop_words
from rollout.trajectories.trajectory import Trajectory

RESULT_LINES = 8
REASONING_LINES = 3
TEXT_LINES = 40
LEAST_WIDTH = 20
SHOWN_IDS = 8
_STYLES = {
    "agent": "bold cyan", "user": "bold green", "system": "bold", "tool": "bold yellow", "note": "bold magenta",
    "observation": "bold yellow",
}  # fmt: skip


def show_trajectory(console: Console, found: FoundTrajectory, *, is_full: bool = False) -> None:
    """Print one trajectory. `is_full`: without cutting long texts."""
    _Printer(console, is_full).print(found)


class _Printer:
    def __init__(self, console: Console, is_full: bool) -> None:
        self._console = console
        self._is_full = is_full
        self._is_cut = False

    def print(self, found: FoundTrajectory) -> None:
        trajectory = found.trajectory
        self._head(found)
        for message in found.transcript.messages:
            self._message(message)
        self._end(found)
        self._scores(trajectory)
        if self._is_cut:
            self._say(Text("Long texts are cut; --full shows all of them.", "dim"))

    # ---- head and end -------------------------------------------------------------------------------------------

    def _head(self, found: FoundTrajectory) -> None:
        trajectory = found.trajectory
        self._console.print(Rule(Text(trajectory.id, "bold"), align="left", style="bold"))
        task = "" if trajectory.task_id == trajectory.id else f"task {trajectory.task_id}"
        self._line("", task, found.dataset, f"group {trajectory.group}" if self._has_own_group(trajectory) else "")
        reason = f"{stop_words(trajectory.stop_reason)} ({trajectory.stop_reason})"
        status = "" if trajectory.status == Status.FAILED else f"{trajectory.status}: "
        self._say(Text.assemble(_verdict(trajectory), f" · {status}{reason}"))
        if (error := trajectory.error) is not None:
            self._say(Text(f"{error.kind} error: {redact(error.text)}", "red"))
        self._line("", *_figures(trajectory))
        users = "" if trajectory.user_model is None else f"user {trajectory.user_model}"
        self._line("dim", f"agent {trajectory.model or 'unknown'}", users, f"seed {trajectory.seed}")
        branch = trajectory.branch
        if branch is not None and branch.parent is not None:
            self._line("dim", f"branched from {branch.parent} after {branch.shared_messages} messages")
        if found.others:
            named = ", ".join(found.others[:SHOWN_IDS])
            rest = f" and {len(found.others) - SHOWN_IDS} more" if len(found.others) > SHOWN_IDS else ""
            self._line("dim", f"other attempts: {named}{rest}")
        errors = ", ".join(f"{kind} {number}" for kind, number in trajectory.tool_errors.items())
        self._line("yellow", f"tool errors by kind: {errors}" if errors else "")
        self._line("yellow", f"marks: {', '.join(trajectory.marks)}" if trajectory.marks else "")
        filtered = found.transcript.filtered
        if filtered is not None and filtered.verdict != "keep":
            self._line("magenta", f"filters: {filtered.verdict} ({', '.join(filtered.why)})")
        for mark in found.transcript.filter_marks:
            self._line(
                "magenta", f"filter {mark.filter}: {mark.reason}{f' ({mark.evidence})' if mark.evidence else ''}"
            )

        for person in found.transcript.person_marks:
            self._say(Text(remark(person), MARK_STYLE))

    def _has_own_group(self, trajectory: Trajectory) -> bool:
        return trajectory.group != trajectory.task_id

    def _end(self, found: FoundTrajectory) -> None:
        trajectory = found.trajectory
        style = "red" if trajectory.status == Status.FAILED else "dim"
        self._console.print()
        self._console.print(Rule(Text(f"end: {stop_words(trajectory.stop_reason)}", style), align="left", style="dim"))

    def _scores(self, trajectory: Trajectory) -> None:
        self._say(Text.assemble(_verdict(trajectory), f" · {_reward(trajectory)}"))
        if trajectory.unscored:
            self._say(Text(f"  no verdict: {trajectory.unscored}"))
        for score in trajectory.scores:
            self._say(_score_line(score))
            if (not score.is_pass or self._is_full) and score.name != PERSON_SCORE:
                for line in _evidence(score, self._console.width - 8):
                    self._indented(Text(line), 6)

    # ---- the conversation ---------------------------------------------------------------------------------------

    def _message(self, message: ShownMessage) -> None:
        self._console.print()
        if message.turn is not None and message.turn > 1:
            self._console.print(Rule(Text(f"turn {message.turn}", "dim"), align="left", style="dim"))
        for own in message.user_calls:
            self._say(Text(f"user's own tool: {own.name}({own.arguments}) → {redact(own.result)}", "dim green"))
        name = message.speaker if message.url is None else "page"
        self._say(Text.assemble((name, _STYLES[message.speaker]), *_facts(message)))
        for mark in message.marks:
            self._indented(Text(f"! {mark}", "bold red"))
        for found in message.filter_marks:
            evidence = f" ({found.evidence})" if found.evidence else ""
            self._indented(Text(f"filter {found.filter}, {found.policy}: {found.reason}{evidence}", "magenta"))
        for person in message.person_marks:
            self._indented(Text(remark(person), MARK_STYLE))
        if message.reasoning:
            self._text(message.reasoning, REASONING_LINES, "dim italic", first="thinks: ")
        if message.url is not None:
            self._page(message.url, message.title, message.images)
            if self._is_full:
                self._text(message.text, RESULT_LINES, "dim")
        elif message.text or not (message.calls or message.reasoning):
            self._text(message.text or "(says nothing)", TEXT_LINES, "" if message.text else "dim")
            self._files(message.images)
        for call in message.calls:
            self._call(call)

    def _call(self, call: ShownCall) -> None:
        style = "red" if call.error_kind else "yellow"
        if call.arguments is None:
            head = Text.assemble(("▸ ", style), (f"{call.name} ", "bold magenta"), (redact(call.written), "red"))
            self._indented(head)
        else:
            inside = ", ".join(f"{name}={_argument(value)}" for name, value in call.arguments.items())
            head = Text.assemble(("▸ ", style), (call.name, "bold magenta"), f"({redact(inside)})")
            if head.cell_len <= self._console.width - 4 and "\n" not in head.plain:
                self._indented(head)
            else:
                self._indented(Text.assemble(("▸ ", style), (call.name, "bold magenta")))
                for line in outline(call.arguments, self._console.width - 8):
                    self._indented(Text(redact(line)), 6)
        notes = [f"error: {call.error_kind}"] if call.error_kind else []
        notes += ["undone"] if call.is_undone else []
        if call.result is None:
            self._indented(Text("not answered", "dim"), 4)
            return
        for note in notes:
            self._indented(Text(f"✗ {note}", "bold red"), 4)
        if call.url is not None:
            self._page(call.url, call.title, call.images)
            if not self._is_full:
                return
        self._text(call.result, RESULT_LINES, "red" if call.error_kind else "", indent=4, is_data=True)
        if call.url is None:
            self._files(call.images)

    def _page(self, url: str, title: str | None, images: tuple[str, ...]) -> None:
        self._indented(Text.assemble("→ ", (redact(url), "blue"), f"  {title}" if title else ""), 4)
        self._files(images)

    def _files(self, images: tuple[str, ...]) -> None:
        for path in images:
            # On one line, however long: it is there to be copied.
            self._print_line(Text(f"image: {_short_path(path)}", "dim"), " " * 4)

    # ---- lines --------------------------------------------------------------------------------------------------

    def _text(
        self, text: str, most: int, style: str, *, indent: int = 2, is_data: bool = False, first: str = ""
    ) -> None:
        """A text, wrapped and indented; cut to a number of lines unless all is wanted."""
        before = " " * indent + ("│ " if is_data else "")
        width = self._console.width - len(before)
        clean = redact(text)
        lines = text_outline(clean, width) if is_data else (clean.splitlines() or [""])
        shown, left = 0, 0
        for number, line in enumerate(lines):
            for piece in self._wrapped(Text((first if number == 0 else "") + line, style), width):
                if shown < most or self._is_full:
                    self._print_line(piece, before)
                    shown += 1
                else:
                    left += 1
        if left:
            self._is_cut = True
            self._print_line(Text(f"… {left} more line{'' if left == 1 else 's'}", "dim"), before)

    def _indented(self, text: Text, indent: int = 2) -> None:
        for piece in self._wrapped(text, self._console.width - indent):
            self._print_line(piece, " " * indent)

    def _wrapped(self, text: Text, width: int) -> Iterator[Text]:
        for piece in text.wrap(self._console, max(width, LEAST_WIDTH)) or [Text("")]:
            piece.rstrip()
            yield piece

    def _print_line(self, line: Text, before: str) -> None:
        self._console.print(Text.assemble((before, "dim"), line), highlight=False, no_wrap=True, overflow="ignore")

    def _line(self, style: str, *parts: str) -> None:
        text = " · ".join(part for part in parts if part)
        if text:
            self._say(Text(redact(text), style))

    def _say(self, text: Text) -> None:
        self._console.print(text, highlight=False)


def _verdict(trajectory: Trajectory) -> Text:
    if trajectory.status == Status.FAILED:
        return Text("! failed", "bold red")
    if not trajectory.scored:
        return Text("– not scored", "bold yellow")
    return Text("✓ solved", "bold green") if trajectory.success else Text("✗ not solved", "bold red")


def _reward(trajectory: Trajectory) -> str:
    return "no reward" if trajectory.reward is None else f"reward {trajectory.reward:g}"


def _figures(trajectory: Trajectory) -> Iterator[str]:
    yield _reward(trajectory)
    yield _counted(trajectory.turns, "turn")
    if trajectory.generations is not None:
        yield _counted(trajectory.generations, "step")
    yield _counted(trajectory.tool_calls, "tool call")
    usage = sum(trajectory.usage.values(), Usage())
    if usage.prompt_tokens or usage.completion_tokens:
        yield f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    if trajectory.cost:
        yield dollars(trajectory.cost)
    timings = trajectory.timings
    if timings.seconds:
        model = f" (model {seconds(timings.model_seconds)})" if timings.model_seconds else ""
        yield f"{seconds(timings.seconds)}{model}"
    if timings.retries:
        yield _counted(timings.retries, "retry", "retries")


def _counted(number: int, word: str, several: str = "") -> str:
    return f"{number} {word if number == 1 else several or word + 's'}"


def _facts(message: ShownMessage) -> Iterator[tuple[str, str]]:
    """What stands behind the name of who speaks."""
    facts = [f"step {message.step}"] if message.step is not None else []
    facts += ["written by the agent's program"] if message.is_scripted else []
    facts += [f"written by {message.author}"] if message.author is not None else []
    facts += [seconds(message.seconds)] if message.seconds >= 0.001 else []
    if message.prompt_tokens or message.completion_tokens:
        facts.append(f"{message.prompt_tokens:,} → {message.completion_tokens:,} tokens")
    facts += [dollars(message.cost)] if message.cost else []
    facts += [_counted(message.retries, "retry", "retries")] if message.retries else []
    facts += ["context only"] if message.is_masked else []
    facts += ["cut off"] if message.is_cut_off else []
    if facts:
        yield f"  {' · '.join(facts)}", "dim"


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return in_line(value)


def _score_line(score: Score) -> Text:
    # Only what decides passes or fails: 0 of `blocked`, for one, is good news.
    is_verdict = score.decides and score.value is not None
    mark, style = ("·", "dim") if not is_verdict else ("✓", "green") if score.is_pass else ("✗", "red")
    text = Text.assemble("  ", (mark, style), f" {score.name}", ("" if score.decides else " (does not decide)", "dim"))
    is_plain = is_verdict and score.value in (0, 1)
    text.append(f" {score.value:g}" if score.value is not None and not is_plain else "")
    if score.partial is not None and score.partial != score.value:
        text.append(f" ({score.partial:.0%} done)")
    text.append(f": {redact(score.reason)}" if score.reason else "")
    return text


def _evidence(score: Score, width: int) -> Iterator[str]:
    """What a score is based on, as lines. Tables and calls have a form of their own, everything else is outlined."""
    rest = {name: value for name, value in score.evidence.items() if value not in (None, [], {}, "")}
    tables = rest.pop("tables", None)
    if isinstance(tables, dict):
        for table, found in tables.items():
            yield from _table_lines(str(table), found, width)
    for call in _dicts(rest.pop("unmatched", None)):
        arguments = call.get("arguments")
        inside = ", ".join(f"{name}={_argument(value)}" for name, value in (arguments or {}).items())
        yield f"not called: {call.get('name')}({inside})"
    if "unmatched" in score.evidence:
        # Counts that the reason has named.
        rest = {name: value for name, value in rest.items() if not isinstance(value, int)}
    if rest:
        yield from map(redact, outline(rest, width))


def _table_lines(table: str, found: Any, width: int) -> Iterator[str]:
    if not isinstance(found, dict):
        yield from outline({table: found}, width)
        return
    yield f"{table}:"
    for kind, word in (("missing", "- missing"), ("extra", "+ extra")):
        for row in found.get(kind) or ():
            yield f"  {word}: {redact(in_line(row))}"
        hidden = int(found.get(f"{kind}_rows") or 0) - len(found.get(kind) or ())
        if hidden > 0:
            yield f"  {word}: {hidden} more"
    for row in _dicts(found.get("differing")):
        fields = row.get("fields") or {}
        changed = "; ".join(
            f"{name} is {in_line(sides.get('got'))}, should be {in_line(sides.get('wanted'))}"
            for name, sides in fields.items()
            if isinstance(sides, dict)
        )
        yield f"  ≠ {shortened(in_line(row.get('key')), width // 2)}: {redact(changed)}"


def _short_path(path: str) -> str:
    """The path from the current folder, where the file is below it."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else path


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
