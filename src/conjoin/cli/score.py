"""`conjoin score`: score facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, show
from conjoin.runtime.text_escaping import spelled


@opt.reading_options
def score(
    run: opt.RunArgument,
    given: Annotated[
        list[str],
        typer.Argument(metavar="FILE | HEAD RELATION TAIL", help="A file of facts in any graph format, or one fact."),
    ],
    *,
    for_spreadsheets: opt.ForSpreadsheets = False,
    weights: opt.Weights = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Score one fact or a file of facts.

    Prints a tab-separated table, or one JSON object: head, relation, tail, score, the filtered rank of the tail (known
    answers excluded), whether the fact is in the graph, its probability if it is new and the run is calibrated (as an
    answer to head and relation, if one is missing), and the fact with labels.

    \b
    conjoin score runs/atlas candidates.tsv
    conjoin score runs/atlas Peru borders Ecuador
    """
    from conjoin.errors import UsageError
    from conjoin.predict.inputs import CheckedFacts, all_words, untrained_names
    from conjoin.predict.predictor import open_run
    from conjoin.predict.views import scored_json
    from conjoin.runtime.text_escaping import for_spreadsheet

    match given:
        case [name]:
            file = Path(name)
            facts = opt.read_facts(file, reading)
            predictor = open_run(run, weights=weights)
            checked = opt.known_facts(file, facts, all_words(predictor.graph), reading)
        case [head, relation, tail]:
            predictor, checked = open_run(run, weights=weights), CheckedFacts([(head, relation, tail)])
        case _:
            raise UsageError(
                f"Expected FILE or HEAD RELATION TAIL, got {len(given)} words: {' '.join(given)}. "
                "Example: conjoin score RUN Peru borders Ecuador"
            )
    scored = predictor.score(checked.facts)
    names = (name for fact in checked.facts for name in all_words(predictor.graph)(fact))
    untrained = untrained_names(predictor.graph, names)
    opt.say_untrained(untrained, "these facts")
    if json:
        report = {"run": str(run), "scores": [scored_json(line) for line in scored], "skipped": list(checked.refused)}
        emit({**report, "untrained": untrained})
        return
    show("head\trelation\ttail\tscore\trank\tknown\tprobability\tlabel")
    formulas = 0
    for line in scored:
        texts = [spelled(text) for text in (line.head, line.relation, line.tail, line.label)]
        safe = [for_spreadsheet(text) for text in texts]
        formulas += sum(map(str.__ne__, texts, safe))
        head, relation, tail, label = safe if for_spreadsheets else texts
        known = str(line.known).lower()
        probability = "" if line.probability is None else f"{line.probability:.4g}"
        show("\t".join((head, relation, tail, f"{line.score:.6g}", str(line.rank), known, probability, label)))
    opt.say_formulas(formulas, changed=for_spreadsheets)
