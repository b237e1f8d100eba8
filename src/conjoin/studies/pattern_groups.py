"""Which relations of a study's datasets show which pattern, kept beside the results so that reports need no data.

patterns.json beside graph.json: the graph's checksum, the thresholds, and the relations (ids) of each pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.datasets.load import load
from conjoin.errors import RunError
from conjoin.graph.graph import Graph, Ids
from conjoin.graph.patterns.detect import CARDINALITIES
from conjoin.graph.patterns.report import NONE, PATTERNS, USUAL, PatternReport, find_patterns
from conjoin.runtime.atomic_files import record, sealed_record, write_sealed
from conjoin.studies.archive import shared_file
from conjoin.studies.spec import Study
from conjoin.studies.status import graph_facts, graph_file, lacking

PARTS = {"graph", "checksum", "thresholds", "relations", "pairs", "rules"}


@dataclass(frozen=True, eq=False)
class PatternGroups:
    """Relations by pattern and by cardinality, and how many relations and pairs there are of each."""

    relations: Mapping[str, Ids]
    pairs: Mapping[str, int]
    rules: Mapping[str, int]


def patterns_file(study: Study, name: str, root: Path) -> Path:
    return graph_file(study, name, root).with_name("patterns.json")


def pattern_groups(study: Study, name: str, root: Path) -> PatternGroups | None:
    """What is kept for a dataset; found and kept where it is not yet but the data are here; None where neither."""
    facts, file = graph_facts(study, name, root), patterns_file(study, name, root)
    if (content := shared_file(file)) is not None:
        kept = _kept(content, file)
        if kept.get("thresholds") == asdict(USUAL) and (not facts or kept.get("checksum") == facts["checksum"]):
            return _groups(kept, file)
    if lacking(study, name):
        return None
    graph = load(study.source(name), fetch=False)
    if facts and graph.checksum != facts["checksum"]:
        return None
    told = summary(graph, find_patterns(graph))
    with suppress(OSError):  # results that can only be read are reported all the same
        file.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(file, told)
    return _groups(told, file)


def _kept(content: bytes, file: Path) -> dict[str, Any]:
    found = record(content, file)
    if isinstance(found, dict) and set(found) == PARTS:  # written before these files carried a checksum
        return found
    try:
        return sealed_record(content, file)
    except RunError as error:
        raise RunError(f"{file} is damaged: delete it, the next report writes it") from error


def summary(graph: Graph, portrait: PatternReport) -> dict[str, Any]:
    """The content of patterns.json."""
    flags = {**portrait.has, NONE: portrait.plain}
    flags |= {kind: portrait.cardinality.kind == number for number, kind in enumerate(CARDINALITIES)}
    return {
        "graph": graph.name,
        "checksum": graph.checksum,
        "thresholds": asdict(portrait.thresholds),
        "relations": {name: np.flatnonzero(chosen).tolist() for name, chosen in flags.items()},
        "pairs": {name: int(portrait.pairs[chosen].sum()) for name, chosen in flags.items()},
        "rules": {
            "inverse": len(portrait.inverses),
            "copies": len(portrait.copies),
            "composition": len(portrait.compositions),
        },
    }


def _groups(told: Mapping[str, Any], file: Path) -> PatternGroups:
    try:
        names = (*PATTERNS, NONE, *CARDINALITIES)
        relations = {name: np.array(told["relations"][name], dtype=np.int64) for name in names}
        counts = [*told["pairs"].values(), *told["rules"].values()]
        if any(ids.ndim != 1 for ids in relations.values()) or any(type(count) is not int for count in counts):
            raise ValueError("lists of relations and counts are wanted")
        return PatternGroups(relations, dict(told["pairs"]), dict(told["rules"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RunError(
            f"{file} cannot be read as patterns ({error!r}): delete it, the next report writes it"
        ) from error
