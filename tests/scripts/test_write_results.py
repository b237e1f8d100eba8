"""docs/results.md is what the results say, and its verdicts follow the numbers."""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.fabricated import finished, ranks_of

from conjoin.algebra.notation import parse
from conjoin.files import write_json
from conjoin.graph.named.catalogue import dataset as catalogued
from conjoin.report.stats import Interval, Moments, Paired
from conjoin.study.narrow import narrow
from conjoin.study.study import Study

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

pytest.importorskip("scipy", reason="results are tested with SciPy: pip install 'conjoin[study]'")

import write_results  # noqa: E402
from results_contrast import Evidence, welch_interval_of_means  # noqa: E402
from results_costs import memory_examples  # noqa: E402
from results_summary import renewed  # noqa: E402

SEEDS = (0, 1, 2)
COMMAND = re.compile(r"conjoin study run (studies/\S+) --only ([^`\s]+)(?: --seeds ([^`\s]+))?")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with the studies that the page reads, and no result."""
    (tmp_path / "studies").mkdir()
    for name in ("paper", "mobius", "layout", "readings"):
        shutil.copy(ROOT / "studies" / f"{name}.toml", tmp_path / "studies")
    return tmp_path


def study_in(place: Path, name: str = "paper") -> Study:
    return Study.read(place / "studies" / f"{name}.toml")


def ran(place: Path, dataset: str, row: str, mrrs: Sequence[float], *, study: str = "paper", better: int = 3) -> None:
    """Finished runs, seed by seed, with these MRRs; every question has about the same rank."""
    specified = study_in(place, study)
    for seed, mrr in enumerate(mrrs):
        cell = specified.cell(dataset, specified.rows[row], seed)
        counts = catalogued(cell.graph).counts
        relations = 2 * counts.relations * parse(cell.row.form_text).reals(cell.rank)
        places = better + np.random.default_rng([seed, better]).integers(0, 3, 400)
        finished(
            place / "studies" / "results",
            cell,
            mrr=mrr,
            hits=(0.5, 0.5, 0.5),
            best_mrr=mrr,
            parameters=2 * cell.rank * counts.entities + relations,
            relation_parameters=relations,
            ranks=ranks_of(places.tolist()),
        )


def verdict(page: str, title: str) -> str:
    return glance(page, title)[0]


def glance(page: str, title: str) -> tuple[str, str]:
    """Verdict and short words in the table at the top."""
    found = re.search(rf"^\| {re.escape(title)} \| (\w+) \| ([^|]*) \|$", page, re.MULTILINE)
    assert found, title
    return found[1], found[2]


def section(page: str, title: str) -> str:
    return " ".join(page.partition(f"## {title}\n")[2].partition("\n## ")[0].split())


def about(mean: float) -> list[float]:
    return [mean - 0.0005, mean, mean + 0.0005]


def test_the_page_is_what_the_results_say() -> None:
    assert write_results.PAGE.read_text(encoding="utf-8") == write_results.page(), "run scripts/write_results.py"


def test_without_results_all_is_open_and_every_command_selects_runs(place: Path) -> None:
    page = write_results.page(place)
    told = dict(re.findall(r"^\| ([^|]+) \| (proved|confirmed|refuted|mixed|open) \| [^|]+ \|$", page, re.MULTILINE))
    assert told.pop(TWIN) == "proved"
    assert len(told) > 10
    assert set(told.values()) == {"open"}
    assert "in 0 of 35 cells" in page
    assert "Exceptions so far: none." in page
    assert "| YAGO3-10 | complex (ComplEx) | data not here |" in page
    assert "conjoin fetch yago3-10 && conjoin study run" in page
    commands = COMMAND.findall(page)
    assert len(commands) > 60
    for file, only, seeds in commands:
        assert narrow(Study.read(place / file), only=[only], seeds=seeds or None)


LAYOUT = "The loss of Complεx on WN18RR comes from the published layout"


@pytest.mark.parametrize(
    ("proper", "published", "expected", "said"),
    [
        (0.487, 0.475, "confirmed", "92 % of that loss"),
        (0.477, 0.475, "refuted", "15 % of that loss"),
        (0.487, 0.488, "refuted", "there is no loss to explain"),
    ],
)
def test_the_layout(place: Path, proper: float, published: float, expected: str, said: str) -> None:
    for row, mrr in (("complex", 0.488), ("complex-conj", proper), ("complex-conj-published", published)):
        ran(place, "WN18RR", row, about(mrr))
    page = write_results.page(place)
    assert verdict(page, LAYOUT) == expected
    assert said in section(page, LAYOUT)
    assert "t-test over 3 and 3 seeds" in section(page, LAYOUT)
    assert "Fewer than" not in section(page, LAYOUT)


def test_one_seed_is_judged_by_its_questions_and_says_so(place: Path) -> None:
    for row, mrr, better in (("complex", 0.488, 2), ("complex-conj", 0.487, 2), ("complex-conj-published", 0.4, 5)):
        ran(place, "WN18RR", row, [mrr], better=better)
    told = section(write_results.page(place), LAYOUT)
    assert "paired over 200 test triples" in told
    assert "1 and 1 seeds" in told
    assert "Fewer than 3 seeds so far. `conjoin study run" in told


SMALL_LAYOUT = "So does its loss at rank 100, on a CPU"


@pytest.mark.parametrize(
    ("proper", "published", "expected"),
    [
        (about(0.467), about(0.43), "confirmed"),
        (about(0.434), about(0.43), "refuted"),
        (about(0.467), about(0.468), "refuted"),
        ([0.44, 0.449, 0.458], about(0.43), "open"),
        (about(0.467), [0.455, 0.465, 0.475], "open"),
    ],
)
def test_a_small_study_is_judged_apart(place: Path, proper: list[float], published: list[float], expected: str) -> None:
    for row, mrrs in (("complex", about(0.468)), ("complex-conj", proper), ("complex-conj-published", published)):
        ran(place, "WN18RR", row, mrrs, study="layout")
    page = write_results.page(place)
    assert verdict(page, SMALL_LAYOUT) == expected
    assert verdict(page, LAYOUT) == "open"
    assert "| WN18RR, small study | 0.468" in section(page, LAYOUT)


def test_few_seeds_do_not_decide_by_questions_alone(place: Path) -> None:
    """Two runs of one model differ on their questions: what the paper prints of seeds' scatter widens the interval."""
    ran(place, "FB15K", "5star", [0.812])
    ran(place, "FB15K", "5star-conj", [0.807, 0.807])
    found = Evidence.read(place / "studies").contrast("FB15K", "5star-conj", "5star")
    assert found is not None
    sure = Paired(-0.005, Interval(-0.0052, -0.0048), 1e-9, 400, 200)
    found = replace(found, difference=-0.005, questions=sure)
    reach = math.hypot(0.0002, 1.96 * 0.002 * math.sqrt(1 / 2 + 1))
    assert found.noise == 0.002, "the larger of the printed deviations, 1e-3 and 2e-3"
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.005 - reach, -0.005 + reach))
    assert found.no_worse(0.003) == "open"
    assert replace(found, questions=None).no_worse(0.003) == "open"


