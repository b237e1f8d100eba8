"""Files are the old ones or the new ones, and a changed byte is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.errors import RunError
from conjoin.files import making, read_json, read_sealed, replacing, sha256_of, write_json, write_sealed

VALUE = {"mrr": 0.4932, "tiny": 1e-05, "name": "Zürich ★", "files": {"a": None, "b": [1, True]}, "epochs": 20}
KEYS = st.text(max_size=8).filter(lambda key: key != "sha256")
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
OBJECTS = st.dictionaries(KEYS, st.none() | st.booleans() | NUMBERS | st.text(max_size=8), max_size=6)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as aside:
        aside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail() -> None:
        with replacing(target) as aside:
            aside.write_text("half")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_json_that_has_no_spelling_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"mrr": float("nan")})
    assert not list(tmp_path.iterdir())


def test_reading_json_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere\.json cannot be read: No such file"):
        read_json(tmp_path / "nowhere.json")
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(RunError, match=r"a\.json is damaged .*run again"):
            read_json(tmp_path / "a.json")


@given(OBJECTS)
def test_sealed_objects_come_back(tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("sealed") / "a.json"
    write_sealed(path, value)
    assert read_sealed(path) == value


def test_every_flipped_bit_of_a_sealed_object_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_sealed(path, VALUE)
    whole = path.read_bytes()
    noticed = 0
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            try:
                assert read_sealed(path) == VALUE
            except RunError:
                noticed += 1
    assert noticed > 7 * len(whole)


def test_every_truncation_of_a_sealed_object_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_sealed(path, VALUE)
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match="damaged"):
            read_sealed(path)


@pytest.mark.parametrize("content", [[], {}, {"mrr": 1.0}, {"sha256": "0" * 64}])
def test_what_was_never_sealed_is_refused(tmp_path: Path, content: object) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="its own checksum"):
        read_sealed(path)


def test_folders_that_stay_empty_vanish_on_an_error(tmp_path: Path) -> None:
    def fail(folder: Path, *, wrote: bool) -> None:
        with making(folder):
            if wrote:
                (folder.parent / "file").touch()
            raise ValueError("stop")

    (tmp_path / "there").mkdir()
    for folder in ("there", "there/deep", "new/deep/er"):
        with pytest.raises(ValueError, match="stop"):
            fail(tmp_path / folder, wrote=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with pytest.raises(ValueError, match="stop"):
        fail(tmp_path / "new" / "deep" / "er", wrote=True)
    assert [path.name for path in (tmp_path / "new").rglob("*")] == ["deep", "file"]
    with pytest.raises(OSError, match="too long"):
        fail(tmp_path / "other" / "deep" / ("x" * 300), wrote=False)
    assert not (tmp_path / "other").exists()
    with making(tmp_path / "kept" / "deep"):
        pass
    assert (tmp_path / "kept" / "deep").is_dir()


def test_checksum_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert sha256_of(path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    """A pipe would be waited for, a device read until the memory is full."""
    pipe, endless = tmp_path / "pipe", tmp_path / "endless"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless, tmp_path):
        with pytest.raises(RunError, match="not an ordinary file"):
            read_json(path)
        with pytest.raises(OSError, match="not an ordinary file"):
            sha256_of(path)
