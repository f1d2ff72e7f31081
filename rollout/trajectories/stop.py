"""Stop reasons and statuses: why an episode ended, and what that makes of its trajectory.

Neither is guessed from text afterwards. A new stop reason is one member of `StopReason`, and a line of
docs/reference/stop-reasons.md, which a test checks.
"""

from __future__ import annotations

import enum
from typing import Self


class Status(enum.StrEnum):
    """What became of a launched attempt. Every attempt has exactly one."""

    COMPLETED = "completed"
    """It ended by itself."""
    TRUNCATED = "truncated"
    """A budget ended it: turns, steps, context, time."""
    FILTERED = "filtered"
    """Known so that records of other tools can be chosen by it; no attempt of ours has it."""
    CUT = "cut"
    """A straggler that the run did not wait for."""
    FAILED = "failed"
    """Infrastructure broke. Not a score, and tried again on resume."""


STATUSES = tuple(status for status in Status if status is not Status.FILTERED)
"""Those that attempts have."""


class StopReason(enum.StrEnum):
    """Why an attempt ended: the value on record, the reason in words, the status that it leads to, and whether such an
    attempt ends without a last message of the agent."""

    words: str
    status: Status
    is_wordless: bool

    def __new__(cls, value: str, words: str = "", status: Status = Status.TRUNCATED, is_wordless: bool = False) -> Self:
        made = str.__new__(cls, value)
        made._value_ = value
        made.words = words
        made.status = status
        made.is_wordless = is_wordless
        return made

    USER_STOP = "user_stop", "the user said that everything is done", Status.COMPLETED
    """The user said that everything is done (`###STOP###`)."""
    USER_TRANSFER = "user_transfer", "the user accepted to be transferred", Status.COMPLETED
    """The user accepted to be transferred (`###TRANSFER###`)."""
    USER_OUT_OF_SCOPE = "user_out_of_scope", "the user could not go on from what its brief says", Status.COMPLETED
    """The user could not go on from what its brief says (`###OUT-OF-SCOPE###`)."""
    USER_SILENT = "user_silent", "the user answered nothing, several times over", Status.TRUNCATED
    """The user answered nothing, several times over."""
    SCRIPT_END = "script_end", "the list of user messages is used up", Status.COMPLETED
    """The fixed list of user messages is used up."""
    AGENT_DONE = "agent_done", "the agent answered without asking for a tool", Status.COMPLETED
    """Single turn: the agent answered without asking for a tool."""
    ANSWERED = "answered", "the agent gave its answer", Status.COMPLETED, True
    """The agent gave its answer by a tool that ends the work."""
    WORLD_DONE = "world_done", "the world is over", Status.COMPLETED, True
    """The world is over: a game that was won or lost."""
    MAX_TURNS = "max_turns", "the limit of turns (max_turns) was reached", Status.TRUNCATED
    """The user has spoken `max_turns` times."""
    MAX_STEPS = "max_steps", "one turn used up its steps (max_steps_per_turn)", Status.TRUNCATED
    """One turn used up `max_steps_per_turn`."""
    CONTEXT_LENGTH = "context_length", "the conversation no longer fits the model", Status.TRUNCATED
    """The conversation no longer fits the model."""
    DEADLINE = "deadline", "it took longer than timeouts.episode", Status.TRUNCATED
    """The episode took longer than `timeouts.episode`."""
    MONITOR_NO_TOOL = "monitor_no_tool_turns", "too many turns in a row without a tool call", Status.TRUNCATED
    """`monitor_max_no_tool_turns` turns in a row without a tool call."""
    MONITOR_REPEATED = "monitor_repeated_messages", "the agent repeated the same message", Status.TRUNCATED
    """The same message `monitor_max_repeats` times in a row."""
    MONITOR_REPEATED_CALLS = "monitor_repeated_calls", "the agent repeated the same calls", Status.TRUNCATED
    """The same call, or the same calls together, `monitor_max_repeats` times in a row."""
    MONITOR_EMPTY = "monitor_empty_replies", "the agent gave empty replies in a row", Status.TRUNCATED
    """Empty replies of the agent in a row."""
    MONITOR_GOBACKS = "monitor_failed_gobacks", "the agent went back again and again, to nothing", Status.TRUNCATED
    """`monitor_max_failed_gobacks` calls in a row to go back, with nothing to go back to."""
    MONITOR_PHRASE = "monitor_completion_phrase", "the agent's words say that it is over", Status.COMPLETED
    """The agent's words say that it is over (`monitor_rule_detection`)."""
    MONITOR_JUDGE = "monitor_judge", "the monitor's judge said that it is over", Status.COMPLETED
    """The judge model said that it is over."""
    CORRECTED = "corrected", "a person corrected the agent's last message", Status.COMPLETED, True
    """A person corrected the agent's last message, and nothing was grown from there."""
    CUT = "cut", "the run did not wait for this straggler", Status.CUT
    """A straggler: the run did not wait for it (`tail`)."""
    ERROR = "error", "infrastructure broke", Status.FAILED
    """See `metadata.error`."""


_VALUES = frozenset(map(str, StopReason))
WORDLESS_ENDS = frozenset(reason for reason in StopReason if reason.is_wordless)
"""Proper ends without a last message of the agent."""


def stop_words(reason: str) -> str:
    """A stop reason in words; itself if it is unknown, as in a run of a later version."""
    return StopReason(reason).words if reason in _VALUES else reason


def status_of(reason: StopReason) -> Status:
    """The status that a stop reason leads to."""
    return reason.status
