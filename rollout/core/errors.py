"""The error model, on one page.

Every failure belongs to the boundary that was crossed when it happened: the model's server, a tool, the world
around the tools, the simulated user, a judge, the configuration, the journal. The code that calls out across a
boundary catches what the other side throws and raises one of these instead; everyone further in sees only these.

An error knows whether trying again can help (`transient`). Retry asks the error, never its text. An episode that ends
in an error is recorded once, as a trajectory of status `failed` with the error's `kind`; it never cancels its
siblings and never becomes a score of 0. The text of an error holds no secret, whatever its origin.

What foreign code raises (a tool, a mock server, a scorer, a plugin) is put into words by `describe_error` and nothing
else: such an exception may have a `__str__` that raises, or a text of many megabytes.
"""

from __future__ import annotations

from typing import ClassVar

from rollout.core.secrets import excerpt, redact

MAX_DESCRIBED = 4_000
"""What is kept of the text of an error that comes from foreign code."""
_name_of = type.__dict__["__name__"].__get__


KEYS_TO_CHECK = {401: "api_key", 403: "api_key", 404: "model and api_base", 429: "rpm and max_concurrency"}
"""By the HTTP status of a refusal: which keys of the models registry it is about."""


class RolloutError(Exception):
    """Base class of all errors that this package raises on purpose. `kind` is its name in records and summaries."""

    kind: ClassVar[str] = "infra"

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(redact(message))
        self.transient = transient
        self.retry_after = retry_after
        """Seconds that the server asked to wait before the next try."""


class ModelError(RolloutError):
    """A model's server refused, broke off, or answered something that is not an answer."""

    kind = "model"

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        is_overload: bool = False,
        check: str | None = None,
    ) -> None:
        super().__init__(message, transient=transient, retry_after=retry_after)
        self.status = status
        self.check = check or KEYS_TO_CHECK.get(status or 0)
        """The keys of the models registry that are probably wrong, where the error suggests some."""
        self.is_overload = is_overload
        """The server said that it has too much to do (429, 503): the limiter gives it less."""


class ContextLengthError(ModelError):
    """The conversation no longer fits the model. Ends the episode as truncated, not as failed."""


class ToolError(RolloutError):
    """A tool call failed in a way that the agent may see: it becomes an error result."""

    kind = "tool"


class WorldError(RolloutError):
    """The world itself could not be opened, restored or kept alive."""

    kind = "world"


class NavigationError(WorldError):
    """The page that a task begins at could not be shown."""

    kind = "navigation"


class ReplayMismatch(WorldError):
    """A replayed world answered otherwise than the record says: the path has to start again."""


class BranchMismatch(ReplayMismatch):
    """The world at a node cannot be brought back, so nothing can branch from there."""


class UserError(RolloutError):
    """The simulated user could not answer."""

    kind = "user"


class AgentError(RolloutError):
    """An agent's own code broke, or used its session in a way that is not possible."""

    kind = "agent"


class JudgeError(RolloutError):
    """A judge gave no usable verdict. What it should have judged is `unjudged`."""

    kind = "judge"


class DeadlineError(RolloutError):
    """Something took longer than it was allowed to."""

    kind = "timeout"


class ConfigError(RolloutError):
    """The configuration or a data file is wrong. The text names file, key and what was expected."""

    kind = "config"


class JournalError(RolloutError):
    """The run directory cannot be used: it is locked, damaged, or belongs to another run."""

    kind = "journal"


def class_name(error: BaseException) -> str:
    """The name of an exception's class, also where its metaclass has another idea of `__name__`."""
    return str(_name_of(type(error)))


def text_of(error: BaseException) -> str:
    """What an exception of foreign code says, whole. Never raises, and the text can be written to any file."""
    try:
        # A plain string, also where `__str__` returns an object of a subclass with methods of its own.
        text = str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - an exception's own code may raise anything
        return "<no text: its __str__ raises>"
    return text.encode("utf-8", "replace").decode()


def describe_error(error: BaseException, limit: int = MAX_DESCRIBED) -> str:
    """An exception of foreign code by its class and the beginning of its text, without secrets. Never raises."""
    return excerpt(f"{class_name(error)}: {text_of(error)}", limit)
