"""The direct path: any OpenAI-compatible chat-completions server, by one pooled aiohttp client.

The request body is joined from pieces that were encoded before: each message once when it entered the view, the tools
once for a dataset, the sampling parameters once for a model. The answer is parsed once, by msgspec, into typed slots;
whatever does not fit is a transient `ModelError`, because a server or proxy in trouble sends such things. Nothing here
retries or limits: `rollout.models.guard` does that for every kind of model.
"""

from __future__ import annotations

import base64
import os
import re
import time
import urllib.parse
from typing import Any, Literal

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter

from rollout.core.bodies import ACCEPTED, BadBody, Unpacker
from rollout.core.errors import ContextLengthError, DeadlineError, ModelError, RolloutError
from rollout.core.secrets import register
from rollout.models.chat_answer import to_generation
from rollout.models.completion import Response, decode_answer, error_text, is_about_length, seconds_of, unreadable
from rollout.models.model import Capability, Request, Sampling
from rollout.trajectories.generation import Generation

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_REPLY = 400
"""Characters of a reply under `constrain_tools`: a small model does not end a text without a limit."""
_REASONING_MODEL = re.compile(r"(o\d|gpt-[5-9])(?!.*-chat)")
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
"""And everything from 500 on: proxies have codes of their own for a server in trouble."""
_OVERLOAD_STATUS = frozenset({429, 503, 529})


class _Tokenized(msgspec.Struct):
    tokens: list[int]


_decode_tokenized = msgspec.json.Decoder(_Tokenized).decode


class Body(aiohttp.payload.Payload):
    """A request body of two pieces. aiohttp copies the first together with the headers and sends the second as it is.

    Given whole, a body of half a megabyte would be copied once more only to stand behind its headers.
    """

    _autoclose = True

    def __init__(self, head: bytes, rest: bytes) -> None:
        super().__init__(rest, content_type="application/json")
        self._head, self._size = head, len(head) + len(rest)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await writer.write(self._head)
        await writer.write(self._value)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """The length that aiohttp declares is this body's own size."""
        await self.write(writer)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        whole: bytes = self._head + self._value
        return whole.decode(encoding, errors)


