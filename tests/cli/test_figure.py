"""conjoin figure: from a run that a command trained to files that can be opened."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.commands import TINY, assert_refused, conjoin
from tests.report.fabricated import finished, ranks_of, tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(lands: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tiny run of each form that is drawn."""
    folder = tmp_path_factory.mktemp("drawn")
    for name, words in {
        "5star": ("--form", "5star", "--quotient", "mobius"),
        "5star-neg": ("--form", "5star-neg", "--quotient", "mobius"),
        "phase": ("--form", "5star"),
        "complex": ("--form", "complex"),
        "complex-conj": ("--form", "complex-conj"),
    }.items():
        ran = conjoin("train", lands, *TINY, *words, "-o", folder / name, "--json")
        assert ran.code == 0, ran.err
    return folder


def test_figure_writes_two_spheres_in_every_format(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures" / "borders"
    ran = conjoin("figure", "sphere", runs / "5star", runs / "5star-neg", "--relation", "borders", "-o", out, "--json")
    assert [Path(file).suffix for file in ran.json["files"]] == [".png", ".svg", ".pdf", ".html"]
    assert all(Path(file).stat().st_size > 5_000 for file in ran.json["files"])
    left, right = ran.json["scenes"]
    assert (left["form"], right["form"]) == ("5★E", "5★ε_n")
    assert left["entity"] == right["entity"]
    assert right["kind"] == "elliptic"
    stored = json.loads((out.parent / "borders.html").read_text("utf-8").split('id="scenes">')[1].split("<")[0])
    assert stored == ran.json["scenes"]


def test_figure_draws_one_coordinate_of_one_entity(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    words = ("--relation", "P2", "--coordinate", 2, "--entity", "Italy", "--iterates", 2, "--reverse", "-o", out)
    ran = conjoin("figure", "sphere", runs / "5star", *words)
    assert ran.code == 0, ran.err
    assert all(word in ran.out for word in ("has capital", "coordinate 2", "Italy"))
    assert list(tmp_path.iterdir()) == [out]


def test_phase_run_is_refused_with_the_mobius_alternative(runs: Path, tmp_path: Path) -> None:
    words = ("figure", "sphere", runs / "phase", "--relation", "borders", "-o", tmp_path / "a.svg")
    refused = conjoin(*words)
    assert_refused(refused, "phase", "--as-mobius")
    assert not list(tmp_path.iterdir())
    drawn = conjoin(*words, "--as-mobius")
    assert drawn.code == 0, drawn.err
    assert "phase" in drawn.err


def test_figure_draws_the_plane_of_a_tie(runs: Path, tmp_path: Path) -> None:
    words = (runs / "complex", runs / "complex-conj", "--entity", "France", "-o", tmp_path / "e")
    ran = conjoin("figure", "entities", *words, "--json")
    free, tied = ran.json["shown"]
    assert tied["off_plane"] < 1e-6 < free["off_plane"]
    assert free["coordinates"][1] == free["coordinates"][0] + 2
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".pdf", ".png", ".svg"]
    one = conjoin("figure", "entities", runs / "complex", "--coordinate", 1, "-o", tmp_path / "one.png")
    assert "coordinates 1 and 3" in one.out


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("sphere", "5star", "--relation", "bordres"), "borders"),
        (("sphere", "5star", "--relation", "borders", "--entity", "Frnace"), "France"),
        (("sphere", "5star", "--relation", "borders", "--coordinate", 9), "9"),
        (("sphere", "5star", "--relation", "borders", "--coordinate", 1, "--coordinate", 2), "2"),
        (("sphere", "5star", "--relation", "borders", "-o", "x.gif"), "png, svg, pdf"),
        (("sphere", "nowhere", "--relation", "borders"), "nowhere"),
        (("entities", "5star"), "ComplEx"),
        (("entities", "complex", "-o", "x.html"), "svg"),
        (("entities", "complex", "--coordinate", 2), "2"),
    ],
)
def test_invalid_figure_options_leave_no_file(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, run, *rest = words
    assert_refused(conjoin("figure", verb, runs / str(run), *rest), value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("verb", "run"), [("sphere", "5star"), ("entities", "complex")])
def test_figure_help_lists_the_supported_endings(runs: Path, tmp_path: Path, verb: str, run: str) -> None:
    relation = ("--relation", "borders") if verb == "sphere" else ()
    written = conjoin("figure", verb, runs / run, *relation, "-o", tmp_path / "x", "--json").json["files"]
    offered = re.findall(r"\.(png|svg|pdf|html)\b", conjoin("figure", verb, "--help").out.partition("--out")[2])
    assert offered == [Path(file).suffix[1:] for file in written]


def test_default_figure_name_contains_the_relation(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert conjoin("figure", "sphere", runs / "complex", "--relation", "has capital").code == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"sphere-has-capital.png", "sphere-has-capital.html"}


def test_plot_with_too_few_finished_runs_states_the_missing_ones(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    finished(tmp_path, study.cell("UMLS", study.rows["complex"], 0), mrr=0.9, ranks=ranks_of([1, 2, 3, 4]))
    for plot, needed in {"pvalues": "seeds", "patterns": "settings"}.items():
        said = conjoin("figure", plot, study.file, "--root", tmp_path, "-o", tmp_path / "drawn")
        assert_refused(said, study.file, needed)


def test_a_plot_of_patterns_names_untested_pairs(tmp_path: Path) -> None:
    from tests.report.test_pattern_effects import filled, study_of  # skipped without SciPy

    study = study_of(tmp_path)
    words = ("figure", "patterns", study.file, "--root", tmp_path, "-o", tmp_path / "drawn")
    nothing = conjoin(*words)
    assert_refused(nothing, "own complex", "own tied")
    filled(study, tmp_path)
    whole = conjoin(*words)
    assert "pattern-effects.svg" in whole.out
    assert "own complex" not in whole.err
    text = study.file.read_text(encoding="utf-8")
    second = text.replace(
        "rows = [",
        'rows = [\n    { name = "5star", form = "5star", settings = "complex" },\n'
        '    { name = "5star-neg", form = "5star-neg", settings = "complex" },',
    )
    study.file.write_text(second, encoding="utf-8")
    partly = conjoin(*words)
    assert "pattern-effects.svg" in partly.out
    assert "own 5star" in partly.err
    assert "own complex" not in partly.err


@pytest.mark.parametrize("plot", ["curves", "frontier", "pvalues"])
def test_study_plot_is_drawn_from_finished_runs(plot: str, tmp_path: Path) -> None:
    study = tiny(tmp_path)
    words = ("figure", plot, study.file, "--root", tmp_path, "-o", tmp_path / "drawn", "--json")
    nothing = conjoin(*words)
    assert_refused(nothing, study.file)
    assert not (tmp_path / "drawn").exists()
    for row, mrr in {"complex": 0.93, "tied": 0.91}.items():
        for seed in (0, 1):
            valid = [{"epoch": e, "loss": 1 / e, "seconds": 1.0, "valid": {"mrr": mrr * e / 3}} for e in (1, 2, 3)]
            cell = study.cell("UMLS", study.rows[row], seed)
            finished(tmp_path, cell, mrr=mrr + seed / 1000, ranks=ranks_of([1, 2, 3, 4]), events=valid)
    name = "pvalues-UMLS" if plot == "pvalues" else plot
    assert conjoin(*words).json["files"] == [str(tmp_path / "drawn" / f"{name}.{kind}") for kind in ("svg", "pdf")]
    assert (tmp_path / "drawn" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert "</svg>" in (tmp_path / "drawn" / f"{name}.svg").read_text("utf-8")
