"""`.pt` files: what torch loads, and what we read back, of any trajectories."""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.trajectories.pt import PtFile, read_pt
from tests.trajectories.lines import texts, values

# What torch's reader of plain values knows (its module `_weights_only_unpickler`), of what makes plain values.
KNOWN = {
    "PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
    "BINUNICODE", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT",
}  # fmt: skip
trajectories = st.lists(st.lists(st.dictionaries(texts, values | st.floats(allow_nan=False), max_size=4), max_size=3))


def write(path: Path, found: list[Any], metadata: dict[str, Any] | None = None) -> Path:
    file = PtFile(path, metadata or {})
    for trajectory in found:
        file.write(trajectory)
    file.close()
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pt")


@given(trajectories)
def test_what_was_written_is_read_back_one_by_one(folder: Path, found: list[Any]) -> None:
    assert list(read_pt(write(folder / "any.pt", found))) == found


@given(trajectories)
def test_only_instructions_for_plain_values_are_written(folder: Path, found: list[Any]) -> None:
    with zipfile.ZipFile(write(folder / "plain.pt", found, {"iteration": 3})) as archive:
        written = archive.read("archive/data.pkl")
    assert {opcode.name for opcode, _, _ in pickletools.genops(written)} <= KNOWN
    assert pickle.loads(written) == {"trajectories": found, "metadata": {"iteration": 3}}


@settings(max_examples=25, deadline=None)
@given(trajectories)
def test_torch_loads_it_without_running_code(folder: Path, found: list[Any]) -> None:
    torch = pytest.importorskip("torch")
    path = write(folder / "torch.pt", found, {"split": "train"})
    expected = {"trajectories": found, "metadata": {"split": "train"}}
    assert torch.load(path, weights_only=True) == expected
    torch.save(expected, path)
    assert list(read_pt(path)) == found


def test_a_large_file_is_read_a_trajectory_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path / "large.pt", [[{"text": str(number) * 1000, "shared": [number]}] for number in range(3000)])
    for number, trajectory in enumerate(read_pt(path)):
        if number == 2:
            assert trajectory == [{"text": "2" * 1000, "shared": [2]}]
            break


def test_the_same_trajectories_make_the_same_bytes(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, [[{"a": 1}]], {"b": 2}).read_bytes() for name in ("x", "y"))
    assert one == other


class Evil:
    def __reduce__(self) -> Any:
        return print, ("this must not run",)


def test_a_file_that_names_code_is_refused_and_runs_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "theirs.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("theirs/data.pkl", pickle.dumps({"trajectories": [[Evil()]]}, 2))
    with pytest.raises(ConfigError, match=r"theirs\.pt.*print"):
        list(read_pt(path))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"not a zip archive", pickle.dumps([1])])
def test_what_is_no_such_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.pt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.pt"):
        list(read_pt(path))
    with pytest.raises(ConfigError, match="missing"):
        list(read_pt(tmp_path / "missing"))
    archive = io.BytesIO()
    zipfile.ZipFile(archive, "w").close()
    path.write_bytes(archive.getvalue())
    with pytest.raises(ConfigError, match=r"broken\.pt"):
        list(read_pt(path))
