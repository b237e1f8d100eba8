"""Tables as values: every number in its place."""

from __future__ import annotations

from pathlib import Path

import scipy.stats
from tests.report.fabricated import counted, finished, ranks_of, tiny

from conjoin.report.collect import Findings, collect
from conjoin.report.document import ReportTable
from conjoin.report.significance import printed_checks, question_tests, run_tests
from conjoin.report.significance_tables import control_tests_table, matrix_table, paired_table, printed_table
from conjoin.report.tables import agreement_table, costs_table, datasets_table, origins_table, results_table, spans
from conjoin.studies.parse import read_study

PAPER = Path(__file__).parents[2] / "studies" / "paper.toml"


def column(table: ReportTable, title: str) -> list[str]:
    place = [each.title for each in table.columns].index(title)
    return [row[place].text for row in table.rows]


def filled(root: Path) -> Findings:
    study = tiny(root)
    for row, mrrs in {"complex": (0.930, 0.932, 0.934), "tied": (0.910, 0.912)}.items():
        for seed, mrr in enumerate(mrrs):
            finished(
                root,
                study.cell("UMLS", study.rows[row], seed),
                mrr=mrr,
                seconds=1 + seed / 10,
                best_mrr=mrr + 0.001 if row == "complex" else None,
                parameters=2_000_000,
                relation_parameters=500_000,
                ranks=ranks_of([1, 2, 3, 4] if row == "complex" else [2, 2, 3, 5]),
            )
    return collect(study, root)


def test_datasets_table_notes_counts_that_differ_from_the_paper(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    counted(tmp_path, study, "UMLS", train=5_216, valid=652, test=661, entities=135, relations=46)
    table = datasets_table(collect(study, tmp_path))
    row = table.rows[0]
    assert [entry.text for entry in row] == ["UMLS", "5,216", "652", "661", "135", "46", "10,432"]
    assert [entry.note for entry in row] == ["", "", "", "", "paper 136", "", ""]
    stand_in = datasets_table(collect(tiny(tmp_path / "other", graph="nations"), tmp_path / "other"))
    assert "nations" in stand_in.rows[0][0].note


def test_the_paper_s_table_of_datasets_needs_no_run(tmp_path: Path) -> None:
    table = datasets_table(collect(read_study(PAPER), tmp_path))
    assert column(table, "Examples") == ["544,230", "173,670", "2,158,080", "966,284", "282,884"]
    assert column(table, "Entities") == ["14,541", "40,943", "123,182", "14,951", "40,943"]
    notes = [entry.note for row in table.rows for entry in row if entry.note]
    assert notes == ["paper 123,188"]


def test_results(tmp_path: Path) -> None:
    table = results_table(filled(tmp_path), "UMLS", "main")
    assert table.title == "Main results on UMLS"
    assert column(table, "Model") == ["ComplEx", "5★ε_n"]
    assert column(table, "Seeds") == ["3/3", "2/3"]
    assert column(table, "MRR") == ["0.932 ± 2e-3", "0.911 ± 1e-3"]
    assert column(table, "MRR, best on valid") == ["0.933 ± 2e-3", "-"]
    assert column(table, "s/epoch") == ["1.10 ± 0.10", "1.05 ± 0.07"]
    assert column(table, "Paper, MRR") == ["0.930", "0.920"]
    assert column(table, "Difference") == ["+0.0020", "−0.0090"]
    assert column(table, "Verdict") == ["reproduced within .003", "lower by .009"]
    bold = {
        (row[0].text, column.title)
        for row in table.rows
        for column, e in zip(table.columns, row, strict=True)
        if e.bold
    }
    assert ("ComplEx", "MRR") in bold
    assert ("5★ε_n", "MRR") not in bold
    assert {("ComplEx", "s/epoch"), ("5★ε_n", "s/epoch")} <= bold
    controls = results_table(filled(tmp_path / "again"), "UMLS", "control")
    assert column(controls, "Verdict") == ["not run"]


def test_a_note_names_different_machines(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    for seed, card in enumerate(("A", "B")):
        finished(tmp_path, study.cell("UMLS", study.rows["complex"], seed), mrr=0.9, card=card)
    notes = results_table(collect(study, tmp_path), "UMLS", "main").notes
    assert len(notes) == 1
    assert "(A, B)" in notes[0]


def test_costs_and_origins(tmp_path: Path) -> None:
    found = filled(tmp_path)
    costs = costs_table(found, "UMLS")
    assert column(costs, "Parameters") == ["2,000,000", "2,000,000", "-"]
    assert column(costs, "Share") == ["25.0 %", "25.0 %", "-"]
    assert column(costs, "Relation bytes") == ["2.00 MB", "2.00 MB", "-"]
    assert column(costs, "Peak memory") == ["16.00 MB", "16.00 MB", "-"]
    origins = origins_table(found.outcomes.values())
    assert column(origins, "Model") == ["ComplEx", "5★ε_n"]
    assert column(origins, "Seeds") == ["0–2", "0–1"]
    assert column(origins, "Rank") == ["64", "64"]
    assert column(origins, "Made on") == ["test card", "test card"]
    assert spans([3, 0, 1, 2, 7]) == "0–3, 7"


def test_agreement_table_has_differences_and_verdicts(tmp_path: Path) -> None:
    found = filled(tmp_path)
    table = agreement_table(found, [o for o in found.outcomes.values() if o.published])
    assert column(table, "MRR − paper") == ["+0.0020", "−0.0090"]
    assert column(table, "H@3 − paper") == ["−0.0100", "0.0000"]
    assert column(table, "Paper, s/epoch") == ["9 ± 1", "4 ± 0"]
    assert column(table, "Verdict on Hits@n") == ["H@3 lower by .010", "reproduced within .005"]
    assert "test card" in table.notes[0]


def test_matrix_of_welch_tests(tmp_path: Path) -> None:
    found = filled(tmp_path)
    tests = run_tests(found)
    table = matrix_table(found, tests, "UMLS", measure="mrr")
    p = float(scipy.stats.ttest_ind([0.930, 0.932, 0.934], [0.910, 0.912], equal_var=False).pvalue)
    assert [[entry.text for entry in row] for row in table.rows] == [
        ["ComplEx", "-", f"(1, {p:.0e})".replace("e-0", "e-")],
        ["5★ε_n", "-", "-"],
    ]
    assert table.rows[0][2].note == f"Holm {p:.0e}; paper (1, 1e-15)".replace("e-0", "e-")
    controls = control_tests_table(found, tests, "UMLS")
    assert [[entry.text for entry in row] for row in controls.rows] == [["ComplEx", "half", "-", "-"]]


def test_paired_and_printed_tests(tmp_path: Path) -> None:
    found = filled(tmp_path)
    table = paired_table(found, question_tests(found)[0], "UMLS")
    assert column(table, "MRR of A − B") == ["+0.1375"]
    assert column(table, "Triples") == ["2"]
    assert column(table, "Seeds") == ["3 and 2"]
    printed = printed_table(found, printed_checks(found.study))
    assert column(printed, "Printed (h, p)") == ["(1, 1e-15)", "(1, 4e-1)"]
    assert column(printed, "Agrees") == ["yes", "no"]
