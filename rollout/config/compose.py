"""From `--config-name` and overrides to configurations of web rollouts, by Hydra's rules.

Hydra composes the packaged YAML files (and those of `--config-dir`) with the overrides; the schema checks the result.
Only its composing is used: no folder `outputs`, no change of the working directory, no logging of its own. A key that
the schema knows may be overridden with or without `+`. Hydra is imported when it is needed.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.config.load import remember_secrets, validate
from rollout.config.problems import known_keys
from rollout.config.web import NO_EFFECT, Split, WebConfig
from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra

PACKAGED = Path(__file__).parent / "web"
DEFAULT_NAME = "rollout_train"
STEP_LIMITS = ("env_config.train_difficulty_max_steps", "env_config.test_difficulty_max_steps")
"""Keys that take a list as well as names."""


class Composed(msgspec.Struct, frozen=True):
    """One configuration, and what it was before the schema read it."""

    config: WebConfig
    tree: dict[str, Any]
    overrides: tuple[str, ...]
    without_effect: tuple[str, ...]
    """Keys that were given and have no effect here: `NO_EFFECT` says why."""

    @property
    def notes(self) -> list[str]:
        """What a person should know of the keys that were given."""
        return [f"{key} has no effect here: {NO_EFFECT[key]}" for key in self.without_effect]


def compose_web(
    overrides: Sequence[str] = (),
    *,
    config_name: str = DEFAULT_NAME,
    config_dir: Path | None = None,
    multirun: bool = False,
) -> list[Composed]:
    """The configuration that the overrides lead to; with `multirun` one for each combination of `key=a,b` values.

    Raises ConfigError that says what is wrong with which key.
    """
    overrides = [_whole_weights(override) for override in overrides]
    with _hydra_errors(overrides):
        jobs = _spread(overrides) if multirun else [list(overrides)]
        trees = [compose_tree(job, config_name, config_dir) for job in jobs]
    return [_check(tree, job) for tree, job in zip(trees, jobs, strict=True)]


def compose_tree(overrides: Sequence[str], config_name: str = DEFAULT_NAME, config_dir: Path | None = None) -> Any:
    """What Hydra makes of the files and the overrides, every reference resolved. Raises as Hydra does."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    folders = [PACKAGED]
    if config_dir is not None:
        if not config_dir.is_dir():
            raise ConfigError(f"--config-dir: {config_dir} is not a folder")
        folders.insert(0, config_dir.resolve())
    # Hydra wants the configuration itself in the first folder; what it names by `defaults` is found in both.
    name = f"{config_name.removesuffix('.yaml')}.yaml"
    folders.sort(key=lambda folder: not (folder / name).is_file())
    if not (folders[0] / name).is_file():
        there = [path.stem for folder in folders for path in sorted(folder.glob("*.yaml"))]
        raise ConfigError(f"--config-name: there is no {config_name!r}; there are: {', '.join(there)}")
    search = [f"hydra.searchpath=['file://{folder}']" for folder in folders[1:]]
    # Somebody who calls us from a program of Hydra's own has its state here already.
    with contextlib.ExitStack() as kept:
        before = GlobalHydra.instance().hydra
        kept.callback(setattr, GlobalHydra.instance(), "hydra", before)
        GlobalHydra.instance().clear()
        kept.enter_context(initialize_config_dir(config_dir=str(folders[0]), job_name="web", version_base="1.3"))
        found = compose(config_name=config_name, overrides=[*search, *_known_without_plus(overrides)])
        return OmegaConf.to_container(found, resolve=True)


def _check(tree: Any, overrides: Sequence[str]) -> Composed:
    config = validate(tree, WebConfig, "rollout web")
    remember_secrets(config)
    packaged = compose_tree([], f"rollout_{config.split}")
    idle = tuple(key for key in NO_EFFECT if _look_up(tree, key) != _look_up(packaged, key))
    return Composed(config, tree, tuple(overrides), idle)


