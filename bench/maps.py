"""Compare maps of tied and untied embeddings: python -m bench.maps [-o FILE.json] [--images docs/images]

Trains tied and untied forms on the atlas and on UMLS, projects the entities to two dimensions as the explorer does
(PCA, UMAP, PaCMAP), and compares each map with the embedding, with types and with shared facts.
`python -m scripts.write_maps_doc` writes docs/maps.md from the result.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import conjoin
from conjoin.graph.graph import Graph
from conjoin.server.projection import project

RESULTS = Path(__file__).resolve().parent / "results"
CORES = os.cpu_count() or 1
FORMS = ("complex", "complex-conj", "5star", "5star-conj", "5star-neg")
PAIRS = (("complex", "complex-conj"), ("5star", "5star-conj"), ("5star", "5star-neg"))
METHODS = ("pca", "umap", "pacmap")
PICTURES = (("umap", "complex", "complex-conj"), ("pacmap", "5star", "5star-conj"))
TYPES = (
    ("country", (("borders", 0), ("has_capital", 0), ("has_currency", 0), ("official_language", 0), ("speaks", 0))),
    ("city", (("near", 0), ("located_in", 0), ("has_capital", 2))),
    ("currency", (("has_currency", 2), ("had_currency", 2), ("replaced_by", 0), ("replaced_by", 2))),
    ("language", (("official_language", 2), ("regional_language", 2), ("speaks", 2), ("written_in", 0))),
    ("script", (("written_in", 2),)),
    ("time", (("keeps_time", 2),)),
    ("region or state", (("part_of", 0), ("part_of", 2))),
)
"""Types of the atlas and the relations and roles that identify them; an entity gets the first type that fits."""


@dataclass(frozen=True)
class Task:
    """A graph, its training settings, and the number of neighbours for the measures."""

    rank: int
    recipe: conjoin.Recipe
    k: int
    typed: bool


TASKS = {
    "atlas": Task(rank=32, recipe=conjoin.Recipe(epochs=20, batch=200), k=15, typed=True),
    "umls": Task(rank=32, recipe=conjoin.Recipe(epochs=30, batch=100), k=10, typed=False),
}


def types_of(graph: Graph) -> np.ndarray:
    """The type of every entity of the atlas, as a number."""
    facts = graph.everything()
    found = np.full(graph.n_entities, len(TYPES))
    for number, (_, places) in reversed(list(enumerate(TYPES))):
        for relation, end in places:
            found[facts[facts[:, 1] == graph.relations.index[relation], end]] = number
    return found


def shared_facts(graph: Graph) -> np.ndarray:
    """(n, n) True for two entities that share a fact except for themselves: both border France."""
    n, r = graph.n_entities, graph.n_relations
    h, p, t = graph.train.T
    places = np.concatenate([p * n + t, (p + r) * n + h])
    _, column = np.unique(places, return_inverse=True)
    table = np.zeros((n, column.max() + 1), dtype=np.float32)
    table[np.concatenate([h, t]), column] = 1
    alike = table @ table.T > 0
    np.fill_diagonal(alike, val=False)
    return alike


def nearest(rows: np.ndarray, k: int) -> np.ndarray:
    """The k nearest other rows of every row, (n, k)."""
    squares = (rows**2).sum(axis=1)
    far = squares[:, None] + squares[None] - 2 * rows @ rows.T
    np.fill_diagonal(far, np.inf)
    return np.argsort(far, axis=1, kind="stable")[:, :k]


def measure(
    points: np.ndarray, rows: np.ndarray, *, k: int, types: np.ndarray | None, alike: np.ndarray
) -> dict[str, float | None]:
    """Agreement of a map with the embedding (two numbers), with types and with shared facts."""
    from sklearn.manifold import trustworthiness

    near, there = nearest(points, k), nearest(rows, k)
    kept = np.mean([len(np.intersect1d(a, b, assume_unique=True)) for a, b in zip(near, there, strict=True)]) / k
    inside = alike.any(axis=1)
    return {
        "trustworthiness": float(trustworthiness(rows, points, n_neighbors=k)) if points is not rows else 1.0,
        "kept": float(kept),
        "same_type": None if types is None else float((types[near] == types[:, None]).mean()),
        "shared_fact": float(np.take_along_axis(alike, near, axis=1)[inside].mean()),
    }


def chance(types: np.ndarray | None, alike: np.ndarray) -> dict[str, float | None]:
    """The same measures for random neighbours."""
    n, inside = len(alike), alike.any(axis=1)
    same = None if types is None else float(((types[:, None] == types[None]).sum() - n) / (n * (n - 1)))
    return {"same_type": same, "shared_fact": float(alike[inside].sum() / (inside.sum() * (n - 1)))}


def main() -> None:
    """Train, project, measure and draw."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--out", type=Path, default=RESULTS / f"maps_{CORES}cores_{date.today()}.json")
    options.add_argument("--images", type=Path, default=Path("docs/images"))
    options.add_argument("--seeds", type=int, default=5)
    chosen = options.parse_args()
    warnings.filterwarnings("ignore", module="umap|pacmap|sklearn|numba")
    rows: list[dict[str, Any]] = []
    by_chance: dict[str, Any] = {}
    for name, task in TASKS.items():
        graph = conjoin.load(name)
        types = types_of(graph) if task.typed else None
        alike = shared_facts(graph)
        by_chance[name] = chance(types, alike)
        for form in FORMS:
            for seed in range(chosen.seeds):
                model = conjoin.Model(
                    conjoin.form(form), graph.n_entities, graph.n_relations, rank=task.rank, seed=seed
                )
                recipe = task.recipe
                for _ in conjoin.train(model, graph, recipe, seed=seed):
                    pass
                mrr = conjoin.rank(model, graph, "test").mrr()
                weight = model.entities.weight.detach()
                high = weight.numpy().astype(np.float64)
                for method in ("embedding", *METHODS):
                    began = time.perf_counter()
                    points = high if method == "embedding" else project(weight, method, seed=seed).astype(np.float64)
                    took = time.perf_counter() - began
                    found = measure(points, high, k=task.k, types=types, alike=alike)
                    rows.append({"graph": name, "form": form, "seed": seed, "method": method, "mrr": mrr, **found})
                    if seed == 0 and types is not None:
                        _keep(chosen.images, method, form, points, types)
                    print(f"{name} {form} {seed} {method}: {took:.1f} s {found}", flush=True)
    settings = {
        name: {"rank": task.rank, "epochs": task.recipe.epochs, "batch": task.recipe.batch, "k": task.k}
        for name, task in TASKS.items()
    }
    report = {"settings": settings, "pairs": PAIRS, "chance": by_chance, "rows": rows}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


