"""Stop reasons and statuses in words, for people who look at a trajectory."""

from __future__ import annotations

from rollout.trajectories.stop import Status, StopReason

STATUS_WORDS = {
    Status.COMPLETED: "ended by itself",
    Status.TRUNCATED: "ended by a limit",
    Status.FILTERED: "taken out by a filter",
    Status.CUT: "not waited for",
    Status.FAILED: "broken by infrastructure",
}
STOP_WORDS = {
    StopReason.USER_STOP: "the user said that everything is done",
    StopReason.USER_TRANSFER: "the user accepted to be transferred",
    StopReason.USER_OUT_OF_SCOPE: "the user could not go on from what its brief says",
    StopReason.USER_SILENT: "the user answered nothing, several times over",
    StopReason.SCRIPT_END: "the list of user messages is used up",
    StopReason.AGENT_DONE: "the agent answered without asking for a tool",
    StopReason.ANSWERED: "the agent gave its answer",
    StopReason.WORLD_DONE: "the world is over",
    StopReason.MAX_TURNS: "the limit of turns (max_turns) was reached",
    StopReason.MAX_STEPS: "one turn used up its steps (max_steps_per_turn)",
    StopReason.CONTEXT_LENGTH: "the conversation no longer fits the model",
    StopReason.DEADLINE: "it took longer than timeouts.episode",
    StopReason.MONITOR_NO_TOOL: "too many turns in a row without a tool call",
    StopReason.MONITOR_REPEATED: "the agent repeated the same message",
    StopReason.MONITOR_REPEATED_CALLS: "the agent repeated the same calls",
    StopReason.MONITOR_EMPTY: "the agent gave empty replies in a row",
    StopReason.MONITOR_GOBACKS: "the agent went back again and again with nothing to go back to",
    StopReason.MONITOR_PHRASE: "the agent's words say that it is over",
    StopReason.CORRECTED: "a person corrected the agent's last message",
    StopReason.MONITOR_JUDGE: "the monitor's judge said that it is over",
    StopReason.CUT: "the run did not wait for this straggler",
    StopReason.ERROR: "infrastructure broke",
}


def stop_words(reason: str) -> str:
    """A stop reason in words; itself where it is none of ours."""
    known: dict[str, str] = {str(each): words for each, words in STOP_WORDS.items()}
    return known.get(reason, reason)


def status_words(status: str) -> str:
    """A status in words; itself where it is none of ours."""
    known: dict[str, str] = {str(each): words for each, words in STATUS_WORDS.items()}
    return known.get(status, status)
