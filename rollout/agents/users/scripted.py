"""Users that do what was written beforehand: a fixed list of messages, and the built-in user who plays a brief."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollout import seeds
from rollout.agents.users.user import UserReply, is_spoken, strip_markers
from rollout.messages import NO_TOOLS, Message, ToolCall, Toolset
from rollout.tasks.task import Task
from rollout.worlds.world import World

_encode = msgspec.json.Encoder(order="deterministic").encode
_THANKS = (
    "That's everything, thank you for your help.",
    "Great, that was all I needed. Thanks!",
    "Perfect, thank you. Bye!",
    "Thanks a lot, that settles it.",
)


class _Place:
    """How often the user has spoken and acted in a dialogue. It only grows, so each message is looked at once."""

    def __init__(self) -> None:
        self._read = 0
        self._users = 0
        self.calls = 0

    def count(self, dialogue: Sequence[Message]) -> int:
        """How many messages of the user a dialogue holds; `calls` is then how many calls."""
        for index in range(self._read, len(dialogue)):
            message = dialogue[index]
            if message.role == "user":
                self._users += is_spoken(message)
                self.calls += len(message.tool_calls)
        self._read = len(dialogue)
        return self._users


class ScriptedUser:
    """A fixed list of messages, said one after the other whatever the agent does; then the conversation is over."""

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, lines: Sequence[str], opening: int = 1) -> None:
        self._lines = lines
        self._opening = opening
        self._place = _Place()

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        said = self._place.count(dialogue) - self._opening
        if 0 <= said < len(self._lines):
            return UserReply(strip_markers(self._lines[said]))
        return UserReply(None, end="script_end")


class BuiltinUser:
    """`builtin/user`: plays the task's facts without a model. Says the task's later lines, thanks and stops.

    Where it has tools of its own, it first does in each turn what `task.user_actions` say for it. It does not
    understand what the agent answers; it is there so that the whole engine runs with no key and no network.
    """

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, task: Task, seed: int) -> None:
        self._task = task
        self._lines = task.user_turns
        self._opening = task.opening_users
        self._seed = seed
        self._place = _Place()

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        users = self._place.count(dialogue)
        said = users - self._opening
        actions = self._task.user_actions if self.world is not None else ()
        if self._place.calls < len(actions) and actions[self._place.calls].turn <= self._task.turn_after(users + 1):
            action = actions[self._place.calls]
            call = ToolCall(f"user_{self._place.calls}", action.name, _encode(action.arguments).decode())
            return UserReply(None, calls=(call,))
        if users == 0:
            text = str(self._task.info.get("instruction") or "Hello, I need some help.")
            return UserReply(strip_markers(text))
        if self._opening == 0:
            said -= 1
        if said < len(self._lines):
            return UserReply(strip_markers(self._lines[said]))
        return UserReply(seeds.stream(self._seed, "thanks").choice(_THANKS), end="stop")
