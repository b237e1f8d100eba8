"""Devices, precision and threads, on a machine with or without a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from conjoin.errors import UsageError
from conjoin.runtime.device import (
    SMALL_STEP,
    choose_device,
    describe,
    held_bytes,
    matmul_precision,
    peak_bytes,
    reset_peak,
    seconds_of,
    synchronize,
    threads_for,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("wanted", [None, "auto"])
def test_automatic_device_choice_states_its_reason(wanted: str | None) -> None:
    chosen = choose_device(wanted)
    assert chosen.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert "found" in chosen.reason


def test_requested_device_is_used() -> None:
    assert choose_device("cpu") == (CPU, "asked for")


@pytest.mark.parametrize("wanted", ["cdua", "cpu:x", "", "cuda:99"])
def test_unusable_device_is_refused_with_advice(wanted: str) -> None:
    with pytest.raises(UsageError, match="device '"):
        choose_device(wanted)


def test_precision_is_restored_also_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with matmul_precision("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
        with matmul_precision("fp32"):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"

    def fail() -> None:
        with matmul_precision("tf32"):
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert torch.get_float32_matmul_precision() == before


def test_small_steps_use_one_thread_and_restore_the_count() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(SMALL_STEP - 1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with threads_for(SMALL_STEP):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_description_states_device_and_memory() -> None:
    synchronize(CPU)
    assert 10 << 20 < peak_bytes(CPU) < 1 << 40
    told = describe(CPU)
    assert told["device"] == "cpu"
    assert told["torch"] == torch.__version__
    assert {"device", "name", "threads", "torch", "python", "commit"} <= set(told)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system sets no peak back")
def test_peak_memory_can_be_reset() -> None:
    large = torch.ones(64 << 20)
    before = peak_bytes(CPU)
    del large
    reset_peak(CPU)
    assert peak_bytes(CPU) < before - (64 << 20)
    held = torch.ones(128 << 20)
    assert peak_bytes(CPU) >= held.numel() * held.element_size()


def test_pages_of_a_mapped_file_are_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conjoin.runtime.device.CODE", 0)
    np.zeros(8 << 20, dtype=np.int64).tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", dtype=np.int64, mode="r")
    before = held_bytes(CPU)
    assert mapped.sum() == 0
    assert held_bytes(CPU) - before < 32 << 20, "64 MiB were read, which the system can give up"
    own = np.ones(8 << 20, dtype=np.int64)
    assert held_bytes(CPU) - before > own.nbytes // 2


def test_timing_starts_after_a_warm_up() -> None:
    calls: list[int] = []
    assert seconds_of(lambda: calls.append(1), CPU, times=3, warm=2) >= 0
    assert len(calls) == 5
