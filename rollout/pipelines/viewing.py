"""From a dataset's keys to the form and the limits in which its agent is sent a conversation."""

from __future__ import annotations

from rollout.agents.dialects import TemplateDialect, make_dialect
from rollout.agents.view import ReasoningRule
from rollout.agents.viewing import Viewing
from rollout.config.models import ModelEntry
from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.environments.suites.suite import NeedsBrowsers, Suite
from rollout.models.registry import Resolved


def make_viewing(name: str, dataset: Dataset, entry: ModelEntry, suite: Suite | None) -> Viewing:
    """What a dataset's agent is sent, and in which form. Raises ConfigError where its keys do not go together."""
    agent = dataset.agent
    if agent.prompt is not None and (dataset.web is None or agent.system_prompt_file is not None):
        raise ConfigError(
            f"datasets.{name}.agent.prompt: is for datasets with web that have no other system prompt; leave one out"
        )
    if agent.max_rounds is not None and dataset.max_turns > 1:
        raise ConfigError(
            f"datasets.{name}.agent.max_rounds: needs max_turns: 1, because what a user says is never left out"
        )
    if agent.tool_format == "text":
        if entry.constrain_tools:
            raise ConfigError(
                f"datasets.{name}.agent.tool_format: {agent.model} has constrain_tools, which forces calls in a form "
                "of its own; use one or the other"
            )
        if suite is not None and suite.tools_of is not None:
            raise ConfigError(
                f"datasets.{name}.agent.tool_format: text tells the model its tools once, but those of {dataset.suite} "
                "differ by task and turn; use native"
            )
    return Viewing(
        ReasoningRule(agent.reasoning or entry.reasoning),
        # In a browser nobody is there to talk to: words alone are a call that went wrong.
        TemplateDialect()
        if entry.token_in and agent.tool_format == "native"
        else make_dialect(agent.tool_format, must_call=_is_web(dataset, suite)),
        entry.image_urls if entry.images else None,
        agent.max_images,
        agent.max_rounds,
    )


def describe_blindness(dataset: Dataset, viewing: Viewing, found: Resolved) -> str | None:
    """What to tell where an agent is shown pages by screenshots alone and its model is sent none; else None."""
    is_seen = dataset.web is not None and dataset.web.mode == "coordinates"
    if not is_seen or viewing.images is not None or found.kind == "builtin":
        return None
    return (
        f"web.mode coordinates shows pages by screenshots alone, and {found.name} is sent none; set images: true "
        "for it in the models registry"
    )


def _is_web(dataset: Dataset, suite: Suite | None) -> bool:
    return dataset.web is not None or isinstance(suite, NeedsBrowsers)
