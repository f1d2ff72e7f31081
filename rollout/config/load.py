"""Reading a configuration file, with errors that say what to do.

YAML, then `${VAR}`, then the schema. Whatever is wrong comes out as one `ConfigError` that names the file, the key and
what was expected; several problems come out together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from rollout.config.filters import filter_problems
from rollout.config.models import ModelEntry
from rollout.config.problems import SOUNDS_SECRET, describe_problems, list_problems, shown_key
from rollout.config.schema import Config
from rollout.config.section import Section
from rollout.config.settings import change_tree
from rollout.config.shipped import find_config
from rollout.core import secrets
from rollout.core.errors import ConfigError
from rollout.core.plugins import look_in
from rollout.core.text_files import read_text

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PLACEHOLDER = re.compile(r"your[-_ ]?(api[-_ ]?)?(key|endpoint)", re.IGNORECASE)
_USER_INFO = re.compile(r"://([^/@\s]+)@")
_PLACEHOLDERS = re.compile(r"\{(?:seed|task|workdir)\}")
_HARMLESS_HEADERS = ("accept", "accept-encoding", "accept-language", "content-type", "user-agent")
_HARMLESS = re.compile(r"(?:\{workdir\}|~|\.{0,2}/).*|\w+://.*|[^\W\d_]+(?:[ ./_-][^\W\d_]+)*", re.DOTALL)
"""A path, an address, or words: values that servers are given and that tools must be able to speak of."""
MOST_VALUES = 1_000_000
"""Values that a file may hold, those that its aliases repeat included."""
M = TypeVar("M", bound=BaseModel)


class RegistryFile(Section):
    """The file that `models_config_file` names."""

    models: dict[str, ModelEntry] = {}


def load_config(path: Path, environment: Mapping[str, str] | None = None, settings: Sequence[str] = ()) -> Config:
    """Read a configuration and the registry file it names, and remember every key in it as a secret. Modules beside the
    file are found from then on, and the filters that it names must be there. `path` may also be the name of a shipped
    configuration. `settings` (`key=value`) replace single keys of the file: see `rollout.config.settings`."""
    path = find_config(path)
    config = parse_file(path, Config, environment, settings)
    look_in(path.parent)
    return complete_config(config, str(path), environment)


def complete_config(config: Config, where: str, environment: Mapping[str, str] | None = None) -> Config:
    """A configuration with the registry file that it names. Every key in it is a secret from then on, and its filters
    must be there."""
    _refuse_filters(config, where)
    if config.models_config_file is not None:
        if not config.models_config_file.exists():
            raise ConfigError(
                f"{where}: models_config_file: there is no {config.models_config_file}; correct the path, or put the "
                "models under `models` in this file"
            )
        registry = load_registry(config.models_config_file, environment)
        config = config.model_copy(update={"models": {**registry, **config.models}})
    remember_secrets(config)
    return config


def _refuse_filters(config: Config, where: str) -> None:
    """Raise where a filter's keys are wrong. A run's saved configuration is not checked: it can be read where a filter
    that was installed then is gone."""
    problems = filter_problems(config.filters, "filters")
    for name, dataset in config.datasets.items():
        if dataset.filters is not None:
            problems += filter_problems(dataset.filters, f"datasets.{name}.filters")
    if problems:
        raise ConfigError(list_problems(where, problems))


def load_registry(path: Path, environment: Mapping[str, str] | None = None) -> dict[str, ModelEntry]:
    """Read a registry of models: `models: {name: {provider, api_base, api_key, …}}`."""
    registry = parse_file(path, RegistryFile, environment)
    remember_secrets(registry)
    return registry.models


def remember_secrets(config: BaseModel) -> None:
    """Register every key in a configuration as a secret."""
    for secret in _secrets(config):
        secrets.register(secret)


def is_placeholder(value: str) -> bool:
    """Whether a key or address is still the example's (`sk-your-api-key`)."""
    return _PLACEHOLDER.search(value) is not None