def test_a_difference_that_no_seed_explains_decides(place: Path) -> None:
    title = "Tying costs no quality at equal settings"
    ran(place, "FB15K", "5star", [0.812], better=3)
    ran(place, "FB15K", "5star-conj", [0.212], better=40)
    assert verdict(write_results.page(place), title) == "refuted"


TWIN = "Complεx is tying: conjugation itself does nothing"


@pytest.mark.parametrize(
    ("twin", "expected", "runs"),
    [
        (about(0.4756), "proved", "equal to within .003 in 1 of 1 cases"),
        (about(0.465), "refuted", "not equal in 1 of 1 cases (WN18RR)"),
        ([0.47, 0.475, 0.48], "proved", "undecided in 1 of 1 cases"),
    ],
)
def test_the_twin(place: Path, twin: list[float], expected: str, runs: str) -> None:
    """The algebra proves it: runs that cannot tell do not make it less sure, runs that contradict it do."""
    ran(place, "WN18RR", "complex-conj", about(0.475))
    ran(place, "WN18RR", "complex-twin", twin)
    page = write_results.page(place)
    assert glance(page, TWIN) == (expected, f"by algebra, held by tests; runs: {runs}")
    assert ("no run contradicts it" in section(page, TWIN)) == (expected == "proved")


def test_a_small_p_between_two_names_of_one_model_is_said(place: Path) -> None:
    ran(place, "WN18RR", "complex-conj", [0.475], better=3)
    ran(place, "WN18RR", "complex-twin", [0.474], better=4)
    told = section(write_results.page(place), TWIN)
    assert "The paired test tells the two apart on WN18RR (p = " in told


