"""The files that the servers of one domain may read: Python, their own modules, and their database.

A dataset folder holds many domains, and the answer keys of all of them. Of it a worker process can read

- the files of its servers, and whatever in `mcp_servers` has a server's name (`Desk.json`, `Desk/`);
- the modules that they import from `mcp_servers` or from the dataset folder, and those that these import in turn, but
  no server of another domain. The imports are read from the source, without running it, so a module whose name is put
  together at run time is not found;
- the tool lists of its servers;
- `database`, without the folders and files that have the name of another domain, however deep they lie. What has no
  domain's name is common to the domains of the folder, and so are the files in `entities`, whatever they are called.
  Below a folder that has the domain's own name, names mean nothing.

The names of the files in the dataset folder can be listed, because importing a module lists the folders around it.
Nothing reaches `queries` or `policies`, however it is linked or imported, and nothing outside the dataset folder. The
dataset folders of a run are also left out where they lie among Python's own files, as the shipped ones do.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rollout.environments.domains.domain import SHIPPED, Domain
from rollout.environments.domains.sandbox import Reach
from rollout.tasks.discovery import known_servers, roots
from rollout.tasks.naming import fold, split_folded

PARTS = ("queries", "policies", "tool_lists", "mcp_servers", "database")
"""The folders of a dataset folder."""
SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo"),
    *("/etc/localtime", "/dev/null", "/dev/urandom"),
)


def reach_of(domain: Domain, left_out: frozenset[str] | None = None) -> Reach:
    """What a process that serves `domain` may read. `left_out` are the `dataset_parts` of the run."""
    folders = [folder.resolve() for folder in roots(domain.base_path)]
    owners = _Owners(domain, folders)
    modules = [*_servers(domain, folders), *_imported(domain, folders, owners)]
    own = [*(Path(file.path) for file in domain.files), *(path for path in modules if not owners.is_elsewhere(path))]
    kept = [path for path in (*own, *_tables(owners, folders)) if owners.is_ours(path)]
    readable, listable = _python_files(dataset_parts([domain]) if left_out is None else left_out)
    return Reach(
        tuple(dict.fromkeys([*map(str, kept), *readable])), tuple(dict.fromkeys([*map(str, folders), *listable]))
    )


def _servers(domain: Domain, folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        for server in domain.servers:
            yield (folder / "tool_lists" / f"{server}.json").resolve()
            yield (folder / "mcp_servers" / server).resolve()
            yield from (path.resolve() for path in (folder / "mcp_servers").glob(f"{server}.*"))


# ---- what belongs to other domains ----------------------------------------------------------------------------------


class _Owners:
    """Tells by place and name whom something in a dataset folder belongs to."""

    def __init__(self, domain: Domain, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._closed = [folder / part for folder in folders for part in ("queries", "policies")]
        self._closed += [place.resolve() for place in self._closed]
        self._around = [*self._closed, *(folder / "mcp_servers" for folder in folders)]
        self._servers = set(domain.servers)
        known = [name for name in known_servers(domain.base_path) if name in self._servers or _is_server(name, folders)]
        self._known = {fold(name): name for name in known}

    def is_ours(self, path: Path) -> bool:
        """Whether a real path lies in a dataset folder, is neither an answer key nor a policy, and holds none."""
        return (
            any(path.is_relative_to(folder) for folder in self._folders)
            and not any(path.is_relative_to(place) for place in self._closed)
            and not any(place.is_relative_to(path) for place in self._around)
        )

    def is_own(self, name: str) -> bool:
        """Whether a file or folder of this name is this domain's."""
        named = set(self._named(name))
        return bool(named) and (named == self._servers or (len(named) == 1 and named <= self._servers))

    def is_others(self, name: str) -> bool:
        """Whether it is another domain's. What has no domain's name is neither."""
        return bool(self._named(name)) and not self.is_own(name)

    def _named(self, name: str) -> list[str]:
        return split_folded(name.partition(".")[0], self._known) or []

    def is_others_table(self, path: Path) -> bool:
        """Whether something below `database` has another domain's name. Files in `entities` are common to all."""
        return self.is_others(path.name) and (path.parent.name != "entities" or path.is_dir())

    def is_elsewhere(self, path: Path) -> bool:
        """Whether a real path lies where another domain's name stands above it."""
        for folder in self._folders:
            part, *inner = (path.relative_to(folder).parts if path.is_relative_to(folder) else ()) or ("",)
            if part in ("mcp_servers", "tool_lists") and inner:
                return self.is_others(inner[0])
            if part == "database":
                at = folder / part
                for name in inner:
                    at /= name
                    if self.is_own(name) or self.is_others_table(at):
                        return not self.is_own(name)
        return False


def _is_server(name: str, folders: Sequence[Path]) -> bool:
    """Whether a module in `mcp_servers` is a server, and not one that servers import."""
    if any((folder / "tool_lists" / f"{name}.json").is_file() for folder in folders):
        return True
    says_so = re.compile(rf"\b{re.escape(name)}Server\b".encode())
    for folder in folders:
        with contextlib.suppress(OSError):
            if says_so.search((folder / "mcp_servers" / f"{name}.py").read_bytes()):
                return True
    return False


# ---- the database ---------------------------------------------------------------------------------------------------


def _tables(owners: _Owners, folders: Sequence[Path]) -> Iterator[Path]:
    links: list[Path] = []

    def visible(path: Path) -> list[Path] | None:
        """What can be read of a folder, piece by piece; None where it is all of it. Links are looked at later."""
        pieces: list[Path] = []
        is_whole = True
        for child in _children(path):
            if child.is_symlink():
                links.append(child)
                continue
            if owners.is_others_table(child):
                is_whole = False
                continue
            below = visible(child) if child.is_dir() and not owners.is_own(child.name) else None
            is_whole = is_whole and below is None
            pieces += [child] if below is None else below
        return None if is_whole else pieces

    waiting = [folder / "database" for folder in folders]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or not owners.is_ours(path):
            continue
        seen.add(path)
        below = visible(path) if path.is_dir() else None
        yield from ([path] if below is None else below)
        for link in links:
            target = link.resolve()
            if owners.is_own(link.name) and target.is_dir() and owners.is_others_table(target):
                yield target  # the folder says itself that the two share their tables
            elif not owners.is_others_table(link) and not owners.is_elsewhere(target):
                waiting.append(target)
        links.clear()


def _children(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []  # then the process cannot list it either


# ---- what servers import --------------------------------------------------------------------------------------------


def _imported(domain: Domain, folders: Sequence[Path], owners: _Owners) -> list[Path]:
    """The modules and packages of the dataset folder that the servers import, and those that these import."""
    places = [place for folder in folders for place in (folder / "mcp_servers", folder)]
    found: dict[Path, None] = {}
    waiting = [Path(file.path) for file in domain.files]
    while waiting:
        for path in _imports(waiting.pop(), places):
            if path not in found and owners.is_ours(path) and not owners.is_elsewhere(path):
                found[path] = None
                waiting += path.rglob("*.py") if path.is_dir() else [path]
    return list(found)


def _imports(module: Path, places: Sequence[Path]) -> Iterator[Path]:
    try:
        tree = ast.parse(module.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # loading it says what is wrong with it
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