_POINTS: dict[tuple[str, str], np.ndarray] = {}


def _keep(folder: Path, method: str, form: str, points: np.ndarray, types: np.ndarray) -> None:
    """Store a layout; draw a picture when both of its layouts exist."""
    _POINTS[method, form] = points
    for way, first, second in PICTURES:
        if way == method and second == form:
            draw(folder / f"map-{way}-{second}.png", way, (first, second), types)


def draw(file: Path, method: str, forms: Sequence[str], types: np.ndarray) -> None:
    """Two maps side by side, coloured by type."""
    from conjoin.forms.notation import SYMBOLS
    from conjoin.geometry.sphere_figure import write_figure, written
    from conjoin.runtime.plotting import label, panels, styled

    colours = ("#cc3311", "#bbbbbb", "#009988", "#0077bb", "#33bbee", "#ee3377", "#ee7733", "#000000")
    with styled():
        figure, axes = panels(2, columns=2, width=3.3, height=3.1, left=0.1, right=0.1, top=0.35, bottom=0.42)
        for ax, form in zip(axes, forms, strict=True):
            points = _POINTS[method, form]
            for number, (kind, _) in sorted(enumerate(TYPES), key=lambda one: -int((types == one[0]).sum())):
                here = points[types == number]
                ax.plot(
                    here[:, 0], here[:, 1], "o", markersize=1.9, markeredgewidth=0, color=colours[number], label=kind
                )
            ax.set_title(f"{label(SYMBOLS[form])}, {method.upper() if method == 'umap' else 'PaCMAP'}", loc="center")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.spines[:].set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, markerscale=2.6,
                      handletextpad=0.1, columnspacing=1.2, bbox_to_anchor=(0.5, 0.0))  # fmt: skip
    write_figure(file, written(figure, "png"))


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    torch.set_num_threads(1)
    main()
