"""From a configuration to the ranks of a run: what workers are told, and who starts them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rollout import secrets
from rollout.config.schema import Config
from rollout.engine.cluster.link import Machines
from rollout.engine.cluster.ranks import Ranks
from rollout.engine.cluster.worker import Setup
from rollout.engine.control import Control
from rollout.engine.journal import Journal
from rollout.errors import ConfigError
from rollout.models.registry import Registry

_KEYS = re.compile(r"_(API_KEY|API_BASE|TOKEN)$")
"""Variables of the environment that workers are given: where clients of models look for their keys."""


@contextlib.asynccontextmanager
async def open_ranks(
    config: Config,
    datasets: Sequence[str],
    journal: Journal,
    control: Control,
    registry: Registry,
    machines: Machines | None = None,
) -> AsyncIterator[Ranks]:
    """The ranks of a run, ready; ended on leaving. `machines` stand instead of Ray's."""
    assert config.cluster is not None
    for name in datasets:
        user = config.datasets[name].user
        if user is not None and user.kind == "person":
            raise ConfigError(f"datasets.{name}.user: a person cannot be asked on a cluster; leave `cluster` out")
    with contextlib.ExitStack() as held:
        if machines is None:
            from rollout.engine.cluster.ray_nodes import connect

            machines = held.enter_context(connect(config.cluster))
        run_dir = journal.folder.resolve()
        # Whoever sees this file shares the run directory with us.
        token = run_dir / f".shared.{os.urandom(8).hex()}"
        held.callback(token.unlink, missing_ok=True)
        token.touch()
        setup = Setup(
            config=config,
            datasets=list(datasets),
            rank=0,
            run_dir=str(run_dir),
            token=token.name,
            folder=str(Path.cwd()),
            environment={key: value for key, value in os.environ.items() if _KEYS.search(key)},
            secrets=secrets.known(),
        )
        ranks = Ranks(config.cluster, machines, setup, journal, control, registry)
        try:
            await ranks.open()
            yield ranks
        finally:
            await ranks.close()
