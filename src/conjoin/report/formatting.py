"""Formats the numbers of reports. Two models tie if their printed values are equal, so formatting affects verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from conjoin.report.stats import Interval, Moments, one_digit

NOTHING = "-"


def seconds(value: float) -> str:
    """Three significant digits or whole seconds: 0.0412, 1.85, 13.2, 346."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:#.3g}" if value < 0.9995 else f"{value:.{1 if value >= 9.995 else 2}f}"


def printed_mean(measure: str, moments: Moments) -> str:
    """A mean as text: time as `seconds` does, quality with three decimals."""
    return seconds(moments.mean) if measure == "seconds" else f"{moments.mean:.3f}"


def printed_sd(measure: str, moments: Moments) -> str:
    """A standard deviation as text: of a time to the mean's last digit, of a quality with one digit (4e-4)."""
    if moments.sd is None:
        return ""
    if measure != "seconds":
        return one_digit(moments.sd)
    _, _, decimals = seconds(moments.mean).partition(".")
    return f"{moments.sd:.{len(decimals)}f}"


def mean_sd(measure: str, moments: Moments | None) -> str:
    """Mean and standard deviation, as 0.366 ± 4e-4; only the mean for a single run."""
    if moments is None:
        return NOTHING
    sd = printed_sd(measure, moments)
    return f"{printed_mean(measure, moments)} ± {sd}" if sd else printed_mean(measure, moments)


def format_count(moments: Moments | None) -> str:
    """A count, with its standard deviation unless that is 0."""
    if moments is None:
        return NOTHING
    return f"{moments.mean:,.0f} ± {moments.sd:,.0f}" if moments.sd else f"{moments.mean:,.0f}"


def size(moments: Moments | None) -> str:
    """Bytes in the largest unit that leaves a number above 1: 3.79 MB (10^6 bytes)."""
    if moments is None:
        return NOTHING
    scale, unit = next(
        ((scale, unit) for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if moments.mean >= scale), (1, "B")
    )
    decimals = 0 if scale == 1 else 2
    sd = f" ± {moments.sd / scale:.{decimals}f}" if moments.sd else ""
    return f"{moments.mean / scale:.{decimals}f}{sd} {unit}"


def signed(value: float | None, *, decimals: int = 4) -> str:
    """A difference with its sign: +0.0012, −0.0130; 0.0000 has no sign."""
    if value is None:
        return NOTHING
    text = f"{value:+.{decimals}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]


def bare(value: float, *, decimals: int = 3) -> str:
    """A positive number without the leading zero, as in `within .003`."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("0") if value < 1 else text


def listed(names: Sequence[str]) -> str:
    """Names as text: a, b and c; empty for no names."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def span(interval: Interval) -> str:
    """An interval of differences: [−0.0012, +0.0034]."""
    return f"[{signed(interval.low)}, {signed(interval.high)}]"
