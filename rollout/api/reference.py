"""The reference of the public API, made from docstrings (`python -m rollout.api.reference`).

A test keeps the page equal to what this prints, so a public name cannot change without its documentation. Everything is
read from the source: signatures as they are written, and the docstrings under attributes, which Python itself does not
keep.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

import rollout

HEAD = """\
# The Python API

Every name of `rollout.__all__`. [Rollout from Python](../getting-started/python.md) shows how they go together. This
page is generated from the docstrings by `python -m rollout.api.reference`. In signatures, `JSON` is `dict[str, Any]`,
and `What` is described under `run`.

**Stability.** What is on this page is public: `import rollout` gives you all of it. While the version is 0.x, a release
may change it, and the changelog announces each such change. Public in the same way are the contracts of
[plug-ins](extending.md): filters, exporters, strategies, forms of training data. All other modules of the package may
change in any release ([stability](stability.md)).
"""
SECTIONS = {
    "Roll out": ("run", "arun", "stream", "load_run", "export"),
    "What comes back": (
        "Run",
        "Trajectories",
        "Trajectory",
        "RunMarks",
        "PersonMark",
        "TaskTree",
        "Stream",
        "Group",
        "Score",
        "Generation",
        "Usage",
    ),
    "Tokens": ("TokenView", "Segment", "SampledSpan", "TokenKind", "Tokens"),
    "Environments": ("Environment", "World", "tool", "Task", "Action", "call", "scorer", "Scorer"),
    "Models": ("Model", "Request", "Capability"),
    "Agents": ("Agent", "Session"),
    "Messages": ("Message", "ToolCall", "ToolSpec"),
    "Errors": ("RolloutError", "ConfigError", "JournalError", "ToolError"),
}
WIDTH = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef


class DocumentedAttribute(msgspec.Struct, frozen=True):
    """An attribute or property of a class."""

    name: str
    type: str
    doc: str


def describe() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_describe(name) for name in names]
    return "\n".join(parts)


def _describe(name: str) -> str:
    found = getattr(rollout, name)
    node = _definition(found)
    lines = [f"### `{name}`", ""]
    if isinstance(node, ast.ClassDef):
        lines += [inspect.getdoc(found) or "", ""]
        if constructor := _constructor(node):
            lines += [*_block(_signature(name, constructor)), ast.get_docstring(constructor) or "", ""]
        lines += _table(list(_attributes(found)))
        for method in _methods(found):
            lines += [f"#### `{name}.{method.name}`", "", *_block(_signature(method.name, method))]
            lines += [ast.get_docstring(method) or "", ""]
    else:
        written = _overloads(found.__module__, name) or [node]
        lines += [*_block(*(_signature(name, one) for one in written)), inspect.getdoc(found) or "", ""]
    return "\n".join(lines)


# ---- reading the source -------------------------------------------------------------------------------------------


@functools.cache
def _parsed(module: str) -> dict[str, ast.ClassDef | Function]:
    """The definitions of a module by name. Of overloads, the last is the function itself."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | Function)}