class HttpPool:
    """The one HTTP client of a run, shared by all direct models and opened when first used."""

    def __init__(self, connect_timeout: float = 10.0) -> None:
        self._connect_timeout = connect_timeout
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The live session. The limiter bounds concurrent requests, not the connector."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=55, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": ACCEPTED},
                # We unpack bodies ourselves, in pieces that are counted.
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept"),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class OpenAIModel:
    """A model behind `POST {api_base}/chat/completions`."""

    def __init__(
        self,
        name: str,
        *,
        pool: HttpPool,
        api_base: str,
        api_model: str,
        api_key: str | None = None,
        timeout: float = 120.0,
        send_seed: bool = True,
        token_ids: Literal["openai", "llamacpp"] | None = None,
        constrain_tools: bool = False,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`token_ids`: how the server is asked for them. `openai` is the way of vLLM and SGLang."""
        self.name = name
        self.capabilities = frozenset(
            {Capability.LOGPROBS, Capability.IMAGES} | ({Capability.TOKEN_IDS} if token_ids else set())
        )
        self._pool = pool
        self._url = api_base.rstrip("/") + "/chat/completions"
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._deadline = timeout
        self._send_seed = send_seed
        self._token_ids = token_ids
        self._constrain_tools = constrain_tools
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        if api_key:
            register(api_key)
            self._headers["Authorization"] = f"Bearer {api_key}"
        address = urllib.parse.urlsplit(self._url)
        if address.username is not None:
            # Kept out of the address, so that no error text can show it.
            self._url = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
            login = f"{urllib.parse.unquote(address.username)}:{urllib.parse.unquote(address.password or '')}"
            basic = base64.b64encode(login.encode()).decode()
            register(f"Basic {basic}")
            self._headers.setdefault("Authorization", f"Basic {basic}")
        self._head = b'{"model":' + msgspec.json.encode(api_model) + b',"messages":['
        self._is_openai = "api.openai.com" in api_base
        self._has_fixed_temperature = has_fixed_temperature(api_base, api_model)
        self._tails: dict[tuple[int, int], tuple[Sampling, Any, bytes]] = {}

    async def generate(self, request: Request) -> Generation:
        try:
            return await self._ask(request)
        except RolloutError:
            raise
        except Exception as error:
            # Reading is total: whatever a server manages to surprise us with, it may answer properly next time.
            raise unreadable(self.name, error) from error

    async def close(self) -> None:
        """The pool is closed by who opened it."""

    async def _ask(self, request: Request) -> Generation:
        started = time.perf_counter()
        raw = await self._post(self._body(request))
        latency = time.perf_counter() - started
        try:
            response = decode_answer(raw)
        except msgspec.DecodeError as error:
            if not raw.lstrip().startswith(b"<"):
                raise
            text = (
                f"{self.name}: {self._url} answered with a web page; expected JSON. Check api_base: the address of an "
                "OpenAI-compatible server mostly ends with /v1"
            )
            raise ModelError(text, transient=True) from error
        if self._token_ids == "llamacpp" and response.choices:
            await self._add_llamacpp_ids(response)
        return to_generation(
            response, self.name, request, latency, constrained=self._constrain_tools and len(request.tools) > 0
        )

    def _body(self, request: Request) -> Body:
        """The request body, in one join: a long conversation is copied once, not once for each piece around it."""
        tail = self._tail(request)
        if self._send_seed and request.seed is not None:
            tail += b',"seed":%d' % request.seed
        pieces = [*request.wire]
        pieces[-1] += tail + b"}"
        return Body(self._head, b",".join(pieces))

    async def _add_llamacpp_ids(self, response: Response) -> None:
        """llama.cpp gives the prompt as a text; it is asked for the ids that it made of it, by the same rule."""
        verbose = response.verbose
        if verbose is None or not isinstance(verbose.prompt, str) or not isinstance(verbose.tokens, list):
            return
        asked = msgspec.json.encode({"content": verbose.prompt, "add_special": True, "parse_special": True})
        address = self._url.removesuffix("/chat/completions").removesuffix("/v1")
        raw = await self._post(Body(b"", asked), f"{address}/tokenize")
        response.prompt_token_ids = _decode_tokenized(raw).tokens
        response.choices[0].token_ids = verbose.tokens

    async def _post(self, body: Body, url: str | None = None) -> bytes:
        try:
            async with self._pool.session().post(
                url or self._url, data=body, headers=self._headers, timeout=self._timeout, allow_redirects=False
            ) as answer:
                raw = await self._read_body(answer)
                if answer.status != 200:
                    raise self._refusal(answer.status, raw, answer.headers.get("Retry-After"))
                return raw
        except TimeoutError as error:
            raise DeadlineError(f"{self.name}: no whole answer within {self._deadline:g} s", transient=True) from error
        except aiohttp.InvalidURL as error:
            raise ModelError(f"{self.name}: {self._url!r} is not a URL", check="api_base") from error
        except BadBody as error:
            raise ModelError(f"{self.name}: refused the answer's body: {error}", transient=True) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"{self.name}: connection to {self._url} failed: {_reason(error)}"
            is_refused = isinstance(error, aiohttp.ClientConnectorError)
            text += "; is the server running?" if is_refused else ""
            raise ModelError(text, transient=True, check="api_base" if is_refused else None) from error

    async def _read_body(self, answer: aiohttp.ClientResponse) -> bytes:
        """The body, unpacked. What is counted against the limit is what comes out, not what was sent."""
        encoding = answer.headers.get("Content-Encoding")
        sent = answer.content_length
        if sent is not None and sent <= MAX_ANSWER_BYTES and encoding is None:
            return await answer.read()
        if sent is not None and sent > MAX_ANSWER_BYTES:
            raise BadBody(f"{sent:,} bytes, more than {MAX_ANSWER_BYTES:,}")
        pieces, size = [], 0
        unpacker = Unpacker(encoding)
        async for chunk in answer.content.iter_any():
            for piece in unpacker.unpack(chunk):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise BadBody(f"more than {MAX_ANSWER_BYTES:,} bytes")
        unpacker.end()
        return b"".join(pieces)

    def _refusal(self, status: int, raw: bytes, retry_after: str | None) -> ModelError:
        text = error_text(raw)
        message = f"{self.name}: HTTP {status}: {text}"
        if status in (400, 413, 422) and is_about_length(text):
            return ContextLengthError(message, status=status)
        return ModelError(
            message,
            transient=status in _TRANSIENT_STATUS or status >= 500,
            retry_after=seconds_of(retry_after),
            status=status,
            is_overload=status in _OVERLOAD_STATUS,
        )

    def _tail(self, request: Request) -> bytes:
        key = (id(request.sampling), id(request.tools))
        known = self._tails.get(key)
        # The cached objects are kept alive beside the bytes, so an id can never come to mean another object.
        if known is not None:
            return known[2]
        if len(self._tails) > 256:
            self._tails.clear()
        fields = self._fields(request)
        tail = b"]"
        if len(request.tools) and not self._constrain_tools:
            tail += b',"tools":' + request.tools.wire
        if fields:
            tail += b"," + msgspec.json.encode(fields)[1:-1]
        self._tails[key] = (request.sampling, request.tools, tail)
        return tail

    def _fields(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        fields: dict[str, Any] = msgspec.to_builtins(sampling)
        fields.pop("extra", None)
        if self._is_openai and "max_tokens" in fields:
            fields["max_completion_tokens"] = fields.pop("max_tokens")
        if self._has_fixed_temperature:
            fields.pop("temperature", None)
        if not len(request.tools):
            fields.pop("tool_choice", None)
            fields.pop("parallel_tool_calls", None)
        elif self._constrain_tools:
            from rollout.models.constrained import response_format

            fields["response_format"] = response_format(request.tools.specs, may_reply=True, max_text=MAX_REPLY)
        if self._token_ids is not None:
            fields["logprobs"] = True
            if self._token_ids == "openai":
                fields["return_token_ids"] = True
            else:
                fields["return_tokens"] = fields["verbose"] = True
        fields.update(sampling.extra)
        return fields


def has_fixed_temperature(api_base: str, api_model: str) -> bool:
    """Whether a model refuses every temperature but its own, as OpenAI's reasoning models do."""
    return "api.openai.com" in api_base and _REASONING_MODEL.match(api_model) is not None


def _reason(error: aiohttp.ClientError | OSError) -> str:
    """Why a connection failed, in the words of the operating system where it was not made."""
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error, aiohttp.ClientSSLError):
        return str(error) or type(error).__name__
    cause = error.os_error
    # Names that cannot be resolved have numbers of their own, below 0.
    number = cause.errno or 0
    return os.strerror(number) if number > 0 else cause.strerror or str(cause)
