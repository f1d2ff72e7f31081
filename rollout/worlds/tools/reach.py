"""The files that the servers of one domain may read: Python, their own modules, and their database.

A dataset folder holds many domains, and the answer keys of all of them. Of it a worker process can read

- the files of its servers, and whatever in `mcp_servers` has a server's name (`Desk.json`, `Desk/`);
- the modules that they import from `mcp_servers` or from the dataset folder, and those that these import in turn. The
  imports are read from the source, without running it, so a module whose name is put together at run time is not found;
- the tool lists of its servers;
- `database`, without the folders that have the name of another domain. What has no domain's name, such as the tables
  in `entities`, is common to the domains of the folder.

The names of the files in the dataset folder can be listed, because importing a module lists the folders around it.
Nothing reaches `queries` or `policies`, however it is linked or imported, and nothing outside the dataset folder. The
dataset folders of a run are also left out where they lie among Python's own files, as the shipped ones do.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rollout.tasks.discovery import known_servers, roots
from rollout.tasks.naming import fold, split_folded
from rollout.worlds.tools.domain import SHIPPED, Domain
from rollout.worlds.tools.sandbox import Reach

PARTS = ("queries", "policies", "tool_lists", "mcp_servers", "database")
"""The folders of a dataset folder."""
SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo"),
    *("/etc/localtime", "/dev/null", "/dev/urandom"),
)
DEPTH = 3
"""How far below a dataset folder folders are named after domains: `database/outputs/relationships/Desk`."""


def reach_of(domain: Domain, left_out: frozenset[str] | None = None) -> Reach:
    """What a process that serves `domain` may read. `left_out` are the `dataset_parts` of the run."""
    folders = [folder.resolve() for folder in roots(domain.base_path)]
    own = [*_servers(domain, folders), *_imported(domain, folders), *_tables(domain, folders)]
    kept = [path for path in own if _is_ours(path, folders)]
    readable, listable = _python_files(dataset_parts([domain]) if left_out is None else left_out)
    return Reach(
        tuple(dict.fromkeys([*map(str, kept), *readable])), tuple(dict.fromkeys([*map(str, folders), *listable]))
    )


def _is_ours(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a real path lies in a dataset folder and is neither an answer key nor a policy."""
    return any(path.is_relative_to(folder) for folder in folders) and not any(
        path.is_relative_to(folder / part) for folder in folders for part in ("queries", "policies")
    )


def _servers(domain: Domain, folders: Sequence[Path]) -> Iterator[Path]:
    for file in domain.files:
        yield Path(file.path)
    for folder in folders:
        for server in domain.servers:
            yield (folder / "tool_lists" / f"{server}.json").resolve()
            yield (folder / "mcp_servers" / server).resolve()
            yield from (path.resolve() for path in (folder / "mcp_servers").glob(f"{server}.*"))


# ---- the database ---------------------------------------------------------------------------------------------------


def _tables(domain: Domain, folders: Sequence[Path]) -> Iterator[Path]:
    known = {fold(name): name for name in known_servers(domain.base_path)}

    def is_others(path: Path) -> bool:
        named = split_folded(path.name, known) or []
        return bool(named) and set(named) != set(domain.servers) and (len(named) > 1 or named[0] not in domain.servers)

    def visible(path: Path, depth: int) -> list[Path] | None:
        """What can be read of a folder, piece by piece; None where it is all of it."""
        if depth == 0 or not path.is_dir():
            return None
        pieces: list[Path] = []
        is_whole = True
        for child in sorted(path.iterdir()):
            if child.is_dir() and is_others(child):
                is_whole = False
                continue
            below = visible(child, depth - 1)
            is_whole = is_whole and below is None
            pieces += [child] if below is None else below
        return None if is_whole else pieces

    for folder in folders:
        database = folder / "database"
        below = visible(database, DEPTH)
        yield from (path.resolve() for path in ([database] if below is None else below))


# ---- what servers import --------------------------------------------------------------------------------------------


def _imported(domain: Domain, folders: Sequence[Path]) -> list[Path]:
    """The modules and packages of the dataset folder that the servers import, and those that these import."""
    places = [place for folder in folders for place in (folder / "mcp_servers", folder)]
    found: dict[Path, None] = {}
    waiting = [Path(file.path) for file in domain.files]
    while waiting:
        for path in _imports(waiting.pop(), places):
            if path not in found and _is_ours(path, folders):
                found[path] = None
                waiting += path.rglob("*.py") if path.is_dir() else [path]
    return list(found)


def _imports(module: Path, places: Sequence[Path]) -> Iterator[Path]:
    try:
        tree = ast.parse(module.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # whoever loads it says what is wrong with it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _find(alias.name.split("."), places)
        elif isinstance(node, ast.ImportFrom):
            above = [module.parents[node.level - 1]] if 0 < node.level <= len(module.parents) else places
            name = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _find([*name, alias.name], above)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield from _find(node.args[0].value.split("."), places)


def _find(name: Sequence[str], places: Iterable[Path]) -> Iterator[Path]:
    """The files that importing a name would read, below each of these folders."""
    for place in places:
        here = place
        for part in name:
            if not part:
                break
            module, package = here / f"{part}.py", here / part
            if (package / "__init__.py").is_file() and part not in PARTS:
                yield package.resolve()
                break
            if (package / "__init__.py").is_file():
                yield (package / "__init__.py").resolve()
            if module.is_file():
                yield module.resolve()
                break
            if not package.is_dir():
                break
            here = package


# ---- Python ---------------------------------------------------------------------------------------------------------


def dataset_parts(domains: Iterable[Domain]) -> frozenset[str]:
    """The folders of these domains' dataset folders and of the shipped ones."""
    folders = {folder for domain in domains for folder in roots(domain.base_path)}
    folders |= {SHIPPED / "single_domain", SHIPPED / "cross_domain"}
    return frozenset(os.path.realpath(folder / part) for folder in folders for part in PARTS)


@functools.lru_cache(maxsize=4)
def _python_files(left_out: frozenset[str]) -> tuple[list[str], list[str]]:
    """Python's own files and the installed packages: what can be read, and the folders that are split up for it."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    found = [os.path.join(prefix, lib) for prefix in prefixes for lib in ("lib", "lib64", "share/zoneinfo")]
    found += [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parents[2])]
    found += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    around = {str(above) for path in left_out for above in Path(path).parents}
    readable: dict[str, None] = {}
    listable: dict[str, None] = {}
    waiting = [*found, *SYSTEM]
    while waiting:
        path = os.path.realpath(waiting.pop())
        if path in listable or not os.path.exists(path):
            continue
        if path in around:
            listable[path] = None
            waiting += (entry.path for entry in os.scandir(path))
        elif path not in left_out and not any(str(above) in left_out for above in Path(path).parents):
            readable[path] = None
    return list(readable), list(listable)
