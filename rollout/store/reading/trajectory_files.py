"""Trajectories with the files of their run: images, and the system prompt and tools that their model was sent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from rollout.core.messages import JSON, Message
from rollout.store.blobs import image_path, image_url, read_blob
from rollout.trajectories.labels import NoPrompt, read_prompt
from rollout.trajectories.line import Head
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, RolloutTree

SentPrompt = tuple[str | None, list[JSON]]


class TrajectoryFiles:
    """The files of one run directory. Each prompt is read once."""

    def __init__(self, folder: Path, *, may_miss: bool = False) -> None:
        """`may_miss`: whether a prompt whose file is gone counts as unknown instead of raising `NoPrompt`."""
        self._folder = folder
        self._may_miss = may_miss
        self._image_url = functools.partial(image_url, folder)
        self._image_path = functools.partial(_image_file, folder.absolute())
        self._prompts: dict[str, SentPrompt] = {}

    def open(
        self,
        head: Head,
        nodes: Sequence[NodeBody] | None,
        given: Sequence[Message] | Callable[[], Sequence[Message]] = (),
    ) -> Trajectory:
        """A trajectory from its record and its nodes, or from its messages where nodes were not kept."""
        return Trajectory(
            head.id,
            head.task_id,
            head.success,
            head.metadata,
            nodes=nodes,
            given=given,
            image_url=self._image_url,
            image_path=self._image_path,
            prompt=functools.partial(self._prompt, head.prompt_name),
            offers=functools.partial(self._offers, head),
        )

    def open_tree(self, tree: RolloutTree) -> list[Trajectory]:
        """The attempts of a tree, by number."""
        return [
            self.open(leaf.head, [node.body for node in leaf.node.path()[1:]])
            for leaf in tree.leaves
            if leaf.head is not None
        ]

    def _prompt(self, name: str | None) -> SentPrompt:
        if name is None:
            return None, []
        if name not in self._prompts:
            try:
                found = read_prompt(read_blob(self._folder, name))
                self._prompts[name] = found.system, found.tools
            except OSError as error:
                if not self._may_miss:
                    text = f"{self._folder}: blobs/{name}.json, the system prompt and tools of its attempts, is gone"
                    raise NoPrompt(f"{text}; put it back") from error
                self._prompts[name] = None, []
        return self._prompts[name]

    def _offers(self, head: Head) -> dict[int, list[JSON]]:
        return {turn: self._prompt(name)[1] for turn, name in head.prompt_names}


def _image_file(folder: Path, name: str) -> str:
    return str(image_path(folder, name))
