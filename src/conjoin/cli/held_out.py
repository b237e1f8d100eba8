"""Before a training: facts of valid and test that would measure nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from conjoin.cli.screen import say

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph
    from conjoin.serve.predictor import Predictor


def held_apart(graph: Graph, before: Predictor | None, run: Path | None, *, given: bool) -> Graph:
    """What was trained on measures nothing: it goes to train, and is told where the split was given."""
    from conjoin.graph.graph import HELD_OUT
    from conjoin.serve.extend import among, kept_apart, trained_before

    trained = {split: among(graph.triples(split), graph.train) for split in HELD_OUT if given}
    if count := sum(int(marks.sum()) for marks in trained.values()):
        say(f"{graph.name}: {count:,} valid and test facts are also in train, so results on them flatter")
    if before is None:
        return graph
    if given:
        marks = trained_before(graph, before.graph)
        if count := sum(int((marks[split] & ~trained[split]).sum()) for split in HELD_OUT):
            say(
                f"{graph.name}: {run} was trained on {count:,} valid and test facts, so results on them flatter: "
                "put them into train, and new facts alone into valid and test"
            )
        return graph
    apart = kept_apart(graph, before.graph)
    if moved := len(graph.valid) + len(graph.test) - len(apart.valid) - len(apart.test):
        say(
            f"{graph.name}: {moved:,} valid and test facts between entities that {run} was trained to link "
            f"go to train: {len(apart.train):,} train, {len(apart.valid):,} valid, {len(apart.test):,} test"
        )
    return apart
