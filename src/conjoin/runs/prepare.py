"""Before a training: its settings, and held-out facts that an earlier training knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.forms.base import Form
    from conjoin.graph.graph import Graph


def held_apart(
    graph: Graph, before: Graph | None, run: Path | None, *, given: bool, say: Callable[[str], None]
) -> Graph:
    """Move facts that the earlier run was trained on to train; `say` warns if the user supplied the split."""
    from conjoin.graph.graph import HELD_OUT
    from conjoin.runs.warm_start import contained_in, move_leaks_to_train, seen_in_training

    trained = {split: contained_in(graph.triples(split), graph.train) for split in HELD_OUT if given}
    if count := sum(int(marks.sum()) for marks in trained.values()):
        say(
            f"{graph.name}: {count:,} valid and test facts are also in train, "
            "so metrics on them are too optimistic. Remove them from train, or from valid and test."
        )
    if before is None:
        return graph
    if given:
        marks = seen_in_training(graph, before)
        if count := sum(int((marks[split] & ~trained[split]).sum()) for split in HELD_OUT):
            say(
                f"{graph.name}: {run} was trained on {count:,} valid and test facts, so metrics on them are too "
                "optimistic. Move them to train, and put only new facts into valid and test."
            )
        return graph
    apart = move_leaks_to_train(graph, before)
    if moved := len(graph.valid) + len(graph.test) - len(apart.valid) - len(apart.test):
        say(
            f"{graph.name}: moved {moved:,} valid and test facts to train, because {run} was trained on facts between "
            f"the same entities: {len(apart.train):,} train, {len(apart.valid):,} valid, {len(apart.test):,} test"
        )
    return apart


def training_settings(
    graph: Graph,
    form: Form,
    given: Mapping[str, Any],
    *,
    preset: str | None,
    file: Path | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The usual settings of a graph and form; a preset, a file and the settings `given` override them in this order."""
    from conjoin.training.presets import settings_for
    from conjoin.training.search_space import read_block

    settings = settings_for(graph, form, named=preset)
    if file:
        found, others = read_block(file, graph.name, str(form))
        settings |= found
        if others:
            say(f"{file}: these settings were tuned for {others}.")
    return {**settings, **given}
