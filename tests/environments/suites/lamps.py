"""A folder laid out as a clone of tau2-bench is, with a package and a domain of our own in it.

The package answers as tau2's does where the suite asks it something, and does no more. Its domain is `lamps`: the agent
resets lamps in a shop's database, the customer has a remote control of its own, and a lamp must be reset before its
remote control works. Its `__init__` raises, because the suite must step round it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILES = {
    "__init__.py": "raise RuntimeError('this imports every agent and every model client')\n",
    "utils.py": """
import os
from pathlib import Path

os.environ["SECRET_OF_ITS_ENV_FILE"] = "1"
DATA = Path(os.environ["TAU2_DATA_DIR"]) / "tau2" / "domains" / "lamps"
""",
    "data_model/__init__.py": "",
    "data_model/message.py": """
from typing import Any, Literal

from pydantic import BaseModel

Side = Literal["assistant", "user"]


class ToolCall(BaseModel):
    id: str = ""
    name: str
    arguments: dict[str, Any]
    requestor: Side = "assistant"


class ToolMessage(BaseModel):
    id: str
    role: Literal["tool"] = "tool"
    content: str | None = None
    requestor: Side = "assistant"
    error: bool = False


class Said(BaseModel):
    role: Side
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


Message = Said | ToolMessage
""",
    "data_model/tasks.py": """
from enum import Enum
from typing import Any

from pydantic import BaseModel

from tau2.data_model.message import Message, Side


class RewardType(str, Enum):
    DB = "DB"
    ENV_ASSERTION = "ENV_ASSERTION"
    NL_ASSERTION = "NL_ASSERTION"
    ACTION = "ACTION"
    COMMUNICATE = "COMMUNICATE"


class Action(BaseModel):
    action_id: str = ""
    requestor: Side = "assistant"
    name: str
    arguments: dict[str, Any] = {}
    compare_args: list[str] | None = None


class EnvFunctionCall(BaseModel):
    env_type: Side
    func_name: str
    arguments: dict[str, Any] = {}


class EnvAssertion(EnvFunctionCall):
    assert_value: bool = True


class Criteria(BaseModel):
    actions: list[Action] | None = None
    env_assertions: list[EnvAssertion] | None = None
    communicate_info: list[str] | None = None
    nl_assertions: list[str] | None = None
    reward_basis: list[RewardType] = [RewardType.DB, RewardType.COMMUNICATE]


class InitialData(BaseModel):
    agent_data: dict[str, Any] | None = None
    user_data: dict[str, Any] | None = None


class InitialState(BaseModel):
    initialization_data: InitialData | None = None
    initialization_actions: list[EnvFunctionCall] | None = None
    message_history: list[Message] | None = None


class Instructions(BaseModel):
    reason_for_call: str
    known_info: str | None = None


class UserScenario(BaseModel):
    persona: str | None = None
    instructions: Instructions | str

    def __str__(self) -> str:
        return f"Persona: {self.persona}; {self.instructions}"


class Task(BaseModel):
    id: str
    user_scenario: UserScenario
    initial_state: InitialState | None = None
    evaluation_criteria: Criteria | None = None
    user_tools: list[str] | None = None
""",
    "environment/__init__.py": "",
    "environment/toolkit.py": """
from enum import Enum

from pydantic import TypeAdapter


class ToolType(str, Enum):
    READ = "read"
    WRITE = "write"


def is_tool(kind):
    def mark(function):
        function.kind = kind
        return function

    return mark


class Tool:
    def __init__(self, method):
        schema = TypeAdapter(method).json_schema()
        self.openai_schema = {
            "type": "function",
            "function": {"name": method.__name__, "description": method.__doc__, "parameters": schema},
        }


class ToolKitBase:
    def __init__(self, db):
        self.db = db

    def get_tools(self):
        names = [name for name in dir(type(self)) if hasattr(getattr(type(self), name), "kind")]
        return {name: Tool(getattr(self, name)) for name in names}

    def tool_type(self, name):
        return getattr(type(self), name).kind

    def tool_mutates_state(self, name):
        return self.tool_type(name) == ToolType.WRITE
""",
    "environment/environment.py": """
import json

from tau2.data_model.message import ToolMessage


