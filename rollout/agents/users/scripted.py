"""Users that do what was written beforehand: a fixed list of messages, and the built-in user who plays a brief."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from rollout.agents.users.user import UserReply, is_silence, is_spoken, strip_markers
from rollout.core import seeds
from rollout.core.messages import NO_TOOLS, Message, ToolCall, Toolset
from rollout.core.task import Task
from rollout.core.world import World

_encode = msgspec.json.Encoder(order="deterministic").encode
ASK_AGAIN = "Are you still there? I did not get an answer."
_ASKED_BEFORE = frozenset({ASK_AGAIN, "Sorry, I did not get an answer. Could you say that again?"})
"""What asks again, with the wording of older runs, which may be resumed."""
_REFUSED = re.compile(
    r"\b(sorry|unfortunately|not possible|I can't|you can(not|'t)|could not|I understand\b.*\bbut)\b", re.IGNORECASE
)
_REFERRED = re.compile(r"\b(please (contact|call|turn to|ask|see|get in touch)|(contact|call|turn to|see) the [A-Z])")
_OFFERED = re.compile(r"\?\s*$")
_THANKS = (
    "That's everything, thank you for your help.",
    "Great, that was all I needed. Thanks!",
    "Perfect, thank you. Bye!",
    "Thanks a lot, that settles it.",
)
_GOODBYES = (
    (
        _OFFERED,
        ("No, that's all. Thank you, goodbye.", "No, thank you. That was all.", "No, thanks."),
    ),
    (_REFERRED, ("Alright, I'll ask them then. Thank you.", "I see, then I'll get in touch with them. Thanks.")),
    (
        _REFUSED,
        (
            "That's a pity, but thank you for telling me.",
            "I see. Not what I hoped for, but thanks.",
            "Alright, then I'll leave it. Goodbye.",
        ),
    ),
)
"""Last words by what the assistant said last: an offer or a question, a referral, a refusal."""
_DECLINED = re.compile(r"\b(cannot|can't|sorry|unfortunately|not possible|do not suffice)\b.*[^?]\s*$", re.DOTALL)
_ANYWAY = ("Alright. Thanks anyway, goodbye.", "Okay. Thanks anyway.", "Thanks anyway. Bye.")
"""Last words after a refusal that the user has accepted."""


def _has_worked(dialogue: Sequence[Message]) -> bool:
    """Whether the assistant called tools since the user last spoke."""
    for message in reversed(dialogue):
        if message.role == "user":
            return False
        if message.tool_calls:
            return True
    return False


class _Place:
    """How often the user has spoken and acted in a dialogue. It only grows, so each message is looked at once."""

    def __init__(self) -> None:
        self._read = 0
        self._users = 0
        self.calls = 0
        self.is_unanswered = False
        """Whether the assistant has ended its turn without a word."""

    def count(self, dialogue: Sequence[Message]) -> int:
        """How many messages of the user a dialogue holds, without those that only ask again; `calls` is then how many
        calls."""
        for index in range(self._read, len(dialogue)):
            message = dialogue[index]
            if message.role == "user":
                asks_again = self.is_unanswered and message.content in _ASKED_BEFORE
                self._users += is_spoken(message) and not asks_again
                self.calls += len(message.tool_calls)
            self.is_unanswered = is_silence(message)
        self._read = len(dialogue)
        return self._users


class ScriptedUser:
    """A fixed list of messages, said one after the other; then the conversation is over.

    Where the agent says nothing, the user asks for an answer instead of going on, so that no agent succeeds by silence.
    With `goes_on` it says the next message whatever the agent does, as suites with fixed turns want it.
    """

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, lines: Sequence[str], opening: int = 1, *, goes_on: bool = False) -> None:
        self._lines = lines
        self._opening = opening
        self._goes_on = goes_on
        self._place = _Place()

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        said = self._place.count(dialogue) - self._opening
        if self._place.is_unanswered and not self._goes_on:
            return UserReply(ASK_AGAIN, asks_again=True)
        if 0 <= said < len(self._lines):
            return UserReply(strip_markers(self._lines[said]))
        return UserReply(None, end="script_end")


class BuiltinUser:
    """`builtin/user`: plays the task's facts without a model. Says the task's later lines, takes leave and stops.

    Where it has tools of its own, it first does in each turn what `task.user_actions` say for it. It asks again where
    the agent has said nothing. Of the agent's answers it only tells refusals and questions apart, for its last words;
    it is there so that the whole engine runs with no key and no network.
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
        if self._place.is_unanswered:
            return UserReply(ASK_AGAIN, asks_again=True)
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
        answers = [message.content or "" for message in dialogue if message.role == "assistant"]
        heard = answers[-1] if answers else ""
        words: Sequence[str] | None = next((words for heard_as, words in _GOODBYES if heard_as.search(heard)), None)
        if words is None:
            has_accepted = len(answers) > 1 and _DECLINED.search(answers[-2]) and not _has_worked(dialogue)
            words = _ANYWAY if has_accepted else _THANKS
        return UserReply(seeds.stream(self._seed, "thanks").choice(words), end="stop")