def test_cases_for_and_against_are_mixed(place: Path) -> None:
    title = "Tying costs no quality at equal settings"
    for dataset, tied in (("WN18RR", 0.49), ("FB15K", 0.79)):
        ran(place, dataset, "5star", about(0.49 if dataset == "WN18RR" else 0.81))
        ran(place, dataset, "5star-conj", about(tied))
    page = write_results.page(place)
    assert verdict(page, title) == "mixed"
    assert "not worse by more than .003 in 1 of 2 cases (WN18RR 5star-conj)" in section(page, title)
    assert "worse by more than .003 in 1 of 2 cases (FB15K 5star-conj)" in section(page, title)


NO_WORSE, BETTER = ["confirmed", "confirmed", "refuted"], ["confirmed", "refuted", "refuted"]
ABLATIONS = {
    "With settings of its own 5★ε is no worse than 5★E": ("5star-conj-tuned", "5star", NO_WORSE),
    "Penalising half of the numbers is worse than tying them": ("5star-conj", "5star-halfreg", BETTER),
    "Negative conjugation is as good as positive": ("5star-neg", "5star-conj", NO_WORSE),
    "Conjugates belong on the diagonals": ("5star-conj", "5star-horiz", BETTER),
}


def test_what_the_paper_says_of_its_ablations(place: Path) -> None:
    """The first row is better than the second, then equal, then worse."""
    apart = {"FB15K": 0.03, "WN18": 0.0001, "WN18RR": -0.01}
    for dataset, gain in apart.items():
        for row in ("5star", "5star-conj"):
            ran(place, dataset, row, about(0.8))
        for row in ("5star-conj-tuned", "5star-neg"):
            ran(place, dataset, row, about(0.8 + gain))
        for row in ("5star-halfreg", "5star-horiz"):
            ran(place, dataset, row, about(0.8 - gain))
    page = write_results.page(place)
    for title, (first, second, expected) in ABLATIONS.items():
        told = section(page, title)
        lines = [rf"\| {dataset} \| {first} less {second} \| [^|]+ \| [^|]+ \| (\w+) \|" for dataset in apart]
        assert [re.findall(line, told) for line in lines] == [[each] for each in expected], title
        assert verdict(page, title) == "mixed"


def test_print_may_speak_against_its_own_conclusion(place: Path) -> None:
    page = write_results.page(place)
    told = {title: section(page, title) for title in ABLATIONS}
    against = [re.findall(r"The printed numbers (.*?\))\.", words) for words in told.values()]
    assert against == [
        [],
        ["speak against it on FB15K (−0.013)"],
        ["speak against it on WN18RR (−0.008)"],
        ["speak against it on FB15K 5star-vert (−0.007)"],
    ]
    assert "The printed numbers do not speak against it." in next(iter(told.values()))


def test_what_to_take_home(place: Path) -> None:
    empty = " ".join(write_results.page(place).split())
    assert "0.027 % (WN18RR) to 7.6 % (FB15K) of ComplEx and 0.11 % (WN18RR) to 20.9 % (FB15K) of 5★E." in empty
    assert "an epoch of 5★ε takes not yet run less" in empty
    ran(place, "WN18", "complex", [0.951, 0.951])
    ran(place, "WN18", "complex-conj", [0.949])
    ran(place, "WN18RR", "complex", [0.488])
    ran(place, "WN18RR", "complex-conj", [0.489])
    ran(place, "WN18RR", "complex-half", [0.485])
    told = " ".join(write_results.page(place).split())
    assert "of the untied one: Complεx −0.0020 (WN18) to +0.0010 (WN18RR); 5★ε not yet run; 5★ε_n not yet run." in told
    assert "its MRR less that of ComplEx is −0.0030 (WN18RR)." in told
    assert "2 of 35 printed cells were run, 1 of them with one seed; by the paper's deviations seeds scatter by" in told


