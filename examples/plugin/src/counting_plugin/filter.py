"""The filter `chatty`: finds answers of more than a few words."""

from collections.abc import Iterator, Sequence

from rollout.trajectories.filters.filter import Found, Trajectory, Turn, TurnFilter


class Chatty(TurnFilter):
    """Answers with too many words."""

    words: int = 20
    """The most words of an answer."""

    def find(self, trajectory: Trajectory, turns: Sequence[Turn]) -> Iterator[Found]:
        for turn in turns:
            count = len((trajectory.messages[turn.message].content or "").split())
            if count > self.words:
                yield Found(f"more than {self.words} words", evidence=f"{count} words", turn=turn.turn)
