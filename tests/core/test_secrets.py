"""Secrets stay out of everything, in every form in which they come back."""

from __future__ import annotations

import base64
import html
import json
import logging
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.config.load import remember_secrets
from rollout.config.models import ModelEntry
from rollout.config.servers import McpServer
from rollout.core import secrets
from rollout.core.errors import RolloutError
from rollout.core.secrets import MASK, excerpt, mask, redact, register
from rollout.models.completion import error_text
from rollout.models.openai import HttpPool, OpenAIModel

KEY = 'k/9+Zq"Ww&tok en-é42!'
FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "URL-encoded": lambda key: urllib.parse.quote(key, safe=""),
    "URL-encoded in lower case": lambda key: urllib.parse.quote(key, safe="").lower(),
    "in a query": urllib.parse.quote_plus,
    "in JSON": lambda key: json.dumps(key),
    "in JSON with escaped slashes": lambda key: json.dumps(key).replace("/", "\\/"),
    "in a Python literal": repr,
    "in HTML": html.escape,
    "in hexadecimal": lambda key: key.encode().hex(),
    "in upper hexadecimal": lambda key: key.encode().hex().upper(),
    "URL-encoded twice": lambda key: urllib.parse.quote(urllib.parse.quote(key, safe=""), safe=""),
    "URL-encoded, every byte": lambda key: "".join(f"%{byte:02X}" for byte in key.encode()),
    "escaped in JSON, every character": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
    "escaped in HTML, every character": lambda key: "".join(f"&#{ord(char)};" for char in key),
    "read as Latin-1": lambda key: key.encode().decode("latin-1"),
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "in base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "as basic login": lambda key: "Basic " + base64.b64encode(f"user:{key}".encode()).decode(),
    "as basic login of a longer name": lambda key: base64.b64encode(f"users:{key}".encode()).decode(),
    "in base32": lambda key: base64.b32encode(key.encode()).decode(),
    "in base32 in lower case": lambda key: base64.b32encode(key.encode()).decode().lower(),
    "in base32 behind a name": lambda key: base64.b32encode(f"user:{key}".encode()).decode(),
    "as the name of a login": lambda key: base64.b64encode(f"{key}:".encode()).decode(),
}


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    for name, value in (("_known", set()), ("_redacted", secrets._Forms([])), ("_masked", secrets._Forms([]))):
        monkeypatch.setattr(secrets, name, value)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_key_is_found(form: str) -> None:
    register(KEY)
    shown = FORMS[form](KEY)
    for clean in (mask(f"before ({shown}) after"), redact(f"before ({shown}) after")):
        assert MASK in clean
        assert clean.startswith("before (")
        assert clean.endswith(") after")
        assert shown not in clean
    assert len(mask(shown)) <= len("Basic ") + len(MASK) + 2, "nothing of it is left but its surroundings"


@pytest.mark.parametrize("size", range(15))
def test_a_key_within_base64_is_found_wherever_it_stands(size: int) -> None:
    register("sekrit-0123456789")
    encoded = base64.b64encode(b"x" * size + b"sekrit-0123456789" + b"y" * (14 - size)).decode()
    assert mask(f"{{{encoded}}}") == f"{{{MASK}}}"


@pytest.mark.parametrize("size", range(15))
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\\n", "\\r\\n"])
def test_a_key_within_wrapped_base64_is_found_on_whichever_lines_it_stands(size: int, ending: str) -> None:
    register("sekrit-0123456789")
    encoded = base64.b64encode(b"x" * (36 + size) + b"sekrit-0123456789" + b"y" * 40).decode()
    wrapped = ending.join(encoded[place : place + 64] for place in range(0, len(encoded), 64))
    assert mask(f"İ first\nline {{{wrapped}}}\nlast") == f"İ first\nline {{{MASK}}}\nlast"


def test_lines_that_hold_no_secret_stay_as_they_are() -> None:
    register("sekrit-0123456789")
    text = "\n".join(["a" * 64, "b" * 64, "and so on"])
    assert mask(text) is text


def test_a_secret_beside_megabytes_of_base64_is_masked_at_once() -> None:
    register("tok9-AbCdEf-123456")
    for size in (1_000_000, 2_000_000):
        run = "iVBORw0KGgo" * (size // 11)
        assert mask(f"tok9-AbCdEf-123456 {run}") == f"{MASK} {run}"
    encoded = base64.b64encode(b"tok9-AbCdEf-123456" * 60_000).decode()
    assert mask(f"({encoded})") == f"({MASK})"


def test_capitals_that_become_two_characters_shift_nothing() -> None:
    register("tok9-AbCdEf-123456")
    assert mask("İİİ TOK9-abcdef-123456 İ") == f"İİİ {MASK} İ"


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.text(max_size=8), after=st.text(max_size=8), form=st.sampled_from(sorted(FORMS)), times=st.integers(1, 3)
)
def test_secrets_are_found_beside_any_text(before: str, after: str, form: str, times: int) -> None:
    register(KEY)
    shown = FORMS[form](KEY)
    clean = mask(f"{before} {shown} " * times + after)
    assert clean.count(MASK) >= times
    assert shown.lower() not in clean.lower()
    assert clean.endswith(f" {after}")


def test_text_without_a_secret_is_the_very_same_object() -> None:
    text = "nothing to see, " * 100
    assert mask(text) is text, "where nothing is registered"
    register(KEY)
    assert mask(text) is text


