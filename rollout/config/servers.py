"""The keys of tool servers: where the classes of mock domains run, and real MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from rollout.config.section import Section


class MockServers(Section):
    """Where the Python classes of mock domains run."""

    isolation: Literal["process", "none"] = "process"
    """process: in worker processes, without our environment, network and files. none: in this one, for trusted code."""
    processes: int = Field(1, ge=1)
    """Worker processes for each domain, each for many conversations of that domain and for no other. They start when
    they are first used and end when idle. While a call is slow, its domain has one more."""
    memory_mb: int = Field(2048, ge=128)
    """What one worker process may use; a call that wants more is an error observation."""


def _as_text(value: Any) -> Any:
    """`PORT: 8080` is `PORT: "8080"`: what an environment or a header holds is text."""
    if isinstance(value, dict):
        return {key: str(inner) if type(inner) in (int, float) else inner for key, inner in value.items()}
    return value


class McpServer(Section):
    """One MCP server, in the shape that MCP clients share, with what a world needs beside it.

    In `args`, `env`, `cwd`, `url` and `headers`, `{seed}`, `{task}` and `{workdir}` stand for the episode's own.
    """

    command: str | None = None
    """The program of a stdio server. It gets `env` and a minimal environment, none of ours."""
    args: list[str] = []
    """Its arguments."""
    env: Annotated[dict[str, SecretStr], BeforeValidator(_as_text)] = {}
    """Environment variables of the server. Their values are kept secret, like keys."""
    cwd: str | None = None
    """The folder it starts in. By default the episode's `workdir` where there is one, else ours."""
    url: str | None = None
    """The address of a streamable HTTP server, instead of `command`."""
    headers: Annotated[dict[str, SecretStr], BeforeValidator(_as_text)] = {}
    """Sent with every request; kept as secret as a key."""
    type: Literal["stdio", "http", "streamable-http", "streamable_http", "streamableHttp"] | None = None
    """How it is reached. Told by `command` or `url`, so it may be left out."""
    disabled: bool = False
    """Leave it out."""
    stateless: bool = False
    """It keeps nothing between calls: one instance serves all episodes. By default each episode has its own."""
    workdir: Path | None = None
    """A folder that is copied for each episode, so that each has files of its own; `{workdir}` names the copy."""
    include_tools: list[str] = []
    """Offer only these, by the server's own names."""
    exclude_tools: list[str] = []
    """Tools that are not offered."""
    timeout: float | None = Field(None, gt=0)
    """Seconds for one call, instead of `timeouts.tool`."""
    start_timeout: float = Field(30.0, gt=0)
    """Seconds from its start until it has listed its tools."""
    max_result_chars: int = Field(100_000, ge=100)
    """A longer text is cut there, with a mark that says so."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either command (a stdio server) or url (a streamable HTTP server)")
        if self.type is not None and (self.type == "stdio") != (self.command is not None):
            raise ValueError(f"type {self.type} does not go with {'command' if self.command else 'url'}")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("url: expected http:// or https://")
        texts = [*self.args, self.cwd or "", self.url or ""]
        texts += [secret.get_secret_value() for secret in (*self.env.values(), *self.headers.values())]
        if self.stateless and any(token in text for text in texts for token in ("{seed}", "{task}")):
            raise ValueError("a stateless server is shared by all episodes, so {seed} and {task} mean nothing to it")
        return self
