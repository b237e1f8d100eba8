"""`conjoin demo`: train four forms on the atlas, compare them, and answer three questions."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.ask import answer_report
from conjoin.cli.output import ProgressDisplay, emit, number, say, show, show_table

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph
    from conjoin.predict.predictor import Answer

FORMS = ("complex", "complex-conj", "5star", "5star-conj")
RANK = 32
SETTINGS = {"epochs": 20, "batch": 200, "lr": 0.1, "n3": 0.02}
QUESTIONS = (("Italy", "borders", "?"), ("?", "has_capital", "Caracas"), ("Malta", "has_currency", "?"))
"""Each has a held-out answer: the model must find it without having seen it."""


def demo(
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the four run folders.")] = Path("runs/demo"),
    json: opt.Json = False,
) -> None:
    """Train four small models on the embedded atlas and compare them.

    The best model then answers three questions. Takes about half a minute on two cores.

    \b
    conjoin demo
    """
    import conjoin
    from conjoin.forms.notation import SYMBOLS
    from conjoin.runs.execute import ExecutionOptions
    from conjoin.runs.run import Run
    from conjoin.training.recipe import Recipe

    start = time.monotonic()
    graph = conjoin.load("atlas")
    say(
        f"The atlas: {graph.n_entities:,} entities, {graph.n_relations} relations, {len(graph.train):,} training facts."
    )
    results: dict[str, dict[str, Any]] = {}
    recipe = Recipe.from_mapping(SETTINGS)
    for form in FORMS:
        run = Run.of(graph, form, rank=RANK, recipe=recipe)
        with ProgressDisplay(recipe.epochs, form).watching() as watcher:
            conduct = ExecutionOptions(track=watcher.track, watch=watcher.epoch)
            folder = conjoin.execute(run, graph, out / form, conduct=conduct)
        results[form] = folder.result
    best = max(FORMS, key=lambda form: results[form]["test"]["mrr"])
    predictor = conjoin.open(out / best)
    answers = [(question, predictor.ask(*question, k=5)) for question in QUESTIONS]
    if json:
        emit(
            {
                "runs": {form: {"folder": str(out / form), **results[form]} for form in FORMS},
                "best": best,
                "answers": [answer_report(question, answered) for question, answered in answers],
            }
        )
        return
    rows = [
        (
            form,
            SYMBOLS[form],
            *(number(result["test"][metric]) for metric in ("mrr", "hits@1", "hits@3", "hits@10")),
            f"{result['seconds_per_epoch']:.3f}",
            f"{result['parameters']:,}",
            f"{result['relation_bytes']:,}",
        )
        for form, result in results.items()
    ]
    heads = ("form", "paper", "MRR", "H@1", "H@3", "H@10", "s/epoch", "parameters", "rel. bytes")
    show_table(f"Test facts of the atlas, rank {RANK}, {recipe.epochs} epochs", heads, rows, left=2)
    show("Tied by conjugation (complex-conj, 5star-conj), a relation has half the parameters at a similar MRR.")
    show("Three questions. No mark: a training fact; ✓: a true fact held out of training; ?: a guess.")
    for question, answered in answers:
        marked = ", ".join(f"{answer.label}{_mark(graph, question, answer)}" for answer in answered)
        show(f"  {' '.join(question)}   →   {marked}")
    as_module = Path(sys.argv[0]).name == "__main__.py"
    program = "conjoin" if shutil.which("conjoin") else "python -m conjoin" if as_module else sys.argv[0]
    others = " ".join(str(out / form) for form in FORMS if form != best)
    show(f"\nThis took {time.monotonic() - start:.0f} s. Ask more, or open the explorer:")
    show(f"  {program} ask {out / best} France borders '?'")
    show(f"  {program} serve {out / best} {others}")


def _mark(graph: Graph, question: tuple[str, str, str], answer: Answer) -> str:
    if not answer.known:
        return " ?"
    head, relation, tail = (answer.entity if word == "?" else word for word in question)
    fact = [graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail)]
    return "" if (graph.train == fact).all(axis=1).any() else " ✓"
