"""Environment variables that the processes of a cluster are given: what they need to run, and the keys of the run's own
models. Everything else of the driver's environment stays with the driver.

Ray starts its processes with whatever environment the process has that starts it. So where the run starts a Ray of its
own, all other variables are set aside while it does. On a cluster that is there already, workers have the environment
of that cluster, and only what `worker_environment` names is sent to them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence

_SYSTEM = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|TZ|TMP|TEMP|TMPDIR|PWD|LANG|LANGUAGE|LC_\w+|DISPLAY|XDG_\w+|VIRTUAL_ENV|CONDA_\w+|"
    r"PYTHON\w+|LD_\w+|DYLD_\w+|RAY_\w+|CUDA_\w+|NVIDIA_\w+|ROCR_\w+|HIP_\w+|OMP_\w+|MKL_\w+|OPENBLAS_\w+|UV_\w+|"
    r"\w*_PROXY|\w*_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|PLAYWRIGHT_BROWSERS_PATH|HF_HOME|"
    r"LITELLM_LOCAL_MODEL_COST_MAP"
)
"""Variables that any program may need to run. None of them holds a key, but for Ray's own."""


def worker_environment(environment: Mapping[str, str], keys: Sequence[str], named: Sequence[str]) -> dict[str, str]:
    """What is sent to workers: the variables in which the run's models look for keys (a name, or the beginning of names
    where it ends in `_`), and those that `cluster.environment` names."""
    wanted = set(named) | {key for key in keys if not key.endswith("_")}
    prefixes = tuple(key for key in keys if key.endswith("_"))
    return {
        name: value for name, value in environment.items() if name in wanted or (prefixes and name.startswith(prefixes))
    }


@contextlib.contextmanager
def only_system_variables() -> Iterator[None]:
    """Set all other variables of this process aside for a while."""
    aside = {name: os.environ.pop(name) for name in list(os.environ) if _SYSTEM.fullmatch(name) is None}
    try:
        yield
    finally:
        for name, value in aside.items():
            os.environ.setdefault(name, value)
