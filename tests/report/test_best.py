"""The rule for bold values gives back the paper's own bold values; verdicts are plain words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.fabricated import finished, tiny

from conjoin.report.best import PrintedValue, best_rows, best_values, competing, hits_verdict, verdict
from conjoin.report.collect import collect
from conjoin.report.tables import place, results_table
from conjoin.studies.parse import read_study

PAPER = Path(__file__).parents[2] / "studies" / "paper.toml"
MAIN = ("complex", "complex-conj", "5star", "5star-conj", "5star-conj-tuned")
BOLD = {
    "FB15K-237": {
        "seconds": {"5star-conj", "5star-conj-tuned", "5star-neg"},
        "mrr": {"complex"},
        "hits1": {"complex"},
        "hits3": {"complex"},
        "hits10": {"complex"},
    },
    "WN18RR": {
        "seconds": {"5star-conj"},
        "mrr": {"5star-conj"},
        "hits1": {"5star"},
        "hits3": {"5star-conj"},
        "hits10": {"5star-neg"},
    },
    "YAGO3-10": {
        "seconds": {"5star-conj", "5star-neg"},
        "mrr": {"complex"},
        "hits1": {"5star-conj"},
        "hits3": {"complex"},
        "hits10": {"complex"},
    },
    "FB15K": {
        "seconds": {"5star-conj", "5star-neg"},
        "mrr": {"complex", "complex-conj"},
        "hits1": {"complex-conj"},
        "hits3": {"complex"},
        "hits10": {"complex"},
    },
    "WN18": {
        "seconds": {"5star-conj", "5star-conj-tuned", "5star-neg"},
        "mrr": {"5star", "5star-conj-tuned", "5star-neg"},
        "hits1": {"5star-conj-tuned"},
        "hits3": {"5star", "5star-conj-tuned", "5star-neg"},
        "hits10": {"5star", "5star-conj-tuned", "5star-neg"},
    },
}
"""Every bold value of the paper's tables of results and ablations."""


@pytest.mark.parametrize("dataset", BOLD)
@pytest.mark.parametrize("measure", ["seconds", "mrr", "hits1", "hits3", "hits10"])
def test_the_rule_gives_the_paper_s_own_bold_values(dataset: str, measure: str, tmp_path: Path) -> None:
    study = read_study(PAPER)
    found = collect(study, tmp_path)
    equal = {
        frozenset((test.a, test.b))
        for test in study.published_tests
        if (test.dataset, test.measure) == (dataset, measure) and test.h == 0
    }
    printed = study.published[dataset]
    values = {
        name: PrintedValue(getattr(printed[name], measure), getattr(printed[name], f"{measure}_pm", None))
        for name in (outcome.row.name for outcome in competing(found, dataset))
        if name in printed
    }
    bold = best_values(values, lowest=measure == "seconds", equal=lambda a, b: frozenset((a, b)) in equal)
    assert bold == BOLD[dataset][measure]


def test_deviations_decide_between_means_that_print_alike() -> None:
    never = lambda a, b: False  # noqa: E731, ARG005
    assert best_values({"a": PrintedValue(0.5, 2e-3), "b": PrintedValue(0.5, 1e-3)}, lowest=False, equal=never) == {"b"}
    assert best_values({"a": PrintedValue(0.5, 1e-3), "b": PrintedValue(0.5, 1e-3)}, lowest=False, equal=never) == {
        "a",
        "b",
    }
    assert best_values({"a": PrintedValue(0.5, None), "b": PrintedValue(0.5, 1e-3)}, lowest=False, equal=never) == {
        "a",
        "b",
    }
    assert best_values({"a": PrintedValue(3.0), "b": PrintedValue(2.0)}, lowest=True, equal=never) == {"b"}
    assert best_values({}, lowest=True, equal=never) == frozenset()


