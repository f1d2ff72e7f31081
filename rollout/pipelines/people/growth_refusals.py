"""Refusals of growths that would make an irreversible call again, or start a server without its keys."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pydantic import SecretStr

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.plugins import is_reference
from rollout.engine.replay import calls_any
from rollout.pipelines.people.people_run import PeopleRun, WorkedOn
from rollout.pipelines.saved_config import HIDDEN, masked_servers
from rollout.store.journal import Journal
from rollout.trajectories.stop import StopReason
from rollout.trajectories.tree import NodeKey


def with_masked_servers(config: Config, run_dir: Path) -> Config:
    """A saved configuration in which MCP servers of which only a part is recorded are marked, for `refuse_dataset`."""
    datasets = dict(config.datasets)
    for name, dataset in config.datasets.items():
        servers = dict(dataset.mcpServers)
        for server in masked_servers(run_dir, name):
            if server in servers:
                servers[server] = servers[server].model_copy(update={"env": {HIDDEN: SecretStr(HIDDEN)}})
        datasets[name] = dataset.model_copy(update={"mcpServers": servers})
    return config.model_copy(update={"datasets": datasets})


def refuse_dataset(config: Config, name: str) -> None:
    """Raise ConfigError where a dataset is not in a configuration, or only without values that its servers need."""
    dataset = config.datasets.get(name)
    if dataset is None:
        raise ConfigError(f"datasets.{name}: is not in the configuration of the run; give it by --config")
    masked = sorted(server for server, entry in dataset.mcpServers.items() if HIDDEN in entry.env)
    if masked:
        raise ConfigError(
            f"datasets.{name}.mcpServers: `env` and `headers` of {', '.join(masked)} are not recorded, because they "
            "may hold keys; give the configuration of the run: config=FILE in Python, rollout view --config FILE for "
            "the page"
        )


def refuse_irreversible(
    people: PeopleRun,
    found: WorkedOn,
    place: int,
    names: Collection[str],
    *,
    message: int,
    count: int,
    own: Collection[str] = (),
) -> None:
    """Raise ConfigError where attempts that go on behind a node would make an irreversible call again. Those of a
    correction have not been made yet: one attempt may make them. `own`: the ids of the attempts themselves."""
    if place < 0 or not names:
        return
    listed = ", ".join(sorted(names))
    before = [found.body(each) for each in range(place)]
    last = found.body(place)
    is_new = found.trajectory.stop_reason == StopReason.CORRECTED and place == len(found.keys) - 1
    if calls_any(before, names) or (calls_any([last], names) and not is_new):
        raise ConfigError(
            f"{found.trajectory.id}: a call before message {message}, or of it, is irreversible ({listed}), and cannot "
            "be repeated; choose a step before it"
        )
    if not calls_any([last], names):
        return
    if count > 1:
        raise ConfigError(
            f"{found.trajectory.id}: the correction makes an irreversible call ({listed}); grow 1 attempt"
        )
    if others := _begun_behind(people.journal, found.tree, found.keys[place], own):
        raise ConfigError(
            f"{found.trajectory.id}: the irreversible call of the correction ({listed}) was made in {others[0]}, and "
            "cannot be repeated; go on from there"
        )


def _begun_behind(journal: Journal, tree: int, node: NodeKey, own: Collection[str]) -> list[str]:
    """The attempts that branched from a node."""
    found = []
    for name, episode in journal.begun_attempts(tree).items():
        branch = journal.branch(episode)
        if branch is not None and (branch.parent, branch.place) == node and name not in own:
            found.append(name)
    return found


def refuse_imported_models(config: Config, *names: str | None) -> None:
    """Raise ConfigError where a name asks for code to be imported. Other names are those of the registry, and
    `provider/model`."""
    for name in names:
        if name is not None and (is_reference(name) or ("/" not in name and name not in config.models)):
            known = ", ".join(sorted(config.models)) or "none"
            raise ConfigError(
                f"model {name[:100]!r}: expected provider/model, or a name of the run's registry ({known})"
            )
