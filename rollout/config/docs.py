"""The reference of all configuration keys, made from the schema (`python -m rollout.config.docs`).

A test keeps the file equal to what this prints, so a key cannot change without its documentation.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rollout.config.browsing import Browsers, WebSettings
from rollout.config.cluster import Cluster
from rollout.config.exploring import Budget, Comparison, Dynamic, StrategyChoice
from rollout.config.filters import BUILT_IN, Filters, find_filter
from rollout.config.models import AgentConfig, LocalModel, ModelEntry, SamplingKeys, UserConfig
from rollout.config.schema import AutoDiscover, Config, Dataset, Retries, Scoring, Tail, Timeouts
from rollout.config.servers import McpServer, MockServers

HEAD = """\
# Configuration

Every key of a configuration file. An unknown key is an error that names the nearest known one. `${VAR}` is replaced
everywhere by the environment's value (an unset one is an error), `${VAR:-text}` has a default, `$$` is a plain `$`.
Paths are relative to the working directory. This page is made from the schema by `python -m rollout.config.docs`.
"""
SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", Config),
    ("`datasets.<name>`", Dataset),
    ("`datasets.<name>.mcpServers.<name>`", McpServer),
    ("`datasets.<name>.web`", WebSettings),
    ("`datasets.<name>.agent`", AgentConfig),
    ("`datasets.<name>.user`", UserConfig),
    ("`datasets.<name>.scoring`", Scoring),
    ("`datasets.<name>.strategy`", StrategyChoice),
    ("`datasets.<name>.strategy.budget`", Budget),
    ("Sampling, in `agent` and `user` alike", SamplingKeys),
    ("`models.<name>`, here or in `models_config_file`", ModelEntry),
    ("`timeouts`", Timeouts),
    ("`retries`", Retries),
    ("`mock_servers`", MockServers),
    ("`browsers`", Browsers),
    ("`cluster`", Cluster),
    ("`tail`", Tail),
    ("`dynamic`", Dynamic),
    ("`compare`", Comparison),
    ("`local`", LocalModel),
    ("`auto_discover`", AutoDiscover),
    ("`filters`, here or in a dataset", Filters),
    *((f"`filters.{name}`", find_filter(name)) for name in BUILT_IN),
)


def describe() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, section in SECTIONS:
        inherited = set(SamplingKeys.model_fields) if section in (AgentConfig, UserConfig) else set()
        fields = {name: field for name, field in section.model_fields.items() if name not in inherited}
        lines = [
            f"## {title}",
            "",
            inspect.getdoc(section) or "",
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_meaning(field)} |"
            for name, field in fields.items()
        ]
        if section is Filters:
            lines += [f"| `{name}` | section | – | {_summary(find_filter(name))} |" for name in BUILT_IN]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _summary(section: type[BaseModel]) -> str:
    """The first line of a section's description."""
    return (inspect.getdoc(section) or "").partition("\n")[0]


def describe_web() -> str:
    """Tables of the keys of `rollout web`, for docs/reference/web.md, with the defaults in training and in tests."""
    from rollout.config.compose import compose_tree
    from rollout.config.web import NO_EFFECT, WebConfig, groups

    train, test = compose_tree([], "rollout_train"), compose_tree([], "rollout_test")
    inner = {name: section for name, section in groups().items() if name not in ("web", "browsers")}
    parts = []
    sections: dict[str, type[BaseModel]] = {"By themselves": WebConfig, **inner}
    for title, section in sections.items():
        lines = [f"### {title if section is WebConfig else f'`{title}`'}", ""]
        lines += ["| key | default | what it does |", "|---|---|---|"]
        for name, field in section.model_fields.items():
            if section is WebConfig and (field.alias or name) in inner:
                continue
            here = [tree if section is WebConfig else tree[title] for tree in (train, test)]
            defaults = dict.fromkeys(_yaml(tree[name]) for tree in here)
            idle = NO_EFFECT.get(f"{title}.{name}")
            meaning = f"No effect: {idle}." if idle else _meaning(field)
            lines.append(
                f"| `{name}` | {' in training, '.join(defaults)}{' in tests' * (len(defaults) - 1)} | {meaning} |"
            )
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _yaml(value: Any) -> str:
    if value in ("???", None, "", [], {}):
        return "required" if value == "???" else "–"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_yaml(inner)}" for key, inner in value.items() if inner is not None)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meaning(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "–"
    if field.default is PydanticUndefined:
        return "required"
    value = field.default
    if value is None or isinstance(value, BaseModel) or value in ({}, [], ()):
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return _type(next(inner for inner in get_args(annotation) if inner is not type(None)))
    if origin is dict:
        return "mapping"
    if origin in (list, tuple):
        return f"list of {_type(get_args(annotation)[0])}"
    if origin is not None:
        return _type(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    names = {
        "str": "text",
        "int": "integer",
        "float": "number",
        "bool": "true or false",
        "Path": "path",
        "SecretStr": "secret",
    }
    return names.get(getattr(annotation, "__name__", ""), "text")


if __name__ == "__main__":
    sys.stdout.write(describe())
