"""`conjoin mine`: the most plausible missing facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show_table

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph
    from conjoin.predict.mining import MinedFact
    from conjoin.predict.predictor import Predictor


NOTHING_TO_HIDE = "no fact was held out to rehearse with (conjoin split FILE --valid 20% -o FOLDER holds some out)"
NOTHING_TO_FIND = (
    "valid has no fact of a relation that train has, so that nothing can be rehearsed (conjoin split FOLDER -o OTHER "
    "splits the facts of a folder anew; then train on OTHER)"
)


def mine(
    run: opt.RunArgument,
    *,
    relation: Annotated[str | None, typer.Option(help="Only facts of this relation.")] = None,
    n: Annotated[int, typer.Option("-n", help="How many facts.")] = 100,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A file: .csv, .tsv or .parquet.")] = None,
    for_spreadsheets: opt.ForSpreadsheets = False,
    min_probability: Annotated[
        float, typer.Option(help="Leave out facts that are less probable or, without a calibration, less plausible.")
    ] = 0.0,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Find the most plausible facts that the graph does not hold.

    Plausibility is the chance that the head has one more such fact, times the softmax over its new tails and, where the
    reverse fact is known, times how often the relation holds both ways. After `conjoin calibrate` each has a
    probability, which orders the list: the share of such facts of its relation that were among those of valid when
    these were hidden. If the graph lacks more facts than valid holds, more are right; if it lacks fewer, fewer are.

    \b
    conjoin mine runs/atlas --relation borders -n 20
    conjoin mine runs/atlas -n 1000 --out missing.csv
    conjoin mine runs/atlas -n 1000 --out missing.csv --for-spreadsheets
    """
    from conjoin.errors import UsageError
    from conjoin.predict.mining import check_file, write_mined
    from conjoin.predict.mining import mine as mine_facts
    from conjoin.predict.predictor import open_run

    if out is not None:
        check_file(out, for_spreadsheets=for_spreadsheets)
    elif for_spreadsheets:
        raise UsageError("--for-spreadsheets needs a file to write: add --out FILE.csv")
    predictor = open_run(run, weights=weights)
    with ProgressDisplay().watching() as watcher:
        facts = list(
            mine_facts(
                predictor,
                relation=relation,
                n=n,
                min_probability=min_probability,
                track=watcher.track,
            )
        )
    formulas = write_mined(out, facts, for_spreadsheets=for_spreadsheets) if out is not None else 0
    opt.say_formulas(formulas, changed=for_spreadsheets)
    if json:
        report = {"run": str(run), "calibrated": predictor.calibration is not None, "count": len(facts)}
        written = {"facts": [asdict(fact) for fact in facts]} if out is None else {"file": str(out)}
        emit({**report, **written} | ({"formulas": formulas} if out is not None else {}))
        return
    if out is not None:
        say(f"{len(facts):,} facts in {out}")
        say(worth(run, predictor, facts))
        return
    rows = [
        (
            str(fact.rank),
            fact.label,
            f"{fact.plausibility:.3f}",
            "-" if fact.probability is None else f"{fact.probability:.3f}",
            f"{fact.score:.3f}",
        )
        for fact in facts
    ]
    show_table("not in the graph", ("", "fact", "plausibility", "probability", "score"), rows, left=2)
    say(worth(run, predictor, facts))


def worth(run: Path, predictor: Predictor, facts: Sequence[MinedFact]) -> str:
    """How many facts like these were right where some were hidden, and what that says of these."""
    if not facts:
        return "No such fact was found."
    probabilities = [fact.probability for fact in facts if fact.probability is not None]
    if not probabilities:
        return f"How many of them are right is not known: {_way_to_know(run, predictor.graph)}."
    total = sum(probabilities)
    right = "Fewer than 0.1" if total < 0.05 else f"About {total:.1f}" if total < 10 else f"About {total:,.0f}"
    return (
        f"{right} of {len(facts):,} facts as plausible as these were right in the rehearsal, which hid the "
        f"{len(predictor.graph.valid):,} facts of valid; those are known here and left out. How many of these are "
        "right depends on how much the graph lacks, which nothing in it says: of a complete graph none is."
    )


def _way_to_know(run: Path, graph: Graph) -> str:
    if not len(graph.valid):
        return NOTHING_TO_HIDE
    if set(graph.valid[:, 1].tolist()) <= set(graph.unseen_relations.tolist()):
        return NOTHING_TO_FIND
    return f"conjoin calibrate {run} rehearses it"
