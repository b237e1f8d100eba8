"""The effect of a relation on one coordinate, for the Geometry page: the scene and the coordinates to choose from."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.errors import UsageError
from conjoin.geometry.relation_maps import RelationMaps, best_head, reading_of, symbol
from conjoin.geometry.scene import Scene
from conjoin.server.open_runs import OpenRun
from conjoin.server.schemas import GeometryRequest


def geometry(run: OpenRun, params: GeometryRequest, relation: int, entity: int | None) -> dict[str, Any]:
    """The answer of /v1/geometry. If the relation is not a Möbius map, `scene` is None and `note` gives the reason."""
    graph, model = run.graph, run.predictor.model
    as_mobius = params.reading == "mobius"
    reading = reading_of(model.form, as_mobius=as_mobius)
    answer: dict[str, Any] = {
        "run": run.name,
        "form": str(model.form),
        "symbol": symbol(model),
        "relation": run.named(graph.relations, relation),
        "reverse": params.reverse,
        "reading": reading.drawn,
        "note": reading.note,
        "entity": None,
        "coordinates": {"kind": [], "weight": []},
        "scene": None,
    }
    if reading.drawn is None:
        return answer
    maps = RelationMaps(model, graph, relation + params.reverse * graph.n_relations, as_mobius=as_mobius)
    coordinate = maps.strongest() if params.coordinate is None else params.coordinate
    if coordinate >= len(maps):
        raise UsageError(f"Unknown coordinate {coordinate}. This run has coordinates 0 to {len(maps) - 1}.")
    e = best_head([(maps, coordinate)]) if entity is None else entity
    scene = Scene(
        map=maps.map(coordinate),
        place=maps.places(coordinate, [e])[0],
        run=run.name,
        form=answer["symbol"],
        relation=graph.relations.label(relation) + (", reversed" if params.reverse else ""),
        entity=graph.entities.label(e),
        coordinate=coordinate,
        note=reading.note,
        borrowed=reading.drawn == "mobius",
        iterates=params.iterates,
    )
    weights = np.nan_to_num(maps.weights)
    kinds = [maps.map(i).kind for i in range(len(maps))]
    return {
        **answer,
        "entity": run.named(graph.entities, e),
        "coordinates": {"kind": kinds, "weight": [round(float(w), 6) for w in weights]},
        "scene": scene.to_json(),
    }
