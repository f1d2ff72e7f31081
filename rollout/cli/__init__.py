"""The command `rollout`: one file a sub-command, imported only when that sub-command is called.

`rollout --help` lists the sub-commands from the table below and imports none of them, so it answers at once.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from rollout.cli.signals import listening

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("rollout.cli.init:init", "Make a small project that works, to be changed into your own."),
    "run": ("rollout.cli.run:run", "Roll out the datasets of a config; save trajectories."),
    "check": ("rollout.cli.check:check", "Check a config and everything that it names; run nothing."),
    "doctor": ("rollout.cli.doctor:doctor", "Look at this machine: what is missing, and how to get it."),
    "single": ("rollout.cli.single:single", "Roll out the single domains of a dataset folder."),
    "cross": ("rollout.cli.cross:cross", "Roll out the cross-domain combinations of a dataset folder."),
    "web": ("rollout.cli.web:web", "Roll out tasks on web pages, iteration after iteration."),
    "compare": ("rollout.cli.compare:compare", "Roll out the same tasks by several strategies."),
    "ls": ("rollout.cli.ls:ls", "List runs: model, progress, solved, cost."),
    "view": ("rollout.cli.view:view", "Look at runs in a browser: tables, trajectories, trees."),
    "report": ("rollout.cli.report:report", "Write trajectories as one HTML file for sharing."),
    "show": ("rollout.cli.show:show", "Show a trajectory: conversation, scores and evidence."),
    "mark": ("rollout.cli.mark:mark", "Mark a trajectory or step: good, bad, note, label, verdict."),
    "tree": ("rollout.cli.tree:tree", "Draw all attempts at a task as a tree."),
    "stats": ("rollout.cli.stats:stats", "Distributions of a run: turns, tools, tokens, latency, errors."),
    "diff": ("rollout.cli.diff:diff", "Compare two runs task by task."),
    "clean": ("rollout.cli.clean:clean", "Remove old runs that were moved aside, after asking."),
    "score": ("rollout.cli.score:score", "Score a finished run again, without rolling out."),
    "check-domain": (
        "rollout.cli.check_domain:check_domain",
        "Play reference actions; report what cannot be solved.",
    ),
    "filter": ("rollout.cli.filter:filter_run", "Mark what should not be learnt, and say why."),
    "label": ("rollout.cli.label:label", "Add system prompt and tools to trajectories, exactly as sent."),
    "export": (
        "rollout.cli.export:export",
        "Write trajectories as TRL, ShareGPT, OpenAI or Parquet.",
    ),
    "train-data": (
        "rollout.cli.train_data:train_data",
        "Write rows for a trainer: ids, masks, advantages, pairs.",
    ),
    "recover": ("rollout.cli.recover:recover", "Save what is readable of a damaged run as a new run."),
    "serve-domain": ("rollout.cli.serve_domain:serve_domain", "Serve a mock domain as a real MCP server."),
    "stub-server": ("rollout.cli.stub_server:stub_server", "Serve a scripted model that fails on demand, for tests."),
}
"""Each sub-command with where it lives and what `rollout --help` says of it."""

USAGE = """\
Usage: rollout COMMAND [ARGS]...

  Collect agent trajectories: over tools, on the web, for training.

Commands:
{commands}

Options:
  --version              Show the version and exit.
  --install-completion   Complete commands and options in this shell.
  --show-completion      Show the script that does so.
  -h, --help             Show this message and exit.

Exit codes:
  0         done
  1         done, but something failed or was found
  2         nothing was done: an option or a file is not as it must be
  3         a run was paused; it goes on with --resume
  130, 143  ended by Ctrl-C or SIGTERM

Try it, with no key and no network:
  rollout run default
  rollout init my-project

`rollout COMMAND --help` tells more of each.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Call the sub-command that the first argument names."""
    if arguments is None:
        # The process is ours: before and after the command, where nothing is live, Ctrl-C ends it without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ROLLOUT_COMPLETE" in os.environ or (words and words[0] in ("--install-completion", "--show-completion")):
        from rollout.cli.completion import run_completion

        run_completion(COMMANDS, words)
    if not words or words[0] in ("-h", "--help"):
        listed = "\n".join(f"  {name:<14}{summary}" for name, (_, summary) in COMMANDS.items())
        sys.stdout.write(USAGE.format(commands=listed))
        sys.exit(0 if words else 2)
    if words[0] == "--version":
        from rollout.core.extras import installed_version

        sys.stdout.write(f"rollout {installed_version()}\n")
        sys.exit(0)
    if words[0] not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(words[0], COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        sys.stderr.write(f"rollout: there is no command {words[0]!r}.{hint} See `rollout --help`.\n")
        sys.exit(2)
    module_name, _, function = COMMANDS[words[0]][0].partition(":")
    with listening():
        call_typed(getattr(importlib.import_module(module_name), function), words[1:], f"rollout {words[0]}")


def call_typed(function: Callable[..., object], arguments: Sequence[str], program: str, **defaults: object) -> None:
    """Call a typed function as a command: its options are its parameters, read by typer. `defaults` take the place of
    the function's own.

    An error of ours that the command itself does not report is one line on standard error, and exit code 2.
    """
    with listening():
        import typer

        from rollout.cli.help_text import help_of
        from rollout.core.errors import RolloutError

        app = typer.Typer(
            add_completion=False,
            rich_markup_mode="rich",
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        app.command(help=help_of(function))(_with_defaults(function, defaults) if defaults else function)
        words = _by_present_names(arguments, getattr(function, "older_options", {}))
        for option in getattr(function, "several", ()):
            words = _spread(words, option)
        try:
            app(args=words, prog_name=program)
        except RolloutError as error:
            from rollout.terminal.console import make_console, show_error

            show_error(make_console(no_colors="--no-colors" in words), error)
            sys.exit(2)


def _with_defaults(function: Callable[..., object], defaults: Mapping[str, object]) -> Callable[..., object]:
    """The function with other defaults, which its help shows too."""

    @functools.wraps(function)
    def called(**options: object) -> object:
        return function(**options)

    # Evaluated, because typer takes a signature that is given to it as it is: names of annotations say nothing to it.
    signature = inspect.signature(function, eval_str=True)
    changed = [
        parameter.replace(default=defaults.get(name, parameter.default))
        for name, parameter in signature.parameters.items()
    ]
    called.__signature__ = signature.replace(parameters=changed)  # type: ignore[attr-defined]
    return called


def _by_present_names(words: Sequence[str], older: Mapping[str, str]) -> list[str]:
    """Options in an earlier spelling as they are spelled now."""
    pairs = [word.partition("=") for word in words]
    return [older.get(option, option) + given + value for option, given, value in pairs]


def _spread(words: list[str], option: str) -> list[str]:
    """`--domains A B` as `--domains A --domains B`, which is how typer takes several values."""
    spread: list[str] = []
    is_inside = False
    for word in words:
        if word.startswith("-"):
            is_inside = word == option
            if not is_inside:
                spread.append(word)
        else:
            spread += [option, word] if is_inside else [word]
    return spread
