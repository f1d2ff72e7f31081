"""`rollout stub-server`: a scripted model server with latency and faults, for your own tests and benchmarks."""

from __future__ import annotations

from typing import Annotated

import typer

from rollout.core.errors import ConfigError


def stub_server(
    script: Annotated[
        str | None, typer.Option(metavar="SCRIPT", help="The script: a YAML or JSON file, or the JSON itself.")
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Where to listen. Loopback unless you say otherwise.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free one.")] = 0,
    latency: Annotated[float | None, typer.Option(metavar="X", help="Seconds before each answer.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND[:RATE]", help="A fault and how often, such as overload:0.1. May be repeated."),
    ] = None,
) -> None:
    """Serve an OpenAI-compatible model that answers by script.

    An agent that calls the offered tools three times a turn and then answers:

        rollout stub-server --port 8000 --latency 0.05

    The same, with one request in ten turned away and one in fifty cut off in the middle:

        rollout stub-server --port 8000 --fault overload:0.1 --fault reset:0.02

    What it has done so far: GET /stats. The script's keys are in docs/how-to/stub-server.md.
    """
    from rollout.testing import load_script, run_stub_server

    checked = load_script(script)
    updates: dict[str, object] = {}
    if latency is not None:
        updates["latency"] = latency
    if fault:
        updates["faults"] = [*checked.model_dump(exclude_unset=True).get("faults", []), *map(_fault, fault)]
    if updates:
        checked = load_script({**checked.model_dump(exclude_unset=True), **updates})
    run_stub_server(checked, host, port, lambda url: typer.echo(f"serving {url} (Ctrl-C stops it)"))


def _fault(text: str) -> dict[str, object]:
    kind, _, rate = text.partition(":")
    try:
        return {"kind": kind, "rate": float(rate or 1)}
    except ValueError:
        raise ConfigError(f"--fault {text!r}: expected KIND or KIND:RATE, such as overload:0.1") from None
