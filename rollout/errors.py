"""How things fail, on one page.

Every failure belongs to the boundary that was crossed when it happened: the model's server, a tool, the world
around the tools, the simulated user, a judge, the configuration, the journal. The code that calls out across a
boundary catches what the other side throws and raises one of these instead; everyone further in sees only these.

An error knows whether trying again can help (`transient`). Retry asks the error, never its text. An episode that ends
in an error is recorded once, as a trajectory of status `failed` with the error's `kind`; it never cancels its
siblings and never becomes a score of 0. The text of an error holds no secret, whoever wrote it.
"""

from __future__ import annotations

from typing import ClassVar

from rollout.secrets import redact


class RolloutError(Exception):
    """Base of everything this package raises on purpose. `kind` is what the records and the summary call it."""

    kind: ClassVar[str] = "infra"

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(redact(message))
        self.transient = transient
        self.retry_after = retry_after
        """Seconds that the other side asked us to wait before the next try."""


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
    ) -> None:
        super().__init__(message, transient=transient, retry_after=retry_after)
        self.status = status
        self.is_overload = is_overload
        """The server said that it has too much to do (429, 503): the limiter gives it less."""


class ContextLengthError(ModelError):
    """The conversation no longer fits the model. Ends the episode as truncated, not as failed."""


class ToolError(RolloutError):
    """A tool call went wrong in a way the agent may see: it becomes an error observation."""

    kind = "tool"


class WorldError(RolloutError):
    """The world itself could not be opened, restored or kept alive."""

    kind = "world"


class NavigationError(WorldError):
    """The page that a task begins at could not be shown."""

    kind = "navigation"


class ReplayMismatch(WorldError):
    """A replayed world answered otherwise than the record says: the path has to start anew."""


class BranchMismatch(ReplayMismatch):
    """The world at a node cannot be brought back, so nothing can branch from there."""


class UserError(RolloutError):
    """The simulated user could not answer."""

    kind = "user"


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
    """The run directory cannot be used: locked, damaged, or of another run."""

    kind = "journal"
