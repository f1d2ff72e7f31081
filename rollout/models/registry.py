"""The registry of a run's models: it resolves a name in the configuration to the object that answers.

A name is looked up in the registry (`name` or `provider/name`), then read as `provider/model`. `builtin/…` runs in this
process, `local/…` starts a server, OpenAI-compatible providers take the direct path and all others go through LiteLLM.
A plug-in (`module:Name` or an entry point of the group `rollout.models`) keeps the `Model` contract: an object, a class
of such objects, or an async function of the request. One name is one object for the whole run, so its limits hold over
all datasets.

The registry also decides which models see a task's reference: see `rollout.models.reference`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from rollout.config.load import is_placeholder
from rollout.config.models import NO_MODEL, LocalModel, ModelEntry
from rollout.config.schema import Retries, Timeouts
from rollout.core.errors import ConfigError
from rollout.core.extras import install_command
from rollout.core.plugins import find_plugin, is_reference
from rollout.core.retry import RetryPolicy
from rollout.core.secrets import register
from rollout.core.spelling import suggest
from rollout.models.builtin.oracle import NoModel, OracleModel
from rollout.models.given import as_model
from rollout.models.guard import GuardedModel, Price
from rollout.models.limits import Gate, Limiter
from rollout.models.masking import MaskedModel, MaskedReferenceModel
from rollout.models.model import Capability, Model
from rollout.models.openai import HttpPool, OpenAIModel, has_fixed_temperature
from rollout.models.prices import find_price
from rollout.models.reference import AgentModel, ReferenceModel

if TYPE_CHECKING:
    from rollout.models.local.server import LocalServer
    from rollout.models.token_forms import FormName

DIRECT: dict[str, tuple[str | None, str]] = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "vllm": (None, "VLLM_API_KEY"),
    "sglang": (None, "SGLANG_API_KEY"),
    "llamacpp": (None, "LLAMACPP_API_KEY"),
}
"""Providers of chat completions: their address, and the environment variable of their key."""
_ADDRESS_VARIABLES = {"openai": "OPENAI_BASE_URL"}
"""Environment variables of addresses, where a provider's own client reads one, too."""
_PREFIXES: dict[str, tuple[str, ...]] = {
    "bedrock": ("AWS_",),
    "sagemaker": ("AWS_",),
    "gemini": ("GEMINI_", "GOOGLE_"),
    "vertex_ai": ("VERTEX_", "VERTEXAI_", "GOOGLE_"),
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_"),
    "watsonx": ("WATSONX_", "WX_"),
}
"""Prefixes of the environment variables in which LiteLLM looks for keys and addresses, for providers whose variables do
not begin with the provider's name."""
_AGENT_ONLY = "model {!r} answers from the task's reference actions, so it can only be an agent"
_NOT_ONES_OWN = "agent.reveal_reference: it is for a class of your own (module:Class), and {!r} is none"
SHIPPED_LOCAL = "local/smollm2"
"""The model whose weights are part of the extra `rollout-engine[local]`."""


class Resolved(msgspec.Struct, frozen=True):
    """The meaning of a model's name."""

    name: str
    kind: Literal["builtin", "local", "direct", "litellm", "plugin"]
    entry: ModelEntry
    api_model: str
    api_base: str | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"Resolved({self.name!r}, {self.kind!r})"

    def sees_images(self, model: Model | AgentModel) -> bool:
        """Whether the model of this name is sent images. A plug-in may say so by its capabilities; servers
        are sent images only where the entry says so, because many refuse them."""
        entry = self.entry
        if self.kind != "plugin" or "images" in entry.model_fields_set or entry.token_in or entry.constrain_tools:
            return entry.images
        return Capability.IMAGES in model.capabilities

    def has_fixed_temperature(self, api_base: str | None = None) -> bool:
        """Whether it refuses every temperature but its own. `api_base`: where it is asked, if not at its address."""
        return self.kind == "direct" and has_fixed_temperature(api_base or self.api_base or "", self.api_model)


