"""`conjoin score`: score facts that are named."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, show
from conjoin.runtime.text_escaping import spelled

if TYPE_CHECKING:
    pass


@opt.reading_options
def score(
    run: opt.RunArgument,
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | HEAD RELATION TAIL", help="Facts, in any format that graphs are read from, or one fact."
        ),
    ],
    *,
    for_spreadsheets: opt.ForSpreadsheets = False,
    weights: opt.Weights = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Score given facts.

    Prints tab-separated lines with a header, or one JSON object: head, relation, tail, score, the rank of the tail
    among all entities that do not make a known fact, whether the fact is in the graph, the probability of a new fact
    (after `conjoin calibrate`: as an answer to head and relation, if one is missing), and the fact in words.

    \b
    conjoin score runs/atlas candidates.tsv
    conjoin score runs/atlas Peru borders Ecuador
    """
    from conjoin.errors import UsageError
    from conjoin.predict.inputs import CheckedFacts, all_words, untrained_names
    from conjoin.predict.predictor import open_run
    from conjoin.runtime.text_escaping import for_spreadsheet

    match given:
        case [name]:
            file = Path(name)
            facts = opt.read_facts(file, reading)
            predictor = open_run(run, weights=weights)
            sifted = opt.known_facts(file, facts, all_words(predictor.graph), reading)
        case [head, relation, tail]:
            predictor, sifted = open_run(run, weights=weights), CheckedFacts([(head, relation, tail)])
        case _:
            raise UsageError("score a file (conjoin score RUN FILE) or one fact (conjoin score RUN HEAD RELATION TAIL)")
    scored = predictor.score(sifted.facts)
    words = (word for fact in sifted.facts for word in all_words(predictor.graph)(fact))
    strange = untrained_names(predictor.graph, words)
    opt.say_untrained(strange, "these facts")
    if json:
        told = {"run": str(run), "scores": [asdict(line) for line in scored], "skipped": list(sifted.refused)}
        emit({**told, "untrained": strange})
        return
    show("head\trelation\ttail\tscore\trank\tknown\tprobability\tlabel")
    formulas = 0
    for line in scored:
        texts = [spelled(text) for text in (line.head, line.relation, line.tail, line.label)]
        safe = [for_spreadsheet(text) for text in texts]
        formulas += sum(map(str.__ne__, texts, safe))
        head, relation, tail, label = safe if for_spreadsheets else texts
        known = str(line.known).lower()
        chance = "" if line.probability is None else f"{line.probability:.4g}"
        show("\t".join((head, relation, tail, f"{line.score:.6g}", str(line.rank), known, chance, label)))
    opt.say_formulas(formulas, changed=for_spreadsheets)
