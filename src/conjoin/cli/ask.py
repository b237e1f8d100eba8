"""`conjoin ask`: rank the candidates of a query."""

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


Most = Annotated[int, typer.Option("-k", help="How many answers.")]
EXPLAINED = 3
"""New answers of a question that --explain explains."""


@opt.reading_options
def ask(
    run: opt.RunArgument,
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="A name or label, or '?'.")] = None,
    relation: Annotated[str | None, typer.Argument(metavar="RELATION", help="A relation, or '?'.")] = None,
    tail: Annotated[str | None, typer.Argument(metavar="TAIL", help="A name or label, or '?'.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="A file of questions in any format: head, relation, tail, one '?'.")
    ] = None,
    k: Most = 10,
    only_new: Annotated[bool, typer.Option("--only-new", help="Leave out facts that are in the graph.")] = False,
    candidate: Annotated[list[str] | None, typer.Option(help="An answer to choose from; repeat for more.")] = None,
    type: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            metavar="HEAD RELATION TAIL",
            help="Choose among what stands at '?' in training facts, '*' being anything: '?' part_of Asia.",
        ),
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(min=0, max=1, help="Mark answers below this; needs `conjoin calibrate RUN`.")
    ] = None,
    compare: Annotated[Path | None, typer.Option(metavar="RUN2", help="Let another run answer beside.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help=f"Say why, for the first {EXPLAINED} new answers.")
    ] = False,
    weights: opt.Weights = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Ask a question with one unknown, or a file of them.

    An entity is an answer to a question about itself only where training facts of that relation link an entity to
    itself, or where the graph holds that very fact.

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

    given = _given(head, relation, tail, file, reading)
    predictor = open_run(run, weights=weights)
    questions, skipped = _questions(given, file, predictor, reading)
    if min_probability is not None and predictor.calibration is None:
        raise UsageError(f"the answers of {run} have no probability yet: conjoin calibrate {run}")
    if compare is not None and (explain or min_probability is not None):
        raise UsageError("--compare shows two runs: leave out --explain and --min-probability")
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
                say("--explain: all of these are known; conjoin explain says why of a known fact, too")
        reports.append(report)
        if not json:
            _show_answers(question, answers, min_probability)
            _show_reasons(reasons)
    opt.say_untrained((name for report in reports for name in report["untrained"]), "question and answers")
    if json:
        told = reports[0] if file is None else {"questions": reports, "skipped": skipped}
        emit({"run": str(run), **told})


def _given(
    head: str | None, relation: str | None, tail: str | None, file: Path | None, reading: opt.Reading
) -> list[LocatedFact]:
    from conjoin.errors import UsageError
    from conjoin.io.readers import LocatedFact

    if (file is None) == (head is None):
        raise UsageError("give one question (conjoin ask RUN France borders '?') or a file of them (--file)")
    if file is not None:
        return opt.read_facts(file, reading)
    if relation is None:
        raise UsageError("a question has three parts, one of them '?': conjoin ask RUN France borders '?'")
    if tail is not None and "?" not in (head, relation, tail):
        raise UsageError("this is a whole fact, without '?': conjoin score RUN HEAD RELATION TAIL scores it")
    return [LocatedFact(None, (head or "?", relation, tail or "?"))]


def _questions(
    given: list[LocatedFact], file: Path | None, predictor: Predictor, reading: opt.Reading
) -> tuple[list[Question], list[str]]:
    """The questions, and place and reason of those in the file that are skipped."""
    from conjoin.errors import UsageError
    from conjoin.io.read_report import SAMPLES
    from conjoin.predict.inputs import all_words, place_of
    from conjoin.predict.predictor import Question

    if file is None:
        return [Question(*given[0].fact)], []
    doubtful = (each for each in given if each.fact.count("?") != 1)
    wrong = [f"{place_of(file, each)}: not exactly one '?': {' '.join(each.fact)}" for each in doubtful]
    if wrong and (reading.on_error == "stop" or len(wrong) == len(given)):
        raise UsageError(f"{wrong[0]}. A question has one unknown, such as France borders ?")
    if wrong:
        say(f"{file}: skipped {len(wrong):,} of {len(given):,} questions; the first: {wrong[0]}")
    sound = [each for each in given if each.fact.count("?") == 1]
    sifted = opt.known_facts(file, sound, all_words(predictor.graph, but="?"), reading)
    return [Question(*fact) for fact in sifted.facts], [*wrong[:SAMPLES], *sifted.refused]


def _candidates(
    predictor: Predictor, named: Sequence[str] | None, type: tuple[str, str, str] | None
) -> list[str] | None:
    from conjoin.errors import UsageError

    if named and type:
        raise UsageError("choose among --candidate names or a --type, not both")
    if type is None:
        return list(named) if named else None
    members = predictor.members(*type)
    if not members:
        raise UsageError(f"no training fact is like {' '.join(type)}: there is no candidate to choose from")
    return members


def answer_report(
    question: Sequence[str | None], answers: list[Answer], *, min_probability: float | None = None
) -> dict[str, Any]:
    """The JSON object of one question."""
    head, relation, tail = question
    found = [asdict(answer) for answer in answers]
    if min_probability is not None:
        below = [_is_below(answer, min_probability) for answer in answers]
        found = [{**line, "below": low} for line, low in zip(found, below, strict=True)]
    return {"question": {"head": head, "relation": relation, "tail": tail}, "answers": found}


def _untrained(predictor: Predictor, question: Question, answers: list[str]) -> list[str]:
    from conjoin.predict.inputs import question_words, untrained_names

    return untrained_names(predictor.graph, question_words(predictor.graph, question, answers))


def _show_answers(question: Question, answers: list[Answer], least: float | None) -> None:
    calibrated = any(answer.probability is not None for answer in answers)
    rows = []
    for place, answer in enumerate(answers, start=1):
        row = [str(place), answer.label, "known" if answer.known else "new", f"{answer.score:.3f}"]
        if calibrated:
            row.append(_chance(answer.probability))
        if least is not None:
            row.append("below" if _is_below(answer, least) else "")
        rows.append(row)
    columns = ["", "answer", "", "score"] + ["probability"] * calibrated + [f"≥ {least}"] * (least is not None)
    show_table("  ".join(word or "?" for word in question), columns, rows, left=3)
    if not rows:
        show("No answer is left: candidates are in the graph already, or would be linked to themselves.")


def _is_below(answer: Answer, least: float) -> bool:
    return answer.probability is not None and answer.probability < least


def _chance(probability: float | None) -> str:
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
    """Of several runs; `skipped` where the questions are a file's."""
    from conjoin.predict.compare import compare

    reports: list[dict[str, Any]] = []
    for question in questions:
        found = compare(list(runs.values()), question, k=k, only_new=only_new, candidates=candidates)
        head, relation, tail = question
        asked = {"head": head, "relation": relation, "tail": tail}
        answers = [asdict(answer) for answer in found]
        strange = {name for run in runs.values() for name in _untrained(run, question, [one.entity for one in found])}
        reports.append({"question": asked, "runs": list(runs), "answers": answers, "untrained": sorted(strange)})
        if not json:
            _show_compared(question, list(runs), found)
    opt.say_untrained((name for report in reports for name in report["untrained"]), "question and answers")
    if json:
        emit(reports[0] if skipped is None else {"questions": reports, "skipped": skipped})


def _show_compared(question: Question, runs: list[str], found: list[ComparedAnswer]) -> None:
    calibrated = [
        any((place := answer.places[i]) and place.probability is not None for answer in found) for i in range(len(runs))
    ]
    rows = []
    for answer in found:
        row = [answer.label, "known" if answer.known else "new"]
        for place, with_probability in zip(answer.places, calibrated, strict=True):
            row += ["-", "-"] if place is None else [str(place.rank), f"{place.score:.3f}"]
            row += [_chance(place.probability if place else None)] * with_probability
        rows.append(row)
    columns = ["answer", ""]
    for run, with_probability in zip(runs, calibrated, strict=True):
        columns += [f"rank, {Path(run).name}", "score"] + ["probability"] * with_probability
    show_table("  ".join(word or "?" for word in question), columns, rows, left=2)
