"""Public names, signatures, lazy imports and required packages."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import conjoin

ROOT = Path(__file__).resolve().parents[1]
BLOCKED = (
    "duckdb",
    "optuna",
    "fastapi",
    "uvicorn",
    "pyoxigraph",
    "matplotlib",
    "pandas",
    "scipy",
    "sklearn",
)
WALL = f"""
import sys
import tomllib
class Wall:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {BLOCKED!r} else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Wall, sys.meta_path)
"""
"""A Python in which these packages are not installed."""
WORK = """
import sys
import tomllib
from pathlib import Path
import conjoin
from conjoin.cli import main
facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("d", "r", "a"), ("a", "s", "c")]
graph = conjoin.Graph.from_triples(facts, facts[:1], facts[1:2])
model = conjoin.Model(conjoin.form("5star-conj"), graph.n_entities, graph.n_relations, rank=4, seed=0)
assert [epoch.number for epoch in conjoin.train(model, graph, conjoin.Recipe(epochs=2))] == [1, 2]
assert 0 < conjoin.rank(model, graph, "test").mrr() <= 1
run = conjoin.Run.of(graph, "complex", rank=4, recipe=conjoin.Recipe(epochs=1))
folder = Path(sys.argv[1]) / "run"
conjoin.execute(run, graph, folder)
assert conjoin.open(folder).ask("a", "r", k=1)
sys.argv = ["conjoin", "ask", str(folder), "a", "r", "?", "--json"]
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
"""


def python(code: str, *words: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(program, check=False, capture_output=True, text=True, timeout=120)


def test_public_names() -> None:
    assert set(conjoin.__all__) == {
        "FORMS",
        "ConjoinError",
        "Ensemble",
        "Epoch",
        "Form",
        "Graph",
        "Model",
        "Predictor",
        "Ranks",
        "ReadOptions",
        "Recipe",
        "Run",
        "__version__",
        "execute",
        "form",
        "load",
        "open",
        "rank",
        "train",
    }
    assert set(conjoin.__all__) <= set(dir(conjoin))
    for name in conjoin.__all__:
        assert getattr(conjoin, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = conjoin.nonsense


def test_public_signatures() -> None:
    def parameters(function: object) -> list[str]:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]

    assert parameters(conjoin.load)[0] == "name_or_path"
    assert parameters(conjoin.form)[0] == "text"
    assert parameters(conjoin.Model)[:4] == ["form", "n_entities", "n_relations", "rank"]
    assert {"seed", "dtype"} <= set(parameters(conjoin.Model))
    assert parameters(conjoin.train)[:3] == ["model", "graph", "recipe"]
    assert parameters(conjoin.rank)[:3] == ["model", "graph", "split"]
    assert parameters(conjoin.Predictor.ask)[:3] == ["self", "head", "relation"]
    assert "k" in parameters(conjoin.Predictor.ask)
    assert "ties" in parameters(conjoin.Ranks.mrr)
    assert parameters(conjoin.Ranks.hits)[:3] == ["self", "k", "ties"]


def test_import_and_help_do_not_load_heavy_packages() -> None:
    heavy = "heavy = [m for m in ('torch', 'numpy', 'pyarrow') if m in sys.modules]; assert not heavy, heavy"
    assert python(f"import sys, conjoin; {heavy}").returncode == 0
    for words in (["--help"], ["train", "--help"], ["ask", "--help"], ["nonsense"]):
        ran = python(
            "import sys; from conjoin.cli import main\n"
            f"sys.argv = ['conjoin', *{words!r}]\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            f"{heavy}"
        )
        assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_training_ranking_and_asking_work_without_optional_packages(tmp_path: Path) -> None:
    ran = python(WALL + WORK, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert '"question"' in ran.stdout


def test_the_blocked_packages_cannot_be_imported() -> None:
    for package in BLOCKED:
        ran = python(WALL + f"import {package}")
        assert ran.returncode == 1
        assert "ModuleNotFoundError" in ran.stderr


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("<http://a> <http://b> <http://c> .\n")
    ran = python(WALL + "import conjoin; conjoin.load(sys.argv[1])", tmp_path / "a.ttl")
    assert "pip install 'conjoin[rdf]'" in ran.stderr


def test_the_package_is_typed() -> None:
    assert (Path(conjoin.__file__).parent / "py.typed").exists()


def test_all_files_have_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited
    assert project["version"] == conjoin.__version__ == cited[1]


def test_repr_of_public_objects_is_short() -> None:
    graph = conjoin.load("atlas")
    model = conjoin.Model("complex", graph.n_entities, graph.n_relations, rank=2)
    training = conjoin.train(model, graph, conjoin.Recipe(epochs=3))
    shown = [
        graph,
        graph.entities,
        model,
        training,
        conjoin.rank(model, graph, "valid"),
        conjoin.Predictor(model, graph),
    ]
    for value, words in zip(
        shown,
        (
            "Graph(atlas: 2,279 entities, 14 relations, 7,410 / ",
            "Vocabulary(entity: 2,279 names)",
            "Model(ComplEx() of rank 2: 2,279 entities, 14 relations, ",
            "Training(ComplEx() on atlas, 0 of 3 epochs done; ",
            f"Ranks({2 * len(graph.valid):,} questions, MRR 0.",
            "Predictor(ComplEx() of rank 2 on Graph(atlas: ",
        ),
        strict=True,
    ):
        assert repr(value).startswith(words)
        assert len(repr(value)) < 150
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(dir(conjoin))
    assert {*conjoin.__all__, "training", "graph"} <= set(dir(conjoin))
