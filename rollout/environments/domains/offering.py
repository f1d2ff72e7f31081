"""System prompt and tools of recorded trajectories that do not have them: made from policy and tool lists.

The file's name says which servers: `A.jsonl`, `A_B_C.jsonl`, with or without `_output`. A combination is a set, so
`A_B_C.jsonl` finds `C_B_A.md`. A policy that is missing is an error; no text is made up in its place. What was said
before the policies (AgentSkiller's script for single domains does so) only its user knows: the preamble.

The calls in the file say how the tools were named: as our runs offer them (`rollout.tasks.naming`), un-prefixed, or as
AgentSkiller does it (`sap.get_grades`). The naming that fits most of the names called is taken; ours where all fit
alike.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import Toolset, ToolSpec
from rollout.environments.domains.domain import read_policy, read_tool_list
from rollout.tasks.discovery import find_file, find_policy, roots
from rollout.tasks.naming import offered_name, prefixes, split_fused
from rollout.trajectories.labels import NoPrompt, Prompt

_SEED_WORD = re.compile(r"[A-Z][a-z]*")


class Offering:
    """The policies and tool lists of a dataset folder."""

    def __init__(self, policy_root: Path, tools_list: Path, preamble: str | None = None) -> None:
        self._policy_root = policy_root
        self._preamble = preamble
        self._base, self._part = tools_list.absolute().parent, tools_list.name
        for folder, option in ((policy_root, "--policy-root"), (tools_list, "--tools-list")):
            if not folder.is_dir():
                raise ConfigError(f"{option}: {folder} is not a folder")
        self._known = sorted({path.stem for root in roots(self._base) for path in (root / self._part).glob("*.json")})

    def prompt_of(self, path: Path, called: Collection[str]) -> Prompt:
        """System prompt and tools for the trajectories of a file, in which these tools are called."""
        fused = path.stem.removesuffix("_output")
        servers = list(dict.fromkeys(split_fused(fused, self._known) or ()))
        if not servers:
            raise NoPrompt(
                f"the name {path.name} is made of no tool lists in {self._base / self._part}; there are: "
                f"{', '.join(self._known) or 'none'}"
            )
        policy = find_policy(self._base, servers, self._policy_root)
        if policy is None:
            order = ", its names in any order" if len(servers) > 1 else ""
            raise NoPrompt(f"no policy in {self._policy_root}: expected {'_'.join(servers)}.md{order}")
        lists = {server: read_tool_list(find_file(self._base, self._part, f"{server}.json")) for server in servers}
        toolset = max(_offers(path, servers, lists), key=lambda offer: len(offer.by_name.keys() & set(called)))
        system = read_policy(policy) if self._preamble is None else f"{self._preamble}\n\n{read_policy(policy)}"
        return Prompt(system, toolset.wire or b"[]", [spec.to_json() for spec in toolset.specs])


def _offers(path: Path, servers: list[str], lists: dict[str, list[ToolSpec]]) -> list[Toolset]:
    """The tools under each way to name them that gives every tool a name of its own, ours first."""
    short = prefixes(servers) if len(servers) > 1 else {}
    try:
        made = [_offer(lists, lambda server, tool: offered_name(short.get(server), tool))]
    except ValueError as error:
        raise NoPrompt(f"{path.name}: {error}") from error
    for naming in (lambda server, tool: tool, lambda server, tool: f"{initials(server)}.{tool}"):
        with contextlib.suppress(ValueError):
            made.append(_offer(lists, naming))
    return made


def initials(server: str) -> str:
    """AgentSkiller's prefix of a server."""
    return "".join(word[0] for word in _SEED_WORD.findall(server)).lower() or server.lower()


def _offer(lists: dict[str, list[ToolSpec]], name: Callable[[str, str], str]) -> Toolset:
    return Toolset(
        tuple(
            msgspec.structs.replace(spec, name=name(server, spec.name))
            for server, specs in lists.items()
            for spec in specs
        )
    )
