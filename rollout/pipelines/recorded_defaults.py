"""Defaults that a resumed run keeps from when it began.

A default may change between two versions. A run that was begun under the old one must not change in its middle, nor be
refused for a setting that was not written. So a setting listed here that the configuration leaves out has, on
resume, the value that the run recorded: `max_turns` in the journal's identity of each dataset, the monitor's in
`run.json`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rollout.config.schema import Config, Dataset
from rollout.store.connection import is_begun
from rollout.store.files.run_file import recorded_part
from rollout.store.reading.reader import open_reader

log = logging.getLogger(__name__)
RUN_SETTINGS = ("monitor_max_no_tool_turns",)
"""Settings of a whole run whose default has changed."""
DATASET_SETTINGS = ("max_turns",)
"""Settings of a dataset whose default has changed."""
LATER_SETTINGS: dict[str, dict[str, Any]] = {
    "web": {
        "actions": (
            "click", "type", "hover", "scroll", "select", "press", "wait", "goback", "navigate", "answer",
        )
    }
}  # fmt: skip
"""Settings in a section of a dataset that did not exist at first, each with the value that says what was done then."""


def with_recorded_defaults(config: Config, names: Iterable[str], run_dir: Path) -> Config:
    """The configuration as a run that is already there goes on with it."""
    if not is_begun(run_dir):
        return config
    recorded = recorded_part(run_dir, "config", dict[str, Any]) or {}
    kept = _unset(config, RUN_SETTINGS, recorded)
    for setting, value in kept.items():
        _say(run_dir, setting, value, f"the default is {getattr(config, setting)} now; set it to change it")
    datasets = dict(config.datasets)
    with open_reader(run_dir) as reader:
        for name in names:
            dataset = datasets[name]
            if dataset.suite is not None:
                continue
            found = _unset(dataset, DATASET_SETTINGS, reader.identity(name))
            for setting, value in found.items():
                advice = f"the default is {getattr(dataset, setting)} now; start a new run (--no-resume) to use that"
                _say(run_dir, f"datasets.{name}.{setting}", value, advice)
            datasets[name] = _with_earlier(dataset.model_copy(update=found), (recorded.get("datasets") or {}).get(name))
    return config.model_copy(update={**kept, "datasets": datasets})


def _with_earlier(dataset: Dataset, recorded: Any) -> Dataset:
    """The dataset without what was added to its sections since the run began."""
    for key, settings in LATER_SETTINGS.items():
        section, before = getattr(dataset, key), recorded.get(key) if isinstance(recorded, dict) else None
        if section is None or not isinstance(before, dict):
            continue
        unset = [name for name in settings if name not in section.model_fields_set]
        # A run that was resumed since has recorded what it goes on with.
        later = {name: type(getattr(section, name))(before.get(name, settings[name])) for name in unset}
        if later:
            dataset = dataset.model_copy(update={key: section.model_copy(update=later)})
    return dataset


def _unset(section: Any, settings: Iterable[str], recorded: dict[str, Any]) -> dict[str, Any]:
    """The recorded values of settings that a section leaves out and whose default is another one now. A value of
    another type is damage, which is no reason to break off later."""
    return {
        setting: recorded[setting]
        for setting in settings
        if setting not in section.model_fields_set
        and type(recorded.get(setting)) is type(getattr(section, setting))
        and recorded[setting] != getattr(section, setting)
    }


def _say(run_dir: Path, setting: str, value: Any, advice: str) -> None:
    log.warning("%s: was begun with %s: %s and goes on with that; %s", run_dir, setting, value, advice)