def expand(value: Any, environment: Mapping[str, str], where: str = "") -> Any:
    """Replace `${VAR}` and `${VAR:-default}` in every string of a tree; `$$` is a plain `$`. Unset is an error."""
    if isinstance(value, str):

        def replace(match: re.Match[str]) -> str:
            name, default = match.group(1), match.group(2)
            if name is None:
                return "$"
            found = environment.get(name, default)
            if found is None:
                raise ConfigError(
                    f"{where}: the environment variable {name} is not set; set it, or write ${{{name}:-default}}"
                )
            return found

        return _VARIABLE.sub(replace, value)
    if isinstance(value, dict):
        return {
            key: expand(inner, environment, f"{where}.{shown_key(key)}" if where else shown_key(key))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [expand(inner, environment, f"{where}[{index}]") for index, inner in enumerate(value)]
    return value


def _describe_yaml(error: yaml.YAMLError) -> str:
    """What is wrong, without the text around it."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"it has the control character #x{error.character:02x}; remove it"
    problem = getattr(error, "problem", None) or type(error).__name__
    return f"{problem}; indent with spaces, not with tabs" if "\\t" in problem else str(problem)


def parse_file(
    path: Path, model: type[M], environment: Mapping[str, str] | None = None, settings: Sequence[str] = ()
) -> M:
    """Read a YAML or JSON file as a section. Raises ConfigError that names the file and every key that is wrong."""
    try:
        text = read_text(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text: {error.reason}") from error
    except ValueError as error:  # a NUL
        raise ConfigError(f"{str(path)!r}: cannot be read: {error}") from error
    try:
        raw = _read_yaml(text)
    except yaml.YAMLError as error:
        # Never the library's own text: it quotes the lines around the mistake, and a key may stand there.
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
        raise ConfigError(f"{where}: is not valid YAML: {_describe_yaml(error)}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is not valid YAML: nested too deeply") from None
    except (ValueError, OverflowError, TypeError, LookupError, AttributeError) as error:
        # What the library lets through of values that are not what their tags or forms say (2024-99-99, !!int x).
        raise ConfigError(f"{path}: is not valid YAML: {type(error).__name__} in a value") from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: expected keys and values at the top, got {type(raw).__name__}")
    where = f"{path} (with --set)" if settings else str(path)
    raw = change_tree(raw, settings) if settings else raw
    try:
        raw = expand(raw, os.environ if environment is None else environment)
        _refuse_unprintable(raw)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return validate(raw, model, where)


def validate(raw: Mapping[str, Any], model: type[M], where: str) -> M:
    """Read a tree of plain values as a section. Raises ConfigError that names every key that is wrong."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems = describe_problems(error, model)
    raise ConfigError(list_problems(where, problems))


def _secrets(value: Any, name: str = "") -> Iterable[str]:
    """Every key in a configuration: what is typed as one, texts in free fields whose name sounds like one, and what
    stands before the @ of an address or in its query under such a name. Values of a server's environment and headers
    are keys unless they are evidently something else."""
    if isinstance(value, str):
        if SOUNDS_SECRET.search(name):
            yield value
        if "://" in value and "?" in value:
            query = parse_qsl(value.partition("?")[2])
            yield from (inner for key, inner in query if SOUNDS_SECRET.search(key))
        # A name alone is no secret, unless it is all there is.
        yield from (found for match in _USER_INFO.findall(value) for found in (match, match.partition(":")[2]))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, name)
    elif isinstance(value, SecretStr):
        text = value.get_secret_value()
        yield from _secrets(text, name)
        is_known = name.lower() in _HARMLESS_HEADERS or _HARMLESS.fullmatch(text) is not None
        if not name or SOUNDS_SECRET.search(name) or not is_known:
            # What stands around a placeholder is the same for every conversation.
            yield from (text, *(part for part in _PLACEHOLDERS.split(text) if part != text))
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name), "")
        yield from _secrets(value.model_extra or {}, "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _secrets(inner, str(key))


def _refuse_unprintable(value: Any, where: str = "") -> None:
    """Raise where a text cannot be a path, a name or a part of a request: it has a NUL, or half a character."""
    if isinstance(value, str):
        if "\0" in value:
            raise ConfigError(f"{where or 'the file'}: has a NUL character in it")
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ConfigError(f"{where or 'the file'}: has half a character (a lone surrogate) in it")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _refuse_unprintable(key, where)
            _refuse_unprintable(inner, f"{where}.{shown_key(key)}" if where else shown_key(key))
    elif isinstance(value, (list, tuple, set)):
        for index, inner in enumerate(value):
            _refuse_unprintable(inner, f"{where}[{index}]")


def _read_yaml(text: str) -> Any:
    """What a YAML text holds. Raises YAMLError also where aliases make it endless or enormous."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_node(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_node(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """How many values a node stands for when every alias in it is written out. Raises ConstructorError where that is
    more than `MOST_VALUES`, where a node holds itself, and where a key is there twice (the second would win)."""
    known = sizes.get(id(node), 0)
    if known is None:
        raise yaml.constructor.ConstructorError(None, None, "this anchor refers to itself", node.start_mark)
    if known:
        return known
    sizes[id(node)] = None
    size = 1
    if isinstance(node, yaml.ScalarNode):
        size += len(node.value) // 1000
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_check_node(inner, sizes) for inner in node.value)
    else:
        _refuse_double_keys(node)
        size += sum(_check_node(inner, sizes) for pair in node.value for inner in pair)
    if size > MOST_VALUES:
        text = f"its aliases stand for more than {MOST_VALUES:,} values; write out less"
        raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
    sizes[id(node)] = size
    return size


def _refuse_double_keys(node: yaml.Node) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if (key.tag, key.value) in seen:
                text = f"the key {key.value!r} occurs twice"
                raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
            seen.add((key.tag, key.value))