def configure_web(given: Mapping[str, Any], split: Split = "train") -> Composed:
    """The configuration of a split in which these keys take the place of the packaged ones, group by group.

    Values may be dicts or OmegaConf objects. Raises ConfigError that says what is wrong with which key.
    """
    with _hydra_errors(()):
        from omegaconf import OmegaConf

        plain = OmegaConf.to_container(OmegaConf.create(_without_objects(given)), resolve=True)
        tree = _overlaid(compose_tree([], f"rollout_{split}"), plain)
    return _check(tree, ())


def _without_objects(value: Any) -> Any:
    """Dicts and lists with what OmegaConf can hold in them: paths as text."""
    from omegaconf import OmegaConf

    if OmegaConf.is_config(value):
        # Its references are to its own root, which may be more than this part.
        return OmegaConf.to_container(value, resolve=True)
    if isinstance(value, Mapping):
        return {str(key): _without_objects(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_objects(inner) for inner in value]
    return str(value) if isinstance(value, os.PathLike) else value


def _overlaid(base: Any, more: Any) -> Any:
    """Merge mappings at every depth; other values are replaced."""
    if not isinstance(base, Mapping) or not isinstance(more, Mapping):
        return more
    return {**base, **{key: _overlaid(base.get(key), inner) for key, inner in more.items()}}


def _look_up(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def _known_without_plus(overrides: Sequence[str]) -> list[str]:
    """Overrides of keys that the schema knows as `++key=value`, which sets a key whether a file has it or not."""
    lines = []
    for parsed, line in zip(_parse(overrides), overrides, strict=True):
        if parsed.is_delete() or _hint(parsed.key_or_group) is not None:
            lines.append(line)
            continue
        if parsed.key_or_group in STEP_LIMITS and isinstance(parsed.value(), list):
            # Hydra merges, and a list cannot be merged into what has names.
            lines.append(f"~{parsed.key_or_group}")
        lines.append(f"++{parsed.input_line.lstrip('+')}")
    return lines


def _whole_weights(override: str) -> str:
    """`rank_weights=2,1,1`, from which the shell took the quotes, is one value and not a sweep."""
    return re.sub(r"^(\+*(?:\w+\.)?(?:all_)?rank_weights)=([\d.]+(?:,[\d.]+)+)$", r"\1='\2'", override)


def _parse(overrides: Sequence[str]) -> list[Any]:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return list(OverridesParser.create().parse_overrides(list(overrides)))


def _spread(overrides: Sequence[str]) -> list[list[str]]:
    """The jobs of a multirun, in Hydra's order: the last sweep changes fastest."""
    choices = []
    for parsed in _parse(overrides):
        if parsed.is_sweep_override():
            key = parsed.input_line.partition("=")[0]
            choices.append([f"{key}={value}" for value in parsed.sweep_string_iterator()])
        else:
            choices.append([parsed.input_line])
    return [list(job) for job in itertools.product(*choices)]


@contextlib.contextmanager
def _hydra_errors(overrides: Sequence[str]) -> Iterator[None]:
    """Hydra's complaints in our words, with the key that was probably meant."""
    try:
        from hydra.errors import HydraException
        from omegaconf.errors import OmegaConfBaseException
    except ImportError:
        raise missing_extra("`rollout web`", "web") from None
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        said = str(error).strip()
        for override in overrides:
            key = override.lstrip("+~").partition("=")[0]
            if f"'{key}'" in said.partition("\n")[0] and (hint := _hint(key)) is not None:
                raise ConfigError(f"{key}: there is no such key; {hint}") from None
        raise ConfigError(said) from None


def _hint(key: str) -> str | None:
    """What was probably meant by a key that is not there; None where its every part is."""
    parts = key.split(".")
    for place, part in enumerate(parts):
        known = known_keys(WebConfig, parts[:place])
        if known and part not in known:
            near = difflib.get_close_matches(part, known, n=1, cutoff=0.5)
            meant = ".".join([*parts[:place], *near, *parts[place + 1 :]])
            return f"did you mean {meant!r}?" if near else f"known keys: {', '.join(sorted(known))}"
    return None
