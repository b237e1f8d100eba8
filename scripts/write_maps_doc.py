"""Write docs/maps.md from what bench/maps.py measured: python -m scripts.write_maps_doc

Differences are tied minus untied at the same seed. "Better" and "worse" are said where a paired t-test over the seeds,
corrected after Holm for all comparisons of the page, gives p < .05.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from bench.compare.results import latest
from scripts.script_words import parser

from conjoin.forms.notation import SYMBOLS
from conjoin.report.stats import holm

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "maps.md"
METHODS = {"embedding": "the embedding itself", "pca": "PCA", "umap": "UMAP", "pacmap": "PaCMAP"}
MEASURES = {
    "trustworthiness": "trustworthiness",
    "kept": "neighbours kept",
    "same_type": "same type",
    "shared_fact": "shared fact",
}
ALPHA = 0.05
HOW = """The paper does not answer whether sharing parameters by conjugation gives better visualisations. An entity has
the same 2·rank numbers in every form; only relations are tied. So only the trained positions of entities can differ.

`python -m bench.maps` trains each form with {seeds} seeds.
The settings are {settings}.
It computes maps of the entities with the explorer's PCA, UMAP and PaCMAP (defaults, with the model's seed), and
measures the k nearest neighbours of each entity:

| measure | meaning |
|---|---|
| trustworthiness | Are neighbours on the map also near in the embedding (scikit-learn)? 1 is best. |
| neighbours kept | the share of the k nearest in the embedding that are among the k nearest on the map |
| same type | the share of neighbours on the map with the entity's type (country, city, currency, …; atlas only) |
| shared fact | the share of neighbours on the map with an equal training fact, such as both bordering France |

The last two compare the map with the graph. The rows of the embedding itself show what a faithful map would reach.

![UMAP of the atlas, ComplEx and Complεx](images/map-umap-complex-conj.png)
![PaCMAP of the atlas, 5★E and 5★ε](images/map-pacmap-5star-conj.png)
"""
SAYS = {
    "better": "tied is better",
    "worse": "tied is worse",
    "same": "no difference that the seeds show",
}


def values(report: dict[str, Any], measure: str, **where: str) -> np.ndarray:
    """A measure of every seed, in their order."""
    rows = [row for row in report["rows"] if all(row[key] == value for key, value in where.items())]
    return np.array([row[measure] for row in sorted(rows, key=lambda row: int(row["seed"]))], dtype=float)


def paired(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Every comparison: tied minus untied, with its corrected p and what it says."""
    from scipy.stats import ttest_rel

    found = []
    for graph in report["settings"]:
        for free, tied in report["pairs"]:
            for method in METHODS:
                for measure in MEASURES:
                    a = values(report, measure, graph=graph, form=free, method=method)
                    b = values(report, measure, graph=graph, form=tied, method=method)
                    if np.isnan(a).any() or (method == "embedding" and measure in ("trustworthiness", "kept")):
                        continue
                    p = float(ttest_rel(b, a).pvalue)
                    difference, spread = float((b - a).mean()), float((b - a).std(ddof=1))
                    place = {"graph": graph, "free": free, "tied": tied, "method": method, "measure": measure}
                    found.append({**place, "difference": difference, "sd": spread, "p": p})
    for one, corrected in zip(found, holm([None if math.isnan(one["p"]) else one["p"] for one in found]), strict=True):
        one["holm"] = math.nan if corrected is None else corrected
        one["says"] = "same" if not one["holm"] < ALPHA else "better" if one["difference"] > 0 else "worse"
    return found


def measured() -> Path:
    """The newest file that bench/maps.py wrote on two cores."""
    file = latest(ROOT / "bench" / "results", "maps_2cores")
    if file is None:
        raise SystemExit("bench/results has no maps_2cores_<date>.json: python -m bench.maps writes one")
    return file


def page(file: Path) -> str:
    """The whole page, from a file of measurements."""
    report = json.loads(file.read_text(encoding="utf-8"))
    tests = paired(report)
    seeds = len({row["seed"] for row in report["rows"]})
    on_maps = [one for one in tests if one["method"] in ("umap", "pacmap")]
    largest = max(on_maps, key=lambda one: abs(one["difference"]))
    where = f"{METHODS[largest['method']]}, {SYMBOLS[largest['tied']]} against {SYMBOLS[largest['free']]}"
    lines = [
        "# Do tied embeddings make better maps?",
        "",
        f"<!-- written by scripts/write_maps_doc.py from {file.relative_to(ROOT).as_posix()} -->",
        "",
        *_answer(tests, sum(not math.isnan(one["p"]) for one in tests)),
        "",
        f"The largest difference on a UMAP or PaCMAP map is {largest['difference']:+.3f} "
        f"({MEASURES[largest['measure']]}, {where}, {largest['graph']}; corrected p = {_p(largest['holm'])}).",
        "",
        _how(report, seeds),
    ]
    for graph in report["settings"]:
        lines += [*_means(report, graph), "", *_differences(tests, graph), ""]
    return "\n".join(lines)


