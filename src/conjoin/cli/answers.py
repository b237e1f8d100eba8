"""Verbs that use a trained run: ask, score, similar, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.screen import emit, show, show_table, spelled

if TYPE_CHECKING:
    from conjoin.serve.predictor import Answer

Most = Annotated[int, typer.Option("-k", help="How many answers.")]


def ask(
    run: opt.RunArgument,
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="A name or label, or '?'.")] = None,
    relation: Annotated[str | None, typer.Argument(metavar="RELATION", help="A relation, or '?'.")] = None,
    tail: Annotated[str | None, typer.Argument(metavar="TAIL", help="A name or label, or '?'.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="A file of questions: head, relation, tail by tabs, one of them '?'.")
    ] = None,
    k: Most = 10,
    only_new: Annotated[bool, typer.Option("--only-new", help="Leave out facts that are in the graph.")] = False,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Ask a question with one unknown, or a file of them.

    \b
    conjoin ask runs/atlas France borders '?'
    conjoin ask runs/atlas '?' has_capital Lima -k 3
    conjoin ask runs/atlas France '?' Paris
    conjoin ask runs/atlas --file questions.tsv --json
    """
    from conjoin.errors import UsageError
    from conjoin.serve.predictor import open_run

    given = (head, relation, tail)
    if (file is None) == (head is None):
        raise UsageError("give one question (conjoin ask RUN France borders '?') or a file of them (--file)")
    if file is not None:
        questions = _questions(file)
    elif relation is None:
        raise UsageError("a question has three parts, one of them '?': conjoin ask RUN France borders '?'")
    else:
        questions = [(given[0] or "?", relation, tail or "?")]
    predictor = open_run(run, weights=weights)
    answered = [(q, predictor.ask(*q, k=k, only_new=only_new)) for q in questions]
    if json:
        reports = [answer_report(question, answers) for question, answers in answered]
        emit(reports[0] if file is None else {"questions": reports})
        return
    for question, answers in answered:
        _show_answers(question, answers)


def _questions(file: Path) -> list[tuple[str, str, str]]:
    from conjoin.graph.files.readers import read_triples

    triples, _ = read_triples(file)
    return list(triples)


def answer_report(question: tuple[str, str, str], answers: list[Answer]) -> dict[str, Any]:
    """The JSON object of one question."""
    head, relation, tail = question
    return {
        "question": {"head": head, "relation": relation, "tail": tail},
        "answers": [asdict(answer) for answer in answers],
    }


def _show_answers(question: tuple[str, str, str], answers: list[Answer]) -> None:
    rows = [
        (str(place), answer.label, "known" if answer.known else "new", f"{answer.score:.3f}")
        for place, answer in enumerate(answers, start=1)
    ]
    show_table("  ".join(question), ("", "answer", "", "score"), rows, left=3)
    if not rows:
        show("No answer is left: every candidate is in the graph already.")


def score(
    run: opt.RunArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Facts, in any format that graphs are read from.")],
    *,
    weights: opt.Weights = None,
    on_error: opt.OnError = "stop",
    columns: opt.Columns = None,
    header: opt.Header = None,
    delimiter: opt.Delimiter = None,
    json: opt.Json = False,
) -> None:
    """Score given facts.

    Prints tab-separated lines with a header, or one JSON object: head, relation, tail, score, the rank of the tail
    among all entities that do not make a known fact, whether the fact is in the graph, and the fact in words.

    \b
    conjoin score runs/atlas candidates.tsv
    """
    from conjoin.graph.files.readers import read_triples
    from conjoin.serve.predictor import open_run

    choices = opt.reading(
        on_error=on_error,
        columns=columns,
        header=header,
        delimiter=delimiter,
        literals="drop",
        blank_nodes="keep",
    )
    triples, _ = read_triples(file, choices)
    scored = open_run(run, weights=weights).score(list(triples))
    if json:
        emit({"run": str(run), "scores": [asdict(line) for line in scored]})
        return
    show("head\trelation\ttail\tscore\trank\tknown\tlabel")
    for line in scored:
        known = str(line.known).lower()
        cells = (line.head, line.relation, line.tail, f"{line.score:.6g}", str(line.rank), known, line.label)
        show("\t".join(map(spelled, cells)))


def similar(
    run: opt.RunArgument,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="A name or label.")],
    *,
    k: Most = 10,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """List the entities with the most similar embeddings.

    \b
    conjoin similar runs/atlas France
    """
    from conjoin.serve.predictor import open_run

    answers = open_run(run, weights=weights).similar(entity, k)
    if json:
        emit({"entity": entity, "similar": [asdict(answer) for answer in answers]})
        return
    rows = [(answer.label, "linked" if answer.known else "", f"{answer.score:.3f}") for answer in answers]
    show_table(f"similar to {entity}", ("entity", "", "cosine"), rows, left=2)


def export(
    run: opt.RunArgument,
    *,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write to.")],
    format: Annotated[str, typer.Option(help="safetensors (a bundle that opens by itself), parquet or word2vec.")] = (
        "safetensors"
    ),
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Take a model elsewhere.

    As a bundle that `conjoin.open` and every verb open by itself, as Parquet tables, or as word2vec text.

    \b
    conjoin export runs/atlas -o atlas-bundle
    conjoin export runs/atlas -o vectors --format word2vec
    """
    from conjoin.serve.export import export as export_run

    files = export_run(run, out, format=format, weights=weights)
    if json:
        emit({"folder": str(out), "format": format, "files": [str(file) for file in files]})
        return
    for file in files:
        show(str(file))
