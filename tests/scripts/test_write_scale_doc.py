"""The tables of docs/scale.md equal the results."""

from __future__ import annotations

from scripts.write_scale_doc import BLOCK, GRAPHS, PAGE, TABLES, by_hand, by_planner, filled


def test_page_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text) == text, "run python -m scripts.write_scale_doc"
    assert {block["name"] for block in BLOCK.finditer(text)} == {*TABLES, "paper"}


def test_the_planner_agrees_with_the_calculation_by_hand() -> None:
    for entities, triples in GRAPHS:
        (table, cards), (planned, peak) = by_hand(entities), by_planner(entities, triples)
        assert planned == cards
        assert 2 * table / cards < peak < 2 * table / cards + 4e9
