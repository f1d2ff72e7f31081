"""The section `cluster`: whether and how a run is spread over the machines of a Ray cluster."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from rollout.config.section import Section


def _weights(value: Any) -> Any:
    """`"2,1,1"` is `[2, 1, 1]`."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value


Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RankWeights = Annotated[Annotated[list[Weight], Field(min_length=1)] | None, BeforeValidator(_weights)]


class Cluster(Section):
    """The same run on several machines. A bare word is short for `{address: …}`."""

    address: str = "auto"
    """auto: the Ray cluster that this machine belongs to. local: a Ray of its own on this machine, ended with the run.
    Otherwise the address of a cluster, as `ray://head:10001` or `head:6379`."""
    workers: int | None = Field(None, ge=1)
    """How many workers (ranks) there are. By default one on each machine, also on those that join later; with `local`
    one for each CPU."""
    rank_weights: RankWeights = None
    """One weight for each rank, as `"2,1,1"`: its share of `max_workers` and of the tasks. Without it each machine's
    CPUs are its weight, and tasks go to any rank that is free."""
    cpus: float = Field(1.0, ge=0)
    """CPUs that Ray sets aside for one worker."""
    max_restarts: int = Field(20, ge=0)
    """How often a rank that died is started again."""
    start_timeout: float = Field(120.0, gt=0)
    """Seconds for a worker to be placed and to make itself ready; also how long a run goes on without any."""
    environment: list[str] = []
    """Names of variables of the driver's environment that workers are given besides the keys of the run's models: what
    tools, scorers and models of your own look for."""
    silence: float = Field(60.0, gt=0)
    """Seconds after which a worker that gives no sign of life is taken for dead."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        weights = self.rank_weights
        if self.workers is not None and weights is not None and self.workers != len(weights):
            raise ValueError(f"workers: {self.workers}, but rank_weights has {len(weights)}; leave workers out")
        return self


def cluster_shorthand(value: Any) -> Any:
    """`cluster: auto` is `cluster: {address: auto}`."""
    return {"address": value} if isinstance(value, str) else value