class Environment:
    def __init__(self, policy, tools, user_tools=None):
        self.policy, self.tools, self.user_tools = policy, tools, user_tools
        self.sync_tools()

    def get_policy(self):
        return self.policy

    def sync_tools(self):
        pass

    def _kit(self, side):
        return self.user_tools if side == "user" else self.tools

    def run_env_function_call(self, call):
        value = getattr(self._kit(call.env_type), call.func_name)(**call.arguments)
        self.sync_tools()
        return value

    def run_env_assertion(self, assertion, raise_assertion_error=True):
        return self.run_env_function_call(assertion) == assertion.assert_value

    def set_state(self, initialization_data, initialization_actions, message_history):
        if initialization_data is not None and initialization_data.agent_data is not None:
            self.tools.db = type(self.tools.db).model_validate(
                {**self.tools.db.model_dump(), **initialization_data.agent_data}
            )
        for action in initialization_actions or ():
            self.run_env_function_call(action)
        for message in message_history:
            for call in getattr(message, "tool_calls", None) or ():
                self.get_response(call)
        self.sync_tools()

    def get_response(self, call):
        try:
            value, error = getattr(self._kit(call.requestor), call.name)(**call.arguments), False
            self.sync_tools()
        except Exception as raised:
            value, error = f"Error: {raised}", True
        text = value if isinstance(value, str) else json.dumps(value.model_dump())
        return ToolMessage(id=call.id, content=text, requestor=call.requestor, error=error)
""",
    "domains/__init__.py": "",
    "domains/lamps/__init__.py": "",
    "domains/lamps/data_model.py": """
from pydantic import BaseModel


class Lamp(BaseModel):
    lamp_id: str
    hours: int
    resets: list[str] = []


class LampDB(BaseModel):
    lamps: dict[str, Lamp]


class RemoteDB(BaseModel):
    lamp_id: str = "L1"
    is_paired: bool = False
    is_on: bool = False
""",
    "domains/lamps/tools.py": """
import uuid

from tau2.domains.lamps.data_model import Lamp
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool


class LampTools(ToolKitBase):
    last_numbers: list[str] = []

    @is_tool(ToolType.READ)
    def find_lamp(self, hours: int) -> Lamp:
        "The lamp that has burnt for so long."
        return next(lamp for lamp in self.db.lamps.values() if lamp.hours == hours)

    @is_tool(ToolType.WRITE)
    def reset_lamp(self, lamp_id: str) -> Lamp:
        "Reset a lamp, so that its remote control works again."
        if lamp_id not in self.db.lamps:
            raise ValueError(f"no lamp {lamp_id}")
        lamp = self.db.lamps[lamp_id]
        self.last_numbers.append(uuid.uuid4().hex)
        lamp.resets.append(self.last_numbers[-1])
        return lamp

    @is_tool(ToolType.WRITE)
    def scrap_lamp(self, lamp_id: str) -> Lamp:
        "Take a lamp out of the register."
        return self.db.lamps.pop(lamp_id)

    @is_tool(ToolType.READ)
    def calculate(self, expression: str) -> str:
        "Evaluate an expression."
        return str(eval(expression))

    def assert_known(self, lamp_id: str) -> bool:
        return bool(self.db.lamps[lamp_id])
""",
    "domains/lamps/user_tools.py": """
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool


class RemoteTools(ToolKitBase):
    @is_tool(ToolType.READ)
    def look(self) -> str:
        "Look at the lamp."
        return "The lamp is on." if self.db.is_on else "The lamp is off."

    @is_tool(ToolType.WRITE)
    def press(self) -> str:
        "Press the button."
        if not self.db.is_paired:
            raise ValueError("nothing happens")
        self.db.is_on = not self.db.is_on
        return "Click."

    def assert_on(self) -> bool:
        return self.db.is_on
""",
    "domains/lamps/environment.py": """
import json

from tau2.data_model.tasks import Task
from tau2.domains.lamps.data_model import LampDB, RemoteDB
from tau2.domains.lamps.tools import LampTools
from tau2.domains.lamps.user_tools import RemoteTools
from tau2.environment.environment import Environment
from tau2.utils import DATA


class LampEnvironment(Environment):
    def sync_tools(self):
        lamp = self.tools.db.lamps.get(self.user_tools.db.lamp_id)
        self.user_tools.db.is_paired = lamp is not None and bool(lamp.resets)


def get_environment(db=None, user_db=None):
    db = LampDB.model_validate_json((DATA / "db.json").read_text()) if db is None else db
    user_db = RemoteDB() if user_db is None else user_db
    return LampEnvironment((DATA / "policy.md").read_text(), LampTools(db), RemoteTools(user_db))


