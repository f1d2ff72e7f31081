"""A model that is given token ids: nothing that was sampled is ever decoded and encoded again.

The prompt of a conversation's next generation is the ids so far, as they were given and sampled, with the ids of the
new messages behind them (`ChatTemplate.encode_suffix`). So the prefix invariant holds by construction, and servers that
cache prefixes find them. Only where the conversation so far is to be sent otherwise than before (reasoning cleared,
steps folded) is it encoded again as a whole, and the drift is on record with its cause.

The answer's text is what our tokenizer makes of its ids. Calls and reasoning within it are read by the dialect, as with
any model that writes them as text.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from rollout.core.errors import ConfigError, ModelError
from rollout.core.messages import Message
from rollout.models.chat_template import ChatTemplate
from rollout.models.completion import checked_logprobs, read_tokens
from rollout.models.model import Capability, Request
from rollout.models.openai import Body, OpenAIModel
from rollout.models.token_forms import DEFAULT_MAX_TOKENS, FORMS, FormName, template_options
from rollout.trajectories.generation import FIRST_TOKENS, Generation, entropy_of


class TokenInModel(OpenAIModel):
    """A model behind a server that takes ids. `load` reads its tokenizer, once, when first asked.

    Encoding and decoding happen in one thread of its own: a long prompt does not hold up the loop, and a tokenizer is
    never used twice at once, which it does not bear.
    """

    def __init__(self, name: str, *, load: Callable[[], ChatTemplate], form: FormName, **direct: Any) -> None:
        super().__init__(name, token_ids="openai", **direct)
        self.capabilities = frozenset(
            {Capability.LOGPROBS, Capability.TOKEN_IDS, Capability.TOKEN_IN, Capability.PREFIX}
        )
        self._form = FORMS[form]
        self._api_model = str(direct["api_model"])
        self._url = self._url.removesuffix("/chat/completions").removesuffix("/v1") + self._form.path
        self._load = load
        self._template: ChatTemplate | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollout-tokenizer")

    async def _ask(self, request: Request) -> Generation:
        loop = asyncio.get_running_loop()
        template, prompt = await loop.run_in_executor(self._thread, self._prompt, request)
        seed = request.seed if self._send_seed else None
        # Where an answer's beginning is given, the server is shown it as part of the prompt; on record it is sampled.
        begun, begun_logprobs = ([*request.prefix.ids], [*request.prefix.logprobs]) if request.prefix else ([], [])
        sent = prompt + array("I", begun)
        sampling = request.sampling
        if begun:
            room = max(1, (sampling.max_tokens or DEFAULT_MAX_TOKENS) - len(begun))
            sampling = msgspec.structs.replace(sampling, max_tokens=room)
        body = self._form.body(self._api_model, sent, sampling, seed, template.end)
        started = time.perf_counter()
        raw = await self._post(Body(b"", msgspec.json.encode(body)))
        latency = time.perf_counter() - started
        sampled = self._form.read(msgspec.json.decode(raw))
        if not isinstance(sampled.ids, list):
            raise ModelError(f"{self.name}: the server took ids and gave none back; it must know how to")
        if isinstance(sampled.prompt_ids, list) and sampled.prompt_ids != list(sent):
            raise ModelError(
                f"{self.name}: the server read other ids than it was sent; does it add a token of its own?"
            )
        ids = begun + sampled.ids
        logprobs = [*begun_logprobs, *sampled.logprobs] if sampled.logprobs else ()
        # What the alternatives were in a beginning that was given is not known, and entropies are those of a beginning.
        is_told = sampling.top_logprobs and not begun
        alternatives = sampled.alternatives[:FIRST_TOKENS] if is_told else ()
        entropies = [entropy_of(checked_logprobs(known)) for known in alternatives]
        tokens = read_tokens(self.name, prompt, ids, logprobs, entropies)
        text = await loop.run_in_executor(self._thread, template.decode, ids)
        return Generation(
            message=Message(role="assistant", content=text or None),
            finish_reason=sampled.finish_reason,
            usage=sampled.usage,
            model=self.name,
            latency=latency,
            seed=request.seed,
            tokens=tokens,
            weight_version=sampled.weight_version,
        )

    async def close(self) -> None:
        self._thread.shutdown(wait=False)

    def _prompt(self, request: Request) -> tuple[ChatTemplate, array[int]]:
        if self._template is None:
            try:
                self._template = self._load()
            except ConfigError as error:
                raise ModelError(f"{self.name}: {error}") from error
        template = self._template
        options = template_options(request.sampling)
        known = array("I", bytes(request.ids))
        if known:
            try:
                known.extend(template.encode_suffix(known, request.messages[request.covered :], options))
                return template, known
            except ModelError:
                pass  # Such a template needs the whole conversation; where that drifts, the record says so.
        return template, array("I", template.encode(request.messages, request.tools, options))
