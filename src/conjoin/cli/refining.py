"""Verbs that add to a trained run: calibrate, fold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import Watcher, emit, say, show, show_table

READINGS = {
    "calibrated": "calibrated",
    "pooled": "one curve for all relations",
    "softmax": "uncalibrated: softmax",
    "sigmoid": "uncalibrated: sigmoid",
}
PARTS = {"shown": "in lists of ten new answers", "candidates": "all candidates"}


def calibrate(
    run: opt.RunArgument,
    *,
    method: Annotated[str, typer.Option(help="isotonic (steps) or platt (a sigmoid).")] = "isotonic",
    ratio: Annotated[
        int | None, typer.Option(help="Random corruptions per fact.  [default: all entities that make no known fact]")
    ] = None,
    fewest: Annotated[int, typer.Option(help="Validation facts that a relation needs for a curve of its own.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the corruptions.")] = 0,
    weights: opt.Weights = None,
    device: opt.Device = None,
    json: opt.Json = False,
) -> None:
    """Learn what scores mean: give answers a probability.

    Curves from scores to probabilities are fitted on the validation facts, per relation and direction, measured on the
    test facts and kept in the run as calibration.json. A probability is the share of held-out facts among candidates
    of that score that are not known facts, over questions that have a held-out answer. Facts that `conjoin mine` finds
    are judged by another curve, from rehearsals: validation facts are hidden and mined for, then test facts. A service
    that runs takes the new probabilities with its next request.

    \b
    conjoin calibrate runs/atlas
    conjoin ask runs/atlas France borders '?' --min-probability 0.5
    """
    from conjoin.device import choose_device
    from conjoin.serve.calibrate import Fitting
    from conjoin.serve.calibrate import calibrate as fitted
    from conjoin.serve.calibration import write_calibration
    from conjoin.serve.predictor import open_run, reported_weights
    from conjoin.study.folder import RunFolder

    fitting = Fitting(method=method, ratio=ratio, fewest=fewest, seed=seed)  # type: ignore[arg-type]
    folder = RunFolder(run)
    predictor = open_run(run, weights=weights, device=str(choose_device(device).device))
    with Watcher().watching() as watcher:
        calibration = fitted(predictor, fitting, track=watcher.track)
    with folder.locked():
        file = write_calibration(folder, predictor.graph, calibration, weights=reported_weights(folder, weights))
    if json:
        emit({"file": str(file), "about": calibration.about, "measured": calibration.measured})
        return
    rows = [
        (title, PARTS[part], *(f"{measured[part][number]:.4g}" for number in ("ece", "brier", "log_loss", "facts")))
        for reading, title in READINGS.items()
        if (measured := calibration.measured.get(reading))
        for part in PARTS
        if part in measured
    ]
    if rows:
        columns = ("probability", "over", "ECE", "Brier", "log loss", "facts")
        show_table(f"{run}: reliability on {calibration.measured['facts']:,} test facts", columns, rows, left=2)
    else:
        say("the graph has no test facts: how reliable the probabilities are is not known")
    about = calibration.about
    if mined := calibration.measured.get("mined"):
        show(
            f"Mining with the {mined['hidden']:,} test facts hidden: of the first {mined['first']} facts "
            f"{mined['right']} were among these; their probabilities add up to {mined['said']:.0f}."
        )
    show(
        f"{about['own_curves']} curves of their own (relations with {about['fewest']} validation facts), one for the "
        f"rest; against {about['against']}, prior {about['prior']:.2g}. Kept in {file}"
    )


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
    from conjoin.graph.files.labels import read_labels
    from conjoin.graph.files.store import open_graph
    from conjoin.serve.extend import NO_NEW_RELATIONS, likely_misspelt, needed_words
    from conjoin.serve.fold import fold_run
    from conjoin.study.folder import RunFolder

    told = opt.read_facts(facts, reading)
    named = read_labels(labels) if labels else None
    before = open_graph(RunFolder(run).graph_folder)
    sifted = opt.known_facts(facts, told, needed_words(before), reading, hint=NO_NEW_RELATIONS)
    with Watcher().watching() as watcher:
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
