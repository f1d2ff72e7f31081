"""`rollout mark`: say what you think of a trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rollout.pipelines.people.marks import RunMarks
    from rollout.trajectories.person_marks import PersonMark


def mark(
    run: o.RunName,
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="A trajectory's id, or the beginning of one.", show_default=False)
    ] = None,
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="good, bad, note, label or verdict.", show_default=False)
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="A note's text, a label's name, a verdict's value from 0 to 1; then a reason, if you like.",
            show_default=False,
        ),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Mark this step of the agent, numbered as `rollout show` does."),
    ] = None,
    author: Annotated[
        str | None, typer.Option("--author", metavar="NAME", help="Who you are. Default: your login name.")
    ] = None,
    remove: Annotated[
        int | None, typer.Option("--remove", metavar="NUMBER", help="Remove the mark with this number.")
    ] = None,
    datasets: o.DatasetNames = None,
    as_json: o.AsJson = False,
    no_colors: o.NoColors = False,
) -> None:
    """Mark a trajectory, or one of its steps, as good or bad; add a note or a label; or give a verdict.

    Marks are kept beside the journal, so you can mark while the run goes on, and others at the same time. Setting good
    takes your bad back, and a verdict replaces your earlier one.

        rollout mark default 0d5cf89e good

    A step, and why:

        rollout mark default 0d5cf89e bad --step 3 books before asking

    A verdict, from 0 (not solved) to 1 (solved), which becomes the score `person`:

        rollout mark default 0d5cf89e verdict 0.5

    All marks of a run, or those of one trajectory; then one is removed:

        rollout mark default

        rollout mark default --remove 7

    Exit codes: 0, done; 2, no such run, trajectory, step or mark, or the run directory cannot be written.
    """
    from rollout.core.errors import ConfigError
    from rollout.pipelines.people.marks import RunMarks, find_marked
    from rollout.pipelines.runs.listing import locate_run
    from rollout.terminal.console import make_console, print_json
    from rollout.terminal.marks import show_marks

    console = make_console(no_colors)
    marks = RunMarks(locate_run(run))
    if kind is None and (step is not None or author is not None):
        raise ConfigError(
            "--step and --author say how a mark is set: name a trajectory and good, bad, note, label or verdict"
        )
    if remove is not None:
        if name is not None:
            raise ConfigError("--remove takes the number of the mark; leave out the trajectory and the kind")
        found = [marks.remove(remove)]
    elif name is None:
        found = list(marks)
    elif kind is None:
        key = find_marked(marks.path.parent, name, datasets or ())
        found = marks.of(key.id, key.dataset)
    else:
        found = [_add(marks, name, kind, list(words or ()), step, author, datasets or ())]
    if as_json:
        print_json(found)
        return
    if remove is not None:
        console.print("removed:", highlight=False)
    elif not found:
        console.print("no marks", highlight=False)
    show_marks(console, found)


def _add(
    marks: RunMarks,
    name: str,
    kind: str,
    words: list[str],
    step: int | None,
    author: str | None,
    datasets: Sequence[str],
) -> PersonMark:
    from rollout.core.errors import ConfigError
    from rollout.pipelines.people.marks import find_marked, message_of_step, read_marked

    value: float | None = None
    if kind == "verdict":
        given = words.pop(0) if words else None
        try:
            value = None if given is None else float(given)
        except ValueError as error:
            raise ConfigError(f"verdict: expected a number from 0 (not solved) to 1 (solved), not {given!r}") from error
    run_dir = marks.path.parent
    key = find_marked(run_dir, name, datasets)
    message = None if step is None else message_of_step(read_marked(run_dir, key), step)
    text = " ".join(words) or None
    return marks.add(key.id, kind, text=text, value=value, message=message, author=author, dataset=key.dataset)
