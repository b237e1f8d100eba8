"""`conjoin ask`: the most plausible answers to a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, say, show, show_table

if TYPE_CHECKING:
    from conjoin.io.readers import LocatedFact
    from conjoin.predict.compare import ComparedAnswer
    from conjoin.predict.predictor import Answer, Predictor, Question


Most = Annotated[int, typer.Option("-k", help="Number of answers.")]
EXPLAINED = 3
"""--explain explains this many new answers of each question."""
CHOICE = "Candidates"


@opt.reading_options
def ask(
    run: opt.RunArgument,
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="The head: a name, a label, or '?'.")] = None,
    relation: Annotated[
        str | None, typer.Argument(metavar="RELATION", help="The relation: a name, a label, or '?'.")
    ] = None,
    tail: Annotated[str | None, typer.Argument(metavar="TAIL", help="The tail: a name, a label, or '?'.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="A file of questions: head, relation and tail per line, one of them '?'.")
    ] = None,
    k: Most = 10,
    only_new: Annotated[
        bool, typer.Option("--only-new", rich_help_panel=CHOICE, help="Leave out facts that are in the graph.")
    ] = False,
    candidate: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=CHOICE, help="Rank only this entity; repeat the option for more."),
    ] = None,
    type: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            metavar="HEAD RELATION TAIL",
            rich_help_panel=CHOICE,
            help="Rank only the entities that fill the '?' in training facts, such as '?' part_of Asia; "
            "'*' matches everything.",
        ),
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Mark answers below this probability; first run `conjoin calibrate RUN`."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN2", help="Show the answers of another run in the next columns.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help=f"Show the facts that support the first {EXPLAINED} new answers.")
    ] = False,
    weights: opt.Weights = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Answer a question with one unknown, or a file of questions.

    Write '?' for the unknown. "known" answers are facts of the graph, "new" answers are guesses of the model. The
    entity of the question is not a candidate itself, unless training facts of the relation link an entity to itself, or
    the graph contains that fact.

    \b
    conjoin ask runs/atlas France borders '?'
    conjoin ask runs/atlas '?' has_capital Lima -k 3
    conjoin ask runs/atlas France '?' Paris
    conjoin ask runs/atlas Haiti borders '?' --type '?' part_of Caribbean
    conjoin ask runs/atlas France borders '?' --compare runs/other
    conjoin ask runs/atlas --file questions.tsv --json
    """
    from conjoin.errors import UsageError
    from conjoin.predict.predictor import open_run

    facts = _facts_with_unknown(head, relation, tail, file, reading)
    predictor = open_run(run, weights=weights)
    questions, skipped = _questions(facts, file, predictor, reading)
    if min_probability is not None and predictor.calibration is None:
        raise UsageError(f"{run} has no probabilities yet. Run conjoin calibrate {run} first.")
    if compare is not None and (explain or min_probability is not None):
        raise UsageError("--compare does not work with --explain or --min-probability. Ask each run alone for these.")
    candidates = _candidates(predictor, candidate, type)
    if compare is not None:
        runs = {str(run): predictor, str(compare): open_run(compare, weights=weights)}
        skips = skipped if file is not None else None
        _compare(runs, questions, k=k, only_new=only_new, candidates=candidates, json=json, skipped=skips)
        return
    answered = predictor.ask_many(questions, k=k, only_new=only_new, candidates=candidates)
    reports = []
    for question, answers in zip(questions, answered, strict=True):
        report = answer_report(question, answers, min_probability=min_probability)
        report["untrained"] = _untrained(predictor, question, [answer.entity for answer in answers])
        reasons = _reasons(predictor, question, answers) if explain else []
        if explain:
            report["explanations"] = [reason.to_json() for reason in reasons]
            if answers and not reasons:
                say("--explain explains new answers; all answers here are known. Use conjoin explain for a known fact.")
        reports.append(report)
        if not json:
            _show_answers(question, answers, min_probability)
            _show_reasons(reasons)
    opt.say_untrained((name for report in reports for name in report["untrained"]), "question and answers")
    if json:
        report = reports[0] if file is None else {"questions": reports, "skipped": skipped}
        emit({"run": str(run), **report})


def _facts_with_unknown(
    head: str | None, relation: str | None, tail: str | None, file: Path | None, reading: opt.Reading
) -> list[LocatedFact]:
    from conjoin.errors import UsageError
    from conjoin.io.readers import LocatedFact

    if (file is None) == (head is None):
        raise UsageError("Give one question (conjoin ask RUN France borders '?') or a file of questions (--file FILE).")
    if file is not None:
        return opt.read_facts(file, reading)
    if relation is None:
        raise UsageError("A question has three parts, one of them '?'. Example: conjoin ask RUN France borders '?'")
    if tail is not None and "?" not in (head, relation, tail):
        raise UsageError(
            f"{head} {relation} {tail} contains no '?'. Write '?' for the unknown part, or score the fact with "
            "conjoin score RUN HEAD RELATION TAIL."
        )
    return [LocatedFact(None, (head or "?", relation, tail or "?"))]


