"""Stop reasons and statuses: why an episode ended, and what that makes of its trajectory.

Neither is guessed from text afterwards. A new stop reason is one member of `StopReason`, with the status that it leads
to, and its place in the README's table, which a test checks.
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
    """A filter took it out."""
    CUT = "cut"
    """A straggler that the run did not wait for."""
    FAILED = "failed"
    """Infrastructure broke. Not a score, and tried again on resume."""


class StopReason(enum.StrEnum):
    """Why it ended, each with the status that it leads to and whether it is an end without a last word to anybody."""

    status: Status
    is_wordless: bool

    def __new__(cls, value: str, status: Status = Status.TRUNCATED, is_wordless: bool = False) -> Self:
        made = str.__new__(cls, value)
        made._value_ = value
        made.status = status
        made.is_wordless = is_wordless
        return made

    USER_STOP = "user_stop", Status.COMPLETED
    """The user said that everything is done (`###STOP###`)."""
    USER_TRANSFER = "user_transfer", Status.COMPLETED
    """The user accepted to be transferred (`###TRANSFER###`)."""
    USER_OUT_OF_SCOPE = "user_out_of_scope", Status.COMPLETED
    """The user could not go on from what its brief says (`###OUT-OF-SCOPE###`)."""
    USER_SILENT = "user_silent", Status.TRUNCATED
    """The user answered nothing, several times over."""
    SCRIPT_END = "script_end", Status.COMPLETED
    """The fixed list of user messages is used up."""
    AGENT_DONE = "agent_done", Status.COMPLETED
    """Single turn: the agent answered without asking for a tool."""
    ANSWERED = "answered", Status.COMPLETED, True
    """The agent gave its answer by a tool that ends the work."""
    WORLD_DONE = "world_done", Status.COMPLETED, True
    """The world is over: a game that was won or lost."""
    MAX_TURNS = "max_turns", Status.TRUNCATED
    """The user has spoken `max_turns` times."""
    MAX_STEPS = "max_steps", Status.TRUNCATED
    """One turn used up `max_steps_per_turn`."""
    CONTEXT_LENGTH = "context_length", Status.TRUNCATED
    """The conversation no longer fits the model."""
    DEADLINE = "deadline", Status.TRUNCATED
    """The episode took longer than `timeouts.episode`."""
    MONITOR_NO_TOOL = "monitor_no_tool_turns", Status.TRUNCATED
    """`monitor_max_no_tool_turns` turns in a row without a tool call."""
    MONITOR_REPEATED = "monitor_repeated_messages", Status.TRUNCATED
    """The same message `monitor_max_repeats` times in a row."""
    MONITOR_REPEATED_CALLS = "monitor_repeated_calls", Status.TRUNCATED
    """The same call, or the same calls together, `monitor_max_repeats` times in a row."""
    MONITOR_EMPTY = "monitor_empty_replies", Status.TRUNCATED
    """Empty replies of the agent in a row."""
    MONITOR_GOBACKS = "monitor_failed_gobacks", Status.TRUNCATED
    """`monitor_max_failed_gobacks` calls in a row to go back, with nothing to go back to."""
    MONITOR_PHRASE = "monitor_completion_phrase", Status.COMPLETED
    """The agent's words say that it is over (`monitor_rule_detection`)."""
    MONITOR_JUDGE = "monitor_judge", Status.COMPLETED
    """The judge model said that it is over."""
    CORRECTED = "corrected", Status.COMPLETED, True
    """A person corrected the agent's last message, and nothing was grown from there."""
    CUT = "cut", Status.CUT
    """A straggler: the run did not wait for it (`tail`)."""
    ERROR = "error", Status.FAILED
    """See `metadata.error`."""


WORDLESS_ENDS = frozenset(reason for reason in StopReason if reason.is_wordless)
"""Proper ends without a last word to anybody."""


def status_of(reason: StopReason) -> Status:
    """The status that a stop reason leads to."""
    return reason.status
