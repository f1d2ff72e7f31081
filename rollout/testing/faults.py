"""Faults on demand: which fault an attempt meets, and what the client then gets.

`FaultDice` decides. The chance is a hash of (seed, body, attempt number of that body), so a run that is repeated meets
the same faults, and it knows how many faults in a row a body has met, so that `times` can let a retry through.

`prepare_delivery` carries it out. Faults act at three depths: on what is said (`unknown_tool`, `length`, …), on the
form of the answer (`empty_choices`, `wrong_types`, …), and on the bytes and the connection (`invalid_json`, `reset`,
…). The result is a `Delivery`: the bytes to write and how to end.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from email.utils import formatdate
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from rollout.core.messages import JSON, ToolCall
from rollout.testing.chat import Situation
from rollout.testing.http import encode_response
from rollout.testing.replies import Answer, build_payload, choose_tool, make_call_id
from rollout.testing.script import Fault, FaultKind, Latency

TRICKLE_INTERVAL: Final = 0.05
SLOW_DELAY: Final = 1.0
_TRICKLE_LENGTH: Final = 1 << 30

USABLE: Final[frozenset[FaultKind]] = frozenset(
    {"slow", "huge", "length", "broken_arguments", "unknown_tool", "duplicate_call_ids"}
)
"""Kinds that still give a well-formed answer, which counts as completed."""

_encoder = msgspec.json.Encoder()


class Delivery(msgspec.Struct, frozen=True):
    """What is written, and how the exchange ends."""

    data: bytes
    ending: Literal["finish", "reset", "close", "hang", "trickle"] = "finish"
    is_usable: bool = False
    interval: float = 0.0
    """Seconds between the bytes of a trickle."""


class FaultDice:
    """Decides which attempts meet which fault."""

    def __init__(self, seed: int, faults: tuple[Fault, ...]) -> None:
        self._seed = seed
        self._faults = faults
        self._met: dict[bytes, tuple[int, int]] = {}
        """For each body: attempts so far, and how many of the last ones in a row met a fault."""

    def draw(self, situation: Situation, rule_faults: tuple[Fault, ...]) -> Fault | None:
        """The fault that this attempt meets, if any."""
        faults = rule_faults + self._faults
        if not faults:
            return None
        attempt, in_row = self._met.get(situation.digest, (0, 0))
        met = self._first(faults, situation, attempt, in_row)
        self._met[situation.digest] = (attempt + 1, in_row + 1 if met is not None else 0)
        return met

    def forget(self) -> None:
        """Treat every body as new."""
        self._met.clear()

    def _first(self, faults: Iterable[Fault], situation: Situation, attempt: int, in_row: int) -> Fault | None:
        for index, fault in enumerate(faults):
            if in_row >= fault.times:
                continue
            if fault.model is not None and not fnmatchcase(situation.chat.model, fault.model):
                continue
            if fault.rate == 1 or hash_fraction(self._seed, situation.digest, f"{index}/{attempt}") < fault.rate:
                return fault
        return None


def hash_fraction(seed: int, digest: bytes, purpose: str) -> float:
    """A number in [0, 1) that looks random and is always the same for the same arguments."""
    drawn = hashlib.blake2b(digest + f"/{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "little") / 2**64


def choose_delay(latency: Latency, seed: int, digest: bytes, fault: Fault | None) -> float:
    """Seconds before anything is written: the latency that this body always has, and what the fault adds."""
    delay = latency.min
    if latency.max > delay:
        delay += (latency.max - delay) * hash_fraction(seed, digest, "latency")
    if fault is None or fault.kind == "trickle":
        return delay
    if fault.delay is not None:
        return delay + fault.delay
    return delay + (SLOW_DELAY if fault.kind == "slow" else 0.0)


def encode_error(
    status: int,
    message: str,
    *,
    kind: str = "server_error",
    code: str | None = None,
    fields: tuple[tuple[str, str], ...] = (),
    keep_alive: bool = True,
) -> bytes:
    """An error in OpenAI's shape."""
    body = _encoder.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})
    return encode_response(status, body, fields=fields, keep_alive=keep_alive)


def encode_overload(retry_after: str | None, *, keep_alive: bool, key: str = "") -> bytes:
    """429, as a server that has too much to do."""
    fields = (("Retry-After", retry_after),) if retry_after is not None else ()
    return encode_error(
        429,
        f"Too many requests.{key}",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        fields=fields,
        keep_alive=keep_alive,
    )


