"""Why an episode ended, and what that makes of its trajectory. Never guessed from text afterwards."""

from __future__ import annotations

import enum


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
    """Why it ended."""

    USER_STOP = "user_stop"
    """The user said that everything is done (`###STOP###`)."""
    USER_TRANSFER = "user_transfer"
    """The user accepted to be transferred (`###TRANSFER###`)."""
    USER_OUT_OF_SCOPE = "user_out_of_scope"
    """The user could not go on from what its brief says (`###OUT-OF-SCOPE###`)."""
    USER_SILENT = "user_silent"
    """The user answered nothing, several times over."""
    SCRIPT_END = "script_end"
    """The fixed list of user messages is used up."""
    AGENT_DONE = "agent_done"
    """Single turn: the agent answered without asking for a tool."""
    ANSWERED = "answered"
    """The agent gave its answer by a tool that ends the work."""
    WORLD_DONE = "world_done"
    """The world is over: a game that was won or lost."""
    MAX_TURNS = "max_turns"
    MAX_STEPS = "max_steps"
    """One turn used up `max_steps_per_turn`."""
    CONTEXT_LENGTH = "context_length"
    """The conversation no longer fits the model."""
    DEADLINE = "deadline"
    """The episode took longer than `timeouts.episode`."""
    MONITOR_NO_TOOL = "monitor_no_tool_turns"
    """`monitor_max_no_tool_turns` turns in a row without a tool call."""
    MONITOR_REPEATED = "monitor_repeated_messages"
    """The same message `monitor_max_repeats` times in a row."""
    MONITOR_REPEATED_CALLS = "monitor_repeated_calls"
    """The same call, or the same calls together, `monitor_max_repeats` times in a row."""
    MONITOR_EMPTY = "monitor_empty_replies"
    """Empty replies of the agent in a row."""
    MONITOR_GOBACKS = "monitor_failed_gobacks"
    """`monitor_max_failed_gobacks` calls in a row to go back, with nothing to go back to."""
    MONITOR_PHRASE = "monitor_completion_phrase"
    """The agent's words say that it is over (`monitor_rule_detection`)."""
    MONITOR_JUDGE = "monitor_judge"
    """The judge model said that it is over."""
    CUT = "cut"
    """A straggler: the run did not wait for it (`tail`)."""
    ERROR = "error"
    """See `metadata.error`."""


_COMPLETED = frozenset(
    {
        StopReason.USER_STOP,
        StopReason.USER_TRANSFER,
        StopReason.USER_OUT_OF_SCOPE,
        StopReason.SCRIPT_END,
        StopReason.AGENT_DONE,
        StopReason.ANSWERED,
        StopReason.WORLD_DONE,
        StopReason.MONITOR_PHRASE,
        StopReason.MONITOR_JUDGE,
    }
)


WORDLESS_ENDS = frozenset({StopReason.ANSWERED, StopReason.WORLD_DONE})
"""Proper ends without a last word to anybody."""


def status_of(reason: StopReason) -> Status:
    """The status that a stop reason leads to."""
    if reason is StopReason.ERROR:
        return Status.FAILED
    if reason is StopReason.CUT:
        return Status.CUT
    return Status.COMPLETED if reason in _COMPLETED else Status.TRUNCATED
