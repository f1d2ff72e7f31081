"""A model server that answers by script, late or wrongly when told to: for tests, benchmarks, runs without a key.

    async with StubServer({"latency": 0.05, "faults": [{"kind": "overload", "rate": 0.1}]}) as server:
        ...  # an OpenAI-compatible client at server.url; server.stats counts

It speaks chat completions over HTTP/1.1, binds loopback, and gives the same answer to the same body forever. `script`
holds the format, `replies` what is said, `faults` what goes wrong, `http` and `server` the wire, `program` the process.
"""

from rollout.testing.program import StubProcess, run_stub_server
from rollout.testing.script import FAULT_KINDS, Fault, Reply, Rule, StubScript, load_script
from rollout.testing.server import StubServer
from rollout.testing.stats import Stats
from rollout.testing.tokens import decode_tokens

__all__ = [
    "FAULT_KINDS",
    "Fault",
    "Reply",
    "Rule",
    "Stats",
    "StubProcess",
    "StubScript",
    "StubServer",
    "decode_tokens",
    "load_script",
    "run_stub_server",
]
