"""The strategy `until_solved`: one attempt after the other, until one of them solves the task."""

from collections.abc import Iterable

from rollout.strategies.strategy import Expansion, RolloutTree, Strategy


class UntilSolved(Strategy):
    """Decides by the tree alone, so that a resumed run decides the same."""

    def __init__(self, attempts: int = 4) -> None:
        self.attempts = attempts

    @property
    def most(self) -> int:
        return self.attempts

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        is_solved = any(leaf.head is not None and leaf.head.success for leaf in tree.leaves)
        return [] if is_solved or len(tree.leaves) >= self.attempts else [Expansion(tree.trunk, 1, "init")]
