"""Only reference models see the answer key: a plug-in's request contains nothing of the task but what is sent."""

from __future__ import annotations

import gc
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from rollout.core.errors import ConfigError
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Task
from rollout.models.model import Capability, Request
from rollout.models.reference import Reference, ReferenceModel
from rollout.models.registry import Registry
from rollout.trajectories.generation import Generation
from tests.conftest import Command, read_lines, roll_out, stub_config, write_tasks, write_yaml

HERE = __name__
HIDDEN = {
    "id": "secret-id",
    "user_system_prompt": "secret-brief",
    "actions": "secret-action",
    "user_actions": "secret-user-action",
    "user_turns": "secret-user-turn",
    "replies": "secret-reply",
    "communicate": "secret-fact",
    "info": "secret-note",
}
"""A marker for each field of a task that an agent must not see."""
TASK = {
    "id": HIDDEN["id"],
    "messages": [{"role": "user", "content": "Say hello."}],
    "user_system_prompt": HIDDEN["user_system_prompt"],
    "task_info": {
        "actions": [{"name": "echo", "arguments": {"text": HIDDEN["actions"]}}],
        "user_actions": [{"name": "echo", "arguments": {"text": HIDDEN["user_actions"]}}],
        "user_turns": [HIDDEN["user_turns"]],
        "replies": [HIDDEN["replies"]],
        "communicate": [HIDDEN["communicate"]],
        "note": {"deep": [HIDDEN["info"]]},
    },
}


def reachable(root: object) -> Iterator[object]:
    """Every object that a plug-in can get to from this one; not by way of modules, classes and global names."""
    seen: set[int] = set()
    found = [root]
    while found:
        one = found.pop()
        if id(one) in seen or isinstance(one, (type, types.ModuleType, types.FrameType)):
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, types.FunctionType):
            found += [one.__closure__, one.__defaults__, one.__kwdefaults__]
        else:
            found += gc.get_referents(one)


def markers(root: object) -> set[str]:
    """The fields whose markers can be reached from an object."""
    texts = {one.decode(errors="replace") for one in reachable(root) if isinstance(one, (bytes, bytearray))}
    texts |= {one for one in reachable(root) if isinstance(one, str)}
    return {field for field, marker in HIDDEN.items() if any(marker in text for text in texts)}


def answer(request: Request) -> Generation:
    """A call, then a word: so that there are requests with and without results."""
    if any(message.role == "assistant" for message in request.messages):
        return Generation(Message(role="assistant", content="Hello."))
    if len(request.tools):
        call = ToolCall("call", "echo", '{"text": "hello"}')
        return Generation(Message(role="assistant", tool_calls=(call,)))
    text = '<tool_call>{"name": "echo", "arguments": {"text": "hello"}}</tool_call>'
    return Generation(Message(role="assistant", content=text))


class Prying:
    """Keeps what each request leads to, and defines what a reference model does without being one."""

    name = "prying"
    capabilities: frozenset[Capability] = frozenset()
    found: ClassVar[list[set[str]]] = []

    async def generate(self, request: Request) -> Generation:
        self.found.append(markers(request))
        return answer(request)

    async def play(self, request: Request, reference: Reference) -> Generation:
        raise AssertionError("a plug-in that is no reference model was shown a reference")

    async def close(self) -> None:
        """Nothing is held."""


class Told(ReferenceModel):
    """A reference model of one's own."""

    name = "told"
    found: ClassVar[list[set[str]]] = []

    async def play(self, request: Request, reference: Reference) -> Generation:
        assert markers(request) <= {"actions"}, "what it said itself"
        self.found.append(markers(reference))
        (action,) = reference.task.actions or ()
        if not any(message.tool_calls for message in reference.path):
            call = ToolCall("call", action.name, json.dumps(action.arguments))
            return Generation(Message(role="assistant", tool_calls=(call,)))
        return Generation(Message(role="assistant", content="Done."))


def config(agent: dict[str, Any], **dataset: Any) -> dict[str, Any]:
    return stub_config("http://127.0.0.1:1/v1", write_tasks(Path("t.jsonl"), TASK), agent=agent, **dataset)


@pytest.mark.parametrize(
    "settings",
    [
        {"agent": {}},
        {"agent": {"tool_format": "text"}},
        {"agent": {"max_rounds": 1}},
        {"agent": {}, "max_turns": 3, "user": {"kind": "scripted", "messages": ["And again."]}},
        {"agent": {}, "strategy": {"name": "chain", "params": {"n": 2}}},
    ],
    ids=["native", "text", "window", "user", "chains"],
)
async def test_nothing_hidden_of_a_task_is_reachable_from_a_plug_ins_request(settings: dict[str, Any]) -> None:
    Prying.found.clear()
    agent = {"model": f"{HERE}:Prying", **settings.pop("agent")}
    await roll_out(config(agent, **settings))
    assert len(Prying.found) >= 2
    assert set().union(*Prying.found) == set()
    assert {line["metadata"]["status"] for line in read_lines(Path("out.jsonl"))} == {"completed"}


async def test_a_users_model_is_sent_the_users_brief_and_nothing_else_that_is_hidden() -> None:
    Prying.found.clear()
    user = {"model": f"{HERE}:Prying"}
    await roll_out(config({"model": "builtin/oracle"}, max_turns=2, user=user))
    assert Prying.found
    # The oracle has said the task's reply by then.
    assert set().union(*Prying.found) <= {"user_system_prompt", "replies"}
    assert "user_system_prompt" in Prying.found[0]


async def test_a_plug_in_that_is_trusted_gets_the_whole_reference() -> None:
    Told.found.clear()
    await roll_out(config({"model": f"{HERE}:Told", "reveal_reference": True}))
    assert Told.found == [set(HIDDEN)] * 2
    shown = {"messages", "tools", "max_steps"}
    assert {field.name for field in msgspec.structs.fields(Task)} == set(HIDDEN) | shown, "a new field is hidden or not"


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        ({"model": f"{HERE}:Told"}, r"reference actions; to let an agent see them, set agent\.reveal_reference: true"),
        ({"model": f"{HERE}:Prying", "reveal_reference": True}, "does not derive from .*ReferenceModel"),
        ({"model": "agent", "reveal_reference": True}, "for a class of your own"),
    ],
)
async def test_trust_without_need_and_need_without_trust_are_refused(agent: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        await roll_out(config(agent))


@pytest.mark.parametrize(
    "dataset",
    [
        {"agent": {"model": f"{HERE}:Told"}},
        {"agent": {"model": f"{HERE}:Nowhere"}},
        {"agent": {"model": "agent", "reveal_reference": True}},
        {"agent": {"model": "builtin/oracle"}, "max_turns": 2, "user": {"model": "builtin/oracle"}},
    ],
)
def test_a_dry_run_reports_models_that_cannot_be_used_as_they_are(dataset: dict[str, Any], rollout: Command) -> None:
    settings = config(**dataset)
    for name in ("path", "output_path"):
        settings["datasets"]["data"][name] = str(settings["datasets"]["data"][name])
    done = rollout("run", str(write_yaml(Path("c.yml"), settings)), "--dry-run")
    assert done.code != 0
    assert "problem data: " in done.out + done.err


async def test_a_reference_model_can_be_neither_user_nor_judge() -> None:
    async with Registry({}) as registry:
        with pytest.raises(ConfigError, match="can only be an agent"):
            registry.model("builtin/oracle")
        registry.agent(f"{HERE}:Told", reveal_reference=True)
        with pytest.raises(ConfigError, match="reveal_reference"):
            registry.model(f"{HERE}:Told")