def _answer(tests: list[dict[str, Any]], total: int) -> list[str]:
    """One straight sentence, then a line for every pair and graph."""
    on_maps = [one for one in tests if one["method"] in ("umap", "pacmap")]
    sure = [one for one in on_maps if one["says"] != "same"]
    hints = [one for one in on_maps if one["p"] < ALPHA]
    if sure:
        start = f"**In {len(sure)} of {len(on_maps)} comparisons of UMAP and PaCMAP maps there is a difference.**"
    elif hints:
        start = (
            f"**No, as far as these seeds show.** None of {len(on_maps)} UMAP and PaCMAP comparisons is significant."
        )
    else:
        start = f"**No.** None of {len(on_maps)} comparisons of UMAP and PaCMAP maps shows a difference."
    lines = [
        start,
        f"With few seeds and a correction for all {total} tests of this page (Holm), only large differences are",
        "significant. These are the results of single tests, without the correction:",
        "",
    ]
    for graph, free, tied in dict.fromkeys((one["graph"], one["free"], one["tied"]) for one in on_maps):
        here = [one for one in on_maps if (one["graph"], one["free"], one["tied"]) == (graph, free, tied)]
        above = [one for one in here if one["p"] < ALPHA and one["difference"] > 0]
        below = [one for one in here if one["p"] < ALPHA and one["difference"] < 0]
        low, high = min(one["difference"] for one in here), max(one["difference"] for one in here)
        lines.append(
            f"- {SYMBOLS[tied]} against {SYMBOLS[free]}, {graph}: differences from {low:+.3f} to {high:+.3f}; "
            f"of {len(here)} single tests {len(above)} are significantly better and {len(below)} worse (p < {ALPHA})."
        )
    return lines


def _how(report: dict[str, Any], seeds: int) -> str:
    settings = "; ".join(
        f"{graph}: rank {s['rank']}, {s['epochs']} epochs, batch {s['batch']}, k = {s['k']}"
        for graph, s in report["settings"].items()
    )
    return HOW.format(seeds=seeds, settings=settings)


def _means(report: dict[str, Any], graph: str) -> list[str]:
    typed = report["chance"][graph]["same_type"] is not None
    shown = [measure for measure in MEASURES if typed or measure != "same_type"]
    lines = [
        f"## {graph}",
        "",
        "Mean over seeds ± standard deviation.",
        "",
        "| form | test MRR | map | " + " | ".join(MEASURES[measure] for measure in shown) + " |",
        "|---|---:|---|" + "---:|" * len(shown),
    ]
    for form in dict.fromkeys(row["form"] for row in report["rows"]):
        for method, words in METHODS.items():
            cells = []
            for measure in shown:
                found = values(report, measure, graph=graph, form=form, method=method)
                alone = method == "embedding" and measure in ("trustworthiness", "kept")
                cells.append("" if alone else f"{found.mean():.3f} ± {found.std(ddof=1):.3f}")
            mrr = values(report, "mrr", graph=graph, form=form, method=method).mean()
            first = f"| {SYMBOLS[form]} | {mrr:.3f} |" if method == "embedding" else "| | |"
            lines.append(f"{first} {words} | " + " | ".join(cells) + " |")
    by_chance = [report["chance"][graph].get(measure) for measure in shown]
    lines.append("| by chance | | | " + " | ".join("" if c is None else f"{c:.3f}" for c in by_chance) + " |")
    return lines


def _differences(tests: list[dict[str, Any]], graph: str) -> list[str]:
    lines = [
        "Tied minus untied at the same seed.",
        "",
        "| pair | map | measure | difference | p | corrected | |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for one in tests:
        if one["graph"] != graph:
            continue
        pair = f"{SYMBOLS[one['tied']]} − {SYMBOLS[one['free']]}"
        numbers = f"{one['difference']:+.3f} ± {one['sd']:.3f} | {_p(one['p'])} | {_p(one['holm'])}"
        words = f"{pair} | {METHODS[one['method']]} | {MEASURES[one['measure']]}"
        lines.append(f"| {words} | {numbers} | {SAYS[one['says']]} |")
    return lines


def _p(p: float) -> str:
    return "–" if math.isnan(p) else f"{p:.2g}"


if __name__ == "__main__":
    parser(__doc__).parse_args()
    PAGE.write_text(page(measured()), encoding="utf-8")
