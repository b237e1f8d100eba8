"""Write the measured part of docs/calibration.md: python -m scripts.write_calibration_doc RUN [RUN ...]

Each run is calibrated in several ways and measured on its test facts. Nothing is written into the runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from scripts.script_words import parser

from conjoin.predict.calibration import Fitting, calibrate
from conjoin.predict.predictor import open_run
from conjoin.runs.calibration_curves import Calibration

DOC = Path(__file__).resolve().parents[1] / "docs" / "calibration.md"
MARK = "<!-- written by scripts/write_calibration_doc.py -->"
FITTINGS = {
    "isotonic, own curve from 50 facts (default)": Fitting(),
    "isotonic, own curve from 20 facts": Fitting(fewest=20),
    "Platt, own curve from 50 facts": Fitting(method="platt"),
}
UNCALIBRATED = {
    "one isotonic curve for all relations": "pooled",
    "uncalibrated: softmax over all entities": "softmax",
    "uncalibrated: sigmoid of the score": "sigmoid",
}
NUMBERS = ("ece", "brier", "log_loss")


def table_of(rows: dict[str, dict[str, Any]], digits: str = ".4f") -> list[str]:
    lines = ["| probability | ECE | Brier | log loss |", "|---|---:|---:|---:|"]
    return lines + [
        f"| {name} | " + " | ".join(f"{part[n]:{digits}}" for n in NUMBERS) + " |" for name, part in rows.items()
    ]


def section(run: Path) -> list[str]:
    predictor = open_run(run)
    settings = predictor.settings
    assert settings is not None
    against_all = {name: calibrate(predictor, fitting) for name, fitting in FITTINGS.items()}
    default = against_all["isotonic, own curve from 50 facts (default)"]
    shown = {name: calibration.measured["calibrated"]["shown"] for name, calibration in against_all.items()}
    shown |= {name: default.measured[key]["shown"] for name, key in UNCALIBRATED.items()}
    everything = {name: calibration.measured["calibrated"]["candidates"] for name, calibration in against_all.items()}
    everything |= {name: default.measured[key]["candidates"] for name, key in UNCALIBRATED.items()}
    one = {method: calibrate(predictor, Fitting(method=method, ratio=1)) for method in ("isotonic", "platt")}
    balanced = {
        f"{method}, own curve from 50 facts": c.measured["calibrated"]["candidates"] for method, c in one.items()
    }
    balanced["uncalibrated: sigmoid of the score"] = one["isotonic"].measured["sigmoid"]["candidates"]
    share = 100 * default.measured["sigmoid"]["shown"]["facts"]
    return [
        f"## {settings.data}, {settings.form}, rank {settings.rank}",
        "",
        f"Fitted on {default.about['facts']:,} validation facts ({default.about['own_curves']} own curves of "
        f"{2 * predictor.graph.n_relations}), measured on {default.measured['facts']:,} test facts, both directions.",
        "",
        f"Ten best new answers of each question, {share:.1f} % of them facts that were held out:",
        "",
        *table_of(shown),
        "",
        *bins(default),
        "",
        f"All candidates, prior {default.measured['prior']:.2g} (few are in any doubt, so all errors are small):",
        "",
        *table_of(everything, ".2g"),
        "",
        "One random corruption per fact (`--ratio 1`), prior 0.5:",
        "",
        *table_of(balanced),
        "",
    ]


def bins(calibration: Calibration) -> list[str]:
    lines = ["| probability said | answers | mean said | share of facts | softmax: mean said | share of facts |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    said, plain = (
        {line["from"]: line for line in calibration.measured[key]["shown"]["table"]}
        for key in ("calibrated", "softmax")
    )
    for start in sorted({*said, *plain}):
        ours, theirs = said.get(start), plain.get(start)
        cells = [f"{start:.1f} to {start + 0.1:.1f}"]
        cells += (
            [f"{ours['candidates']:,.0f}", f"{ours['probability']:.3f}", f"{ours['facts']:.3f}"] if ours else [""] * 3
        )
        cells += [f"{theirs['probability']:.3f}", f"{theirs['facts']:.3f}"] if theirs else [""] * 2
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Replace what follows the mark."""
    words = parser(__doc__)
    words.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    runs = words.parse_args().runs
    kept, mark, _ = DOC.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        sys.exit(f"{DOC} has no line {MARK}")
    lines = [line for run in runs for line in section(run)]
    DOC.write_text(f"{kept}{MARK}\n\n" + "\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
