"""The child process of `LocalServer`: a llama.cpp server that lives exactly as long as its parent.

It is run as a script, not imported: nothing of this package is loaded beside the model. It writes one line, its
address, to the standard output it was given, and then waits for its standard input to end. That happens when the
parent closes it or dies in any way. On Linux the kernel is also asked to kill us with the parent: a process that
the parent forked meanwhile may still hold the other end of our input open.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


def main() -> None:
    options = _parse_options()
    _die_with(options.parent)
    # llama.cpp may print; what it prints belongs to the log, and the pipe to the parent carries the address alone.
    parent = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Bound to a name: the server stops when the object goes.
    server = _start_server(options)
    parent.write(f"{server.listening_address}\n")
    parent.close()
    sys.stdin.buffer.read()
    os._exit(0)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--template", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--cache-mib", type=int, required=True)
    return parser.parse_args()


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "getppid") and os.getppid() != parent:
        os._exit(0)


def _start_server(options: argparse.Namespace) -> Any:
    import xllamacpp  # type: ignore[import-not-found, import-untyped, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.model_alias = {options.model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.n_parallel = options.parallel
    # llama.cpp divides its context over the slots; each of ours is promised the whole.
    params.n_ctx = options.context * options.parallel
    params.use_jinja = True
    params.chat_template = options.template.read_text()
    # Conversations under one policy all look alike to the similarity test, and the slot it picks forgets the
    # conversation it held. Only a near-identical prompt may take over a slot; any other takes the oldest slot, whose
    # content moves to the prompt cache in memory and is replaced by the longest beginning found there.
    params.slot_prompt_similarity = 0.95
    params.cache_ram_mib = options.cache_mib
    params.offline = True
    params.cors_origins = "http://127.0.0.1"
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 3
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
