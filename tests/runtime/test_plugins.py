"""Forms, links, terms, readers and datasets of other packages: one installed by pip, and broken ones beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.cli.commands import conjoin

from conjoin import load
from conjoin.datasets.load import locate
from conjoin.datasets.registry import dataset, every_name
from conjoin.errors import BrokenPlugin, DatasetError, GraphError, UnknownName
from conjoin.forms.notation import FORMS, form, parse
from conjoin.runtime import plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package, as pip leaves it."""
    folder = tmp_path_factory.mktemp("site")
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", folder, EXAMPLE]
    subprocess.run([sys.executable, "-m", "pip", *map(str, words)], check=True, capture_output=True, text=True)
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(site)
    yield site
    for module in [name for name in sys.modules if name.startswith("conjoin_example")]:
        del sys.modules[module]


def announce(folder: Path, package: str, entries: str, source: str = "") -> None:
    """Lay out a package as installers do."""
    (folder / f"{package}.py").write_text(source)
    facts = folder / f"{package}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(entries)


def test_plugin_is_imported_only_when_its_name_is_used(installed: Path) -> None:
    assert {"Turn", "turn-twin"} <= set(plugins.names("form"))
    assert form("5star-conj") == FORMS["5star-conj"]
    assert load("atlas").n_relations == 14
    assert plugins.origin("form", "Turn") == "conjoin-example 0.1.0"
    assert not [module for module in sys.modules if module.startswith("conjoin_example")]


def test_form_of_another_package_is_registered(installed: Path) -> None:
    from conjoin.model.model import Model

    twin = form("turn-twin")
    assert parse(str(twin)) == twin == parse("Turn(a2=a1)") == parse("TURN(a2=a1)")
    model = Model(twin, 5, 2, rank=8, seed=0)
    h = torch.arange(5)
    turned = model.query(h, torch.zeros_like(h)).detach().reshape(5, 2, 8)
    rows = model.entities.weight.detach().reshape(5, 2, 8)
    torch.testing.assert_close(turned.norm(dim=1), rows.norm(dim=1))
    listed = {entry["name"]: entry for entry in conjoin("forms", "--json").json["forms"]}
    assert listed["turn-twin"]["package"] == "conjoin-example 0.1.0"
    assert listed["complex"]["package"] is None
    with pytest.raises(UnknownName, match=r"turn-twn.*turn-twin"):
        form("turn-twn")


def test_train_and_ask_with_a_form_and_a_dataset_of_another_package(installed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--rank", 8, "--epochs", 3, "--batch", 20, "-o", run]
    assert conjoin("train", "Tiny_Town", "--form", "turn-twin", *words).code == 0
    assert len(conjoin("ask", run, "Ada", "greets", "?", "-k", 3, "--json").json["answers"]) == 3
    assert "tiny-town" in conjoin("datasets").out


@pytest.mark.slow
def test_train_and_ask_with_a_link_and_terms_of_another_package(installed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    terms = ["--term", "small-tails=0.05", "--term", "neighbours=0.02"]
    words = ["--form", "TransE(distance=cosine)", *terms, "--rank", 8, "--epochs", 3, "--batch", 20, "--n3", 0]
    trained = conjoin("train", "tiny-town", *words, "-o", run)
    assert trained.code == 0, trained.err
    epochs = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert {"small-tails", "neighbours"} <= epochs[-1]["terms"].keys()
    answers = conjoin("ask", run, "Ada", "greets", "?", "-k", 3, "--json").json["answers"]
    assert len(answers) == 3
    assert all(abs(answer["score"]) < 10.01 for answer in answers)


def test_reader_of_another_package_is_used(installed: Path, tmp_path: Path) -> None:
    lines = '{"head": "a", "relation": "r", "tail": "b"}\n\n{"head": "b", "relation": "r"}\n'
    file = tmp_path / "facts.jsonl"
    file.write_text(lines)
    with pytest.raises(GraphError, match=r"facts\.jsonl:3: .*KeyError"):
        load(file)
    skipped = conjoin("inspect", file, "--on-error", "skip")
    assert skipped.code == 0
    assert "facts.jsonl:3: " in skipped.err
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.jsonl").write_text(lines.splitlines()[0])
    assert load(folder).n_entities == 2
    stored = conjoin("ingest", folder / "train.jsonl", "-o", tmp_path / "stored")
    assert stored.code == 0, stored.err
    with pytest.raises(GraphError, match=r"\.ttl, \.jsonl"):
        load(file.rename(tmp_path / "facts.odd"))


def test_a_dataset_of_another_package_is_verified(installed: Path, site: Path, tmp_path: Path) -> None:
    graph = load("tiny-town")
    assert (len(graph.train), graph.n_entities) == (80, 18)
    assert locate("tiny-town") == site / "conjoin_example" / "tiny_town"
    changed = site / "conjoin_example" / "tiny_town" / "test.tsv"
    text = changed.read_text()
    try:
        changed.write_text(text + "Ada\tgreets\tBen\n")
        with pytest.raises(DatasetError, match=r"test\.tsv.*Tiny Town"):
            load("tiny-town")
    finally:
        changed.write_text(text)


BROKEN = """
[conjoin.forms]
torn = torn:MISSING
odd = torn:ODD
Other = torn:Family
lonely = torn:Family_LONELY
[conjoin.readers]
torn = torn:read
[conjoin.datasets]
torn-town = torn
"""
SOURCE = """
from conjoin_example.turn import Turn
class Family(Turn): pass
Family_LONELY = Family()
ODD = 3
def read(stream, sink):
    raise ZeroDivisionError("no luck")
"""


@pytest.fixture
def torn(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "torn"
    folder.mkdir()
    announce(folder, "torn", BROKEN, SOURCE)
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop("torn", None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torn", "AttributeError"),
        ("odd", r"\bint\b"),
        ("Other", "Family"),
        ("lonely", r"Family.*conjoin\.forms"),
    ],
)
def test_a_broken_form_fails_only_where_it_is_used(torn: None, name: str, reason: str) -> None:
    with pytest.raises(BrokenPlugin, match=rf"'{name}'.*torn 1\.0.*{reason}"):
        form(name)
    assert str(form("Turn")) == "Turn()"
    listed = conjoin("forms", "--json")
    assert {"Turn", "complex"} <= {entry["name"] for entry in listed.json["forms"]}
    assert f"'{name}' of the package torn 1.0" in listed.err


def test_broken_readers_and_datasets_do_not_affect_others(torn: None, tmp_path: Path) -> None:
    file = tmp_path / "facts.torn"
    file.write_text("a\tr\tb\n")
    with pytest.raises(BrokenPlugin, match=r"ZeroDivisionError.*facts\.torn.*no luck"):
        load(file)
    with pytest.raises(BrokenPlugin, match=r"torn/dataset\.toml.*FileNotFoundError"):
        dataset("torn-town")
    listed = conjoin("datasets")
    assert listed.code == 0
    assert "tiny-town" in listed.out
    assert "'torn-town'" in listed.err
    assert "torn-town" in every_name()


def test_two_packages_with_one_name_are_refused(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(tmp_path, "rival", "[conjoin.forms]\nTurn = rival:Turn\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BrokenPlugin, match=r"rival 1\.0 and conjoin-example 0\.1\.0"):
        form("Turn")


def test_built_in_names_take_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(tmp_path, "greedy", "[conjoin.forms]\ncomplex = greedy:X\n[conjoin.datasets]\natlas = greedy\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert form("complex") == FORMS["complex"]
    assert load("atlas").n_entities == 2279