def _questions(
    facts: list[LocatedFact], file: Path | None, predictor: Predictor, reading: opt.Reading
) -> tuple[list[Question], list[str]]:
    """The questions, and file, line and reason of each skipped one."""
    from conjoin.errors import UsageError
    from conjoin.io.read_report import SAMPLES
    from conjoin.predict.inputs import all_words, place_of
    from conjoin.predict.predictor import Question

    if file is None:
        return [Question(*facts[0].fact)], []
    invalid = (each for each in facts if each.fact.count("?") != 1)
    reasons = [f"{place_of(file, each)}: not exactly one '?': {' '.join(each.fact)}" for each in invalid]
    if reasons and (reading.on_error == "stop" or len(reasons) == len(facts)):
        raise UsageError(f"{reasons[0]}. A question has one unknown, such as France borders ?")
    if reasons:
        say(f"{file}: skipped {len(reasons):,} of {len(facts):,} questions; the first: {reasons[0]}")
    valid = [each for each in facts if each.fact.count("?") == 1]
    checked = opt.known_facts(file, valid, all_words(predictor.graph, but="?"), reading)
    return [Question(*fact) for fact in checked.facts], [*reasons[:SAMPLES], *checked.refused]


def _candidates(
    predictor: Predictor, named: Sequence[str] | None, type: tuple[str, str, str] | None
) -> list[str] | None:
    from conjoin.errors import UsageError

    if named and type:
        raise UsageError("--candidate and --type exclude each other. Give only one of them.")
    if type is None:
        return list(named) if named else None
    members = predictor.members(*type)
    if not members:
        raise UsageError(
            f"No training fact matches --type {' '.join(type)}. Check it with conjoin ask RUN {' '.join(type)}."
        )
    return members


def answer_report(
    question: Sequence[str | None], answers: list[Answer], *, min_probability: float | None = None
) -> dict[str, Any]:
    """The JSON object of one question."""
    from conjoin.predict.views import answer_json

    head, relation, tail = question
    lines = [answer_json(answer) for answer in answers]
    if min_probability is not None:
        below = [_is_below(answer, min_probability) for answer in answers]
        lines = [{**line, "below": low} for line, low in zip(lines, below, strict=True)]
    return {"question": {"head": head, "relation": relation, "tail": tail}, "answers": lines}


def _untrained(predictor: Predictor, question: Question, answers: list[str]) -> list[str]:
    from conjoin.predict.inputs import question_words, untrained_names

    return untrained_names(predictor.graph, question_words(predictor.graph, question, answers))


def _show_answers(question: Question, answers: list[Answer], min_probability: float | None) -> None:
    calibrated = any(answer.probability is not None for answer in answers)
    rows = []
    for position, answer in enumerate(answers, start=1):
        row = [str(position), answer.label, "known" if answer.known else "new", f"{answer.score:.3f}"]
        if calibrated:
            row.append(_format_probability(answer.probability))
        if min_probability is not None:
            row.append("below" if _is_below(answer, min_probability) else "")
        rows.append(row)
    columns = ["", "answer", "", "score"] + ["probability"] * calibrated
    columns += [f"≥ {min_probability}"] * (min_probability is not None)
    show_table("  ".join(word or "?" for word in question), columns, rows, left=3)
    if not rows:
        show("No answers: every candidate is a known fact or the entity itself.")


def _is_below(answer: Answer, threshold: float) -> bool:
    return answer.probability is not None and answer.probability < threshold


def _format_probability(probability: float | None) -> str:
    if probability is None:
        return ""
    return f"{probability:.2f}" if probability >= 0.005 else "< .01"


def _reasons(predictor: Predictor, question: Question, answers: list[Answer]) -> list[Any]:
    from conjoin.predict.explain import explain

    new = [answer.entity for answer in answers if not answer.known][:EXPLAINED]
    return [explain(predictor, *(name if word in (None, "?") else word for word in question)) for name in new]


def _show_reasons(reasons: list[Any]) -> None:
    for reason in reasons:
        rows = [(support.label, f"{support.strength:.2f}") for support in reason.supports]
        show_table(f"Why {reason.label}?", ("training fact", "support"), rows)


def _compare(
    runs: dict[str, Predictor],
    questions: list[Question],
    *,
    k: int,
    only_new: bool,
    candidates: list[str] | None,
    json: bool,
    skipped: list[str] | None,
) -> None:
    """Print the answers of several runs. `skipped` is None unless the questions come from a file."""
    from conjoin.predict.compare import compare

    reports: list[dict[str, Any]] = []
    for question in questions:
        compared = compare(list(runs.values()), question, k=k, only_new=only_new, candidates=candidates)
        head, relation, tail = question
        asked = {"head": head, "relation": relation, "tail": tail}
        answers = [asdict(answer) for answer in compared]
        entities = [answer.entity for answer in compared]
        untrained = {name for run in runs.values() for name in _untrained(run, question, entities)}
        reports.append({"question": asked, "runs": list(runs), "answers": answers, "untrained": sorted(untrained)})
        if not json:
            _show_compared(question, list(runs), compared)
    opt.say_untrained((name for report in reports for name in report["untrained"]), "question and answers")
    if json:
        emit(reports[0] if skipped is None else {"questions": reports, "skipped": skipped})


def _show_compared(question: Question, runs: list[str], answers: list[ComparedAnswer]) -> None:
    calibrated = [
        any((place := answer.places[i]) and place.probability is not None for answer in answers)
        for i in range(len(runs))
    ]
    rows = []
    for answer in answers:
        row = [answer.label, "known" if answer.known else "new"]
        for place, with_probability in zip(answer.places, calibrated, strict=True):
            row += ["-", "-"] if place is None else [str(place.rank), f"{place.score:.3f}"]
            row += [_format_probability(place.probability if place else None)] * with_probability
        rows.append(row)
    columns = ["answer", ""]
    for run, with_probability in zip(runs, calibrated, strict=True):
        columns += [f"rank, {Path(run).name}", "score"] + ["probability"] * with_probability
    show_table("  ".join(word or "?" for word in question), columns, rows, left=2)
