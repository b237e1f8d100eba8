"""`conjoin calibrate`: turn scores into probabilities."""

from __future__ import annotations

from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show, show_table

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
    from conjoin.predict.calibration import Fitting
    from conjoin.predict.calibration import calibrate as fitted
    from conjoin.predict.predictor import open_run
    from conjoin.runs.calibration_curves import write_calibration
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.open import reported_weights
    from conjoin.runtime.device import choose_device

    fitting = Fitting(method=method, ratio=ratio, fewest=fewest, seed=seed)  # type: ignore[arg-type]
    folder = RunFolder(run)
    predictor = open_run(run, weights=weights, device=str(choose_device(device).device))
    with ProgressDisplay().watching() as watcher:
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
