"""`conjoin calibrate`: fit curves that turn scores into probabilities."""

from __future__ import annotations

from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show, show_table

METHODS = {
    "calibrated": "calibrated",
    "pooled": "one curve for all relations",
    "softmax": "uncalibrated: softmax",
    "sigmoid": "uncalibrated: sigmoid",
}
PARTS = {"shown": "in lists of ten new answers", "candidates": "all candidates"}


def calibrate(
    run: opt.RunArgument,
    *,
    method: Annotated[str, typer.Option(help="The curves: isotonic (steps) or platt (a sigmoid).")] = "isotonic",
    ratio: Annotated[
        int | None,
        typer.Option(help="Random wrong answers per fact.  [default: every entity that gives no known fact]"),
    ] = None,
    fewest: Annotated[
        int, typer.Option(help="A relation with at least this many validation facts gets a separate curve.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the random wrong answers.")] = 0,
    weights: opt.Weights = None,
    device: opt.Device = None,
    json: opt.Json = False,
) -> None:
    """Give the answers of a run a probability.

    Fits curves from scores to probabilities on the validation facts, for each relation and direction, measures them on
    the test facts, and writes calibration.json into the run. A probability is the share of held-out facts among the
    new candidates with such a score, for questions that have a held-out answer. `conjoin mine` gets a separate curve:
    the validation facts are hidden from the graph, and the share of them among the mined facts is counted. A running
    service uses the new probabilities from its next request on.

    \b
    conjoin calibrate runs/atlas
    conjoin ask runs/atlas France borders '?' --min-probability 0.5
    """
    from conjoin.predict.calibration import Fitting
    from conjoin.predict.calibration import calibrate as fit_calibration
    from conjoin.predict.predictor import open_run
    from conjoin.runs.calibration_curves import write_calibration
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.open import reported_weights
    from conjoin.runtime.device import choose_device

    fitting = Fitting(method=method, ratio=ratio, fewest=fewest, seed=seed)  # type: ignore[arg-type]
    folder = RunFolder(run)
    predictor = open_run(run, weights=weights, device=str(choose_device(device).device))
    with ProgressDisplay().watching() as watcher:
        calibration = fit_calibration(predictor, fitting, track=watcher.track)
    with folder.locked():
        file = write_calibration(folder, predictor.graph, calibration, weights=reported_weights(folder, weights))
    if json:
        emit({"file": str(file), "about": calibration.about, "measured": calibration.measured})
        return
    rows = [
        (title, PARTS[part], *(f"{measured[part][number]:.4g}" for number in ("ece", "brier", "log_loss", "facts")))
        for name, title in METHODS.items()
        if (measured := calibration.measured.get(name))
        for part in PARTS
        if part in measured
    ]
    if rows:
        columns = ("probability", "over", "ECE", "Brier", "log loss", "facts")
        show_table(f"{run}: reliability on {calibration.measured['facts']:,} test facts", columns, rows, left=2)
    else:
        say("The graph has no test facts, so the reliability of the probabilities cannot be measured.")
    about = calibration.about
    if mined := calibration.measured.get("mined"):
        show(
            f"Mining with the {mined['hidden']:,} test facts hidden: {mined['right']} of the first {mined['first']} "
            f"mined facts were test facts; their probabilities sum to {mined['said']:.0f}."
        )
    show(
        f"{about['own_curves']} relations with at least {about['fewest']} validation facts have separate curves, the "
        f"others share one. Compared with {about['against']}, prior {about['prior']:.2g}. Written to {file}"
    )
