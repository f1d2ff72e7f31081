"""The stub model server: routes, and the life of one exchange.

A request is read, its answer made at once and kept as bytes; a timer delivers it after its latency. Nothing of the
answer depends on what came before, so a client that was killed and resumed gets the same answers again; only the faults
remember how often a body was tried. A `ServedExchange` exists from request to answer and is notified when its client
leaves.

`StubServer` lives in the event loop that opens it. `run_stub_server` (in `program`) gives it a process of its own.
"""

from __future__ import annotations

import asyncio
import hmac
from io import FileIO
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from rollout.core.errors import ConfigError
from rollout.testing.chat import BadChat, Situation, read_situation
from rollout.testing.faults import (
    Delivery,
    FaultDice,
    choose_delay,
    encode_error,
    encode_overload,
    prepare_delivery,
)
from rollout.testing.http import ClientConnection, HttpRequest, encode_response
from rollout.testing.replies import CREATED, choose_reply, compile_rules, compose_answer
from rollout.testing.script import ScriptSource, default_rules, load_script
from rollout.testing.stats import ServerTally, Stats

BACKLOG: Final = 4096

_encoder = msgspec.json.Encoder()


class ServedExchange:
    """One chat request under way: waits, delivers, or is abandoned."""

    __slots__ = ("_connection", "_delivery", "_digest", "_keep_alive", "_tally", "_timer")

    def __init__(
        self, connection: ClientConnection, delivery: Delivery, digest: bytes, tally: ServerTally, *, keep_alive: bool
    ) -> None:
        self._connection = connection
        self._delivery = delivery
        self._digest = digest
        self._tally = tally
        self._keep_alive = keep_alive
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, delay: float) -> None:
        """Deliver after a delay; at once when there is none."""
        if delay > 0:
            self._connection.pending = self
            self._timer = asyncio.get_running_loop().call_later(delay, self.deliver)
        else:
            self.deliver()

    def deliver(self) -> None:
        """Write the answer and end as the delivery says."""
        connection, delivery = self._connection, self._delivery
        ending = delivery.ending
        if ending == "hang" or ending == "trickle":
            connection.pending = self
            if ending == "trickle":
                connection.write(delivery.data)
                self._trickle()
            return
        if delivery.is_usable:
            self._tally.complete(self._digest)
        else:
            self._tally.fail()
        if delivery.data:
            connection.write(delivery.data)
        if ending == "finish":
            connection.finish(keep_alive=self._keep_alive)
        elif ending == "reset":
            connection.reset()
        else:
            connection.close()

    def abandon(self) -> None:
        """The client left first."""
        if self._timer is not None:
            self._timer.cancel()
        self._tally.abandon()

    def _trickle(self) -> None:
        self._connection.write(b" ")
        self._timer = asyncio.get_running_loop().call_later(self._delivery.interval or 0.001, self._trickle)


