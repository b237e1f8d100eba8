"""Run folders with known numbers, made without training: what reports are tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.evaluation.ranks import Ranks
from conjoin.runs.folder import RunFolder
from conjoin.runs.run import Run
from conjoin.runtime.atomic_files import write_json
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study, StudyCell
from conjoin.studies.status import cell_file, graph_file

CHECKSUM = "c0ffee" * 10
FOLLOWING = ("hits@1", "hits@3", "hits@10")


def ranks_of(places: Sequence[int]) -> Ranks:
    """Ranks with these places, as tail and head question of triple 0, of triple 1, and so on."""
    n = len(places)
    triple, direction = np.arange(n) // 2, np.arange(n) % 2
    better = np.array(places, dtype=np.int64) - 1
    nobody = np.zeros(n, dtype=np.int64)
    return Ranks(triple, nobody, triple + 1, direction, better, nobody, np.full(n, 1_000))


def finished(
    root: Path,
    cell: StudyCell,
    *,
    mrr: float,
    seconds: float = 2.0,
    hits: Sequence[float] = (0.3, 0.4, 0.5),
    best_mrr: float | None = None,
    parameters: int = 1_000,
    relation_parameters: int = 100,
    ranks: Ranks | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    checksum: str = CHECKSUM,
    card: str = "test card",
) -> RunFolder:
    """A finished run of a cell that measured just this."""
    folder = RunFolder(root / cell.folder)
    folder.path.mkdir(parents=True)
    run = Run(
        data=cell.graph,
        checksum=checksum,
        form=cell.row.form_text,
        rank=cell.rank,
        recipe=cell.recipe,
        seed=cell.seed,
        weights=cell.weights,
    )
    folder.begin(run, {"conjoin": "0.1.0", "torch": "2.13.0", "name": card, "device": "cpu"}, "conjoin study run")
    write_json(cell_file(folder), cell.to_json())
    for event in events:
        folder.append(dict(event))
    if ranks is not None:
        ranks.write(folder.ranks_file("test"))
    test = {"mrr": mrr, **dict(zip(FOLLOWING, hits, strict=True))}
    folder.finish(
        {
            "weights": cell.weights,
            "valid": test,
            "test": test,
            "last": {"epoch": 3, "valid": test, "test": test},
            "best": None if best_mrr is None else {"epoch": 2, "valid": test, "test": {**test, "mrr": best_mrr}},
            "epochs": cell.recipe.epochs,
            "seconds_per_epoch": seconds,
            "seconds_last_epoch": seconds,
            "seconds_total": seconds * cell.recipe.epochs,
            "parameters": parameters,
            "relation_parameters": relation_parameters,
            "relation_bytes": 4 * relation_parameters,
            "peak_bytes": 8 * parameters,
        }
    )
    return folder


def counted(root: Path, study: Study, name: str, **counts: int) -> None:
    """graph.json of a dataset."""
    path = graph_file(study, name, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"graph": study.datasets[name].graph, "checksum": CHECKSUM, **counts})


TINY = """
name = "tiny"
title = "Two forms & a control"
weights = "last"
seeds = 3
comparisons = [
    {{ a = "complex", b = "tied" }},
    {{ a = "complex", b = "half", measures = ["mrr"] }},
]

[[rows]]
name = "complex"
form = "complex"
symbol = "ComplEx"

[[rows]]
name = "tied"
form = "5star-conj"
symbol = "5★ε_n"
settings = "complex"

[[rows]]
name = "half"
form = "complex"
settings = "complex"
rank_factor = 0.5
group = "control"
seeds = [0]

[defaults]
validate_every = 1

[datasets.UMLS]
graph = "{graph}"
published_counts = {{ train = 5_216, valid = 652, test = 661, entities = 136, relations = 46, examples = 10_432 }}

[settings.UMLS]
complex = {{ rank = 64, epochs = 3, batch = 200, n3 = 0.01, lr = 0.1 }}

[published.UMLS]
complex = {{ seconds = 9, seconds_pm = 1, mrr = 0.93, mrr_pm = 1e-3, hits1 = 0.3, hits3 = 0.41, runs = 17 }}
tied = {{ seconds = 4, seconds_pm = 0, mrr = 0.92, mrr_pm = 2e-3, hits1 = 0.3, hits3 = 0.4, hits10 = 0.5, runs = 17 }}

[published_tests.UMLS]
mrr = [{{ a = "complex", b = "tied", h = 1, p = 1e-15 }}]
seconds = [{{ a = "complex", b = "tied", h = 1, p = 0.4 }}]
"""


def tiny(folder: Path, *, graph: str = "umls") -> Study:
    """A study of two rows and a control on one dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tiny.toml"
    file.write_text(TINY.format(graph=graph), encoding="utf-8")
    return read_study(file)
