"""Bytes of unknown origin are read, or refused with a reason: no other error, no hang, no flood of memory."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torture.counts import record_short
from torture.readers import limited_memory, targets
from torture.target import tried

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
def test_anything_is_read_or_refused(name: str, tmp_path: Path) -> None:
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


def test_the_counts_are_kept() -> None:
    record_short("fuzz", {"targets": len(TARGETS), "inputs": EXAMPLES * len(TARGETS)})


def test_a_bomb_does_not_take_the_memory(tmp_path: Path) -> None:
    """Gzips of 10 MB of one line, of empty lines and of empty cells; each is refused, or read in little memory."""
    chance = random.Random(0)
    for unit in (b"a" * 1000, b"\n" * 1000, bytes(chance.randbytes(3)) + b"\t" * 997):
        bomb = gzip.compress(unit * 10_000, compresslevel=1)
        with limited_memory(200):
            tried(TARGETS["csv.gz"], bomb, tmp_path)


FINDINGS: list[tuple[str, bytes]] = []
"""What fuzzing found, by target: each was once another end than reading or refusing."""


@pytest.mark.parametrize(("name", "data"), FINDINGS)
def test_what_fuzzing_found(name: str, data: bytes, tmp_path: Path) -> None:
    tried(TARGETS[name], data, tmp_path)