def test_readme_gets_the_lines_of_the_page(place: Path) -> None:
    page = write_results.page(place)
    before = "a\n<!-- results: what sharing saves -->\nold\n<!-- /results -->\nb\n"
    lines = renewed(before, page).splitlines()
    assert lines[:2] + lines[-2:] == ["a", "<!-- results: what sharing saves -->", "<!-- /results -->", "b"]
    assert [line[:6] for line in lines if line.startswith("- ")] == ["- **By", "- **Ti", "- **Qu", "- **In"]


def test_cells_are_counted_and_exceptions_told(place: Path) -> None:
    ran(place, "WN18", "complex", [0.951, 0.953])
    ran(place, "WN18RR", "5star", [0.4941])
    tried = '["WN18RR"]\n5star = "another seed"\nquate = "failed once"\n'
    (place / "studies" / "tried.toml").write_text(tried, encoding="utf-8")
    told = section(write_results.page(place), "The published numbers are reproduced")
    assert "in 1 of 35 cells** (2 run, 33 not yet run)" in told
    assert "WN18RR 5star (5★E), 1 seed: ours less the paper's: MRR +0.0041" in told
    assert "Tried: another seed." in told
    assert ", 2 cells lie above and 0 below" in told
    assert "explain 0 of 2, but not WN18RR 5star +0.0041, WN18 complex +0.0010." in told
    assert "| WN18RR | quate | failed once |" in write_results.page(place)
    assert "| WN18RR | 5star (5★E) | 1 | 0.494 | 0.490 | +0.0041 | **fail** |" in told
    assert "| WN18 | complex (ComplEx) | 2 | 0.952 ± 1e-3 | 0.951 | +0.0010 | pass |" in told


def test_a_run_that_counted_other_parameters_stops_the_page(place: Path) -> None:
    cell = study_in(place).cell("WN18", study_in(place).rows["complex"], 0)
    finished(place / "studies" / "results", cell, mrr=0.95)
    with pytest.raises(SystemExit, match="WN18 complex"):
        write_results.page(place)


def test_a_damaged_result_is_not_silently_missing(place: Path) -> None:
    ran(place, "WN18", "complex", [0.951])
    result = next((place / "studies" / "results").rglob("result.json"))
    result.write_text(result.read_text(encoding="utf-8").replace("0.951", "0.952"), encoding="utf-8")
    with pytest.raises(SystemExit, match="WN18 complex seed 0"):
        write_results.page(place)


TIMES = "The time saving came from wider entity tables"


@pytest.mark.parametrize(("equal", "expected"), [(1.9, "confirmed"), (1.1, "refuted"), (None, "open")])
def test_timings(place: Path, equal: float | None, expected: str) -> None:
    common = {"dataset": "wn18rr", "rank": 500, "batch": 1000, "spread": {"plain": 0.02, "wide": 0.03}}
    whole = {**common, "form": "5star", "plain_seconds": 2.0, "wide_seconds": 4.0, "seconds_per_epoch": 0.2}
    tied = {**common, "form": "5star-conj", "plain_seconds": equal, "wide_seconds": 2.8, "seconds_per_epoch": 0.19}
    (place / "bench" / "results").mkdir(parents=True)
    write_json(place / "bench" / "results" / "other.json", {"rounds": []})
    write_json(place / "bench" / "results" / "train_card_2026.json", {"theme": "train", "cells": [whole, tied]})
    page = write_results.page(place)
    assert verdict(page, TIMES) == expected
    assert "| WN18RR | 31 % | 30 % (4.00 → 2.80 s) |" in page
    assert ("30 % wide, 5 % equal" in section(page, TIMES)) == (equal == 1.9)


