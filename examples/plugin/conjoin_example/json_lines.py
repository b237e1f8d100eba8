"""A reader for files with one JSON object per line: {"head": …, "relation": …, "tail": …}."""

from __future__ import annotations

import json
from typing import BinaryIO

from conjoin.io.read_report import Sink


def read(stream: BinaryIO, sink: Sink) -> None:
    """Add each fact of the unpacked stream to the sink. The sink reports or counts bad lines."""
    for number, line in enumerate(stream, start=1):
        sink.lines += 1
        if not line.strip():
            sink.blank_lines += 1
            continue
        try:
            fact = json.loads(line)
            head, relation, tail = (str(fact[key]) for key in ("head", "relation", "tail"))
        except (ValueError, KeyError, TypeError) as error:
            sink.problem(number, "not a fact", f"{type(error).__name__}: {error}")
            continue
        sink.add(number, head, relation, tail)
