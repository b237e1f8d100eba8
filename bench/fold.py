"""Measure the quality of entities that are folded in: python -m bench.fold

Some entities of the atlas are removed with all their facts, and a model is trained on the rest. Half of the removed
facts are folded in, and the other half are the test questions. Facts between the same two entities are in one half.

The comparisons are a model trained from scratch with the folded facts, a model that continues from the first one for
some epochs (`train --from`), and the rows of random other entities.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import conjoin
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.fold_in import fold_in
from conjoin.predict.predictor import Predictor
from conjoin.runs.warm_start import initial_rows

RANK = 32
RECIPE = conjoin.Recipe(epochs=20, batch=200, lr=0.1, n3=0.02)


def trained(
    graph: Graph, recipe: conjoin.Recipe, *, start: Predictor | None = None, form: str
) -> tuple[Predictor, float]:
    model = Model(form, graph.n_entities, graph.n_relations, rank=RANK)
    if start is not None:
        model.load_state_dict(initial_rows(start.model, start.graph, graph, seed=0, scale=recipe.initial_scale))
    return Predictor(model, graph), sum(epoch.seconds for epoch in conjoin.train(model.requires_grad_(), graph, recipe))


def names_of(graph: Graph, facts: np.ndarray) -> list[tuple[str, str, str]]:
    e, r = graph.entities.names, graph.relations.names
    return [(e[h], r[x], e[t]) for h, x, t in facts.tolist()]


def asked(predictor: Predictor, left: list[tuple[str, str, str]], gone: set[str], graph: Graph) -> dict[str, Any]:
    """MRR of the held-out facts: with the new entity given, and with the new entity as the answer."""
    own = predictor.graph
    ids = np.array([[own.entities.index[h], own.relations.index[r], own.entities.index[t]] for h, r, t in left])
    everything = np.array(
        [
            [own.entities.index[h], own.relations.index[r], own.entities.index[t]]
            for h, r, t in names_of(graph, graph.everything())
        ]
    )
    ranks = conjoin.rank(predictor.model, Graph(own.entities, own.relations, everything, everything[:0], ids), "test")
    new_head = np.array([own.entities.names[i] in gone for i in ranks.head])
    given = new_head == (ranks.direction == 0)
    parts = ranks.by(given.astype(int))
    old = [fact for fact in names_of(graph, graph.test) if fact[0] not in gone and fact[2] not in gone]
    old_ids = np.array([[own.entities.index[h], own.relations.index[r], own.entities.index[t]] for h, r, t in old])
    others = conjoin.rank(
        predictor.model, Graph(own.entities, own.relations, everything, everything[:0], old_ids), "test"
    )
    return {
        "mrr": round(ranks.mrr(), 3),
        "mrr, the new entity is given": round(parts[1].mrr(), 3),
        "mrr, the new entity is the answer": round(parts[0].mrr(), 3),
        "hits@10": round(ranks.hits(10), 3),
        "mrr of the other test facts": round(others.mrr(), 3),
    }


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100)
    parser.add_argument("--form", default="complex")
    parser.add_argument("--more-epochs", type=int, default=5)
    chosen = parser.parse_args()
    graph = conjoin.load("atlas")
    chance = np.random.default_rng(0)
    facts = graph.everything()
    degree = np.bincount(facts[:, [0, 2]].ravel(), minlength=graph.n_entities)
    gone_ids = chance.choice(np.flatnonzero((degree >= 6) & (degree <= 40)), chosen.entities, replace=False)
    gone = {graph.entities.names[i] for i in gone_ids}
    ends_gone = np.isin(facts[:, [0, 2]], gone_ids).sum(axis=1)
    one_end = facts[ends_gone == 1]
    pairs = np.unique(np.sort(one_end[:, [0, 2]], axis=1), axis=0, return_inverse=True)[1].ravel()
    half = (chance.random(pairs.max() + 1) < 0.5)[pairs]
    given, left = names_of(graph, one_end[half]), names_of(graph, one_end[~half])
    told = {name for h, _, t in given for name in (h, t)}
    left = [fact for fact in left if {fact[0], fact[2]} & gone <= told]
    rest = names_of(graph, graph.train[~np.isin(graph.train[:, [0, 2]], gone_ids).any(axis=1)])
    here = {name for h, _, t in rest for name in (h, t)} | told
    left = [fact for fact in left if fact[0] in here and fact[2] in here]
    kept_test = [f for f in names_of(graph, graph.test) if f[0] in here - gone and f[2] in here - gone]
    graph = Graph.from_triples([*rest, *given], left, kept_test, name="atlas")
    without, seconds = trained(Graph.from_triples(rest), RECIPE, form=chosen.form)
    start = time.perf_counter()
    folded = fold_in(without, given, recipe=RECIPE)
    fold_seconds = time.perf_counter() - start
    both = Graph.from_triples([*rest, *given])
    saw, saw_seconds = trained(both, RECIPE, form=chosen.form)
    longer, _ = trained(both, replace(RECIPE, epochs=3 * RECIPE.epochs), form=chosen.form)
    rows = torch.from_numpy(np.flatnonzero([name in gone for name in folded.graph.entities.names]))
    others = torch.from_numpy(np.flatnonzero([name not in gone for name in folded.graph.entities.names]))
    guess = Predictor(Model(chosen.form, both.n_entities, both.n_relations, rank=RANK), folded.graph)
    guess.model.load_state_dict(folded.model.state_dict())
    guess.model.entities.weight[rows] = guess.model.entities.weight[
        others[torch.from_numpy(chance.permutation(len(others)))[: len(rows)]]
    ]
    report: dict[str, Any] = {
        "form": chosen.form,
        "entities removed": len(rows),
        "facts folded in": len(given),
        "facts asked": len(left),
        "seconds": {
            "training without": round(seconds, 1),
            "folding": round(fold_seconds, 2),
            "training with": round(saw_seconds, 1),
        },
        "random row": asked(guess, left, gone, graph),
        "folded in": asked(folded, left, gone, graph),
        "trained with them": asked(saw, left, gone, graph),
        "trained with them three times as long": asked(longer, left, gone, graph),
    }
    for lr in (0.1, 0.03, 0.01):
        recipe = conjoin.Recipe(epochs=chosen.more_epochs, batch=200, lr=lr, n3=0.02)
        went_on, took = trained(both, recipe, start=without, form=chosen.form)
        name = f"went on for {chosen.more_epochs} epochs, lr {lr}"
        report[name] = {**asked(went_on, left, gone, graph), "seconds": round(took, 1)}
        after, _ = trained(both, recipe, start=folded, form=chosen.form)
        report[f"folded in, then {name}"] = asked(after, left, gone, graph)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
