"""Reading a configuration file, with errors that say what to do.

YAML, then `${VAR}`, then the schema. Whatever is wrong comes out as one `ConfigError` that names the file, the key and
what was expected; several problems come out together.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rollout import secrets
from rollout.config.models import ModelEntry
from rollout.config.schema import Config
from rollout.config.section import Section
from rollout.errors import ConfigError

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PLACEHOLDER = re.compile(r"your[-_ ]?(api[-_ ]?)?(key|endpoint)", re.IGNORECASE)
_MACHINERY = re.compile(r"(function-\w+|nullable|list|dict|union|tagged-union)\[.*\]", re.DOTALL)
_SOUNDS_SECRET = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_USER_INFO = re.compile(r"://([^/@\s]+)@")
M = TypeVar("M", bound=BaseModel)


class RegistryFile(Section):
    """The file that `models_config_file` names."""

    models: dict[str, ModelEntry] = {}


def load_config(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read a configuration and the registry file it names, and remember every key in it as a secret."""
    config = parse_file(path, Config, environment)
    if config.models_config_file is not None:
        registry = load_registry(config.models_config_file, environment)
        config = config.model_copy(update={"models": {**registry, **config.models}})
    remember_secrets(config)
    return config


def load_registry(path: Path, environment: Mapping[str, str] | None = None) -> dict[str, ModelEntry]:
    """Read a registry of models: `models: {name: {provider, api_base, api_key, …}}`."""
    registry = parse_file(path, RegistryFile, environment)
    remember_secrets(registry)
    return registry.models


def remember_secrets(config: BaseModel) -> None:
    """Take every key in a configuration for a secret from now on."""
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
            key: expand(inner, environment, f"{where}.{key}" if where else str(key)) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [expand(inner, environment, f"{where}[{index}]") for index, inner in enumerate(value)]
    return value


def parse_file(path: Path, model: type[M], environment: Mapping[str, str] | None = None) -> M:
    """Read a YAML or JSON file as a section. Raises ConfigError that names the file and every key that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text: {error.reason}") from error
    try:
        raw = yaml.load(text, _UniqueKeyLoader)
    except yaml.YAMLError as error:
        # Never the library's own text: it quotes the lines around the mistake, and a key may stand there.
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
        raise ConfigError(
            f"{where}: is not valid YAML: {getattr(error, 'problem', None) or type(error).__name__}"
        ) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: expected keys and values at the top, got {type(raw).__name__}")
    try:
        raw = expand(raw, os.environ if environment is None else environment)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return validate(raw, model, str(path))


def validate(raw: Mapping[str, Any], model: type[M], where: str) -> M:
    """Read a tree of plain values as a section. Raises ConfigError that names every key that is wrong."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems = [describe_problem(problem, model) for problem in error.errors(include_url=False)]
        listed = "\n  ".join(problems)
        raise ConfigError(f"{where}:{' ' if len(problems) == 1 else chr(10) + '  '}{listed}") from None


def describe_problem(problem: ErrorDetails, model: type[BaseModel], under: str | None = None) -> str:
    """What pydantic found wrong, as the key, which lies `under` another, and what was expected of it."""
    is_unknown = problem["type"] == "extra_forbidden"
    location = [part for part in problem["loc"][:-1] if not _is_machinery(part)]
    location += [part for part in problem["loc"][-1:] if is_unknown or not _is_machinery(part)]
    key = ".".join(map(str, location if under is None else [under, *location])) or "the file"
    if is_unknown:
        known = known_keys(model, location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
        return f"{key}: there is no such key; {hint}"
    text = problem["msg"].removeprefix("Value error, ")
    text = text[:1].lower() + text[1:]
    given = problem["input"]
    if isinstance(given, (str, int, float, bool)) and not _looks_secret(location):
        return f"{key}: {text}, got {given!r}"
    return f"{key}: {text}"


def _is_machinery(part: str | int) -> bool:
    """Names that pydantic puts into a location for validators and unions, which no file has."""
    return isinstance(part, str) and _MACHINERY.fullmatch(part) is not None


def _looks_secret(location: Iterable[str | int]) -> bool:
    return any(
        part in ("models", "env") or _SOUNDS_SECRET.search(str(part)) or "header" in str(part) for part in location
    )


def known_keys(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The keys of the section that a location leads to."""
    annotation: Any = model
    for part in location:
        annotation = _unwrapped(annotation)
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        elif _is_section(annotation):
            annotation = next((field.annotation for key, field in _fields(annotation) if key == part), None)
    annotation = _unwrapped(annotation)
    return [key for key, _ in _fields(annotation)] if _is_section(annotation) else []


def _fields(section: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """The fields of a section by the names that a file calls them."""
    return [(field.alias or name, field) for name, field in section.model_fields.items()]


def _unwrapped(annotation: Any) -> Any:
    """The section or mapping inside `Section | None` and `Annotated[Section, …]`."""
    if _is_section(annotation) or get_origin(annotation) is dict:
        return annotation
    return next((found for inner in get_args(annotation) if (found := _unwrapped(inner)) is not None), None)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _secrets(value: Any, name: str = "") -> Iterable[str]:
    """Every key in a configuration: what is typed as one, texts in free fields whose name sounds like one, and what
    stands before the @ of an address or in its query under such a name."""
    if isinstance(value, str):
        if _SOUNDS_SECRET.search(name):
            yield value
        if "://" in value and "?" in value:
            query = parse_qsl(value.partition("?")[2])
            yield from (inner for key, inner in query if _SOUNDS_SECRET.search(key))
        yield from (found for match in _USER_INFO.findall(value) for found in (match, *match.split(":", 1)))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, name)
    elif isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name), "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _secrets(inner, str(key))


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML without the trap that a key written twice silently wins the second time."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            try:
                is_twice = key in seen
            except TypeError:
                continue
            if is_twice and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands here twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
