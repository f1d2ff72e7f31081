"""An environment: a library desk with three books. Its tools are methods, its state is in attributes."""

from __future__ import annotations

from pathlib import Path

import rollout

BOOKS = {"Dune": 2, "Emma": 1, "Ulysses": 0}


class Library(rollout.World):
    """The shelves that one attempt sees. Each attempt begins with its own copy."""

    def __init__(self) -> None:
        self.copies = dict(BOOKS)
        self.loans: dict[str, list[str]] = {}

    @rollout.tool
    def find_book(self, title: str) -> dict[str, object]:
        """Look a book up by its title: how many copies are on the shelf."""
        if title not in self.copies:
            raise ValueError(f"there is no book {title!r}; there are: {', '.join(self.copies)}")
        return {"title": title, "copies": self.copies[title]}

    @rollout.tool
    def lend_book(self, title: str, member: str) -> str:
        """Lend a copy of a book to a member."""
        if not self.copies.get(title):
            raise ValueError(f"no copy of {title!r} is on the shelf")
        self.copies[title] -= 1
        self.loans.setdefault(member, []).append(title)
        return f"{title} is lent to {member}"


@rollout.scorer
def lent(task: rollout.Task, world: Library) -> float:
    """1 if exactly the books that were asked for are lent."""
    return float(world.loans == task.info["loans"])


library = rollout.Environment(
    name="library",
    tasks=Path(__file__).with_name("tasks.jsonl"),
    world=Library,
    scorers=[lent],
    system="You work at a library desk. Use your tools; lend only what is on the shelf.",
)