def test_a_saving_within_its_scatter_proves_nothing(place: Path) -> None:
    common = {"dataset": "wn18rr", "rank": 500, "batch": 1000, "spread": {"plain": 0.02, "wide": 0.3}}
    common |= {"plain_seconds": 2.0, "seconds_per_epoch": 0.2}
    cells = [{**common, "form": "5star", "wide_seconds": 4.0}, {**common, "form": "5star-conj", "wide_seconds": 2.8}]
    (place / "bench" / "results").mkdir(parents=True)
    write_json(place / "bench" / "results" / "train_card_2026.json", {"theme": "train", "cells": cells})
    page = write_results.page(place)
    assert verdict(page, TIMES) == "open"
    assert "which it does not on WN18RR" in section(page, TIMES)


def test_the_printed_formula_is_chosen_on_valid(place: Path) -> None:
    ran(place, "WN18RR", "5star-conj", [0.49], better=3)
    ran(place, "WN18RR", "5star-conj-low-slow", [0.3], study="mobius", better=4)
    ran(place, "WN18RR", "5star-conj-mid-fast", [0.47], study="mobius", better=4)
    told = section(write_results.page(place), "The formula as printed is better than the published reading")
    assert "2 of 6 | N3 0.1, lr 0.1, epoch 2 | 0.470 | 0.490 | −0.0200 (paired over 200 test triples" in told
    assert "**Refuted:**" in told


def test_both_readings_are_chosen_alike_on_small_graphs(place: Path) -> None:
    title = "The formula as printed is better than the published reading"
    ran(place, "Kinship", "mobius-5star-low-slow", [0.8], study="readings", better=4)
    ran(place, "Kinship", "phase-5star-high-fast", [0.9], study="readings", better=3)
    assert verdict(write_results.page(place), title) == "open"
    ran(place, "UMLS", "mobius-5star-mid-fast", [0.7], study="readings", better=4)
    ran(place, "UMLS", "mobius-5star-low-slow", about(0.8), study="readings", better=4)
    ran(place, "UMLS", "phase-5star-high-fast", about(0.9), study="readings", better=3)
    told = section(write_results.page(place), title)
    assert "(N3 0.005, lr 0.03, epoch 2) | 0.900 ± 5e-4 (N3 0.1, lr 0.1, epoch 2) | −0.1000 (t-test over 3" in told
    assert "no better after tuning in 1 of 2 cases (UMLS 5star); undecided in 1 of 2 cases (Kinship 5star)" in told


def test_every_run_has_its_origin_and_its_minutes(place: Path) -> None:
    ran(place, "WN18", "complex", [0.951, 0.953])
    page = write_results.page(place)
    origins = section(page, "Where each number comes from")
    assert origins.count("| paper | WN18 | complex |") == 2
    assert "| test card | bf16 | not kept | `c0ffeec0ffee` | `conjoin study run` |" in origins
    assert "| paper | WN18 | complex | test card | 2 | 20 | 2.00 ± 0.00 | 1.3 |" in section(page, "Card minutes")


def test_the_paper_s_memory_examples() -> None:
    told = " ".join(memory_examples())
    for number in ("521 MB, or 497 MiB", "163 TB, or 148 TiB", "261 MB", "282 MB", "1.6 TB", "21.5 MB or 7.6 % less"):
        assert number in told


@given(*(st.lists(st.floats(0, 1), min_size=2, max_size=9) for _ in range(2)))
def test_the_interval_of_means_is_scipy_s(a: list[float], b: list[float]) -> None:
    from scipy import stats

    found = welch_interval_of_means(Moments.of(a), Moments.of(b))
    assert found is not None
    if np.ptp(a) < 1e-6 or np.ptp(b) < 1e-6:
        return
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_prose_is_wrapped_and_code_is_not() -> None:
    code = "`" + "conjoin study run " * 12 + "`"
    lines = list(write_results.wrapped(["word " * 60, f"- {'word ' * 20}{code} end", "| " + "x" * 300 + " |"]))
    assert all(len(line) <= write_results.WIDTH for line in lines[:3])
    assert any(code in line for line in lines)
    assert lines[-1] == "| " + "x" * 300 + " |"
