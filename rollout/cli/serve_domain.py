"""`rollout serve-domain`: a mock domain as a real MCP server, for any MCP client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollout.cli.signals import listening
from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra


def serve_domain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A domain, or several fused by `_`.", show_default=False)],
    base_path: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The dataset folder, or the one above single_domain. Default: the shipped examples."
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of standard input and output.")] = False,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Where to listen. Loopback unless you say otherwise.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free one.")] = 8000,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Ids and times of every session derive from it.")] = 0,
    timeout: Annotated[float, typer.Option(metavar="X", min=0.001, help="Seconds for one call.")] = 60.0,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run the domain's code in this process: quicker, for trusted code.")
    ] = False,
) -> None:
    """Serve a mock domain as an MCP server.

    Over standard input and output, as MCP clients start their servers:

        rollout serve-domain StudentAcademicPortal

    Over streamable HTTP on loopback:

        rollout serve-domain StudentAcademicPortal --http --port 8000

    Each session has a world of its own that begins untouched. docs/how-to/mcp.md shows how to configure a client.
    """
    with listening() as signals:
        signals.run(_serve(name, base_path, http, host, port, seed, timeout, in_process))


async def _serve(
    name: str, base_path: Path | None, http: bool, host: str, port: int, seed: int, seconds: float, in_process: bool
) -> None:
    try:
        from rollout.environments.mcp.serve import ServedWorlds, make_server, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise missing_extra("`rollout serve-domain`", "mcp") from error
    from rollout.config.schema import Config, Timeouts
    from rollout.config.servers import MockServers
    from rollout.core.task import Task
    from rollout.environments.domains.environment import DomainEnvironment
    from rollout.environments.resources import Resources
    from rollout.pipelines.wiring.datasets import refuse_problems

    config = Config(
        mock_servers=MockServers(isolation="none" if in_process else "process"), timeouts=Timeouts(tool=seconds)
    )
    environment = DomainEnvironment(name, base_path=_base_of(name, base_path))
    async with Resources(config) as resources, environment.open(resources) as opened:
        refuse_problems(await opened.check())
        worlds = ServedWorlds(lambda: opened.make_world(Task("")), opened.toolset, seed)
        server = make_server(name, worlds, opened.domain.policy)
        if http:
            await serve_http(server, worlds, host, port, lambda url: typer.echo(f"serving {url} (Ctrl-C stops it)"))
        else:
            await serve_stdio(server, worlds)


def _base_of(name: str, base_path: Path | None) -> Path:
    """The dataset folder in which this domain is: the one given, or the first below it that knows its servers."""
    from rollout.environments.domains.domain import SHIPPED
    from rollout.tasks.discovery import known_servers
    from rollout.tasks.naming import split_fused

    root = base_path or SHIPPED
    folders = [folder for folder in (root, root / "single_domain", root / "cross_domain") if folder.is_dir()]
    fitting = [(folder, split_fused(name, known_servers(folder)) or []) for folder in folders]
    fitting = [(folder, servers) for folder, servers in fitting if servers]
    if not fitting:
        there = sorted({server for folder in folders for server in known_servers(folder)})
        raise ConfigError(f"no domain {name!r} in {root}; there are: {', '.join(there) or 'none'}")
    # A combination lies in the cross-domain folder, which comes last, and finds single domains' parts from there.
    return fitting[-1][0] if len(fitting[0][1]) > 1 else fitting[0][0]
