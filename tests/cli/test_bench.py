"""The verbs bench train, bench rank and bench growth."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import assert_refused, conjoin

QUICK = ("--seconds", "0.02", "--rounds", "2", "--device", "cpu", "--hardware", "here")


@pytest.mark.slow
def test_training_bench_writes_a_page_and_json(tmp_path: Path) -> None:
    told = conjoin(
        "bench",
        "train",
        "random-60/complex/4/20",
        "atlas/5star/4/2000",
        *QUICK,
        "--rounds",
        "1",
        "-o",
        tmp_path,
        "--json",
    )
    assert [cell["dataset"] for cell in told.json["cells"]] == ["random-60", "atlas"]
    assert told.json["rates"]["flops_of"] in ("fp32", "bf16")
    assert told.json["command"].startswith("conjoin bench train random-60/complex/4/20 ")
    assert str(tmp_path) not in told.json["command"]
    (stored,), (page,) = tmp_path.glob("train_here_*.json"), tmp_path.glob("train_here_*.md")
    assert stored.stem == page.stem
    assert "atlas | 5star | 4 | 2000" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_training_bench_measures_time_to_a_quality(tmp_path: Path) -> None:
    words = ("--no-plain", "--until", "0", "--every", "1", "-o", tmp_path, "--json")
    told = conjoin("bench", "train", "random-60/complex/4/20", *QUICK, *words)
    assert told.json["cells"][0]["time_to"]["epochs"] == 1


@pytest.mark.slow
def test_ranking_and_growth_benches_write_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.compare import growth

    small = growth.Sweep(entities=(20, 40), ranks=(2,), batches=(5,), at_entities=20, at_rank=4, at_batch=10)
    monkeypatch.setitem(growth.SWEEPS, "cpu", small)
    ranked = conjoin("bench", "rank", "random-60/complex/4/20", *QUICK, "-o", tmp_path)
    assert ranked.code == 0, ranked.err
    assert "random-60" in ranked.out
    grown = conjoin("bench", "growth", "--seconds", "0", "--most", "30", "--device", "cpu", "-o", tmp_path, "--json")
    assert [cell["entities"] for cell in grown.json["cells"]] == [20, 20, 20]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("train", "nonsense"), "DATASET/FORM/RANK/BATCH"),
        (("train", "--grid", "papr"), "paper"),
        (("rank", "random-60/complex/4/20", "--pykeen", "/nowhere/python"), "/nowhere/python"),
        (("train", "random-60/complex/3/20"), "ComplEx"),
    ],
)
def test_wrong_cell_is_refused_before_measuring(words: tuple[str, ...], value: str, tmp_path: Path) -> None:
    assert_refused(conjoin("bench", *words, *QUICK, "-o", tmp_path), value)
    assert not list(tmp_path.iterdir())