class StubServer:
    """An OpenAI-compatible server that answers by script. An async context manager.

    `requests` holds the decoded body of each chat request when `keep_requests` is set, in order of arrival.
    """

    def __init__(
        self, script: ScriptSource = None, host: str = "127.0.0.1", port: int = 0, *, keep_requests: bool = False
    ) -> None:
        self.script = load_script(script)
        self.requests: list[dict[str, Any]] = []
        self._host = host
        self._port = port
        self._keep_requests = keep_requests
        self._rules = compile_rules((*self.script.rules, *default_rules(self.script)))
        self._dice = FaultDice(self.script.seed, self.script.faults)
        self._tally = ServerTally()
        self._record: FileIO | None = None
        self._listener: asyncio.Server | None = None
        self._connections: set[ClientConnection] = set()
        self._drained: asyncio.Future[None] | None = None

    @property
    def url(self) -> str:
        """The base URL a client is given, ending in /v1."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    @property
    def stats(self) -> Stats:
        """The counts so far; the same that GET /stats answers."""
        return self._tally.stats

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self.script.record is not None:
            try:
                self._record = FileIO(self.script.record, "ab")
            except OSError as error:
                raise ConfigError(f"stub script: record: cannot open {self.script.record}: {error.strerror}") from error
        try:
            self._listener = await loop.create_server(self._connect, self._host, self._port, backlog=BACKLOG)
        except OSError as error:
            self._close_record()
            raise ConfigError(f"stub server: cannot listen on {self._host}:{self._port}: {error}") from error
        self._port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self._drained = asyncio.get_running_loop().create_future()
        for connection in tuple(self._connections):
            connection.abort()
        self._note_lost()
        await self._drained
        self._close_record()

    def _connect(self) -> ClientConnection:
        return ClientConnection(self._answer, _reject_http, self._connections, self._note_lost)

    def _note_lost(self) -> None:
        if self._drained is not None and not self._connections and not self._drained.done():
            self._drained.set_result(None)

    def _close_record(self) -> None:
        if self._record is not None:
            self._record.close()
            self._record = None

    def _answer(self, request: HttpRequest, connection: ClientConnection) -> None:
        head = request.head
        path = head.path.removeprefix("/v1")
        if path == "/chat/completions" and head.method == b"POST":
            self._answer_chat(request, connection)
            return
        if path == "/models" and not self._may_pass(request):
            response = _refuse_key(keep_alive=head.keep_alive)
        else:
            response = self._answer_plain(head.method, path, keep_alive=head.keep_alive)
        connection.write(response)
        connection.finish(keep_alive=head.keep_alive)

    def _answer_plain(self, method: bytes, path: str, *, keep_alive: bool) -> bytes:
        body: Any
        match (method, path):
            case (b"GET", "/models"):
                body = {"object": "list", "data": [_describe_model(name) for name in self.script.models]}
            case (b"GET", "/health"):
                body = {"status": "ok"}
            case (b"GET", "/stats"):
                body = self.stats
            case (b"POST", "/reset"):
                self._tally.reset()
                self._dice.forget()
                self.requests.clear()
                body = self.stats
            case (_, "/chat/completions" | "/models" | "/health" | "/stats" | "/reset"):
                return encode_error(405, "Method not allowed.", kind="invalid_request_error", keep_alive=keep_alive)
            case _:
                return encode_error(404, f"Unknown path {path}.", kind="invalid_request_error", keep_alive=keep_alive)
        return encode_response(200, _encoder.encode(body), keep_alive=keep_alive)

    def _answer_chat(self, request: HttpRequest, connection: ClientConnection) -> None:
        keep_alive = request.head.keep_alive
        refusal: bytes | None = None
        if not self._may_pass(request):
            refusal = _refuse_key(keep_alive=keep_alive)
        else:
            try:
                situation = read_situation(request.body)
                if self.script.echo_key:
                    situation.key = (request.head.authorization or "").removeprefix("Bearer ")
            except BadChat as error:
                refusal = encode_error(400, str(error), kind="invalid_request_error", keep_alive=keep_alive)
        if refusal is not None:
            self._tally.reject()
            connection.write(refusal)
            connection.finish(keep_alive=keep_alive)
            return
        self._keep(request.body)
        self._tally.begin(situation.chat.model)
        delivery, delay = self._prepare(situation, keep_alive=keep_alive)
        ServedExchange(connection, delivery, situation.digest, self._tally, keep_alive=keep_alive).begin(delay)

    def _prepare(self, situation: Situation, *, keep_alive: bool) -> tuple[Delivery, float]:
        script = self.script
        if script.capacity is not None and self._tally.stats.in_flight > script.capacity:
            self._tally.note_fault("capacity")
            return Delivery(encode_overload(f"{script.capacity_retry_after:g}", keep_alive=keep_alive)), 0.0
        reply, rule_faults = choose_reply(self._rules, situation)
        fault = self._dice.draw(situation, rule_faults)
        if fault is not None:
            self._tally.note_fault(fault.kind)
        answer = compose_answer(reply, situation)
        delay = choose_delay(script.latency, script.seed, situation.digest, fault)
        return prepare_delivery(fault, answer, situation, keep_alive=keep_alive), delay

    def _may_pass(self, request: HttpRequest) -> bool:
        key = self.script.api_key
        if key is None:
            return True
        given = request.head.authorization or ""
        return hmac.compare_digest(given.encode(), f"Bearer {key}".encode())

    def _keep(self, body: bytes) -> None:
        if self._keep_requests:
            self.requests.append(msgspec.json.decode(body))
        if self._record is not None:
            line = msgspec.json.format(body, indent=-1) if b"\n" in body else body
            self._record.write(line + b"\n")


def _reject_http(status: int, message: str) -> bytes:
    return encode_error(status, message, kind="invalid_request_error", keep_alive=False)


def _refuse_key(*, keep_alive: bool) -> bytes:
    return encode_error(
        401, "Incorrect API key provided.", kind="invalid_request_error", code="invalid_api_key", keep_alive=keep_alive
    )


def _describe_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "stub"}
