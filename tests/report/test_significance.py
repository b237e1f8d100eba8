"""The tests of a study: which are made, their corrections, and what print allows."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.stats
from tests.report.fabricated import finished, ranks_of, tiny

from conjoin.report.collect import collect
from conjoin.report.significance import printed_checks, question_tests, run_tests
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study

PAPER = Path(__file__).parents[2] / "studies" / "paper.toml"
MRRS = {"complex": (0.930, 0.932, 0.931), "tied": (0.920, 0.924, 0.921), "half": (0.91,)}


def fill(root: Path, *, ranks: bool = True) -> Study:
    study = tiny(root)
    places = {"complex": [1, 1, 2, 1], "tied": [2, 1, 3, 1], "half": [4, 4, 4, 5]}
    for row, values in MRRS.items():
        for seed, mrr in enumerate(values):
            kept = ranks_of(places[row]) if ranks else None
            finished(root, study.cell("UMLS", study.rows[row], seed), mrr=mrr, seconds=1 + mrr, ranks=kept)
    return study


def test_run_tests_are_welch_s(tmp_path: Path) -> None:
    tests = run_tests(collect(fill(tmp_path), tmp_path))
    made = {(test.measure, test.a.row.name, test.b.row.name): test for test in tests}
    assert list(made) == [("seconds", "complex", "tied"), ("mrr", "complex", "tied"), ("mrr", "complex", "half")]
    main = made["mrr", "complex", "tied"]
    assert main.p == pytest.approx(scipy.stats.ttest_ind(MRRS["complex"], MRRS["tied"], equal_var=False).pvalue)
    assert main.holm == main.p
    assert main.printed is not None
    assert (main.printed.h, main.printed.p) == (1, 1e-15)
    assert made["mrr", "complex", "half"].p is None
    assert made["mrr", "complex", "half"].holm is None


def test_question_tests_use_the_kept_ranks(tmp_path: Path) -> None:
    tests, flaws = question_tests(collect(fill(tmp_path), tmp_path))
    assert flaws == ()
    assert [(test.a.row.name, test.b.row.name) for test in tests] == [("complex", "tied"), ("complex", "half")]
    assert tests[0].paired.difference == pytest.approx((3.5 - (0.5 + 1 + 1 / 3 + 1)) / 4)
    ps = sorted(test.paired.p for test in tests)
    assert sorted(test.holm or 0 for test in tests) == pytest.approx([min(1, 2 * ps[0]), max(min(1, 2 * ps[0]), ps[1])])


def test_question_tests_without_ranks_and_with_damaged_ones(tmp_path: Path) -> None:
    study = fill(tmp_path / "without", ranks=False)
    assert question_tests(collect(study, tmp_path / "without")) == ((), ())
    study = fill(tmp_path / "damaged")
    cell = study.cell("UMLS", study.rows["tied"], 2)
    file = tmp_path / "damaged" / cell.folder / "ranks-test.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    tests, flaws = question_tests(collect(study, tmp_path / "damaged"))
    assert [test.b.row.name for test in tests] == ["half"]
    assert len(flaws) == 1
    assert flaws[0].startswith("UMLS tied has no paired test")


def test_stand_ins_are_not_held_against_printed_tests(tmp_path: Path) -> None:
    found = collect(tiny(tmp_path, graph="nations"), tmp_path)
    assert all(test.printed is None for test in run_tests(found))


def test_the_paper_s_printed_tests_all_agree_with_its_printed_means() -> None:
    """65 tests; print alone decides h for those whose interval lies on one side of .05."""
    study = read_study(PAPER)
    checks = printed_checks(study)
    assert len(checks) == len(study.published_tests) == 65
    assert [check.test for check in checks if not check.agrees] == []
    undecided = [check for check in checks if not check.decided(study.alpha)]
    assert 0 < len(undecided) < 40
    decided_wrongly = [
        c for c in checks if c.decided(study.alpha) and (c.interval.high < study.alpha) != bool(c.test.h)
    ]
    assert decided_wrongly == []


def test_a_wrong_p_is_found_out(tmp_path: Path) -> None:
    checks = {check.test.measure: check for check in printed_checks(tiny(tmp_path))}
    assert checks["mrr"].agrees
    assert checks["mrr"].decided(0.05)
    assert not checks["seconds"].agrees


def test_the_row_that_reproduces_a_line_stands_beside_its_printed_test(tmp_path: Path) -> None:
    tests = run_tests(collect(read_study(PAPER), tmp_path))
    names = ("complex", "complex-conj-published")
    printed = [
        t.printed for t in tests if (t.dataset, t.measure, (t.a.row.name, t.b.row.name)) == ("WN18RR", "mrr", names)
    ]
    assert [(test.h, test.p) for test in printed if test] == [(1, 3e-28)]
