"""`conjoin rank`: filtered ranking of a split, in total and by group."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, show_table
from conjoin.cli.train import METRICS, _cells

if TYPE_CHECKING:
    from conjoin.evaluation.ranks import Ranks
    from conjoin.runs.folder import RunFolder


ALL_METRICS = {**METRICS, "adjusted_mean_rank_index": "AMRI", "questions": "questions"}
"""Keys in JSON and headings of columns."""
GROUPS = ("direction", "relation", "pattern", "cardinality", "degree")


def rank(
    run: opt.RunArgument,
    *,
    split: Annotated[str, typer.Option(help="The split to rank: valid, test or train.")] = "test",
    ties: Annotated[
        str, typer.Option(help="Rank among equal scores: pessimistic (last), realistic (mean) or optimistic (first).")
    ] = "pessimistic",
    by: Annotated[str | None, typer.Option(help=f"Also print groups by {', '.join(GROUPS)}.")] = None,
    weights: opt.Weights = None,
    device: opt.Device = None,
    json: opt.Json = False,
) -> None:
    """Rank the facts of a split and print the metrics.

    Every fact is asked in two directions, without other known answers (filtered). MRR is the mean of 1/rank; Hits@10 is
    the share of answers among the first ten; AMRI, the adjusted mean rank index, is 1 for a perfect model and 0 for
    chance. Groups by pattern (`conjoin patterns`) overlap, because a relation can have several patterns.

    \b
    conjoin rank runs/atlas --by pattern
    conjoin rank runs/atlas --split valid --ties realistic --by direction
    """
    from conjoin.errors import unknown
    from conjoin.graph.graph import SPLITS
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.measure import finite

    if split not in SPLITS:
        raise unknown("split", split, SPLITS, way_out=f"Choose from {', '.join(SPLITS)}.")
    if by is not None and by not in GROUPS:
        raise unknown("group", by, GROUPS, way_out=f"Choose from {', '.join(GROUPS)}.")
    folder = RunFolder(run)
    ranks = _ranks(folder, split=split, weights=weights, device=device)
    total = finite(ranks.metrics(ties))
    groups = {name: finite(part.metrics(ties)) for name, part in _grouped(ranks, folder, by).items()}
    if json:
        report: dict[str, Any] = {"run": str(run), "split": split, "ties": ties, **total}
        emit({**report, "by": {by: groups}} if by else report)
        return
    rows = [(name, *_cells(metrics, ALL_METRICS)) for name, metrics in {"all": total, **groups}.items()]
    show_table(f"{run}: {split}, {ties} ties", (by or "", *ALL_METRICS.values()), rows)


def _ranks(folder: RunFolder, *, split: str, weights: str | None, device: str | None) -> Ranks:
    """The stored ranks if they belong to these weights; otherwise rank again."""
    from conjoin.evaluation.rank import rank as rank_split
    from conjoin.predict.predictor import open_run
    from conjoin.runtime.device import choose_device

    if folder.finished and folder.ranks_file(split).exists() and weights in (None, folder.run.weights):
        return folder.ranks(split)
    predictor = open_run(folder.path, weights=weights, device=str(choose_device(device).device))
    with ProgressDisplay().watching() as watcher:
        return rank_split(predictor.scorer, predictor.graph, split, track=watcher.track)  # type: ignore[arg-type]


def _grouped(ranks: Ranks, folder: RunFolder, by: str | None) -> dict[str, Ranks]:
    from conjoin.evaluation.groups import degree_of_known_end
    from conjoin.graph.patterns.detect import CARDINALITIES, cardinality
    from conjoin.io.graph_store import open_graph

    if by is None:
        return {}
    if by == "direction":
        return ranks.by_direction()
    graph = open_graph(folder.graph_folder)
    if by == "relation":
        labels = [graph.relations.label(r) for r in range(graph.n_relations)]
        often = {label for label, count in Counter(labels).items() if count > 1}
        names = [f"{la} ({na})" if la in often else la for la, na in zip(labels, graph.relations.names, strict=True)]
        return {names[r]: part for r, part in ranks.by_relation().items()}
    if by == "pattern":
        from conjoin.graph.patterns.report import find_patterns

        return {name: ranks.where(chosen) for name, chosen in find_patterns(graph).groups(ranks.relation).items()}
    if by == "cardinality":
        kinds = ranks.by(cardinality(graph).kind[ranks.relation])
        return {CARDINALITIES[kind] if kind >= 0 else "not in train": part for kind, part in kinds.items()}
    groups, degrees = degree_of_known_end(ranks, graph)
    return {groups[degree]: part for degree, part in ranks.by(degrees).items()}