def test_short_secrets_are_redacted_but_never_masked_within_conversations() -> None:
    register("hunter2")
    assert redact("it is hunter2") == f"it is {MASK}"
    assert mask("it is hunter2") == "it is hunter2"
    register("abc")
    assert redact("abc") == "abc"


@settings(suppress_health_check=list(HealthCheck))
@given(before=st.integers(0, 700), limit=st.integers(0, 400), form=st.sampled_from(sorted(FORMS)))
def test_an_excerpt_never_shows_a_part_of_a_key(before: int, limit: int, form: str) -> None:
    register("QWERTZUIOPASDFGHJK-12345")
    shown = FORMS[form]("QWERTZUIOPASDFGHJK-12345")
    clean = excerpt("." * before + shown + "." * 20_000, limit)
    assert len(clean) <= limit + 1
    assert not set(clean) - set(".…" + MASK + "Basic '\"")


def test_a_window_full_of_keys_does_not_end_in_half_a_one() -> None:
    key = "Zebra" * 60
    register(key)
    for shift in range(0, 300, 7):
        assert "ebra" not in excerpt("." * shift + key * 100, 400)


@pytest.mark.parametrize("limit", [120, 4_000])
def test_an_excerpt_begins_with_the_text_however_long_a_key_is(limit: int) -> None:
    register("k" * 2_500)
    assert excerpt("E" * 40_000, limit) == "E" * limit + "…"
    assert "k" not in excerpt("E" * (limit - 100) + "k" * 2_500, limit)


@pytest.mark.parametrize("length", range(440, 520, 3))
def test_a_servers_error_is_redacted_before_it_is_cut(length: int) -> None:
    key = "plainlookingkey0123456789abcdefgh"
    register(key)
    for body in ("x" * length + " " + key, json.dumps({"error": {"message": "x" * length + " " + key, "code": 7}})):
        assert key[:5] not in error_text(body.encode())


def test_the_text_of_any_error_of_ours_holds_no_secret() -> None:
    register(KEY)
    error = RolloutError(f"unexpected KeyError: {KEY} at https://me:pw@host/")
    assert KEY not in str(error)
    assert "me:" not in str(error)


def test_log_lines_and_tracebacks_hold_no_secret() -> None:
    register(KEY)
    try:
        raise ValueError(KEY)
    except ValueError as error:
        record = logging.LogRecord("x", 30, "f", 1, "failed: %s", (KEY,), (ValueError, error, error.__traceback__))
    secrets.RedactingFilter().filter(record)
    assert KEY not in logging.Formatter().format(record)


def test_of_a_header_the_credential_by_itself_is_a_secret_too() -> None:
    register("Bearer tokentoken-0123456789")
    assert mask("you sent tokentoken-0123456789") == f"you sent {MASK}"
    register("Basic " + base64.b64encode(b"someone:correct-horse-battery").decode())
    assert mask("the password is correct-horse-battery") == f"the password is {MASK}"


def server(**keys: object) -> McpServer:
    return McpServer.model_validate({"command": "x", **keys})


def endpoint(headers: dict[str, str]) -> McpServer:
    return McpServer.model_validate({"url": "http://h/mcp", "headers": headers})


def test_values_of_a_servers_environment_and_headers_are_secrets() -> None:
    remember_secrets(server(env={"GITHUB": "tok_0123456789ab", "DB": "postgres://joe:pa55word-long@db.example/x"}))
    remember_secrets(
        McpServer.model_validate({"url": "http://h/mcp", "headers": {"X-Any": "Bearer abcdef-0123456789"}})
    )
    assert mask("tok_0123456789ab pa55word-long abcdef-0123456789") == f"{MASK} {MASK} {MASK}"


def test_what_is_evidently_no_secret_stays_readable() -> None:
    harmless = {
        "FILES": "/data/project-2024/files", "MEMORY": "{workdir}/memory1.json", "ZONE": "America/New_York",
        "API": "https://api2.example.org/v1", "MODE": "production mode",
    }  # fmt: skip
    remember_secrets(server(env=harmless))
    remember_secrets(
        McpServer.model_validate({"url": "http://h/mcp", "headers": {"Accept": "application/vnd.v3+json"}})
    )
    for value in (*harmless.values(), "application/vnd.v3+json"):
        assert mask(f"see {value}") == f"see {value}"
    remember_secrets(server(env={"DB_PASSWORD": "correct horse battery"}))
    assert mask("correct horse battery") == MASK, "unless its name says what it is"


def test_the_fixed_part_of_a_value_with_a_placeholder_is_a_secret() -> None:
    remember_secrets(server(env={"TOKEN": "prefix-0123456789-{seed}"}))
    assert mask("prefix-0123456789-17") == f"{MASK}17"


def test_keys_and_headers_of_a_model_are_secrets() -> None:
    remember_secrets(
        ModelEntry.model_validate({"api_key": "0123456789-entry", "headers": {"X-Team": "team-0123456789"}})
    )
    OpenAIModel(
        "m", pool=HttpPool(), api_base="http://joe:login-0123456789@h/v1", api_model="m", api_key="key-given-0123"
    )
    said = mask("0123456789-entry team-0123456789 login-0123456789 key-given-0123")
    assert said == " ".join([MASK] * 4)


def test_keys_of_the_environment_that_litellm_would_use_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    from rollout.models.litellm import LiteLLMModel

    monkeypatch.setenv("ANTHROPIC_API_KEY", "anthropic-0123456789")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-0123456789")
    LiteLLMModel("anthropic/claude")
    assert mask("anthropic-0123456789 aws-secret-0123456789") == f"{MASK} {MASK}"
