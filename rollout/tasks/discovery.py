"""Datasets on disk: query files, their servers, and what is missing for them.

A dataset folder holds `queries`, `policies`, `tool_lists`, `mcp_servers` and `database`. It may be given itself, or
be the `single_domain` or `cross_domain` folder of a larger one, or the `outputs` of the generator. Combinations of
servers are sets: `A_B.jsonl` finds `B_A.md`. A name is split by the servers that exist, never by a list of known
names. Links inside a dataset folder may not lead out of it (`contained`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rollout.core.errors import ConfigError
from rollout.tasks.naming import fold, split_fused

Kind = Literal["single", "cross"]
MERGED = "queries.jsonl"
"""What `--merge-queries` writes, in a folder of the combination's name."""


class Combination(msgspec.Struct, frozen=True):
    """A query file and the set of servers that it needs: one for a single domain, several for a cross domain."""

    name: str
    servers: tuple[str, ...]
    queries: tuple[Path, ...]
    """Usually one file; several where the queries of a combination lie scattered in a folder of its name."""
    policy: Path | None
    missing: tuple[str, ...] = ()
    """What prevents running it."""


def resolve_base(path: Path, kind: Kind) -> Path:
    """The dataset folder that is meant by `path`."""
    for candidate in (path, path / f"{kind}_domain", path / f"{kind} domain"):
        if (candidate / "queries").is_dir():
            return candidate
    raise ConfigError(f"{path}: no folder `queries` here, nor in {kind}_domain below it; expected the dataset's layout")


def default_base(shipped: Path, kind: Kind) -> Path:
    """Where datasets are looked for by default: in AgentSkiller's place below the working folder, else in ours."""
    theirs = Path("rollout/tools/datasets")
    has = any((theirs / f"{kind}{gap}domain" / "queries").is_dir() for gap in ("_", " "))
    return theirs if has else shipped


def roots(base_path: Path) -> list[Path]:
    """Where the parts of a dataset folder are looked for: in it, then in its `single_domain` sibling.

    A folder of cross-domain queries needs no copies of the servers, tool lists and tables of its single domains.
    """
    siblings = (base_path.parent / "single_domain", base_path.parent / "single domain")
    return [base_path, *(path for path in siblings if path.is_dir() and path != base_path)]


def find_file(base_path: Path, part: str, name: str) -> Path:
    """A file of a dataset folder (`mcp_servers/A.py`): the first of its roots that has it, or where it should be."""
    places = [root / part / name for root in roots(base_path)]
    return contained(next((path for path in places if path.is_file()), places[0]), base_path)


