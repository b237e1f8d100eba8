"""`conjoin tune`, and `conjoin train --settings` with its result."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest
from tests.cli.commands import assert_refused, conjoin
from tests.cli.test_options import ODD, ODDLY
from tests.studies.small import small_study

from conjoin.runs.folder import RunFolder

pytest.importorskip("optuna", reason="tuning needs the extra `tune`")


@pytest.mark.slow
def test_train_reads_the_settings_that_tune_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_study(tmp_path)
    search = (
        "tune",
        "./own",
        "--form",
        "complex",
        "--rank",
        4,
        "--epochs",
        4,
        "--validate-every",
        2,
        "--device",
        "cpu",
    )
    found = conjoin(*search, "--trials", 3, "-o", "settings/found.toml")
    assert found.code == 0, found.err
    assert found.err.count("valid MRR") == 3
    assert (tmp_path / "runs" / "tune.db").exists()
    assert tomllib.loads(found.out) == tomllib.loads((tmp_path / "settings" / "found.toml").read_text(encoding="utf-8"))
    again = conjoin(*search, "--trials", 3, "--json").json
    assert tomllib.loads(found.out)["settings"]["own"]["complex"] == again["settings"]
    train = ("train", "./own", "--form", "complex", "--device", "cpu", "--json")
    advised = found.err.rpartition("conjoin train ")[2]
    trained = conjoin("train", *shlex.split(advised), "--device", "cpu", "--json").json
    assert trained["epochs"] == again["settings"]["epochs"]
    assert trained["valid"]["mrr"] == again["valid_mrr"]
    overruled = conjoin(*train, "--settings", "settings/found.toml", "--epochs", 1).json
    assert overruled["epochs"] == 1


def test_the_advised_command_keeps_the_reading_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my facts.csv").write_text(ODD + "broken\n", encoding="utf-8")
    odd = (*ODDLY, "--header", "--on-error", "skip")
    few = ("--rank", 2, "--epochs", 1, "--validate-every", 1, "--trials", 1, "--device", "cpu")
    found = conjoin("tune", "my facts.csv", "--form", "complex", *few, *odd, "-o", "found.toml")
    assert found.code == 0, found.err
    advised = found.err.rpartition("conjoin train ")[2]
    trained = conjoin("train", *shlex.split(advised), "--device", "cpu", "-o", "run", "--json")
    assert trained.code == 0, trained.err


def test_negatives_are_part_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_study(tmp_path)
    few = ("--rank", 2, "--epochs", 1, "--validate-every", 1, "--trials", 1, "--device", "cpu")
    sampled = ("--negatives", 3, "--negatives-power", 0.5)
    found = conjoin("tune", "./own", "--form", "complex", *few, *sampled, "-o", "found.toml")
    assert found.code == 0, found.err
    settings = tomllib.loads(found.out)["settings"]["own"]["complex"]
    assert (settings["negatives"], settings["negatives_power"]) == (3, 0.5)
    advised = found.err.rpartition("conjoin train ")[2]
    trained = conjoin("train", *shlex.split(advised), "--device", "cpu", "--json").json
    kept = RunFolder(Path(trained["run"])).run.recipe
    assert (kept.negatives, kept.negatives_power) == (3, 0.5)


def test_an_unknown_grid_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = conjoin("tune", "atlas", "--grid", "papr")
    assert_refused(ran, "papr", "paper")
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tr\tb\nb\tr\tc\n", encoding="utf-8")
    ran = conjoin("tune", facts, "--device", "cpu")
    assert_refused(ran, "valid")
    assert list(tmp_path.iterdir()) == [facts]
