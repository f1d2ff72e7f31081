"""From a dataset's `suite` to the suite, and what that settles in the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin
from rollout.core.spelling import suggest
from rollout.environments.suites.suite import MakeSuite, Suite

SHIPPED = {
    "bfcl_multi_turn": "rollout.environments.suites.bfcl.suite:BfclMultiTurn",
    "miniwob": "rollout.environments.suites.miniwob.suite:Miniwob",
    "tau2": "rollout.environments.suites.tau2.suite:Tau2",
}
if TYPE_CHECKING:
    from rollout.environments.suites.bfcl.suite import BfclMultiTurn
    from rollout.environments.suites.miniwob.suite import Miniwob
    from rollout.environments.suites.tau2.suite import Tau2

    _KEEP_THE_CONTRACT: tuple[MakeSuite, ...] = (BfclMultiTurn, Miniwob, Tau2)
_OWN = ("path", "web", "mcp_domain", "mcpServers", "tools", "base_path", "policy", "mode")
"""What a suite brings itself."""


def load_suite(name: str, dataset: Dataset) -> Suite:
    """The suite that a dataset names."""
    assert dataset.suite is not None
    # By value: a run's saved configuration has every key.
    set_twice = [key for key in _OWN if getattr(dataset, key) != Dataset.model_fields[key].get_default()]
    if set_twice:
        raise ConfigError(
            f"datasets.{name}: {', '.join(set_twice)}: leave out; {dataset.suite} brings its own tasks and tools"
        )
    make = find_plugin("rollout.suites", SHIPPED.get(dataset.suite, dataset.suite))
    if make is None:
        raise ConfigError(
            f"datasets.{name}.suite: there is no suite {dataset.suite!r}; {suggest(dataset.suite, SHIPPED, 'known')} "
            "(or an entry point of rollout.environments.suites, or module:Name)"
        )
    try:
        suite: Suite = make(dataset.suite_params)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}: {dataset.suite}: {error}") from error
    return suite


def settle_dataset(name: str, dataset: Dataset, suite: Suite | None) -> Dataset:
    """The dataset with the suite's user and limits, where it sets none of its own."""
    if suite is None:
        return dataset
    if suite.user is not None and dataset.user is not None:
        raise ConfigError(f"datasets.{name}.user: leave out; the tasks of {dataset.suite} say what the user says")
    settled: dict[str, Any] = {
        key: getattr(suite, key) for key in ("max_turns", "max_steps_per_turn") if key not in dataset.model_fields_set
    }
    if suite.user is not None:
        settled["user"] = suite.user
    return dataset.model_copy(update=settled)