def test_statistically_equal_values_are_both_bold(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    for row, values in {"complex": (0.930, 0.934, 0.932), "tied": (0.931, 0.935, 0.930), "half": (0.99,)}.items():
        for seed, mrr in enumerate(values):
            finished(tmp_path, study.cell("UMLS", study.rows[row], seed), mrr=mrr, seconds=1 + seed / 100)
    found = collect(study, tmp_path)
    assert best_rows(found, "UMLS", "mrr") == {"complex", "tied"}
    assert best_rows(found, "UMLS", "seconds") == {"complex", "tied"}
    assert best_rows(found, "UMLS", "hits1") == {"complex", "tied"}


def test_significantly_worse_values_are_not_bold_and_controls_do_not_compete(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    for row, values in {"complex": (0.930, 0.931, 0.932), "tied": (0.920, 0.921, 0.922), "half": (0.99,)}.items():
        for seed, mrr in enumerate(values):
            finished(tmp_path, study.cell("UMLS", study.rows[row], seed), mrr=mrr)
    assert best_rows(collect(study, tmp_path), "UMLS", "mrr") == {"complex"}


def test_of_runs_that_print_alike_the_steadier_row_is_bold(tmp_path: Path) -> None:
    """Means of .9321 and .9316 print as .932; Welch's test tells them apart, so the smaller deviation decides."""
    study = tiny(tmp_path)
    for row, values in {"complex": (0.9320, 0.9321, 0.9322), "tied": (0.93159, 0.93160, 0.93161)}.items():
        for seed, mrr in enumerate(values):
            finished(tmp_path, study.cell("UMLS", study.rows[row], seed), mrr=mrr)
    assert best_rows(collect(study, tmp_path), "UMLS", "mrr") == {"tied"}


@pytest.mark.parametrize(
    ("mrr", "words"),
    [
        (0.930, "reproduced within .003"),
        (0.933, "reproduced within .003"),
        (0.927, "reproduced within .003"),
        (0.9331, "higher by .0031"),
        (0.935, "higher by .005"),
        (0.917, "lower by .013"),
    ],
)
def test_verdicts(mrr: float, words: str, tmp_path: Path) -> None:
    study = tiny(tmp_path)
    finished(tmp_path, study.cell("UMLS", study.rows["complex"], 0), mrr=mrr)
    found = collect(study, tmp_path)
    outcome = found.of("UMLS", "complex")
    assert outcome is not None
    assert verdict(found, outcome) == words
    assert hits_verdict(outcome) == "H@3 lower by .010"


def test_verdicts_where_nothing_can_be_compared(tmp_path: Path) -> None:
    study = tiny(tmp_path, graph="nations")
    finished(tmp_path, study.cell("UMLS", study.rows["complex"], 0), mrr=0.9)
    found = collect(study, tmp_path)
    words = {row: verdict(found, outcome) for row in study.rows if (outcome := found.of("UMLS", row))}
    assert words["complex"] == "ran on nations, a stand-in: not comparable"
    assert words["tied"] == "not run"
    paper = collect(read_study(PAPER), tmp_path)
    tuned = paper.of("WN18RR", "5star-conj-tuned")
    assert tuned is not None
    assert tuned.published is None


def test_a_graph_of_one_s_own_stands_in_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    rows, settings = '[{ name = "complex", form = "complex" }]', "complex = { rank = 4 }"
    text = f'name = "own"\nrows = {rows}\n[datasets.Library]\ngraph = "facts.csv"\n[settings.Library]\n{settings}\n'
    file.write_text(text, encoding="utf-8")
    study = read_study(file)
    finished(tmp_path, study.cell("Library", study.rows["complex"], 0), mrr=0.9)
    found = collect(study, tmp_path)
    outcome = found.of("Library", "complex")
    assert outcome is not None
    assert verdict(found, outcome) == "no published number"
    assert place(found, "Library") == "Library"
    shown = [column.title for column in results_table(found, "Library", "main").columns]
    assert not {"Paper, MRR", "Difference", "Verdict"} & set(shown)


def test_the_row_that_reproduces_a_line_is_the_one_judged(tmp_path: Path) -> None:
    study = read_study(PAPER)
    finished(tmp_path, study.cell("WN18RR", study.rows["complex-conj"], 0), mrr=0.485)
    finished(tmp_path, study.cell("WN18RR", study.rows["complex-conj-published"], 0), mrr=0.476)
    found = collect(study, tmp_path)
    proper, published = found.of("WN18RR", "complex-conj"), found.of("WN18RR", "complex-conj-published")
    assert proper is not None
    assert published is not None
    assert verdict(found, proper) == "higher by .010; judged by Complεx, published layout"
    assert verdict(found, published) == "reproduced within .003"
