"""The effect of a relation on one coordinate, for the Geometry page: the scene and the coordinates to choose from."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.errors import UsageError
from conjoin.geometry.relation_maps import RelationMaps, best_head, reading_of, symbol
from conjoin.geometry.scene import Scene
from conjoin.server.open_runs import OpenRun
from conjoin.server.schemas import GeometryRequest


def geometry(run: OpenRun, wanted: GeometryRequest, relation: int, entity: int | None) -> dict[str, Any]:
    """The answer of /v1/geometry. If the relation is not a Möbius map, `scene` is None and `note` gives the reason."""
    graph, model = run.graph, run.predictor.model
    as_mobius = wanted.reading == "mobius"
    reading = reading_of(model.form, as_mobius=as_mobius)
    found: dict[str, Any] = {
        "run": run.name,
        "form": str(model.form),
        "symbol": symbol(model),
        "relation": run.named(graph.relations, relation),
        "reverse": wanted.reverse,
        "reading": reading.drawn,
        "note": reading.note,
        "entity": None,
        "coordinates": {"kind": [], "weight": []},
        "scene": None,
    }
    if reading.drawn is None:
        return found
    moves = RelationMaps(model, graph, relation + wanted.reverse * graph.n_relations, as_mobius=as_mobius)
    coordinate = moves.strongest() if wanted.coordinate is None else wanted.coordinate
    if coordinate >= len(moves):
        raise UsageError(f"Unknown coordinate {coordinate}. This run has coordinates 0 to {len(moves) - 1}.")
    e = best_head([(moves, coordinate)]) if entity is None else entity
    scene = Scene(
        map=moves.map(coordinate),
        place=moves.places(coordinate, [e])[0],
        run=run.name,
        form=found["symbol"],
        relation=graph.relations.label(relation) + (", reversed" if wanted.reverse else ""),
        entity=graph.entities.label(e),
        coordinate=coordinate,
        note=reading.note,
        borrowed=reading.drawn == "mobius",
        iterates=wanted.iterates,
    )
    weights = np.nan_to_num(moves.weights)
    kinds = [moves.map(i).kind for i in range(len(moves))]
    return {
        **found,
        "entity": run.named(graph.entities, e),
        "coordinates": {"kind": kinds, "weight": [round(float(w), 6) for w in weights]},
        "scene": scene.to_json(),
    }