def _overloads(module: str, name: str) -> list[Function]:
    """The overloads of a function, which say more than its own signature."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    named = [node for node in tree.body if isinstance(node, Function) and node.name == name]
    return [node for node in named if "overload" in map(ast.unparse, node.decorator_list)]


def _definition(found: Any) -> ast.ClassDef | Function:
    return _parsed(found.__module__)[found.__name__]


def _bases(kind: type) -> Iterator[ast.ClassDef]:
    """The definitions of a class and of those that it inherits from, as far as they are ours; the furthest first. What
    all errors have is described once."""
    for base in [kind] if issubclass(kind, Exception) else reversed(kind.__mro__):
        if base.__module__.startswith("rollout."):
            node = _definition(base)
            assert isinstance(node, ast.ClassDef)
            yield node


def _constructor(node: ast.ClassDef) -> Function | None:
    """The constructor, where it is meant to be called by users: then it has a docstring."""
    own = next((one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None)
    return own if own is not None and ast.get_docstring(own) else None


def _attributes(kind: type) -> Iterator[DocumentedAttribute]:
    """The public attributes and properties, once each, in the order of their definition."""
    found: dict[str, DocumentedAttribute] = {}
    for node in _bases(kind):
        initial = [one for one in node.body if isinstance(one, Function) and one.name == "__init__"]
        for body in (node.body, *(one.body for one in initial)):
            for statement, following in zip(body, [*body[1:], None], strict=True):
                attribute = _attribute(statement, following, is_field=issubclass(kind, msgspec.Struct))
                if attribute is not None and not attribute.name.startswith("_"):
                    found[attribute.name] = attribute
    yield from found.values()


def _attribute(statement: ast.stmt, following: ast.stmt | None, *, is_field: bool) -> DocumentedAttribute | None:
    """The attribute that a statement defines: a property, or an assignment that has a docstring or is a field."""
    if isinstance(statement, Function):
        is_property = {"property", "functools.cached_property"} & set(map(ast.unparse, statement.decorator_list))
        if not is_property:
            return None
        returned = ast.unparse(statement.returns) if statement.returns is not None else ""
        return DocumentedAttribute(statement.name, returned, ast.get_docstring(statement) or "")
    doc = ""
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        doc = inspect.cleandoc(str(following.value.value))
    target: ast.expr
    if isinstance(statement, ast.AnnAssign):
        target, kind = statement.target, ast.unparse(statement.annotation)
        if is_field and isinstance(statement.value, ast.Constant | ast.Tuple):
            kind = f"{kind} = {ast.unparse(statement.value)}"
    elif isinstance(statement, ast.Assign):
        target, kind = statement.targets[0], ""
    else:
        return None
    if isinstance(target, ast.Name) and (doc or (is_field and not kind.startswith("ClassVar"))):
        return DocumentedAttribute(target.id, kind, doc)
    if isinstance(target, ast.Attribute) and doc:
        return DocumentedAttribute(target.attr, kind, doc)
    return None


def _methods(kind: type) -> Iterator[Function]:
    """The public methods, once each, in the order of their definition."""
    found: dict[str, Function] = {}
    for node in _bases(kind):
        for statement in node.body:
            if not isinstance(statement, Function) or statement.name.startswith("_"):
                continue
            if any(ast.unparse(one).endswith(("property", ".setter")) for one in statement.decorator_list):
                continue
            found[statement.name] = statement
    yield from found.values()


# ---- writing ------------------------------------------------------------------------------------------------------


def _block(*signatures: str) -> list[str]:
    return ["```text", *signatures, "```", ""]


def _signature(name: str, function: Function) -> str:
    """The signature, one parameter a line where it is long."""
    parameters = [text for text in _parameters(function.args) if text not in ("self", "cls")]
    if parameters[:1] == ["/"]:
        del parameters[0]
    returned = f" -> {ast.unparse(function.returns)}" if function.returns is not None and name[0].islower() else ""
    before = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    line = f"{before}{name}({', '.join(parameters)}){returned}"
    if len(line) > WIDTH:
        inner = "".join(f"    {parameter},\n" for parameter in parameters)
        line = f"{before}{name}(\n{inner}){returned}"
    return line


def _parameters(given: ast.arguments) -> Iterator[str]:
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield _parameter(argument, default)
        if place == len(given.posonlyargs):
            yield "/"
    if given.vararg is not None:
        yield f"*{ast.unparse(given.vararg)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if given.kwarg is not None:
        yield f"**{ast.unparse(given.kwarg)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def _table(attributes: list[DocumentedAttribute]) -> list[str]:
    if not attributes:
        return []
    rows = [f"| `{one.name}` | {f'`{_cell(one.type)}`' if one.type else ''} | {_cell(one.doc)} |" for one in attributes]
    return ["| attribute | type | |", "|---|---|---|", *rows, ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(describe())
