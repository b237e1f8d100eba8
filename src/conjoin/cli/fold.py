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
    facts: Annotated[
        Path, typer.Argument(metavar="FACTS", help="A file with facts of the new entities, in any graph format.")
    ],
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the new run.")],
    labels: opt.Labels = None,
    weights: opt.Weights = None,
    seed: Annotated[int, typer.Option(help="Seed of the initial numbers and of the sampled training questions.")] = 0,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Add new entities to a trained run, from their facts.

    Only the embeddings of the new entities are computed; all others stay the same. Facts between known entities become
    known facts, but change no embedding. To learn from them, continue training with `conjoin train GRAPH --from RUN`.

    \b
    conjoin fold runs/atlas new-facts.tsv -o runs/atlas-2
    """
    from conjoin.io.graph_store import open_graph
    from conjoin.io.labels import read_labels
    from conjoin.predict.fold_in import NO_NEW_RELATIONS, fold_run, likely_misspelt, needed_words
    from conjoin.runs.folder import RunFolder

    new_facts = opt.read_facts(facts, reading)
    label_of = read_labels(labels) if labels else None
    before = open_graph(RunFolder(run).graph_folder)
    checked = opt.known_facts(facts, new_facts, needed_words(before), reading, hint=NO_NEW_RELATIONS)
    with ProgressDisplay().watching() as watcher:
        folded, folder = fold_run(
            run, checked.facts, out, labels=label_of, weights=weights, seed=seed, track=watcher.track
        )
    graph = folded.graph
    new = [name for name in graph.entities.names if name not in before.entities.index]
    for name, similar in likely_misspelt(before, new).items():
        say(f"{name} is a new entity, similar to {similar}. If it is misspelt, correct {facts} and fold again.")
    report: dict[str, Any] = {"run": str(folder.path), "id": folder.run.id, "new": new, "test": folder.result["test"]}
    if json:
        emit(report)
        return
    ends = graph.train[:, [0, 2]]
    numbers = [graph.entities.index[name] for name in new]
    rows = [(graph.entities.names[i], graph.entities.label(i), str(int((ends == i).sum()))) for i in numbers]
    show_table(f"{folder.path}: new entities", ("name", "label", "facts"), rows, left=2)
    if not new:
        show("No entity is new. The facts are now known; no embedding changed.")
    show(f"Ask it: conjoin ask {folder.path} HEAD RELATION '?'")
    if folded.calibration is not None:
        show(f"The new run has no probabilities yet. To fit them, run conjoin calibrate {folder.path}")
