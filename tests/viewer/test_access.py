"""Nobody is answered without the token, under a foreign name, or from a foreign page; and no path leads out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rollout.viewer.access import CSP
from rollout.viewer.routes.blobs import SANDBOX
from tests.viewer.conftest import TOKEN
from tests.viewer.writing import WrittenRun, answer

Client = Callable[..., TestClient]
LOCAL = "http://127.0.0.1:7788"


@pytest.fixture(autouse=True)
def _run() -> None:
    WrittenRun().add("a", [answer("x")])
    blobs = Path("run/blobs")
    blobs.mkdir()
    (blobs / "0123abcd.png").write_bytes(b"\x89PNG")
    (blobs / "0123abcd.json").write_text('{"system": "hidden"}')
    (blobs / "linked.png").symlink_to(Path("secret.png").resolve())
    Path("secret.png").write_bytes(b"hidden words")


def bare(client: Client, **options: Any) -> TestClient:
    """Somebody without the token."""
    found = client(**options)
    del found.headers["authorization"]
    return found


@pytest.mark.parametrize("value", ["Bearer wrong", f"Basic {TOKEN}", "Bearer ", TOKEN, "Bearer täst".encode("latin-1")])
def test_a_wrong_token_is_refused(client: Client, value: str | bytes) -> None:
    answered = bare(client).get("/api/runs", headers={"authorization": value})
    assert answered.status_code == 401
    assert "token" in answered.json()["error"]


@pytest.mark.parametrize("path", ["/api/runs", "/api/me", "/api/nothing", "/api/openapi.json", "/api/events", "/api"])
def test_without_a_token_nothing_of_the_api_is_answered(client: Client, path: str) -> None:
    assert bare(client).get(path).status_code == 401


def test_the_printed_address_sets_a_cookie_and_loses_the_token(client: Client) -> None:
    person = bare(client)
    first = person.get(f"/?token={TOKEN}&x=1")
    assert first.status_code == 303
    assert first.headers["location"] == "./?x=1"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert person.get("/api/runs").status_code == 200


def test_the_cookie_is_no_token(client: Client) -> None:
    """A browser also sends it to servers of others, at other ports of the same host."""
    person = bare(client)
    value = person.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert TOKEN not in value
    assert bare(client).get("/api/runs", headers={"authorization": f"Bearer {value}"}).status_code == 401
    assert "set-cookie" not in bare(client).get(f"/?token={value}").headers


@pytest.mark.parametrize(
    "others",
    ['prefs={"theme":"dark"}; {}', "{}; a=b c; =; x", 'q="open; {}', "名=値; {}", "a[1]=2; {}", "{}; @=,;", "a; {};b;"],
)
def test_cookies_of_other_programs_do_not_matter(client: Client, others: str) -> None:
    person = bare(client)
    own = person.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    person.cookies.clear()
    headers = {"cookie": others.replace("{}", own).encode()}
    assert person.get("/api/runs", headers=headers).status_code == 200
    assert person.get("/api/runs", headers=[("cookie", "a=b"), ("cookie", own)]).status_code == 200


def test_a_prefix_without_its_last_slash_leads_to_the_page(client: Client) -> None:
    person = bare(client, prefix="/deep/er")
    first = person.get(f"/deep/er?token={TOKEN}")
    assert (first.status_code, first.headers["location"]) == (303, f"./er/?token={TOKEN}")
    second = person.get(f"/deep/er/?token={TOKEN}")
    assert (second.status_code, second.headers["location"]) == (303, "./")
    assert "Path=/deep/er;" in second.headers["set-cookie"]
    assert person.get("/deep/er").headers["location"] == "./er/"
    assert person.get("/deep/er/api/runs").status_code == 200


def test_an_odd_path_with_the_token_is_redirected_as_it_was_written(client: Client) -> None:
    answered = bare(client).get(f"/a%0d%0aX:%201?token={TOKEN}")
    assert answered.headers["location"] == "./a%0D%0AX%3A%201"


def test_a_wrong_token_in_the_address_sets_no_cookie(client: Client) -> None:
    answered = bare(client).get("/?token=wrong")
    assert "set-cookie" not in answered.headers
    assert answered.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7788", "", "[::2]"),
        *("[::1].evil", "[::1", "[::1]evil:80", "localhost:evil", "localhost:80:80"),
    ],
)
def test_a_foreign_host_is_refused(client: Client, host: str) -> None:
    assert client().get("/api/runs", headers={"host": host}).status_code == 403
    assert client().get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost", "[::1]:7788", "LOCALHOST:1"])
def test_loopback_is_known_under_each_of_its_names_and_at_any_port_of_a_tunnel(client: Client, host: str) -> None:
    assert client().get("/api/runs", headers={"host": host}).status_code == 200


def test_an_allowed_host_is_known(client: Client) -> None:
    person = client(hosts=["runs.example"])
    headers = {"host": "runs.example", "origin": "https://runs.example"}
    assert person.get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "file://127.0.0.1:7788", "null", "http://127.0.0.1:3000", "http://localhost:7788", "x"],
)
def test_a_foreign_origin_is_refused(client: Client, origin: str) -> None:
    assert client().get("/api/runs", headers={"origin": origin}).status_code == 403


def test_another_port_of_the_loopback_host_that_is_listened_at_is_a_foreign_origin(client: Client) -> None:
    person = client(hosts=["127.0.0.1", "localhost"])
    for origin in ("http://127.0.0.1:3000", "http://localhost:3000"):
        assert person.get("/api/runs", headers={"origin": origin}).status_code == 403


def test_the_own_origin_is_answered(client: Client) -> None:
    assert client().get("/api/runs", headers={"origin": LOCAL}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_page_asks_for_is_refused(client: Client, site: str) -> None:
    assert client().get("/api/runs", headers={"sec-fetch-site": site}).status_code == 403
    assert client().get("/", headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"x-rollout": "1", "content-type": "text/plain"}])
def test_writing_requests_need_their_headers(client: Client, headers: dict[str, str]) -> None:
    assert client().post("/api/runs/run/export", content="{}", headers=headers).status_code == 403


def test_every_answer_has_its_headers(client: Client) -> None:
    person, stranger = client(), bare(client)
    answers = [
        person.get("/"), person.get("/api/runs"), person.get("/api/nothing"), person.get("/nothing.js"),
        person.get("/api/runs/none"), stranger.get("/api/runs"), stranger.get(f"/?token={TOKEN}"),
        person.get("/api/runs", headers={"host": "evil.example"}), person.put("/api/runs"),
        person.get("/api/runs/run/trajectories?sort=no"),
    ]  # fmt: skip
    for each in answers:
        assert each.headers["content-security-policy"] == CSP
        assert each.headers["x-content-type-options"] == "nosniff"
        assert each.headers["referrer-policy"] == "no-referrer"
        if each.request.url.path.startswith("/api"):
            assert each.headers["cache-control"] == "no-store"
            assert each.headers["content-type"] == "application/json"
    assert [each.status_code for each in answers] == [200, 200, 404, 404, 404, 401, 303, 403, 403, 400]


def test_an_image_is_shown_in_a_sandbox(client: Client) -> None:
    shown = client().get("/api/runs/run/blobs/0123abcd.png")
    assert (shown.content, shown.headers["content-type"]) == (b"\x89PNG", "image/png")
    assert shown.headers["content-security-policy"] == SANDBOX


@pytest.mark.parametrize(
    "name",
    [
        "0123abcd.json", "linked.png", "..%2fjournal.db", "..%2f..%2fsecret.png", "%2e%2e%2f%2e%2e%2fsecret.png",
        "....png", "%00.png", "..%5csecret.png", "nothing.png", "journal.db", "%2fetc%2fpasswd", ".png",
    ],
)  # fmt: skip
def test_only_images_of_the_run_are_shown(client: Client, name: str) -> None:
    answered = client().get(f"/api/runs/run/blobs/{name}")
    assert answered.status_code == 404
    assert b"hidden" not in answered.content


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..", "%2fetc", "run%00", "run%2f..%2frun", "people", "."])
def test_runs_are_found_by_their_short_names_alone(client: Client, name: str) -> None:
    assert client().get(f"/api/runs/{name}/trajectories").status_code == 404


@pytest.mark.parametrize("path", ["/../secret.png", "/%2e%2e/secret.png", "/..%2fsecret.png", "/page/../server.py"])
def test_only_files_of_the_page_are_served(client: Client, path: str) -> None:
    page = Path("page")
    page.mkdir()
    (page / "index.html").write_text("<p>the page</p>")
    (page / "app.js").write_text("1")
    person = client(page=page)
    assert person.get("/").text == "<p>the page</p>"
    assert person.get("/app.js").headers["content-type"].startswith("text/javascript")
    assert b"hidden" not in person.get(path).content


def test_behind_a_prefix_everything_is_answered_with_and_without_it(client: Client) -> None:
    person = bare(client, prefix="/tools/view")
    first = person.get(f"/tools/view/?token={TOKEN}")
    assert "Path=/tools/view" in first.headers["set-cookie"]
    authorized = client(prefix="/tools/view")
    assert authorized.get("/tools/view/api/runs").status_code == 200
    assert authorized.get("/api/runs").status_code == 200
    assert bare(client, prefix="/tools/view").get("/tools/view/api/runs").status_code == 401


def test_a_folder_of_images_that_is_a_link_is_not_followed(client: Client) -> None:
    person = client()
    assert person.get("/api/runs/run/blobs/0123abcd.png").status_code == 200
    Path("run/blobs").rename("elsewhere")
    Path("run/blobs").symlink_to(Path("elsewhere").resolve())
    assert person.get("/api/runs/run/blobs/0123abcd.png").status_code == 404
