"""Numbers as reports print them."""

from __future__ import annotations

import pytest

from conjoin.report.formatting import bare, format_count, mean_sd, seconds, signed, size, span
from conjoin.report.stats import Interval, Moments


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.04123, "0.0412"),
        (0.030046, "0.0300"),
        (0.9994, "0.999"),
        (0.9996, "1.00"),
        (1.849, "1.85"),
        (13.24, "13.2"),
        (99.96, "100"),
        (346.4, "346"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


def test_means_with_deviations() -> None:
    assert mean_sd("mrr", Moments(0.36649, 4.4e-4, 3)) == "0.366 ± 4e-4"
    assert mean_sd("mrr", Moments(0.3666, None, 1)) == "0.367"
    assert mean_sd("seconds", Moments(13.24, 0.61, 3)) == "13.2 ± 0.6"
    assert mean_sd("seconds", Moments(346.0, 12.0, 3)) == "346 ± 12"
    assert mean_sd("hits1", None) == "-"


def test_counts_and_sizes() -> None:
    assert format_count(Moments(16_437_000, 0.0, 3)) == "16,437,000"
    assert format_count(Moments(120, 10, 3)) == "120 ± 10"
    assert format_count(None) == "-"
    assert size(Moments(7_584_000, 0.0, 3)) == "7.58 MB"
    assert size(Moments(1.5e9, 2e8, 3)) == "1.50 ± 0.20 GB"
    assert size(Moments(400, None, 1)) == "400 B"


def test_differences() -> None:
    assert signed(0.00121) == "+0.0012"
    assert signed(-0.013) == "−0.0130"
    assert signed(-0.00001) == "0.0000"
    assert signed(None) == "-"
    assert bare(0.003) == ".003"
    assert bare(0.0031, decimals=4) == ".0031"
    assert span(Interval(-0.001, 0.002)) == "[−0.0010, +0.0020]"
