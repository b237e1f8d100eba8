from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conjoin.datasets.registry import catalogue, dataset, same_name
from conjoin.errors import UnknownName

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("written", "name"),
    [("FB15k-237", "fb15k-237"), ("fb15k237", "fb15k-237"), ("FB15K_237", "fb15k-237"), ("Yago3-10", "yago3-10")],
)
def test_names_are_found_in_any_spelling(written: str, name: str) -> None:
    assert dataset(written).name == name


def test_fb15k_is_not_fb15k_237() -> None:
    assert dataset("FB15K").title == "FB15K"
    assert not same_name("wn18", "wn18rr")


def test_an_unknown_name_gets_suggestions() -> None:
    with pytest.raises(UnknownName, match=r"wn18rr or wn18\?.*fb15k-237"):
        dataset("wn18r")


def test_every_dataset_of_the_paper_and_the_small_ones_are_there() -> None:
    paper, small = {"fb15k-237", "wn18rr", "yago3-10", "fb15k", "wn18"}, {"umls", "kinship", "nations", "atlas"}
    assert catalogue().keys() == paper | small


@pytest.mark.parametrize("name", list(catalogue()))
def test_records_are_complete(name: str) -> None:
    record = dataset(name)
    assert same_name(record.title, name)
    assert record.checksums.keys() == {"train", "valid", "test"}
    assert len({checksum.digest for checksum in record.checksums.values()}) == 3
    assert record.licence
    assert record.sources
    assert record.embedded or record.mirrors
    assert min(vars(record.counts).values()) > 0


def test_mirrors_are_https_or_pinned_packages() -> None:
    for record in catalogue().values():
        for mirror in record.mirrors:
            assert bool(mirror.files) + bool(mirror.archive) + bool(mirror.package) == 1
            if mirror.package:
                assert re.fullmatch("[0-9a-f]{64}", mirror.package.sha256)
                assert mirror.folder
            else:
                assert (mirror.files or mirror.archive).startswith("https://")
            assert not mirror.files or mirror.files.count("{split}") == 1


def test_the_records_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        catalogue()["mine"] = dataset("umls")  # type: ignore[index]


def test_datasets_page_shows_the_registry() -> None:
    script = ROOT / "scripts" / "write_datasets_doc.py"
    if not script.exists():
        pytest.skip("the scripts are only in the repository")
    words = [sys.executable, "-m", "scripts.write_datasets_doc", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
