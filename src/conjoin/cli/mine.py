"""`conjoin mine`: the most plausible missing facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show_table

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph
    from conjoin.predict.mining import MinedFact
    from conjoin.predict.predictor import Predictor


NO_VALIDATION_FACTS = (
    "the graph has no validation facts. Split it with conjoin split FILE --valid 20% -o FOLDER and train again"
)
NO_SHARED_RELATION = (
    "no relation of the validation facts occurs in train. Split the facts again with conjoin split FOLDER -o OTHER, "
    "then train on OTHER"
)


def mine(
    run: opt.RunArgument,
    *,
    relation: Annotated[str | None, typer.Option(help="Only facts of this relation.")] = None,
    n: Annotated[int, typer.Option("-n", help="Number of facts.")] = 100,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", rich_help_panel=opt.OUTPUT, help="Write to a .csv, .tsv or .parquet file."),
    ] = None,
    for_spreadsheets: opt.ForSpreadsheets = False,
    min_probability: Annotated[
        float,
        typer.Option(help="Leave out facts with a lower probability (without calibration: a lower plausibility)."),
    ] = 0.0,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """List the most plausible facts that are missing from the graph.

    Plausibility is the chance that the head has one more fact of the relation, times the softmax over its new tails.
    If the reverse fact is known, it is also multiplied by the share of facts of the relation that hold both ways. After
    `conjoin calibrate` every fact also has a probability, and the list is ordered by it: the share of such facts that
    were true when the validation facts were hidden. The probabilities are too low if the graph lacks more facts than
    valid holds, and too high if it lacks fewer.

    \b
    conjoin mine runs/atlas --relation borders -n 20
    conjoin mine runs/atlas -n 1000 --out missing.csv
    conjoin mine runs/atlas -n 1000 --out missing.csv --for-spreadsheets
    """
    from conjoin.errors import UsageError
    from conjoin.predict.mining import check_file, write_mined
    from conjoin.predict.mining import mine as mine_facts
    from conjoin.predict.predictor import open_run
    from conjoin.predict.views import mined_json

    if out is not None:
        check_file(out, for_spreadsheets=for_spreadsheets)
    elif for_spreadsheets:
        raise UsageError("--for-spreadsheets needs an output file. Add --out FILE.csv or --out FILE.tsv.")
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
        written = {"facts": [mined_json(fact) for fact in facts]} if out is None else {"file": str(out)}
        emit({**report, **written} | ({"formulas": formulas} if out is not None else {}))
        return
    if out is not None:
        say(f"Wrote {len(facts):,} facts to {out}")
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
    """One sentence on how many of the mined facts are likely to be true."""
    if not facts:
        return "No missing fact found with these settings."
    probabilities = [fact.probability for fact in facts if fact.probability is not None]
    if not probabilities:
        return f"The facts have no probabilities: {_how_to_calibrate(run, predictor.graph)}."
    total = sum(probabilities)
    right = "Fewer than 0.1" if total < 0.05 else f"About {total:.1f}" if total < 10 else f"About {total:,.0f}"
    return (
        f"{right} of {len(facts):,} facts as plausible as these were true when `conjoin calibrate` hid the "
        f"{len(predictor.graph.valid):,} validation facts. How many of the listed facts are true depends on how many "
        "facts the graph lacks; in a complete graph none is true."
    )


def _how_to_calibrate(run: Path, graph: Graph) -> str:
    if not len(graph.valid):
        return NO_VALIDATION_FACTS
    if set(graph.valid[:, 1].tolist()) <= set(graph.unseen_relations.tolist()):
        return NO_SHARED_RELATION
    return f"to estimate how many are true, run conjoin calibrate {run}"
