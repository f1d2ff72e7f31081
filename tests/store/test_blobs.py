"""Blobs of a run that are given to another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout.store.blobs import copy_blob, copy_image

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
