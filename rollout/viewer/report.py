"""A report: the page with the data of some trajectories in one HTML file, for sending to others.

The file needs no server and no network. The page's script and style are in it, allowed by their hashes alone; the data
is a block of JSON, `{run, trajectories, images}`, which the page finds by the id `rollout-data`. Images are data URLs
by their names. Nothing that a model wrote is ever part of the markup.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.store.blobs import find_image
from rollout.viewer.answers.pages import TrajectoryPage
from rollout.viewer.answers.rows import Key
from rollout.viewer.answers.runs import RunRow
from rollout.viewer.encoding import encode_redacted
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.trajectory_page import make_page, read_trajectory
from rollout.viewer.server import PAGE

DATA = "rollout-data"
MOST = 1_000
"""The most trajectories in a report. A browser has to hold all of them."""
_SCRIPT = re.compile(r"<script\b([^>]*)\bsrc=[\"']?\.?/?([^\"'\s>]+)[\"']?([^>]*)>\s*</script>", re.IGNORECASE)
_STYLE = re.compile(r"<link\b[^>]*\bhref=[\"']?\.?/?([^\"'\s>]+\.css)[\"']?[^>]*>", re.IGNORECASE)
_LINK = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_META_POLICY = re.compile(r"<meta\b[^>]*content-security-policy[^>]*>", re.IGNORECASE)


class ReportData(msgspec.Struct, frozen=True):
    """The data in a report."""

    run: RunRow
    trajectories: tuple[TrajectoryPage, ...]
    images: dict[str, str]
    """Data URLs, by the names of the images."""


def make_report(run: OpenRun, keys: Sequence[Key], page: Path = PAGE) -> bytes:
    """The report of some trajectories of a run. Raises ConfigError if the page is not built or there are too many."""
    if not keys:
        raise ConfigError("a report needs at least one trajectory")
    if len(keys) > MOST:
        raise ConfigError(
            f"a report of {len(keys):,} trajectories is more than a browser holds; choose at most {MOST:,}"
        )
    pages = tuple(make_page(run, read_trajectory(run, key.dataset, key.id)) for key in keys)
    names = dict.fromkeys(name for shown in pages for name in _image_names(shown))
    data = ReportData(run.row(), pages, dict(_read_images(run, names)))
    return assemble(page, encode_redacted(data))


def assemble(page: Path, data: bytes) -> bytes:
    """The page's files and the data as one file."""
    try:
        markup = (page / "index.html").read_text()
        scripts = [(found[1] + found[3], (page / found[2]).read_text()) for found in _SCRIPT.finditer(markup)]
        styles = [(page / found[1]).read_text() for found in _STYLE.finditer(markup)]
    except OSError as error:
        raise ConfigError(
            f"{page}: the page is not built, so there is nothing to put the data into: {error}"
        ) from error
    markup = _META_POLICY.sub("", _LINK.sub("", _SCRIPT.sub("", markup)))
    # Escape whatever would end the element or begin a comment. In a JSON string the escapes mean the same.
    bodies = [re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE) for _, text in scripts]
    hashes = " ".join(map(_hash, bodies))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src {' '.join(map(_hash, styles))}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    head += "".join(f"<style>{style}</style>" for style in styles)
    shown = data.decode().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    foot = f'<script type="application/json" id="{DATA}">{shown}</script>'
    for (attributes, _), body in zip(scripts, bodies, strict=True):
        kind = ' type="module"' if "module" in attributes else ""
        foot += f"<script{kind}>{body}</script>"
    return _insert(_insert(markup, "<head>", head, is_behind=True), "</body>", foot, is_behind=False).encode()


def _insert(markup: str, tag: str, text: str, *, is_behind: bool) -> str:
    """Insert a text behind or in front of a tag, or at the end if there is no such tag."""
    place = markup.lower().find(tag)
    if place < 0:
        return text + markup if is_behind else markup + text
    place += len(tag) if is_behind else 0
    return markup[:place] + text + markup[place:]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _image_names(shown: TrajectoryPage) -> Iterator[str]:
    for message in shown.messages:
        yield from message.images
        for call in message.calls:
            yield from call.images


def _read_images(run: OpenRun, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        for folder in (run.path, run.people_path):
            if (path := find_image(folder, name)) is not None:
                kind = name.rpartition(".")[2]
                yield name, f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
                break
