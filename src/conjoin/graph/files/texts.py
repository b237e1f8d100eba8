"""Names looked at many at a time, as Arrow text: those on disk are not decoded one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.graph.graph import Ids
from conjoin.graph.packed import PackedNames

AT_ONCE = 1 << 14


def text_of(names: Sequence[str], ids: Ids) -> Iterator[Any]:
    """The names of these ids in Arrow arrays, in order."""
    import pyarrow as pa

    whole: Any = None
    if isinstance(names, PackedNames):
        parts = (pa.py_buffer(names.starts), pa.py_buffer(names.content))
        whole = pa.LargeStringArray.from_buffers(len(names), *parts)
    for start in range(0, len(ids), AT_ONCE):
        piece = ids[start : start + AT_ONCE]
        yield pa.array([names[i] for i in piece.tolist()], pa.large_string()) if whole is None else whole.take(piece)


def fits(text: Any, *patterns: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Which names of an Arrow array (n,) one of the patterns matches from end to end; case and digits are ASCII."""
    from pyarrow import compute

    any_of = "|".join(f"(?:{pattern.pattern})" for pattern in patterns)
    return np.asarray(compute.match_substring_regex(text, rf"\A(?:{any_of})\z").to_numpy(zero_copy_only=False))
