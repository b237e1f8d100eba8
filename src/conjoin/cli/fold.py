"""`conjoin fold`: add new entities to a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show, show_table


@opt.reading_options
def fold(
    run: opt.RunArgument,
    facts: Annotated[Path, typer.Argument(metavar="FACTS", help="Facts of the new entities, in any graph format.")],
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the new run.")],
    labels: opt.Labels = None,
    weights: opt.Weights = None,
    seed: Annotated[int, typer.Option(help="Seed of the start and of the sample of training questions.")] = 0,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Fold new entities into a trained run, from their facts.

    The rest is not trained again: every row that was there stays as it is. Facts among known entities are remembered,
    but change no number: to learn from them, go on training with `conjoin train GRAPH --from RUN`.

    \b
    conjoin fold runs/atlas new-facts.tsv -o runs/atlas-2
    """
    from conjoin.io.graph_store import open_graph
    from conjoin.io.labels import read_labels
    from conjoin.predict.fold_in import NO_NEW_RELATIONS, fold_run, likely_misspelt, needed_words
    from conjoin.runs.folder import RunFolder

    told = opt.read_facts(facts, reading)
    named = read_labels(labels) if labels else None
    before = open_graph(RunFolder(run).graph_folder)
    sifted = opt.known_facts(facts, told, needed_words(before), reading, hint=NO_NEW_RELATIONS)
    with ProgressDisplay().watching() as watcher:
        folded, kept = fold_run(run, sifted.facts, out, labels=named, weights=weights, seed=seed, track=watcher.track)
    graph = folded.graph
    fresh = [name for name in graph.entities.names if name not in before.entities.index]
    for name, meant in likely_misspelt(before, fresh).items():
        say(f"{name} is taken for a new entity. If {meant} was meant, correct {facts} and fold again.")
    report: dict[str, Any] = {"run": str(kept.path), "id": kept.run.id, "new": fresh, "test": kept.result["test"]}
    if json:
        emit(report)
        return
    ends = graph.train[:, [0, 2]]
    numbers = [graph.entities.index[name] for name in fresh]
    rows = [(graph.entities.names[i], graph.entities.label(i), str(int((ends == i).sum()))) for i in numbers]
    show_table(f"{kept.path}: new entities", ("name", "label", "facts"), rows, left=2)
    if not fresh:
        show("No entity was new: the facts are remembered, no number changed.")
    show(f"Ask it: conjoin ask {kept.path} HEAD RELATION '?'")
    if folded.calibration is not None:
        show(f"The probabilities of {run} were not taken along: conjoin calibrate {kept.path} fits them anew.")
