"""The reference of all commands, made from the commands themselves (`python -m rollout.cli.reference`).

A test keeps docs/reference/commands.md equal to what this prints, so an option cannot change without its documentation.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any, Literal, get_args, get_origin

from rollout.cli import COMMANDS
from rollout.cli.completion import as_command, load_function
from rollout.cli.exit_codes import EXIT_CODES

HEAD = """\
# Commands

Every command with its options. `-h` after a command shows the same in the terminal, and an option means the same in
every command that has it. `rollout --install-completion` teaches your shell to complete commands and options. This page
is made by `python -m rollout.cli.reference`.

## Exit codes

| code | meaning |
|---|---|
{codes}

Where a command says more about its exit code, that holds.
"""


def describe_commands() -> str:
    """The whole page."""
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    return "\n".join([HEAD.format(codes=codes), *(_describe(name) for name in COMMANDS)])


def _describe(name: str) -> str:
    function = load_function(COMMANDS[name][0])
    command = as_command(function)
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    usage = " ".join([f"rollout {name}", *(_usage(param) for param in arguments), "[OPTIONS]"])
    parts = [f"## `rollout {name}`", "", "```text", usage, "```", "", _prose(inspect.getdoc(function) or ""), ""]
    if arguments:
        parts += ["| argument | meaning |", "|---|---|"]
        parts += [f"| `{_label(param)}` | {_cell(param.help)} |" for param in arguments]
        parts.append("")
    parts += ["| option | value | default | meaning |", "|---|---|---|---|"]
    parts += [f"| {_names(param)} | {_value(param)} | {_default(param)} | {_cell(param.help)} |" for param in options]
    return "\n".join(parts) + "\n"


def _prose(text: str) -> str:
    """A docstring as Markdown: what is indented is a command."""
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith("    "):
            command = " ".join(line.strip() for line in block.splitlines())
            blocks.append(f"```text\n{command}\n```")
        else:
            blocks.append(" ".join(block.split()))
    return "\n\n".join(blocks)


def _label(param: Any) -> str:
    return str(param.metavar or param.name.upper()).rstrip(".")


def _usage(param: Any) -> str:
    label = f"{_label(param)}{'...' if param.nargs == -1 else ''}"
    return label if param.required else f"[{label}]"


def _names(param: Any) -> str:
    positive = sorted(param.opts, key=lambda option: option.startswith("--"), reverse=True)
    return ", ".join(f"`{option}`" for option in [*positive, *param.secondary_opts])


def _value(param: Any) -> str:
    if param.is_flag:
        return "–"
    annotation = param.type_descriptor.annotation
    word = {"int": "INTEGER", "float": "NUMBER", "Path": "PATH"}.get(getattr(annotation, "__name__", ""), "TEXT")
    choices = "\\|".join(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ""
    return f"`{param.metavar or choices or word}`"


def _default(param: Any) -> str:
    value = param.default
    if param.required:
        return "required"
    if value is None or value is False or value in ((), []) or param.is_flag:
        return "–"
    return f"`{value}`"


def _cell(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "–").strip().replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(describe_commands())