def get_tasks(split="base"):
    splits = json.loads((DATA / "split_tasks.json").read_text())
    if split not in splits:
        raise ValueError(f"no split {split}; there are {list(splits)}")
    tasks = [Task.model_validate(task) for task in json.loads((DATA / "tasks.json").read_text())]
    return [task for task in tasks if task.id in splits[split]]
""",
    "domains/shelves/__init__.py": "",
    "domains/shelves/environment.py": "import a_package_that_nobody_has\n",
    "domains/orders/__init__.py": "",
    "domains/orders/environment.py": """
from tau2.domains.lamps.environment import DATA, get_tasks
from tau2.domains.lamps.data_model import LampDB
from tau2.domains.lamps.tools import LampTools
from tau2.environment.environment import Environment


def get_environment(db=None):
    db = LampDB.model_validate_json((DATA / "db.json").read_text()) if db is None else db
    return Environment("The same shop by post, where customers have nothing to press.", LampTools(db))
""",
}
RESET = {"name": "reset_lamp", "arguments": {"lamp_id": "L1"}}
PRESS = {"name": "press", "requestor": "user"}
TASKS: list[dict[str, Any]] = [
    {
        "id": "light",
        "user_scenario": {"instructions": {"reason_for_call": "My lamp L1 stays dark.", "known_info": "Lamp L1."}},
        "evaluation_criteria": {
            "actions": [{"name": "look", "requestor": "user"}, RESET, PRESS],
            "env_assertions": [{"env_type": "user", "func_name": "assert_on"}],
            "reward_basis": ["DB", "ENV_ASSERTION", "ACTION"],
        },
    },
    {
        "id": "hours",
        "user_scenario": {"instructions": "How long has L2 burnt? Scrap it if that is long."},
        "evaluation_criteria": {
            "actions": [
                {"name": "find_lamp", "arguments": {"hours": 1200}},
                {"name": "scrap_lamp", "arguments": {"lamp_id": "L2"}},
            ],
            "communicate_info": ["1,200"],
        },
        "user_tools": [],
    },
    {
        "id": "went_before",
        "user_scenario": {"instructions": "Reset it again."},
        "initial_state": {
            "message_history": [
                {"role": "user", "content": "Reset L2, please."},
                {"role": "assistant", "tool_calls": [{"id": "c1", **RESET, "arguments": {"lamp_id": "L2"}}]},
                {"role": "tool", "id": "c1", "content": "{}"},
                {"role": "assistant", "content": "L2 is reset."},
            ]
        },
        "evaluation_criteria": {
            "actions": [{**RESET, "arguments": {"lamp_id": "L2"}}],
            "nl_assertions": ["The agent is polite."],
            "reward_basis": ["DB", "NL_ASSERTION"],
        },
    },
    {
        "id": "own_data",
        "user_scenario": {"instructions": "Reset the only lamp."},
        "initial_state": {
            "initialization_data": {"agent_data": {"lamps": {"L9": {"lamp_id": "L9", "hours": 5}}}},
            "initialization_actions": [
                {"env_type": "assistant", "func_name": "reset_lamp", "arguments": {"lamp_id": "L9"}}
            ],
        },
        "evaluation_criteria": {
            "actions": [{**RESET, "arguments": {"lamp_id": "L9"}}],
            "env_assertions": [{"env_type": "assistant", "func_name": "assert_known", "arguments": {"lamp_id": "L9"}}],
            "reward_basis": ["DB", "ENV_ASSERTION"],
        },
    },
    {"id": "unused", "user_scenario": {"instructions": "Only in the split all."}, "evaluation_criteria": {}},
]


def write_clone(folder: Path) -> Path:
    """The folder that a user would point at."""
    for name, text in FILES.items():
        path = folder / "src" / "tau2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    data = folder / "data" / "tau2" / "domains" / "lamps"
    data.mkdir(parents=True)
    lamps = {f"L{number}": {"lamp_id": f"L{number}", "hours": number * 600} for number in range(1, 40)}
    (data / "db.json").write_text(json.dumps({"lamps": lamps}))
    (data / "policy.md").write_text("Reset what stays dark.")
    (data / "tasks.json").write_text(json.dumps(TASKS))
    names = [task["id"] for task in TASKS]
    (data / "split_tasks.json").write_text(json.dumps({"base": names[:-1], "all": names}))
    told = folder / "data" / "tau2" / "user_simulator"
    told.mkdir()
    (told / "simulation_guidelines.md").write_text("You are a customer.")
    (told / "simulation_guidelines_tools.md").write_text("You are a customer with a remote control.")
    return folder
