from __future__ import annotations

from pathlib import Path

import pytest
from paper.predictions import Claim, Predictions, tally
from tests.report.fabricated import finished, ranks_of

from conjoin.errors import UsageError
from conjoin.report.collect import collect
from conjoin.report.stats import Interval
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study

pytest.importorskip("scipy", reason="tests between models need SciPy: pip install 'conjoin[study]'")
STUDY = """
name = "guessed"
rows = [{ name = "one", form = "complex" }, { name = "two", form = "complex-conj", settings = "complex" }]

[datasets.first]
graph = "atlas"

[datasets.second]
graph = "atlas"

[settings.first]
complex = { rank = 4 }

[settings.second]
complex = { rank = 4 }
"""
GUESS = """
margin = 0.05

[[predictions]]
name = "guess"
title = "One is better"
reason = "it is."
claims = [{ gain = ["one", "two"], on = ["first", "second"] }, { even = ["one", "two"], on = ["first"] }]
"""


def made(folder: Path, guess: str = GUESS) -> tuple[Study, Predictions]:
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "guess.toml").write_text(guess, encoding="utf-8")
    study = read_study(folder / "study.toml")
    return study, Predictions.read(folder / "guess.toml", study)


@pytest.mark.parametrize(
    ("gain", "low", "high", "verdict"),
    [
        (True, 0.06, 0.2, "confirmed"),
        (True, 0.04, 0.2, "undecided"),
        (True, -0.2, 0.05, "refuted"),
        (False, -0.05, 0.05, "confirmed"),
        (False, -0.06, 0.01, "undecided"),
        (False, 0.06, 0.2, "refuted"),
        (False, -0.3, -0.06, "refuted"),
    ],
)
def test_what_an_interval_says(gain: bool, low: float, high: float, verdict: str) -> None:
    assert Claim(a="one", b="two", dataset="first", gain=gain).judged(Interval(low, high), 0.05) == verdict


def test_claims_are_judged_by_the_same_questions(tmp_path: Path) -> None:
    study, asked = made(tmp_path)
    for cell in study.cells():
        if cell.dataset == "first":
            places = [1, 2] * 30 if cell.row.name == "one" else [10, 9] * 30
            finished(tmp_path, cell, mrr=0.5, ranks=ranks_of(places))
    outcomes = asked.judge(collect(study, tmp_path))
    assert [outcome.verdict for outcome in outcomes] == ["confirmed", "not run", "refuted"]
    assert outcomes[0].mrr == pytest.approx((0.75, (1 / 10 + 1 / 9) / 2))
    assert tally(outcomes) == "1 confirmed, 1 refuted, 1 not run"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('on = ["first"]', 'on = ["third"]'),
        ('even = ["one", "two"]', 'even = ["one"]'),
        ('even = ["one"', 'odd = ["one"'),
    ],
)
def test_claims_that_cannot_be_judged(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(UsageError):
        made(tmp_path, GUESS.replace(old, new))