def prepare_delivery(fault: Fault | None, answer: Answer, situation: Situation, *, keep_alive: bool) -> Delivery:
    """The answer as the client gets it, with what the fault does to it."""
    if fault is None:
        body = _encoder.encode(build_payload(answer, situation))
        return Delivery(encode_response(200, body, keep_alive=keep_alive), is_usable=True)
    kind = fault.kind
    refusal = _refuse(fault, keep_alive, f" (key: {situation.key})" if situation.key else "")
    if refusal is not None:
        return Delivery(refusal)
    if kind == "refuse_close":
        return Delivery(b"", "close")
    if kind == "hang":
        return Delivery(b"", "hang")
    if kind == "trickle":
        head = encode_response(200, b"").replace(b"Content-Length: 0", b"Content-Length: %d" % _TRICKLE_LENGTH)
        return Delivery(head + b" ", "trickle", interval=TRICKLE_INTERVAL if fault.delay is None else fault.delay)
    payload = build_payload(_distort_answer(fault, answer, situation), situation)
    _distort_payload(kind, payload)
    body = _encoder.encode(payload)
    if kind == "invalid_json":
        body = body[: len(body) * 2 // 3]
    data = encode_response(200, body, keep_alive=keep_alive)
    if kind == "reset":
        return Delivery(data[: len(data) - len(body) + len(body) // 2], "reset")
    return Delivery(data, is_usable=kind in USABLE)


def _refuse(fault: Fault, keep_alive: bool, key: str) -> bytes | None:
    """The bytes of a fault that answers with an error status; its message ends with `key`."""
    after = _retry_after(fault)
    fields = (("Retry-After", after),) if after is not None else ()
    match fault.kind:
        case "status":
            status = fault.status or 500
            kind = "server_error" if status >= 500 else "invalid_request_error"
            return encode_error(
                status, f"The stub was told to answer {status}.{key}", kind=kind, fields=fields, keep_alive=keep_alive
            )
        case "overload":
            return encode_overload(after or "1", keep_alive=keep_alive, key=key)
        case "error500":
            return encode_error(500, f"The server had an error.{key}", fields=fields, keep_alive=keep_alive)
        case "unavailable":
            message = f"The server is overloaded or not ready yet.{key}"
            return encode_error(503, message, fields=fields, keep_alive=keep_alive)
        case "context_length":
            message = f"This model's maximum context length is exceeded. Please reduce the length of the messages.{key}"
            return encode_error(
                400, message, kind="invalid_request_error", code="context_length_exceeded", keep_alive=keep_alive
            )
        case "html":
            page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway%s</h1></body></html>"
            page %= key.encode()
            return encode_response(502, page, content_type="text/html", fields=fields, keep_alive=keep_alive)
    return None


def _retry_after(fault: Fault) -> str | None:
    after = fault.retry_after
    if after is None or isinstance(after, str):
        return after
    return formatdate(time.time() + after, usegmt=True) if fault.retry_after_as == "date" else f"{after:g}"


def _distort_answer(fault: Fault, answer: Answer, situation: Situation) -> Answer:
    """Change what is said."""
    replace = msgspec.structs.replace
    match fault.kind:
        case "null_content_no_calls":
            return replace(answer, content=None, reasoning=None, calls=(), finish_reason="stop")
        case "length":
            said = answer.content or "I was about to say more than"
            return replace(answer, content=said[: len(said) // 2], calls=(), finish_reason="length")
        case "huge":
            said = (answer.content or "") + "lorem ipsum " * (fault.size // 12 + 1)
            return replace(answer, content=said[: fault.size], with_details=False)
        case "broken_arguments":
            calls = tuple(replace(call, arguments=_cut_json(call.arguments)) for call in _calls_of(answer, situation))
        case "unknown_tool":
            calls = tuple(replace(call, name="no_such_tool") for call in _calls_of(answer, situation))
        case "duplicate_call_ids":
            first = _calls_of(answer, situation)[0]
            calls = (first, first)
        case _:
            return answer
    return replace(answer, calls=calls, finish_reason="tool_calls")


def _calls_of(answer: Answer, situation: Situation) -> tuple[ToolCall, ...]:
    """The calls of the answer; one is made up when it has none."""
    if answer.calls:
        return answer.calls
    tool = choose_tool("any", situation)
    name, arguments = (tool.name, tool.arguments) if tool is not None else ("stub_tool", "{}")
    return (ToolCall(make_call_id(situation, 0), name, arguments),)


def _cut_json(arguments: str) -> str:
    return arguments[: max(1, len(arguments) * 2 // 3)] if len(arguments) > 2 else '{"x": "y'


def _distort_payload(kind: FaultKind, payload: JSON) -> None:
    """Break the form of the answer."""
    match kind:
        case "empty_choices":
            payload["choices"] = []
        case "no_message":
            del payload["choices"][0]["message"]
        case "wrong_types":
            payload["choices"][0]["message"] |= {"content": 42, "tool_calls": {"name": "x"}}
            payload["choices"][0]["finish_reason"] = 7
            payload["usage"] = "many"
