"""What a study says, and what it refuses to say."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import run as shell

import pytest

from conjoin.errors import UsageError
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Row
from conjoin.training.recipe import Recipe
from conjoin.training.search_space import GRIDS

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies"

TINY = """
name = "tiny"
title = "Two forms"
seeds = 3
rows = [
    { name = "complex", form = "complex", symbol = "ComplEx" },
    { name = "tied", form = "complex-conj", options = { layout = "published" }, settings = "complex", seeds = [5, 7] },
    { name = "half", form = "complex", settings = "complex", rank_factor = 0.5, group = "control", seeds = 1 },
]
comparisons = [{ a = "complex", b = "tied" }]

[defaults]
validate_every = 2

[datasets.A]
graph = "umls"

[datasets.B]
graph = "graphs/own"

[settings.A]
complex = { rank = 64, epochs = 20, lr = 0.2 }

[settings.B]
complex = { rank = 8, validate_every = 0 }

[published.A]
complex = { mrr = 0.93, mrr_pm = 0.001, runs = 17 }

[published_tests.A]
mrr = [{ a = "complex", b = "tied", h = 0, p = 0.2 }]
"""


def written(folder: Path, text: str, *, name: str = "tiny.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_cells_are_datasets_times_rows_times_seeds(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, TINY))
    told = [(cell.dataset, cell.row.name, cell.seed, cell.rank, cell.recipe.validate_every) for cell in study.cells()]
    assert told == [
        ("A", "complex", 0, 64, 2),
        ("A", "complex", 1, 64, 2),
        ("A", "complex", 2, 64, 2),
        ("A", "tied", 5, 64, 2),
        ("A", "tied", 7, 64, 2),
        ("A", "half", 0, 32, 2),
        ("B", "complex", 0, 8, 0),
        ("B", "complex", 1, 8, 0),
        ("B", "complex", 2, 8, 0),
        ("B", "tied", 5, 8, 0),
        ("B", "tied", 7, 8, 0),
        ("B", "half", 0, 4, 0),
    ]
    assert study.cells()[3].row.form_text == "complex-conj(layout=published)"
    assert study.cells()[0].recipe == Recipe(epochs=20, lr=0.2, validate_every=2)
    assert study.comparisons[0].datasets == ("A", "B")
    assert study.published["A"]["complex"].hits1 is None
    assert study.source("A") == "umls"
    assert study.source("B") == str(tmp_path / "graphs" / "own")


def test_folder_changes_only_with_settings_that_change_results(tmp_path: Path) -> None:
    file = written(tmp_path, TINY)
    cells = read_study(file).cells()
    assert len({cell.folder for cell in cells}) == len(cells)
    assert cells[0].folder.parts[:3] == ("tiny", "A", "complex")
    assert cells[0].folder.name == f"seed-0-{cells[0].id}"
    slower = read_study(written(tmp_path, TINY.replace("lr = 0.2", "lr = 0.3"))).cells()
    renamed = read_study(written(tmp_path, TINY.replace('"Two forms"', '"Three"').replace('"ComplEx"', '"C"'))).cells()
    assert slower[0].id != cells[0].id
    assert [cell.id for cell in renamed] == [cell.id for cell in cells]
    moved = read_study(written(tmp_path, TINY, name="elsewhere.toml")).cells()
    assert [cell.folder for cell in moved] == [cell.folder for cell in cells]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('title = "Two forms"', 'titel = "Two forms"', "title"),
        ("epochs = 20", "epoch = 20", "epochs"),
        ("seeds = 3", "seeds = [0, 0]", r"\[0, 0\]"),
        ("seeds = 3", "seeds = true", "seeds = True"),
        ('graph = "umls"', "graf = 1", "graph"),
        ('group = "control"', 'group = "controls"', "control"),
        ('b = "tied" }]\n\n[defaults]', 'b = "tie" }]\n\n[defaults]', "tied"),
        ("rank_factor = 0.5", "rank_factor = 0.3", r"19\.2"),
        ('settings = "complex", seeds', 'settings = "complx", seeds', "complx"),
        ('name = "half"', 'name = "Complex"', "complex and Complex"),
        ('name = "half"', 'name = "complex"', "same name"),
        ('name = "half"', 'name = "../half"', r"\.\./half"),
        ("[published.A]", "[published.C]", "C"),
        ("mrr = [{", "mr = [{", "mr"),
        ("mrr = 0.93", 'mrr = "high"', "high"),
        ("rank = 64", "rank = 0", "rank = 0"),
        ("rank = 64", "batch = 0, rank = 64", r"settings.A.complex.*batch = 0"),
        ("seeds = 3", 'seeds = 3\nweights = "best"', "validate_every"),
        ("seeds = 3", 'seeds = 3\nweights = "first"', "first"),
        ("seeds = 3", "seeds = ", "TOML"),
        ("seeds = 3", "seeds = " + "9" * 5000, "TOML"),
        ("rank_factor = 0.5", "rank_factor = " + "9" * 400, "rank_factor"),
        ("[settings.B]", "[settings.B]\ncomplex = 3\n[settings.C]", "complex"),
    ],
)
def test_malformed_studies_raise_with_the_offending_value(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    assert before in TINY
    with pytest.raises(UsageError, match=complaint):
        read_study(written(tmp_path, TINY.replace(before, after, 1)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('name = "x"\n[[datasets]]\nname = "A"\n', r"\[datasets.NAME\]"),
        ('name = "x"\n[rows.complex]\nform = "complex"\n', r"\[\[rows\]\]"),
    ],
)
def test_lists_and_tables_are_not_confused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        read_study(written(tmp_path, text))


GRID = """
name = "grid"
settings.A = { slow = { rank = 8, lr = 0.01 }, fast = { rank = 8, lr = 0.5 } }
settings.B = { fast = { rank = 4, lr = 0.3 } }
datasets = { A = { graph = "umls" }, B = { graph = "kinship" } }
rows = [{ name = "c", form = "complex", symbol = "C", settings = "*" }]
"""


def test_settings_star_gives_one_row_per_settings_table(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, GRID))
    assert [(name, row.label, row.settings) for name, row in study.rows.items()] == [
        ("c-slow", "C", "slow"),
        ("c-fast", "C", "fast"),
    ]
    assert [(cell.title, cell.rank, cell.recipe.lr) for cell in study.cells()] == [
        ("A c-slow seed 0", 8, 0.01),
        ("A c-fast seed 0", 8, 0.5),
        ("B c-fast seed 0", 4, 0.3),
    ]
    line = '{ name = "c-fast", form = "complex", settings = "fast" }'
    one = read_study(
        written(tmp_path, GRID.replace('{ name = "c", form = "complex", symbol = "C", settings = "*" }', line))
    )
    assert [cell.folder for cell in one.cells()] == [cell.folder for cell in study.cells()][1:]
    elsewhere = read_study(written(tmp_path, GRID.replace('settings = "*"', 'settings = "*", datasets = ["B"]')))
    assert [cell.title for cell in elsewhere.cells()] == ["B c-fast seed 0"]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("rows = [", 'rows = [{ name = "c-fast", form = "complex", settings = "fast" }, ', "same name"),
        ("slow =", '"a/b" =', "a/b"),
        ('settings = "*"', 'settings = "*", datasets = ["B", "C"]', r"\[settings.\'C\'\]"),
        ('settings = "*"', 'settings = "*", rank_factor = 0.3', r"2\.4"),
        ("settings.B = { fast = { rank = 4, lr = 0.3 } }", "", "B"),
    ],
)
def test_rows_with_all_settings_are_checked_like_others(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    assert before in GRID
    with pytest.raises(UsageError, match=complaint):
        read_study(written(tmp_path, GRID.replace(before, after, 1)))


def test_a_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml"):
        read_study(tmp_path / "none.toml")


def test_extends_overrides_tables_of_another_file(tmp_path: Path) -> None:
    written(tmp_path, TINY)
    over = 'extends = "tiny.toml"\nname = "small"\nseeds_at_most = 1\n[settings.A]\ncomplex = { rank = 2 }\n'
    small = read_study(written(tmp_path, over, name="small.toml"))
    assert [cell.seed for cell in small.cells()] == [0, 5, 0, 0, 5, 0]
    assert small.settings["A"]["complex"].rank == 2
    assert small.settings["A"]["complex"].recipe.lr == 0.2
    assert small.published == read_study(tmp_path / "tiny.toml").published
    with pytest.raises(UsageError, match=r"loop\.toml"):
        read_study(written(tmp_path, 'extends = "loop.toml"', name="loop.toml"))


@pytest.mark.parametrize(
    ("form", "options", "text"),
    [
        ("5star-conj", {}, "5star-conj"),
        ("5star-conj", {"quotient": "mobius"}, "5star-conj(quotient=mobius)"),
        ("FiveStar(d=conj(a))", {"quotient": "mobius"}, "FiveStar(d=conj(a), quotient=mobius)"),
        ("ComplEx()", {"layout": "published"}, "ComplEx(layout=published)"),
    ],
)
def test_form_with_options_parses(form: str, options: dict[str, str], text: str) -> None:
    from conjoin.forms.notation import parse

    row = Row(name="x", form=form, settings="x", options=options)
    assert row.form_text == text
    parsed = parse(text)
    assert all(parsed.options[key] == value for key, value in options.items())


@pytest.mark.parametrize("name", ["paper", "paper-small", "mobius", "atlas"])
def test_every_study_of_the_repository_is_valid(name: str) -> None:
    from conjoin.studies.worker import check_forms

    study = read_study(STUDIES / f"{name}.toml")
    assert study.name == name
    check_forms(study, study.cells())


def test_the_paper_has_the_settings_of_the_presets() -> None:
    study = read_study(STUDIES / "paper.toml")
    text = (ROOT / "src" / "conjoin" / "training" / "presets.toml").read_text(encoding="utf-8")
    presets = tomllib.loads(text)
    for name, benchmark in study.datasets.items():
        expected = {
            "complex": presets["paper"][benchmark.graph]["complex"],
            "5star": presets["paper"][benchmark.graph]["5star"],
            "5star-conj-tuned": presets["paper-tuned"][benchmark.graph]["5star"],
        }
        if name == "FB15K-237":  # published for ComplEx-N3 twice; the study runs the smaller one and says so
            expected["complex"] = {**expected["complex"], "rank": 1000, "batch": 1000}
        for table, preset in expected.items():
            settings = study.settings[name][table]
            told = {"rank": settings.rank, **asdict(settings.recipe)}
            assert {key: told[key] for key in preset} == preset


def test_the_paper_study_has_every_published_row() -> None:
    study = read_study(STUDIES / "paper.toml")
    assert list(study.datasets) == ["FB15K-237", "WN18RR", "YAGO3-10", "FB15K", "WN18"]
    assert sum(len(lines) for lines in study.published.values()) == 43
    assert sum(len(lines) for name, lines in study.published.items() if name != "YAGO3-10") == 35
    assert len(study.published_tests) == 65
    assert {test.h for test in study.published_tests} == {0, 1}
    assert all((test.p < study.alpha) == bool(test.h) for test in study.published_tests)
    assert sum(test.supplementary for test in study.published_tests) == 7
    compared = {(c.a, c.b, dataset, m) for c in study.comparisons for dataset in c.datasets for m in c.measures}
    assert {(t.a, t.b, t.dataset, t.measure) for t in study.published_tests} <= compared
    published = study.published["WN18RR"]["5star-conj"]
    assert (published.mrr, published.mrr_pm, published.seconds, published.hits10, published.runs) == (
        0.493,
        8e-4,
        11,
        0.588,
        17,
    )
    assert "5star-conj-tuned" not in study.published["WN18RR"]
    assert study.grid == GRIDS["paper"]
    assert study.rows_in("ablation")[0].name == "5star-conj"
    assert {row.name for row in study.rows_in("control")} == {
        "complex-conj-published",
        "complex-twin",
        "complex-half",
        "complex-equal",
        "5star-equal",
        "quate",
    }
    assert {len(study.seeds_of(row)) for row in study.rows_in("main")} == {17}
    assert len(study.seeds_of(study.rows["5star-vert"])) == 5
    for name, benchmark in study.datasets.items():
        counts = benchmark.published_counts
        assert counts["examples"] == 2 * counts["train"]
        assert not benchmark.stand_in
        assert name in study.published


@pytest.mark.parametrize(
    ("control", "tied", "step"), [("5star-equal", "5star-conj", 1), ("complex-equal", "complex-conj", 2)]
)
def test_equal_parameters_are_as_equal_as_a_rank_allows(control: str, tied: str, step: int) -> None:
    from conjoin.forms.notation import parse

    study = read_study(STUDIES / "paper.toml")
    for dataset in study.datasets_of(study.rows[control]):
        counts = study.datasets[dataset].published_counts

        def parameters(row: str, rank: int, counts: Mapping[str, int] = counts) -> int:
            relations = 2 * counts["relations"] * parse(study.rows[row].form_text).relation_width(rank)
            return 2 * rank * counts["entities"] + relations

        rank = study.settings[dataset][control].rank
        wanted = parameters(tied, study.settings[dataset][study.rows[tied].settings].rank)
        off = {near: abs(parameters(control, near) - wanted) for near in (rank - step, rank, rank + step)}
        assert min(off, key=lambda near: off[near]) == rank
        like = replace(study.settings[dataset][study.rows[tied].settings], rank=rank)
        assert study.settings[dataset][control] == like


def test_published_complex_conj_is_compared_with_the_published_layout() -> None:
    study = read_study(STUDIES / "paper.toml")
    plain, judged = study.rows["complex-conj"], study.rows["complex-conj-published"]
    assert study.published_for("WN18RR", plain) == study.published_for("WN18RR", judged) is not None
    assert (study.judged(plain), study.judged(judged)) == (False, True)
    assert study.published_for("WN18RR", study.rows["quate"]) is None


def test_stand_in_graphs_are_detected(tmp_path: Path) -> None:
    study = read_study(STUDIES / "paper-small.toml")
    assert all(benchmark.stand_in for benchmark in study.datasets.values())
    assert all(len(study.seeds_of(row)) == 2 for row in study.rows.values())
    tiny = read_study(written(tmp_path, TINY)).datasets
    assert tiny["A"].stand_in, "numbers of A are published, and UMLS is loaded"
    assert not tiny["B"].stand_in, "a name of the user's own, for a graph of the user's own"
    counted = TINY.replace('graph = "graphs/own"', 'graph = "graphs/own"\npublished_counts = { train = 9 }')
    assert read_study(written(tmp_path, counted)).datasets["B"].stand_in
    known = TINY.replace("datasets.B", "datasets.WN18RR").replace("settings.B", "settings.WN18RR")
    assert read_study(written(tmp_path, known)).datasets["WN18RR"].stand_in


def test_the_example_in_the_docstring_is_a_valid_study(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    example = text.partition("```toml\n")[2].partition("```")[0]
    study = read_study(written(tmp_path, example))
    assert [row.name for row in study.rows.values()] == ["complex", "tied", "half"]
    assert study.published_for("UMLS", study.rows["tied"]) == study.published["UMLS"]["complex-conj"]


def test_reading_a_study_needs_no_torch() -> None:
    line = (
        "import sys; from conjoin.studies.parse import read_study; from conjoin.studies.status import study_status;"
        "from conjoin.studies.estimate import estimator; from conjoin.studies.select import select_cells;"
        f"from pathlib import Path; s = read_study({str(STUDIES / 'paper.toml')!r});"
        "estimator(s, Path('none'), machine='x'); study_status(s, Path('none'), cells=select_cells(s, seeds='0'));"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = shell([sys.executable, "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
