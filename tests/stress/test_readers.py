"""Bytes of unknown origin are read, or refused with a reason: no other error, no hang, no flood of memory."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stress.counts import record_short
from tests.stress.forged import ODD
from tests.stress.readers import limited_memory, targets
from tests.stress.target import tried

pytestmark = pytest.mark.slow

TARGETS = targets()
EXAMPLES = 25


@st.composite
def mutated(draw: st.DrawFn, examples: tuple[bytes, ...]) -> bytes:
    """A good example with parts cut out, doubled, replaced or strewn with noise."""
    data = bytearray(draw(st.sampled_from(examples)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 8))
        data[place : place + length] = draw(
            st.binary(max_size=8)
            | st.sampled_from([b"\0", b"\n", b'"', b"9" * 30, b"-1", b"[[", b"\xff\xff\xff\xff", b""])
        )
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_fuzzed_input_is_read_or_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(st.one_of(st.binary(max_size=200), mutated(target.examples), mutated(target.examples)))
    def holds(data: bytes) -> None:
        tried(target, data, tmp_path)

    holds()
    for example in target.examples:
        tried(target, example, tmp_path)


def test_fuzz_counts_are_recorded() -> None:
    record_short("fuzz", {"targets": len(TARGETS), "inputs": EXAMPLES * len(TARGETS)})


@pytest.mark.slow
def test_decompression_bomb_stays_within_memory(tmp_path: Path) -> None:
    """Gzips of 10 MB of one line, of empty lines and of empty cells; each is refused, or read in little memory."""
    chance = random.Random(0)
    for unit in (b"a" * 1000, b"\n" * 1000, bytes(chance.randbytes(3)) + b"\t" * 997):
        bomb = gzip.compress(unit * 10_000, compresslevel=1)
        with limited_memory(200):
            tried(TARGETS["csv.gz"], bomb, tmp_path)


def _swap(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def changed(example: bytes) -> bytes:
        assert old in example
        return example.replace(old, new, 1)

    return changed


def _at_the_end(tail: bytes) -> Callable[[bytes], bytes]:
    return lambda example: example[: -len(tail)] + tail


def _with_flag(bit: int) -> Callable[[bytes], bytes]:
    """A bit of the flags in the directory at the end of a zip."""

    def changed(example: bytes) -> bytes:
        flipped = bytearray(example)
        flipped[example.rindex(b"PK\x01\x02") + 8] |= 1 << bit
        return bytes(flipped)

    return changed


FINDINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("ingested entity_names.npy, sealed", _swap(b"'fortran", b"('fortran")),  # tokenize.TokenError of NumPy
    ("ingested entity_names.npy, sealed", _swap(b"e1", b"\xff\xff")),  # a name that is not UTF-8
    ("ingested entity_starts.npy, sealed", _swap(b"<i8", b"<f8")),
    ("ingested entity_starts.npy, sealed", _at_the_end(bytes(8))),  # starts that fall: names add up to n times the text
    ("ingested train.npy, sealed", _at_the_end(b"\xff" * 8)),  # ids that nothing has
    ("ingested train.npy, sealed", lambda _: b"PK\x05\x06" + bytes(18)),  # np.load takes it for an archive
    ("ingested relations.parquet, sealed", lambda _: TARGETS["parquet"].examples[0]),  # a table without names
    (
        "stored triples.parquet, sealed",
        lambda example: example.replace(b"relation", b"\xff" * 8),
    ),
    ("study files", _swap(b"seeds = 2", b"seeds = " + b"2" * 98)),  # OverflowError; with fewer digits all memory
    ("study files", _swap(b"seeds = 2", b"seeds = 2000000000")),
    ("zip", _swap(b"\x3b\x00\x00\x00\x31", b"\x3b\x00\x00\x00\x32")),  # a member before the start of the file: OSError
    ("zip", lambda example: example[::-1].replace(b"own/train.txt"[::-1], b"\0wn/train.txt"[::-1], 1)[::-1]),  # no name
    ("shards: folders", lambda _: b"1x"),  # int("1x")
    ("maps", _with_flag(0)),  # RuntimeError: encrypted
    ("maps", _with_flag(5)),  # NotImplementedError
]
"""What fuzzing found, as a change of a good example: each was once another end than reading or refusing."""
ALTERED = ("run.json", "result.json", "calibration.json", "checkpoint", "shards: index.json", "study: patterns.json")
"""Objects of which a value of another kind, or none, was once another end than reading or refusing."""


@pytest.mark.parametrize(("name", "change"), FINDINGS)
def test_inputs_that_fuzzing_found_are_read_or_refused(
    name: str, change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    tried(TARGETS[name], change(TARGETS[name].examples[0]), tmp_path)


@pytest.mark.parametrize("name", ALTERED)
def test_values_of_other_types_are_read_or_refused(name: str, tmp_path: Path) -> None:
    for place in range(40):
        for choice in (0, 5 + place % 5, 16, len(ODD)):
            tried(TARGETS[f"{name}, altered"], bytes([place, 0, choice]), tmp_path)
