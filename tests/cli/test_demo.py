"""The demonstration, with settings so small that it takes a second or two."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import conjoin

from conjoin.cli import demo
from conjoin.runs.folder import RunFolder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RANK", 4)
    monkeypatch.setattr(demo, "SETTINGS", {**demo.SETTINGS, "epochs": 1, "batch": 1000})


@pytest.mark.usefixtures("quick")
def test_demo_runs_to_the_end(tmp_path: Path) -> None:
    first = conjoin("demo", "-o", tmp_path)
    assert first.code == 0, first.err
    for form in ("complex", "complex-conj", "5star", "5star-conj"):
        assert RunFolder(tmp_path / form).finished
        assert f"\n{form} " in first.out
    for word in ("MRR", "H@1", "s/epoch", "parameters", "bytes"):
        assert word in first.out
    assert first.out.count("→") == len(demo.QUESTIONS) == 3
    assert f"conjoin ask {tmp_path}" in first.out
    assert max(len(line) for line in first.out.splitlines()[:7]) <= 80
    report = conjoin("demo", "-o", tmp_path, "--json").json
    assert set(report) == {"runs", "best", "answers"}
    assert [len(answered["answers"]) for answered in report["answers"]] == [5, 5, 5]
    assert report["answers"][0]["question"]["tail"] == "?"
    assert report["runs"]["5star"]["relation_bytes"] == 2 * report["runs"]["5star-conj"]["relation_bytes"]


def test_the_settings_are_as_documented() -> None:
    assert demo.FORMS == ("complex", "complex-conj", "5star", "5star-conj")
    assert demo.RANK % 2 == 0
    assert all([head, relation, tail].count("?") == 1 for head, relation, tail in demo.QUESTIONS)
