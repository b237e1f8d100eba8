"""The relations that show each pattern, per dataset of a study, stored with the results so that reports need no data.

patterns.json, in the folder of graph.json, holds the graph's checksum, the thresholds, and the relation ids of each
pattern.
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
    """Relation ids by pattern and by cardinality, the number of entity pairs of each, and the number of rules."""

    relations: Mapping[str, Ids]
    pairs: Mapping[str, int]
    rules: Mapping[str, int]


def patterns_file(study: Study, name: str, root: Path) -> Path:
    return graph_file(study, name, root).with_name("patterns.json")


def pattern_groups(study: Study, name: str, root: Path) -> PatternGroups | None:
    """The groups in patterns.json. If they are missing, compute and store them; None if the data are missing too."""
    facts, file = graph_facts(study, name, root), patterns_file(study, name, root)
    if (stored := shared_file(file)) is not None:
        kept = _kept(stored, file)
        if kept.get("thresholds") == asdict(USUAL) and (not facts or kept.get("checksum") == facts["checksum"]):
            return _groups(kept, file)
    if lacking(study, name):
        return None
    graph = load(study.source(name), fetch=False)
    if facts and graph.checksum != facts["checksum"]:
        return None
    content = summary(graph, find_patterns(graph))
    with suppress(OSError):  # a report of read-only results must not fail
        file.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(file, content)
    return _groups(content, file)


def _kept(content: bytes, file: Path) -> dict[str, Any]:
    found = record(content, file)
    if isinstance(found, dict) and set(found) == PARTS:  # written before these files carried a checksum
        return found
    try:
        return sealed_record(content, file)
    except RunError as error:
        raise RunError(f"{file} is damaged. Delete it; the next report writes it again.") from error


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


def _groups(content: Mapping[str, Any], file: Path) -> PatternGroups:
    try:
        names = (*PATTERNS, NONE, *CARDINALITIES)
        relations = {name: np.array(content["relations"][name], dtype=np.int64) for name in names}
        counts = [*content["pairs"].values(), *content["rules"].values()]
        if any(ids.ndim != 1 for ids in relations.values()) or any(type(count) is not int for count in counts):
            raise ValueError("relations must be lists of ids, and pairs and rules whole numbers")
        return PatternGroups(relations, dict(content["pairs"]), dict(content["rules"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RunError(
            f"{file} does not hold patterns: {error!r}. Delete it; the next report writes it again."
        ) from error
