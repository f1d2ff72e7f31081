"""Blobs of a run: what the machine's death leaves of them, and blobs that are given to another run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from rollout.core.messages import Image
from rollout.store.blobs import copy_blob, copy_image
from rollout.store.journal import open_journal

RECEIVED, OWN = Path("received"), Path("own")


@pytest.fixture(autouse=True)
def _received() -> None:
    (RECEIVED / "blobs").mkdir(parents=True)
    for name in ("0123.png", "0123.json"):
        (RECEIVED / "blobs" / name).write_bytes(b"content")


def copied() -> list[str]:
    copy_image(RECEIVED, OWN, "0123.png")
    copy_blob(RECEIVED, OWN, "0123")
    return sorted(path.name for path in OWN.glob("blobs/*"))


def test_images_and_large_texts_are_given_to_another_run() -> None:
    assert copied() == ["0123.json", "0123.png"]
    assert (OWN / "blobs" / "0123.png").read_bytes() == b"content"


def test_files_that_a_run_only_links_to_are_not_given_away() -> None:
    for path in RECEIVED.glob("blobs/*"):
        path.unlink()
        path.symlink_to(Path("secret").resolve())
    Path("secret").write_text("a key of the person who received the run")
    assert copied() == []


def test_a_linked_folder_of_blobs_is_not_followed() -> None:
    (RECEIVED / "blobs").rename("elsewhere")
    (RECEIVED / "blobs").symlink_to(Path("elsewhere").resolve())
    assert copied() == []


async def test_a_blob_that_the_machines_death_has_cut_short_is_written_again() -> None:
    journal = open_journal(OWN)
    image = Image("image/png", b"an image")
    name = journal.keep_blob(b"a prompt")
    journal.keep_image(image)
    for path in OWN.glob("blobs/*"):
        os.truncate(path, 0)
    journal.keep_image(image)
    assert journal.keep_blob(b"a prompt") == name
    assert {path.read_bytes() for path in OWN.glob("blobs/*")} == {b"a prompt", b"an image"}
    await journal.close()


@pytest.mark.parametrize(("sync", "is_synced"), [("full", True), ("normal", False)])
async def test_blobs_are_on_the_disk_before_the_commit_that_names_them(
    sync: Literal["full", "normal"], is_synced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(OWN, sync=sync)
    synced: set[int] = set()
    fsync = os.fsync

    def watched(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        fsync(file)

    monkeypatch.setattr(os, "fsync", watched)
    journal.keep_image(Image("image/png", b"an image"))
    journal.keep_blob(b"a prompt")
    for path in (OWN / "blobs", *OWN.glob("blobs/*")):
        assert (path.stat().st_ino in synced) == is_synced
    await journal.close()
