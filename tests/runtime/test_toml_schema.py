"""TOML files: limits of size, nesting and chains, and what is merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from conjoin.errors import UsageError
from conjoin.runtime import file_limits
from conjoin.runtime.toml_schema import read_toml


def chain(folder: Path, length: int) -> Path:
    """`length` files, each extending the next; the values of the first win."""
    for number in range(length):
        above = f'extends = "{number + 1}.toml"\n' if number + 1 < length else ""
        (folder / f"{number}.toml").write_text(f"{above}key{number} = {number}\nshared = {number}\n")
    return folder / "0.toml"


DEEP = {
    "arrays": "x = " + "[" * 2000 + "]" * 2000,
    "open arrays": "x = " + "[" * 100_000,
    "inline tables": "x = " + "{a = " * 2000 + "1" + "}" * 2000,
    "dotted key": ".".join("a" * 100_000) + " = 1",
    "dotted key with blanks": " . ".join("a" * 50_000) + " = 1",
    "quoted key": ".".join(['"a"'] * 50_000) + " = 1",
    "escaped key": ".".join(['"\\""'] * 40_000) + " = 1",
    "table": "[" + ".".join("a" * 100_000) + "]",
    "dotted key in a table": "x = {" + ".".join("a" * 100_000) + " = 1}",
    "tables": "\n".join(f"[{'.'.join('a' * depth)}]" for depth in range(1, 100)),
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_nesting_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(DEEP[kind])
    with pytest.raises(UsageError, match=r"a\.toml.*\b64\b"):
        read_toml(tmp_path / "a.toml")


def test_nesting_within_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f"x = {'[' * 63}{']' * 63}\n{'.'.join('b' * 63)} = 'a.b.c. d'\n")
    assert set(read_toml(tmp_path / "a.toml")) == {"x", "b"}


def test_long_chains_are_refused_and_short_ones_read(tmp_path: Path) -> None:
    found = read_toml(chain(tmp_path, file_limits.EXTENDS))
    assert found["shared"] == 0
    assert len(found) == file_limits.EXTENDS + 1
    for length in (file_limits.EXTENDS + 1, 1500):
        with pytest.raises(UsageError, match=r"0\.toml.*\b31\b"):
            read_toml(chain(tmp_path, length))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_circular_extends_is_refused(length: int, tmp_path: Path) -> None:
    chain(tmp_path, length)
    (tmp_path / f"{length - 1}.toml").write_text('extends = "0.toml"\n')
    with pytest.raises(UsageError, match=r"0\.toml.*0\.toml"):
        read_toml(tmp_path / "0.toml")
    (tmp_path / "0.toml").unlink()
    (tmp_path / "0.toml").symlink_to(tmp_path / "0.toml")
    with pytest.raises(UsageError, match=r"0\.toml"):
        read_toml(tmp_path / "0.toml")


def test_files_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("#" * file_limits.TOML)
    assert read_toml(tmp_path / "a.toml") == {}
    (tmp_path / "a.toml").write_text("#" * (file_limits.TOML + 1))
    with pytest.raises(UsageError, match=r"a\.toml.* 262,144 bytes"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("base", ["nowhere.toml", "a\\u0000b", "", ".", "/proc/self/mem", "/dev/zero", "x" * 5000])
def test_a_base_that_cannot_be_read_is_refused(base: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f'extends = "{base}"\n')
    with pytest.raises(UsageError):
        read_toml(tmp_path / "a.toml")


def test_every_kind_of_line_end_is_read(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "a.toml").write_bytes(end.join(["a = 1", "[b]", "c = 2", ""]).encode())
        assert read_toml(tmp_path / "a.toml") == {"a": 1, "b": {"c": 2}}
