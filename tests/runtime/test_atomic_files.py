"""Files are the old ones or the new ones, and a changed byte is noticed."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.errors import RunError, UsageError
from conjoin.runtime.atomic_files import (
    check_target,
    making,
    open_regular,
    parse_json,
    proper,
    read_json,
    read_limited,
    read_sealed,
    replacing,
    replacing_all,
    sha256_of,
    write_json,
    write_sealed,
)

VALUE = {"mrr": 0.4932, "tiny": 1e-05, "name": "Zürich ★", "files": {"a": None, "b": [1, True]}, "epochs": 20}
KEYS = st.text(max_size=8).filter(lambda key: key != "sha256")
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
OBJECTS = st.dictionaries(KEYS, st.none() | st.booleans() | NUMBERS | st.text(max_size=8), max_size=6)


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as aside:
        aside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_error_keeps_the_old_file_and_leaves_no_temporary_files(tmp_path: Path) -> None:
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


def test_values_without_json_form_are_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"mrr": float("nan")})
    assert not list(tmp_path.iterdir())


def test_invalid_json_raises_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere\.json.*No such file"):
        read_json(tmp_path / "nowhere.json")
    for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(RunError, match=r"a\.json"):
            read_json(tmp_path / "a.json")


@given(OBJECTS)
def test_sealed_objects_round_trip(tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("sealed") / "a.json"
    write_sealed(path, value)
    assert read_sealed(path) == value


def test_every_flipped_bit_of_a_sealed_object_is_detected_or_harmless(tmp_path: Path) -> None:
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


def test_every_truncation_of_a_sealed_object_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_sealed(path, VALUE)
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"\.json"):
            read_sealed(path)


@pytest.mark.parametrize("content", [[], {}, {"mrr": 1.0}, {"sha256": "0" * 64}])
def test_unsealed_objects_are_refused(tmp_path: Path, content: object) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"\.json"):
        read_sealed(path)


def test_empty_new_folders_are_removed_after_an_error(tmp_path: Path) -> None:
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


def test_pipes_devices_sockets_and_folders_are_refused(tmp_path: Path) -> None:
    """A pipe would be waited for, a device read until the memory is full."""
    pipe, endless, listening = tmp_path / "pipe", tmp_path / "endless", tmp_path / "socket"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(listening))
    for path in (pipe, endless, listening, tmp_path):
        for read in (read_json, read_sealed):
            with pytest.raises(RunError, match=re.escape(str(path))):
                read(path)
        for refuse in (sha256_of, proper, open_regular):
            with pytest.raises(OSError) as refused:  # noqa: PT011
                refuse(path)
            assert refused.value.errno in (errno.EINVAL, errno.EISDIR)


def test_links_to_regular_files_are_followed(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", VALUE)
    (tmp_path / "link.json").symlink_to(tmp_path / "a.json")
    assert read_json(tmp_path / "link.json") == VALUE


def test_pipe_in_place_of_a_file_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a path and its opening another process may put a pipe there."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("conjoin.runtime.atomic_files.proper", lambda path: path.stat())
    with pytest.raises(OSError, match="named pipe"):
        open_regular(tmp_path / "pipe")


def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    """As root, a file renamed to /dev/null would take its place."""
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with replacing(tmp_path / "pipe") as aside:
            aside.write_text("new")

    with pytest.raises(OSError, match="regular file"):
        write()
    with pytest.raises(UsageError, match="pipe"):
        check_target(tmp_path / "pipe")
    check_target(tmp_path / "new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_files_above_the_limit_are_refused_for_any_claimed_size(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    assert read_limited(path, 10) == b"x" * 10
    with pytest.raises(OSError) as refused:  # noqa: PT011
        read_limited(path, 9)
    assert refused.value.errno == errno.EFBIG
    status = Path("/proc/self/status")
    assert not status.stat().st_size, "the system claims that the file is empty"
    with pytest.raises(OSError) as refused:  # noqa: PT011
        read_limited(status, 9)
    assert refused.value.errno == errno.EFBIG


@pytest.mark.parametrize("content", [b"[" * 65 + b"]" * 65, b'{"a":' * 65 + b"0" + b"}" * 65])
def test_json_that_is_nested_too_deep_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(RunError, match=r"\b64\b"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b"[" * 64 + b"]" * 64)
    read_json(tmp_path / "a.json")


def test_json_of_too_many_values_is_refused() -> None:
    """Two bytes of a file can take sixty of memory."""
    assert parse_json(b"[" + b"0," * 1000 + b"0]") == [0] * 1001
    with pytest.raises(ValueError, match="4,000,000"):
        parse_json(b"[" + b"[]," * 4_000_000 + b"[]]")


def written(paths: list[Path], text: str) -> None:
    with replacing_all(paths) as asides:
        for aside in asides:
            aside.write_text(text, encoding="utf-8")


def test_grouped_files_are_all_new_on_success(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    written([tmp_path / "a", tmp_path / "b"], "new")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "new", "b": "new"}


@pytest.mark.parametrize("failing", ["replace", "fsync", "link"])
def test_grouped_files_are_all_old_after_an_error(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last call of each kind fails: the second rename, the sync of the folder; without links there are copies."""
    (tmp_path / "b").write_text("old")
    calls, last = iter(range(9)), {"replace": 1, "fsync": 2, "link": 0}[failing]
    real = getattr(os, failing)

    def fail(*words: object) -> object:
        if next(calls) == last:
            raise OSError(errno.EIO, "Input/output error")
        return real(*words)

    monkeypatch.setattr(os, failing, fail)
    if failing == "link":
        written([tmp_path / "a", tmp_path / "b"], "new")
        return
    with pytest.raises(OSError, match="Input/output error"):
        written([tmp_path / "a", tmp_path / "b"], "new")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"b": "old"}
