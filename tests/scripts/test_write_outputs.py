"""What the pages show of studies is what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest

import conjoin
from conjoin.report.collect import collect
from conjoin.report.formatting import signed
from conjoin.studies.parse import read_study
from scripts import doc_blocks, write_outputs

ROOT = Path(__file__).resolve().parents[2]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWING = [page for page in PAGES if write_outputs.STUDY.search(page.read_text(encoding="utf-8"))]


def test_pages_with_studies_exist() -> None:
    assert SHOWING


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.name)
def test_study_tables_equal_the_results(page: Path) -> None:
    pytest.importorskip("scipy", reason="tables of studies need SciPy: pip install 'conjoin[study]'")
    text = page.read_text(encoding="utf-8")
    assert write_outputs.with_tables(text) == text, "run `python -m scripts.write_outputs --tables`"


MEASURED = [page for page in PAGES if write_outputs.MEASURED.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: page.name)
def test_pages_show_the_newest_measurements(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert write_outputs.with_measurements(text) == text, "run `python -m scripts.write_outputs --tables`"


def test_missing_measurements_are_reported_as_not_measured() -> None:
    assert MEASURED
    text = "<!-- measured: train_nowhere -->\nold\n<!-- /measured -->"
    assert "Not measured yet." in write_outputs.with_measurements(text)


def test_command_fills_its_output_block(tmp_path: Path) -> None:
    text = "before\n<!-- run: echo a; echo 'b  ' -->\n```text\nold\n```\nafter\n"
    assert write_outputs.with_outputs(text, tmp_path) == text.replace("old", "a\nb")


def test_empty_block_is_filled_and_the_rest_is_kept(tmp_path: Path) -> None:
    text = "<!-- run: echo a -->\n```text\n```\nwords\n```sh\nb\n```\n"
    filled = "<!-- run: echo a -->\n```text\na\n```\nwords\n```sh\nb\n```\n"
    assert write_outputs.with_outputs(text, tmp_path) == filled
    assert write_outputs.with_outputs(filled, tmp_path) == filled


def test_failing_command_stops_the_update(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        write_outputs.with_outputs("<!-- run: exit 3 -->\n```text\n```", tmp_path)


def test_study_states_welch_intervals_between_its_rows() -> None:
    stats = pytest.importorskip("scipy.stats", reason="intervals need SciPy: pip install 'conjoin[study]'")
    study = read_study(ROOT / "studies" / "together.toml")
    findings = collect(study, study.root)
    outcomes = [findings.of("Kinship", row) for row in ("together-16", "apart")]
    values = [[run.value("mrr") for run in outcome.runs] for outcome in outcomes if outcome]
    reach = stats.ttest_ind(*values, equal_var=False).confidence_interval(0.95)
    (told,) = [line for line in write_outputs.differences(findings) if line]
    assert told.startswith(
        "- MRR of together-16 less that of apart, and its 95 % interval over seeds (Welch): FB15K-237 "
    )
    assert f"; Kinship −0.0032 ({signed(reach.low)} to {signed(reach.high)}); atlas " in told


@pytest.mark.slow
def test_page_commands_run_in_separate_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def here() -> None:
        raise AssertionError("the memory that it tells would be that of all commands before it")

    monkeypatch.setattr("conjoin.cli.main", here)
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```sh\nconjoin --version\n```\n\n<!-- output -->\n```text\n```\n", encoding="utf-8")
    shown = write_outputs.with_followed_outputs(page, page.read_text("utf-8"), tmp_path / "reader")
    assert f"conjoin {conjoin.__version__}" in shown