def contained(path: Path, *folders: Path) -> Path:
    """The same path. Raises ConfigError where a link in it leads out of these dataset folders: one that was downloaded
    must not reach other files of this machine."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{str(path)!r}: cannot be followed: {error}") from error
    places = [root.resolve() for folder in folders for root in roots(folder)]
    if not any(target.is_relative_to(place) for place in places):
        raise ConfigError(f"{path}: is a link that leads out of {folders[0]}, to {target}; copy the file there instead")
    return path


def known_servers(base_path: Path) -> list[str]:
    """The servers of a dataset folder."""
    return sorted(
        {
            path.stem
            for root in roots(base_path)
            for path in (root / "mcp_servers").glob("*.py")
            if not path.stem.startswith("_")
        }
    )


def fused_database(base_path: Path, servers: Sequence[str]) -> str | None:
    """The name of the tables that these servers have in common, in the order in which their folder has it."""
    tables = base_path / "database" / "outputs" / "relationships"
    fused = next(
        (name for order in itertools.permutations(servers) if (tables / (name := "_".join(order))).is_dir()), None
    )
    for root in roots(base_path):
        outputs = root / "database" / "outputs"
        for folder in (outputs / "entities", *(outputs / "relationships" / name for name in (fused, *servers) if name)):
            _check_tables(base_path, folder)
    return fused


def _check_tables(base_path: Path, folder: Path) -> None:
    """Raise ConfigError where a folder of tables, or a table in it, lies outside the dataset folder."""
    contained(folder, base_path)
    for path in folder.rglob("*"):
        if path.is_symlink():
            contained(path, base_path)


def find_policy(base_path: Path, servers: Sequence[str], policy_dir: Path | None = None) -> Path | None:
    """The policy of a set of servers: `A_B.md` is also found as `B_A.md`."""
    folder = policy_dir or base_path / "policies"
    return _in_any_order(folder, servers, ".md", base_path if policy_dir is None else policy_dir)


def find_queries(base_path: Path, servers: Sequence[str]) -> Path | None:
    """The queries of a set of servers, under its name in any order."""
    return _in_any_order(base_path / "queries", servers, ".jsonl", base_path)


def _in_any_order(folder: Path, servers: Sequence[str], suffix: str, within: Path) -> Path | None:
    for order in itertools.permutations(servers):
        path = folder / f"{'_'.join(order)}{suffix}"
        if path.is_file():
            return contained(path, within)
    return None


def find_combinations(base_path: Path, *, min_domains: int = 2, require_policy: bool = False) -> list[Combination]:
    """The combinations below a folder, by name. A file whose name these servers do not make up is left out."""
    return [
        combination
        for combination in list_combinations(base_path)
        if combination.servers
        and len(combination.servers) >= min_domains
        and (combination.policy is not None or not require_policy)
    ]


def list_combinations(
    base_path: Path, *, query_dir: Path | None = None, policy_dir: Path | None = None
) -> list[Combination]:
    """Everything that has queries, with what is missing for it. One that names unknown servers has `servers` empty."""
    known = known_servers(base_path)
    found: dict[frozenset[str] | str, Combination] = {}
    folder = query_dir or base_path / "queries"
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"{folder}: no queries can be read there: {error.strerror or error}") from error
    for path in paths:
        files = tuple(contained(file, query_dir or base_path) for file in _query_files(path))
        if not files:
            continue
        servers = split_fused(path.stem, known) or []
        key: frozenset[str] | str = frozenset(servers) or path.stem
        before = found.get(key)
        if before is not None:
            # A_B.jsonl beside B_A.jsonl: the same set of servers, so one combination with both files.
            found[key] = msgspec.structs.replace(before, queries=(*before.queries, *files))
            continue
        found[key] = _describe(base_path, path.stem, tuple(dict.fromkeys(servers)), files, policy_dir)
    return [_by_merged(one) for one in found.values()]


def _by_merged(one: Combination) -> Combination:
    """A combination whose queries were merged, by the merged file alone: it holds what the others have."""
    merged = [path for path in one.queries if path.name == MERGED and path.parent.name == one.name]
    return msgspec.structs.replace(one, queries=tuple(merged)) if merged else one


def choose_combinations(found: Sequence[Combination], wanted: Sequence[str], kind: Kind) -> list[Combination]:
    """The requested domains: single domains by name; for cross domains all names together mean one set."""
    if kind == "cross":
        servers = {fold(name) for name in wanted}
        chosen = [one for one in found if {fold(server) for server in one.servers} == servers]
        chosen = chosen or [one for one in found if fold(one.name) in servers]
        if not chosen:
            raise ConfigError(f"no combination of {', '.join(wanted)}; there are: {_names(found)}")
        return chosen
    by_name = {fold(one.name): one for one in found}
    unknown = [name for name in wanted if fold(name) not in by_name]
    if unknown:
        raise ConfigError(f"no domain {', '.join(unknown)}; there are: {_names(found)}")
    return [by_name[fold(name)] for name in dict.fromkeys(wanted)]


def _names(found: Sequence[Combination]) -> str:
    return ", ".join(one.name for one in found) or "none"


def _query_files(path: Path) -> tuple[Path, ...]:
    if path.is_file() and path.suffix == ".jsonl" and not path.name.startswith("."):
        return (path,)
    return tuple(sorted(path.glob("*.jsonl"))) if path.is_dir() else ()


def _describe(
    base_path: Path, name: str, servers: tuple[str, ...], files: tuple[Path, ...], policy_dir: Path | None
) -> Combination:
    missing: list[str] = []
    if not servers:
        missing.append("servers")
    missing += [
        f"tool_lists/{server}.json"
        for server in servers
        if not find_file(base_path, "tool_lists", f"{server}.json").is_file()
    ]
    policy = find_policy(base_path, servers, policy_dir)
    if policy is None:
        missing.append("policy")
    if servers and fused_database(base_path, servers) is None:
        own = [
            any((root / "database" / "outputs" / "relationships" / server).is_dir() for root in roots(base_path))
            for server in servers
        ]
        if not all(own):
            missing.append("database")
    return Combination(name, servers, files, policy, tuple(missing))