class Registry:
    """The models of a run. An async context manager: leaving it closes connections and local servers."""

    def __init__(
        self,
        entries: Mapping[str, ModelEntry],
        *,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        local: LocalModel | None = None,
        log_dir: Path | None = None,
        make_gate: Callable[[str, ModelEntry], Gate] | None = None,
    ) -> None:
        self._entries = entries
        self._timeouts = timeouts or Timeouts()
        retries = retries or Retries()
        self._policy = RetryPolicy(retries.attempts, retries.first_wait, retries.max_wait, retries.max_elapsed)
        self._local_config = local or LocalModel()
        self._log_dir = log_dir
        self._pool = HttpPool(self._timeouts.connect)
        self._models: dict[tuple[str, ...], AgentModel] = {}
        self._resolved: list[Resolved] = []
        self._gates: dict[str, Gate] = {}
        self._make_gate = make_gate or _limiter

    async def __aenter__(self) -> Registry:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for model in self._models.values():
            await model.close()
        await self._pool.close()

    def gate(self, name: str) -> Gate:
        """The gate of a model."""
        return self._gates[name]

    def key_variables(self) -> list[str]:
        """The environment variables in which the models that were asked for look for their keys. A name that ends in
        `_` is a prefix. Keys from the configuration need no variable."""
        found: list[str] = []
        for resolved in self._resolved:
            provider = resolved.entry.provider
            if resolved.kind == "direct":
                found.append(DIRECT[provider][1])
                if (variable := _ADDRESS_VARIABLES.get(provider)) is not None:
                    found.append(variable)
            elif resolved.kind == "litellm":
                found += _PREFIXES.get(provider, (f"{provider.partition('_')[0].upper()}_",))
        return sorted(set(found))

    def resolve(self, name: str, api_base: str | None = None, api_key: str | None = None) -> Resolved:
        """The meaning of a name. Sends nothing. Raises ConfigError for a name that has none."""
        provider, slash, rest = name.partition("/")
        if provider == "builtin":
            if name not in ("builtin/oracle", NO_MODEL):
                raise ConfigError(f"model {name!r}: the built-in model is builtin/oracle; builtin/user is only a user")
            return Resolved(name, "builtin", ModelEntry(), rest)
        if provider == "local" and (slash or name not in self._entries):
            self._refuse_unknown_local(name)
            return Resolved(name, "local", self._entries.get(name, ModelEntry(constrain_tools=True)), rest)
        if is_reference(name):
            return Resolved(name, "plugin", self._entries.get(name, ModelEntry()), name)
        entry = self._entries.get(name)
        if entry is None and slash and rest in self._entries and self._entries[rest].provider == provider:
            entry = self._entries[rest]
        if entry is None and not slash:
            if find_plugin("rollout.models", name) is not None:
                return Resolved(name, "plugin", ModelEntry(), name)
            hint = suggest(name, sorted(self._entries), "known")
            raise ConfigError(f"model {name!r} is not in the registry and names no provider/model; {hint}")
        if entry is None:
            entry = ModelEntry(provider=provider)
        api_model = entry.model or (rest if slash and provider == entry.provider else name)
        api_key = api_key or (entry.api_key.get_secret_value() if entry.api_key is not None else None)
        api_base = api_base or entry.api_base
        if entry.provider in DIRECT or (entry.api_base is not None and entry.provider == "openai"):
            base, variable = DIRECT[entry.provider]
            register(os.environ.get(variable) or "")
            base = os.environ.get(_ADDRESS_VARIABLES.get(entry.provider, "")) or base
            return Resolved(
                name, "direct", entry, api_model, api_base or base, api_key or os.environ.get(variable) or None
            )
        return Resolved(name, "litellm", entry, f"{entry.provider}/{api_model}", api_base, api_key)

    def _refuse_unknown_local(self, name: str) -> None:
        """Raise ConfigError if `local/…` names neither the shipped weights nor an entry of the registry."""
        entries = [entry for entry in self._entries if entry.startswith("local/")]
        if name in entries or name == SHIPPED_LOCAL or (self._local_config.model_path is not None and not entries):
            return
        hint = suggest(name, list(dict.fromkeys([SHIPPED_LOCAL, *entries])))
        raise ConfigError(f"model {name!r} is not in the registry and local.model_path names no weights for it; {hint}")

    def check(
        self,
        name: str,
        api_base: str | None = None,
        api_key: str | None = None,
        *,
        is_agent: bool = False,
        reveal_reference: bool = False,
    ) -> list[str]:
        """Problems that would keep this model from answering, as far as they show without sending a request."""
        try:
            found = self.resolve(name, api_base, api_key)
        except ConfigError as error:
            return [str(error)]
        problems = []
        if found.kind in ("builtin", "plugin"):
            try:
                if is_agent:
                    self.agent(name, reveal_reference=reveal_reference)
                else:
                    self.model(name)
            except ConfigError as error:
                problems.append(str(error))
        elif reveal_reference:
            problems.append(_NOT_ONES_OWN.format(name))
        if found.kind == "direct":
            if found.api_base is None:
                problems.append(f"model {name!r}: no api_base; put it into the models registry")
            elif (fault := address_fault(found.api_base)) is not None:
                problems.append(f"model {name!r}: api_base: {fault}")
            elif is_placeholder(found.api_base):
                problems.append(f"model {name!r}: api_base is still the example's placeholder ({found.api_base})")
            if found.api_key is None and found.api_base in {base for base, _ in DIRECT.values() if base}:
                variable = DIRECT[found.entry.provider][1]
                problems.append(f"model {name!r}: no api_key; set {variable} or put it into the models registry")
            elif found.api_key is not None and is_placeholder(found.api_key):
                problems.append(f"model {name!r}: api_key is still the example's placeholder")
        elif found.kind == "litellm":
            problems += _check_litellm(found)
        elif found.kind == "local":
            problems += _check_local(self._local_config)
        return problems + _check_tokenizer(found)

    def model(self, name: str, *, api_base: str | None = None, api_key: str | None = None) -> Model:
        """The model of this name, for a user, a judge or anyone else who only sends requests."""
        model = self.agent(name, api_base=api_base, api_key=api_key)
        if isinstance(model, ReferenceModel):
            raise ConfigError(_AGENT_ONLY.format(name))
        return model

    def agent(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        params: Mapping[str, float] | None = None,
        reveal_reference: bool = False,
    ) -> AgentModel:
        """The model of this name, for an agent. Only with `reveal_reference` can a plug-in be a reference model."""
        errors = repr(sorted((params or {}).items()))
        key = (name, api_base or "", api_key or "", errors, "reference" if reveal_reference else "")
        if key not in self._models:
            resolved = self.resolve(name, api_base, api_key)
            self._resolved.append(resolved)
            self._models[key] = self._build(resolved, params, reveal_reference)
        return self._models[key]

    def _build(self, found: Resolved, params: Mapping[str, float] | None, reveal_reference: bool) -> AgentModel:
        if found.kind == "builtin":
            return NoModel() if found.name == NO_MODEL else OracleModel(params)
        if found.kind == "plugin":
            return self._build_plugin(found, reveal_reference)
        if reveal_reference:
            raise ConfigError(_NOT_ONES_OWN.format(found.name))
        entry = found.entry
        if found.name not in self._gates:
            self._gates[found.name] = self._make_gate(found.name, entry)
        return GuardedModel(self._backend(found), self._gates[found.name], self._policy, price_of(found))

    def _build_plugin(self, found: Resolved, reveal_reference: bool) -> AgentModel:
        given = find_plugin("rollout.models", found.api_model)
        made = as_model(given, found.name)
        is_owned = made is not given  # an object belongs to the program that made it, which may use it again
        if not isinstance(made, ReferenceModel):
            if reveal_reference:
                raise ConfigError(
                    f"agent.reveal_reference: {found.name!r} does not derive from rollout.models.reference."
                    "ReferenceModel, so it cannot take a reference; derive from it, or leave the key out"
                )
            return MaskedModel(made, is_owned=is_owned)
        if not reveal_reference:
            raise ConfigError(
                f"model {found.name!r} answers from the task's reference actions; to let an agent see them, set "
                "agent.reveal_reference: true"
            )
        return MaskedReferenceModel(made, is_owned=is_owned)

    def _backend(self, found: Resolved) -> Model:
        """The model itself, without limits and retries."""
        if found.kind == "litellm":
            from rollout.models.litellm import LiteLLMModel, refuse_unknown_provider

            refuse_unknown_provider(found.name, found.entry.provider, list(DIRECT))
            return LiteLLMModel(
                found.api_model,
                api_key=found.api_key,
                api_base=found.api_base,
                timeout=found.entry.timeout or self._timeouts.request,
                send_seed=found.entry.send_seed,
            )
        if found.kind == "local":
            from rollout.models.local.model import LocalServerModel

            if problems := _check_local(self._local_config):
                raise ConfigError("; ".join(problems))
            # The address is unknown until the server runs, but the capabilities do not depend on it.
            capabilities = self._direct(found, "http://127.0.0.1").capabilities
            connect = functools.partial(self._direct, found)
            return LocalServerModel(found.name, self._local_server(), connect, capabilities)
        if found.api_base is None:
            raise ConfigError(f"model {found.name!r}: no api_base; put it into the models registry")
        return self._direct(found, found.api_base)

    def _direct(self, found: Resolved, api_base: str) -> OpenAIModel:
        entry = found.entry
        shared: dict[str, Any] = {
            "pool": self._pool,
            "api_base": api_base,
            "api_model": found.api_model,
            "api_key": found.api_key,
            "timeout": entry.timeout or self._timeouts.request,
            "send_seed": entry.send_seed,
            "headers": {name: value.get_secret_value() for name, value in entry.headers.items()},
        }
        is_llamacpp = found.kind == "local" or entry.provider == "llamacpp"
        if entry.token_in and entry.tokenizer is not None:
            from rollout.models.chat_template import ChatTemplate
            from rollout.models.token_in import TokenInModel

            load = functools.partial(ChatTemplate.load, entry.tokenizer, entry.chat_template)
            form: FormName = "llamacpp" if is_llamacpp else "sglang" if entry.provider == "sglang" else "vllm"
            return TokenInModel(found.name, load=load, form=form, **shared)
        token_ids: Literal["openai", "llamacpp"] = "llamacpp" if is_llamacpp else "openai"
        return OpenAIModel(
            found.name,
            token_ids=token_ids if entry.token_ids else None,
            constrain_tools=entry.constrain_tools,
            **shared,
        )

    def _local_server(self) -> LocalServer:
        from rollout.models.local.server import LocalServer

        config = self._local_config
        return LocalServer(
            model_path=config.model_path,
            threads=config.threads,
            parallel=config.parallel,
            context=config.context,
            log_file=self._log_dir / "local-server.log" if self._log_dir is not None else None,
        )


