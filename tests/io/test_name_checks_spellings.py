"""Names that people take for others are pointed out, read at once or ingested."""

from __future__ import annotations

import re
from pathlib import Path

from conjoin.io.ingest import ingest
from conjoin.io.read_graph import UNSPLIT, read_graph


def put(folder: Path, content: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_names_that_differ_only_in_spaces_are_counted(tmp_path: Path) -> None:
    path = put(tmp_path, "Lima\tin\tPeru\nCusco\t in\tPeru \nArica\tin\t Chile\n", "facts.tsv")
    of_entities, of_relations = read_graph(path).notes[:2]
    assert re.search(r"\b2 entity .*' Chile'.*\b1\b", of_entities)
    assert re.search(r"\b1 relation .*' in'.*\b1\b", of_relations)
    made = ingest([path], tmp_path / "graph", valid=0, test=0, memory=1 << 30, threads=1)
    assert made.notes[:2] == (of_entities, of_relations)


def test_names_that_differ_only_in_unicode_normalisation_are_counted(tmp_path: Path) -> None:
    composed, apart = "Sj\u00f6gren", "Sjo\u0308gren"
    file = put(tmp_path, f"{composed},treated_by,x\n{apart},treated_by,y\nZu\u0308rich,in,Z\n")
    (note,) = (note for note in read_graph(file).notes if "NFC" in note)
    assert re.search("\\b1 entity .*'Sjo\u0308gren'", note)
    ingested = ingest([file], tmp_path / "stored")
    assert note in ingested.notes


def test_ids_that_differ_only_in_a_decimal_are_counted(tmp_path: Path) -> None:
    file = put(tmp_path, "25.0,evolves_from,172\n172.0,egg,None\n-1.0,egg,-1\n2.0,egg,2.5\n25.0,version,1.0.0\n")
    (note,) = (note for note in read_graph(file).notes if "'-1.0'" in note)
    assert re.search(r"\b2 entity ", note)
    assert note in ingest([file], tmp_path / "stored").notes


def test_decimal_names_without_integer_twins_cause_no_note(tmp_path: Path) -> None:
    file = put(tmp_path, "Bulbasaur,weighs,6.0\nIvysaur,weighs,13.0\n")
    assert read_graph(file).notes == (UNSPLIT,)


def test_names_in_one_unicode_form_cause_no_note(tmp_path: Path) -> None:
    file = put(tmp_path, "Zu\u0308rich,in,Z\nGen\u00e8ve,in,Z\n")
    assert read_graph(file).notes == (UNSPLIT,)
