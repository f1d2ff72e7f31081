"""Clock, uuids, randomness and tables of mock servers: from the episode's seed, and shared until written to.

A mock server is a plain Python module that calls `uuid.uuid4()` or `datetime.now()` as it likes. When we load it, we
put stand-ins into *its* globals (no other module's): they ask the world whose call is running, by a context
variable. So two episodes with the same seed get the same ids and times, and two episodes side by side do not disturb
each other.
"""

from __future__ import annotations

import base64
import contextvars
import copy as real_copy
import datetime as real_datetime
import json as real_json
import random as real_random
import secrets as real_secrets
import sys
import time as real_time
import types
import uuid as real_uuid
from typing import Any

from rollout.environments.domains.reading import load_json, loads_json

EASTERN = real_datetime.timezone(real_datetime.timedelta(hours=-5))
NOW = real_datetime.datetime(2025, 1, 23, 15, 0, 0, tzinfo=EASTERN)
"""The simulated present of AgentSkiller's servers: 2025-01-23 15:00:00 EST."""

current_random: contextvars.ContextVar[real_random.Random] = contextvars.ContextVar("rollout_world_random")
"""The generator of the world whose call is running."""


def _uuid4() -> real_uuid.UUID:
    return real_uuid.UUID(int=_random().getrandbits(128), version=4)


def _random() -> real_random.Random:
    return current_random.get(_unseeded)


_unseeded = real_random.Random(0)


class _LikeReal(type):
    """The stand-in counts every real instance as its own, so `isinstance` says what it always said."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])


class _FixedDatetime(real_datetime.datetime, metaclass=_LikeReal):
    @classmethod
    def now(cls, tz: real_datetime.tzinfo | None = None) -> real_datetime.datetime:  # type: ignore[override]
        return NOW.replace(tzinfo=None) if tz is None else NOW.astimezone(tz)

    @classmethod
    def utcnow(cls) -> real_datetime.datetime:  # type: ignore[override]
        return NOW.astimezone(real_datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> real_datetime.datetime:  # type: ignore[override]
        return NOW.replace(tzinfo=None)


class _FixedDate(real_datetime.date, metaclass=_LikeReal):
    @classmethod
    def today(cls) -> real_datetime.date:  # type: ignore[override]
        return NOW.date()


class _Module(types.ModuleType):
    """A module with some names replaced and all others the real one's. All conversations use it: it is not patched."""

    def __init__(self, real: types.ModuleType, **replaced: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(replaced)
        self.__dict__["_real"] = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self.__name__}.{name}: a mock server may not change a module that others use")

    __delattr__ = __setattr__  # type: ignore[assignment]


class _SeededRandom(real_random.Random):
    """A generator of a server's own. Where it is given no seed, the world's generator gives one."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(_random().getrandbits(64) if seed is None else seed)


class _RandomModule(_Module):
    def __getattr__(self, name: str) -> Any:
        generator = _random()
        return getattr(generator, name) if hasattr(generator, name) else getattr(real_random, name)


def _timestamp() -> float:
    return NOW.timestamp()


def _at(function: Any) -> Any:
    """A function of `time` that means now where it is given no time."""
    return lambda seconds=None: function(_timestamp() if seconds is None else seconds)


def _strftime(form: str, moment: Any = None) -> str:
    return real_time.strftime(form, _LOCAL if moment is None else moment)


_LOCAL = NOW.timetuple()
_SECRETS = {
    "token_bytes": lambda size=32: _random().randbytes(size),
    "token_hex": lambda size=32: _random().randbytes(size).hex(),
    "token_urlsafe": lambda size=32: base64.urlsafe_b64encode(_random().randbytes(size)).rstrip(b"=").decode(),
    "randbelow": lambda most: _random().randrange(most),
    "randbits": lambda bits: _random().getrandbits(bits),
    "choice": lambda options: _random().choice(options),
}
_TIME = {
    "time": _timestamp,
    "time_ns": lambda: int(_timestamp()) * 10**9,
    "localtime": lambda seconds=None: _LOCAL if seconds is None else real_time.localtime(seconds),
    "gmtime": _at(real_time.gmtime),
    "ctime": lambda seconds=None: real_time.asctime(_LOCAL) if seconds is None else real_time.ctime(seconds),
    "strftime": _strftime,
}

_STAND_INS: list[tuple[Any, Any]] = [
    (real_uuid, _Module(real_uuid, uuid4=_uuid4, uuid1=_uuid4)),
    (real_uuid.uuid4, _uuid4),
    (real_uuid.uuid1, _uuid4),
    (real_random, _RandomModule(real_random, Random=_SeededRandom, SystemRandom=_SeededRandom)),
    (real_random.Random, _SeededRandom),
    (real_random.SystemRandom, _SeededRandom),
    (real_time, _Module(real_time, **_TIME)),
    *((getattr(real_time, name), function) for name, function in _TIME.items()),
    (real_secrets, _Module(real_secrets, **_SECRETS)),
    *((getattr(real_secrets, name), function) for name, function in _SECRETS.items()),
    (real_copy, _Module(real_copy)),
    (real_json, _Module(real_json, load=load_json, loads=loads_json)),
    (real_json.load, load_json),
    (real_json.loads, loads_json),
    (real_datetime, _Module(real_datetime, datetime=_FixedDatetime, date=_FixedDate)),
    (real_datetime.datetime, _FixedDatetime),
    (real_datetime.date, _FixedDate),
]


def _random_function(name: str) -> Any:
    return lambda *args, **kwargs: getattr(_random(), name)(*args, **kwargs)


# `from random import shuffle` and the like: methods of the module's own hidden generator.
_STAND_INS += [
    (function, _random_function(name))
    for name, function in vars(real_random).items()
    if not name.startswith("_") and isinstance(getattr(function, "__self__", None), real_random.Random)
]


def make_deterministic(module: types.ModuleType) -> None:
    """Replace clock, uuids and randomness in the globals of a module that we loaded."""
    names = vars(module)
    for name, value in list(names.items()):
        for real, stand_in in _STAND_INS:
            # `==` because random.random and friends are bound methods, made again at each access.
            if value is real or (callable(value) and callable(real) and value == real):
                names[name] = stand_in
                break


def install_stand_ins() -> None:
    """Replace them for every module that is imported from now on: for a process in which only mock servers run."""
    for real, stand_in in _STAND_INS:
        if isinstance(real, types.ModuleType):
            sys.modules[real.__name__] = stand_in
