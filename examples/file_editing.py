"""File editing: tools over a folder, tasks that bring its files, and credit for every file that ends up right.

    python examples/file_editing.py

`builtin/oracle` plays the reference actions of the tasks and sometimes errs, so no key is needed. To watch a language
model work, pass its name instead: `model="openai/gpt-5"`.
"""

from __future__ import annotations

from pathlib import Path

import rollout


class Folder(rollout.World):
    """A folder of text files. `self.workdir` belongs to one attempt and is part of the world's state."""

    def __init__(self, task: rollout.Task) -> None:
        for name, text in task.info["files"].items():
            self.write_file(name, text)

    @rollout.tool
    def list_files(self) -> list[str]:
        """List the files of the folder."""
        return sorted(str(path.relative_to(self.workdir)) for path in self.workdir.rglob("*") if path.is_file())

    @rollout.tool
    def read_file(self, name: str) -> str:
        """Read a file."""
        return self._path(name).read_text(encoding="utf-8")

    @rollout.tool
    def write_file(self, name: str, text: str) -> str:
        """Write a file. One that exists is overwritten."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return f"{name}: {len(text)} characters written"

    @rollout.tool
    def replace(self, name: str, old: str, new: str) -> str:
        """Replace a text in a file. The old text must occur exactly once."""
        text = self.read_file(name)
        if text.count(old) != 1:
            raise ValueError(f"expected the old text once in {name}, found it {text.count(old)} times")
        return self.write_file(name, text.replace(old, new))

    def _path(self, name: str) -> Path:
        path = (self.workdir / name).resolve()
        if not path.is_relative_to(self.workdir.resolve()):
            raise ValueError(f"{name} is outside of the folder")
        return path


@rollout.scorer
def files_right(task: rollout.Task, world: Folder) -> float:
    """Of the files that had to change, and those that were changed, the share that is as it should be."""
    before = task.info["files"]
    wanted = {**before, **task.info["changed"]}
    after = {name: world.read_file(name) for name in world.list_files()}
    touched = {name for name in {*wanted, *after} if before.get(name) != after.get(name)} | task.info["changed"].keys()
    return sum(after.get(name) == wanted.get(name) for name in touched) / len(touched)


editing = rollout.Environment(
    name="file-editing",
    tasks=Path(__file__).with_suffix(".jsonl"),
    world=Folder,
    scorers=[files_right],
    system="You edit the files of a folder with your tools.",
)


if __name__ == "__main__":
    agent = {"model": "builtin/oracle", "params": {"wrong_argument": 0.2, "stop_early": 0.2}}
    run = rollout.run(editing, agent=agent, samples=4, progress=False)
    print(f"{run.solved} of {run.finished} attempts solved, mean reward {run.mean_reward:.2f}")
    print(run.tree("rename").draw())
