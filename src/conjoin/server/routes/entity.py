"""The page of an entity: its facts and the graph around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.graph.graph import SPLITS, Ids
from conjoin.server.open_runs import OpenRun
from conjoin.server.settings import EDGES


def entity_page(run: OpenRun, entity: int, facts: int, nodes: int) -> dict[str, Any]:
    """The answer of /v1/entity."""
    listed: list[dict[str, Any]] = []
    total = 0
    for split in SPLITS:
        triples = run.graph.triples(split)
        mine = triples[(triples[:, 0] == entity) | (triples[:, 2] == entity)]
        total += len(mine)
        listed += [{**run.fact(*fact), "split": split} for fact in mine[: max(0, facts - len(listed))].tolist()]
    return {
        "run": run.name,
        "entity": run.entity(entity),
        "total": total,
        "facts": listed,
        "graph": ego_graph(run, entity, nodes),
    }


def ego_graph(run: OpenRun, entity: int, most: int) -> dict[str, Any]:
    """At most `most` entities within two hops, by descending degree, and the training facts between them."""
    train, entities = run.graph.train, run.graph.entities
    hops = {entity: 0}
    for hop in (1, 2):
        near = _neighbours(train, np.fromiter(hops, dtype=np.int64), run.graph.n_entities)
        new = [int(e) for e in near[np.argsort(-run.degree[near], kind="stable")] if int(e) not in hops]
        hops.update(dict.fromkeys(new[: most - len(hops)], hop))
    inside = np.zeros(run.graph.n_entities, dtype=bool)
    inside[list(hops)] = True
    between = train[inside[train[:, 0]] & inside[train[:, 2]]]
    # If there are too many edges, keep the edges of the entity itself.
    own = (between[:, 0] == entity) | (between[:, 2] == entity)
    between = between[np.argsort(~own, kind="stable")][:EDGES]
    return {
        "nodes": [{**run.entity(e), "hops": hop} for e, hop in hops.items()],
        "edges": [
            {
                "source": entities.names[h],
                "target": entities.names[t],
                "relation": run.named(run.graph.relations, r),
            }
            for h, r, t in between.tolist()
        ],
    }


def _neighbours(train: Ids, centre: Ids, n_entities: int) -> Ids:
    inside = np.zeros(n_entities, dtype=bool)
    inside[centre] = True
    ends = np.concatenate([train[inside[train[:, 0]], 2], train[inside[train[:, 2]], 0]])
    return np.unique(ends)