def address_fault(address: str) -> str | None:
    """Why nothing can be sent to an address; None where it looks right."""
    try:
        parts = urlsplit(address)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    return None if is_right else f"{address!r} is not an address; expected one such as http://localhost:8000/v1"


def _limiter(name: str, entry: ModelEntry) -> Gate:
    return Limiter(entry.max_concurrency, entry.rpm, entry.tpm)


def _check_litellm(found: Resolved) -> list[str]:
    from rollout.models.litellm import load_litellm, refuse_unknown_provider

    try:
        refuse_unknown_provider(found.name, found.entry.provider, list(DIRECT))
    except ConfigError as error:
        return [str(error)]
    litellm = load_litellm(f"model {found.name!r}")
    if found.api_key is not None:
        return []
    state = litellm.validate_environment(model=found.api_model)
    missing = state.get("missing_keys") or []
    return [f"model {found.name!r}: no api_key; set {' or '.join(missing)}"] if missing else []


def price_of(found: Resolved) -> Price | None:
    """The price of its tokens. None where it is unknown: then they count as free."""
    return find_price(found.entry, found.name, f"{found.entry.provider}/{found.api_model}", found.api_model)


def _check_tokenizer(found: Resolved) -> list[str]:
    import importlib.util

    entry = found.entry
    if not entry.token_in:
        return []
    if found.kind not in ("direct", "local"):
        return [f"model {found.name!r}: token_in is for servers of the direct path, not for {entry.provider}"]
    if importlib.util.find_spec("transformers") is None:
        return [f"model {found.name!r}: token_in needs the extra: {install_command('train')}"]
    files = {"tokenizer": entry.tokenizer, "chat_template": entry.chat_template}
    return [
        f"model {found.name!r}: {key}: {path} is not there"
        for key, path in files.items()
        if path is not None and not path.exists()
    ]


def _check_local(config: LocalModel) -> list[str]:
    import importlib.util

    if importlib.util.find_spec("xllamacpp") is None:
        return [f"a local model needs the extra: {install_command('local')}"]
    if config.model_path is not None and not config.model_path.is_file():
        return [f"local.model_path: {config.model_path} is not a file"]
    return []
