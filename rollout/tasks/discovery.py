"""Finding cross-domain combinations on disk: which query files there are, for which servers, with which policy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollout.tasks.naming import split_fused


class Combination(msgspec.Struct, frozen=True):
    """A query file and the set of servers that it needs."""

    name: str
    servers: tuple[str, ...]
    queries: Path
    policy: Path | None


def known_servers(base_path: Path) -> list[str]:
    """The servers of a dataset folder."""
    return sorted(path.stem for path in (base_path / "mcp_servers").glob("*.py") if not path.stem.startswith("_"))


def find_policy(base_path: Path, servers: Sequence[str]) -> Path | None:
    """The policy of a set of servers: `A_B.md` is also found as `B_A.md`."""
    for order in itertools.permutations(servers):
        path = base_path / "policies" / f"{'_'.join(order)}.md"
        if path.is_file():
            return path
    return None


def find_combinations(base_path: Path, *, min_domains: int = 2, require_policy: bool = False) -> list[Combination]:
    """The combinations below a folder, by name. A file whose name these servers do not make up is left out."""
    known = known_servers(base_path)
    found = []
    for path in sorted((base_path / "queries").glob("*.jsonl")):
        servers = split_fused(path.stem, known)
        if servers is None or len(set(servers)) < min_domains:
            continue
        policy = find_policy(base_path, servers)
        if policy is not None or not require_policy:
            found.append(Combination(path.stem, tuple(servers), path, policy))
    return found
