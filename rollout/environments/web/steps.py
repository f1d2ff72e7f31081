"""WebGym-compatible steps of a finished web trajectory: one for each answer of the agent, in plain values.

A step holds what the agent saw (`observation`), what it did (`action`), what it said (`response`) and how it went
(`reward`). The last step has the verdict; those before it have reward 0. `reward.reward` is 1 or 0 where the trajectory
was scored and -1 (pending) where there is no verdict.

The key of an action is the name of the tool that was called. Besides these there are

- `invalid_step`: the answer called no tool, one that is not offered, or one with arguments that do not fit;
- `none`: the answer was empty: no text, no call;
- `error`: the last step of a trajectory that failed or was cut, after all that was done;
- `invalid_url`: the only step of a trajectory whose start page could not be shown (the error `navigation`).

What the agent saw is read from the data of the observations, which the journal keeps. An observation of an earlier
version has none; its page is recovered from its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.messages import JSON, MALFORMED_CALL, Message, ToolCall, read_arguments, write_calls
from rollout.environments.web.actions import ACTIONS
from rollout.environments.web.shown import NO_PAGE, Page, read_page
from rollout.trajectories.line import Failed, Head
from rollout.trajectories.stop import Status
from rollout.trajectories.trajectory import Trajectory

UNREADABLE = frozenset({"unknown_tool", "bad_arguments", "malformed_call"})
"""The kinds of errors that answer a call which never reached the world."""
INVALID_STEP = "invalid_step"
NONE = "none"
ERROR = "error"
INVALID_URL = "invalid_url"
PENDING = -1
IN_PROGRESS = "Task in progress"
IMAGES = "blobs"
_KEPT = ("group", "seed", "status", "stop_reason", "scored", "unscored", "scores", "error", "model", "dataset", "usage")
_SECTION = re.compile(
    r"^[ \t*#]*(Memory|Progress|Intention|Thought|Action)[ \t*]*:[ \t*]*", re.MULTILINE | re.IGNORECASE
)
_TOOL_CALL = re.compile(r"<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)


def steps_of(trajectory: Trajectory, info: JSON | None = None, *, prompts: Sequence[str | None] = ()) -> list[JSON]:
    """The steps of a trajectory.

    `info` is its task's `task_info`. `prompts`: what was sent before each answer, as JSON text. Where the nodes of the
    trajectory are not known, a call counts as invalid only where its name or the form of its arguments shows it. Raises
    BadLine where its messages cannot be read.
    """
    messages, data = trajectory.messages, trajectory.data
    error_kinds = None if trajectory.nodes is None else trajectory.error_kinds
    told = _task(trajectory, info or {})
    steps: list[JSON] = []
    pages: list[Page] = []
    page = NO_PAGE
    opening = trajectory.opening
    for place, message in enumerate(messages):
        if message.role != "assistant":
            page = read_page(message, data.get(place)) or page
            continue
        if place < opening:
            continue  # the task's own words, which no model was asked for
        results = _results(messages, place)
        answers = None if error_kinds is None else [error_kinds.get(place + 1 + n) for n in range(len(results))]
        action = _action(message, answers)
        prompt = prompts[len(steps)] if len(steps) < len(prompts) else None
        effect = _effect(page, results, data.get(place + len(results)))
        steps.append(_step(told, page, action, _response(message, action, effect, prompt)))
        pages.append(page)
    if trajectory.status in (Status.FAILED, Status.CUT):
        steps.append(_step(told, page, _end(trajectory), _no_response()))
        pages.append(page)
    _judge(trajectory, steps, pages)
    for step, shown, after in zip(steps, pages, pages[1:], strict=False):
        step["same_as_next_screenshot"] = shown is not NO_PAGE and shown.looks_like(after)
    if steps:
        about = {"trajectory_id": trajectory.id, "task_id": trajectory.task_id, "success": trajectory.success}
        steps[0]["trajectory_metadata"] = {**about, **trajectory.entries(_KEPT)}
    return steps


def blocked_verdict(head: Head) -> bool | None:
    """Whether a site kept the agent out, as the scorer `blocked` found it; None where that is unknown."""
    found = (score.is_pass for score in head.scores if score.name == "blocked" and score.value is not None)
    return next(found, None)


# ---- the parts of a step ---------------------------------------------------------------------------------------------


def _step(task: JSON, page: Page, action: JSON, response: JSON) -> JSON:
    return {
        "observation": {
            "task": task,
            "image_path": None if page.image is None else f"{IMAGES}/{page.image}",
            "ac_tree": page.below,
            "page_metadata": {"title": page.title, "url": page.url},
        },
        "action": action,
        "response": response,
        "reward": {
            "reward": 0,
            "evaluation": IN_PROGRESS,
            "is_blocked": False,
            "submit": False,
            "submission_judgment": None,
        },
        "same_as_next_screenshot": False,
    }


def _task(trajectory: Trajectory, info: JSON) -> JSON:
    said = (message.content or "" for message in trajectory.messages if message.role == "user")
    return {
        "task_id": trajectory.task_id,
        "task_name": next(said, ""),
        "website": info.get("website") or info.get("start_url"),
        "domain": info.get("domain"),
        "subdomain": info.get("subdomain"),
        "difficulty": info.get("difficulty"),
        "evaluator_reference": info.get("rubric") or [],
        "reference_answer": info.get("definite_answer"),
        "attempt_level": info.get("attempt_level", 0),
        "max_steps": info.get("max_steps"),
        "trajectory_index": 0 if trajectory.branch is None else trajectory.branch.number,
    }


def _action(message: Message, errors: Sequence[str | None] | None) -> JSON:
    """What an answer did. `errors`: the kind of error that answered each call, as far as they were answered."""
    calls = []
    for number, call in enumerate(message.tool_calls):
        is_answered = errors is not None and number < len(errors)
        is_invalid = errors[number] in UNREADABLE if errors and is_answered else not _is_action(call)
        calls.append(_call(call, is_invalid))
    is_written = bool(message.content or message.raw or message.reasoning)
    # Where calls are written as text, an empty answer is answered as a malformed call that was not written.
    if calls and (is_written or message.tool_calls[-1].name != MALFORMED_CALL):
        chosen = calls[-1]
    elif is_written:
        chosen = {"key": INVALID_STEP, "arguments": {"text": message.content or ""}}
    else:
        chosen = {"key": NONE, "arguments": {}}
    written = "; ".join(_written(call) for call in message.tool_calls)
    action: JSON = {"action": chosen, "action_string": written or str(chosen["key"])}
    if len(calls) > 1:
        action["calls"] = calls
    return action


def _call(call: ToolCall, is_invalid: bool) -> JSON:
    arguments = read_arguments(call)
    if is_invalid:
        return {"key": INVALID_STEP, "arguments": {"name": call.name, "arguments": arguments}}
    return {"key": call.name, "arguments": arguments}


def _is_action(call: ToolCall) -> bool:
    return call.name in ACTIONS and "malformed_arguments" not in read_arguments(call)


def _written(call: ToolCall) -> str:
    arguments = (f"{name}={_json(value)}" for name, value in read_arguments(call).items())
    return f"{call.name}({', '.join(arguments)})"


def _end(head: Head) -> JSON:
    """The action of the step that stands for the end."""
    error = head.error or Failed("infra")
    kind = "cut" if head.status == Status.CUT else error.kind
    text = error.text or head.stop_reason
    key = INVALID_URL if kind == "navigation" else ERROR
    return {
        "action": {"key": key, "arguments": {"error_type": kind, "error": text}},
        "action_string": f"{key}: {text}",
    }


def _response(message: Message, action: JSON, effect: str, prompt: str | None) -> JSON:
    content = message.content or ""
    text = message.raw or content
    written = write_calls(message.tool_calls)
    in_words = _TOOL_CALL.search(text)
    thinking = message.reasoning or ""
    is_thought_apart = bool(thinking) and "</think>" not in text
    parts = [f"<think>\n{thinking}\n</think>" if is_thought_apart else "", text, "" if in_words else written]
    sections = _sections(_TOOL_CALL.sub("", content))
    return {
        "raw_response": "\n".join(part for part in parts if part),
        "answering_tokens": {
            "thought": sections.get("thought") or sections.get("intention", ""),
            "action": sections.get("action") or action["action_string"],
            "tool_call": in_words[0] if in_words else written,
            "thinking": thinking,
            "observation": effect,
            "memory": sections.get("memory", ""),
        },
        "raw_prompt": prompt,
    }


def _no_response() -> JSON:
    names = ("thought", "action", "tool_call", "thinking", "observation", "memory")
    return {"raw_response": "", "answering_tokens": dict.fromkeys(names, ""), "raw_prompt": None}


def _sections(text: str) -> dict[str, str]:
    """The named parts of an answer (`Memory: …`, `Action: …`); text before the first is the thought."""
    found = list(_SECTION.finditer(text))
    sections = {"thought": text[: found[0].start() if found else None].strip()}
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=False):
        if part := text[match.end() : end].strip():
            sections[match[1].lower()] = part
    return sections


def _results(messages: Sequence[Message], place: int) -> list[Message]:
    results: list[Message] = []
    for message in messages[place + 1 :]:
        if message.role != "tool":
            break
        results.append(message)
    return results


def _effect(before: Page, results: Sequence[Message], data: JSON | None) -> str:
    """The effect on the page, in words, which stands with the answer that caused it. `data`: of the last result."""
    if not results:
        return ""
    after = read_page(results[-1], data)
    if after is None:
        return results[-1].content or ""
    same = before.looks_like(after)
    return f"The page {'did not change' if same else 'changed'}. URL: {after.url}"


def _judge(head: Head, steps: list[JSON], pages: Sequence[Page]) -> None:
    """Write the verdict into the last step, and which screenshots it was based on into theirs."""
    if not steps:
        return
    reward = steps[-1]["reward"]
    reward["reward"] = int(head.success) if head.scored else PENDING
    reward["evaluation"] = _evaluation(head)
    reward["is_blocked"] = blocked_verdict(head) is True
    judgments = {name: score.reason for score in head.scores for name in score.evidence.get("images") or ()}
    for step, page in zip(steps, pages, strict=True):
        if page.image in judgments:
            step["reward"]["submit"] = True
            step["reward"]["submission_judgment"] = judgments[page.image]


def _evaluation(head: Head) -> str:
    if not head.scored:
        return f"No verdict: {head.unscored or head.stop_reason}"
    return "\n".join(f"{score.name}: {score.reason or score.value}" for score in head.scores)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
