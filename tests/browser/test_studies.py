"""The Studies page on a small report: table, runs behind a number, comparisons, plots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser import labels
from tests.browser.page_helpers import Visit, expect, query

if TYPE_CHECKING:
    from playwright.sync_api import Route


def test_study_shows_comparisons_and_learning_curves(visit: Visit) -> None:
    page = visit.open("studies")
    rows = page.get_by_role("region", name=labels.comparisons_on("atlas")).locator("tbody tr")
    rows.first.wait_for()
    expect(rows).to_have_text(
        [
            re.compile(r"complex .*complex-conj.*\+0\.011.*p 0\.060.*complex .*p < 0\.001"),
            re.compile(r"5star .*complex.*−0\.059.*complex .*p 0\.012(?!.* p )"),
            re.compile(r"5star .*complex-conj.*−0\.048(?!.* p )"),
        ]
    )
    expect(rows.first.locator("b")).to_have_text(re.compile("^complex "))
    expect(page.locator("details", has_text="Diverged").locator("summary")).to_contain_text("2")
    curves = page.get_by_role("region", name=labels.CURVES)
    lines, bands, plot = curves.locator("path.line"), curves.locator("path.band"), curves.get_by_role("slider")
    expect(lines).to_have_count(2)
    expect(bands).to_have_count(2)
    expect(plot).to_have_attribute("aria-valuetext", "epoch 15: complex 0.372, complex-conj 0.358 (epoch 10)")
    plot.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(plot).to_have_attribute("aria-valuetext", "epoch 10: complex 0.369, complex-conj 0.358")
    plot.hover(position={"x": 10, "y": 50})
    expect(plot).to_have_attribute("aria-valuenow", "5")
    curves.get_by_role("checkbox", name="complex-conj").uncheck()
    expect(lines).to_have_count(1)
    assert query(page)["rows"] == "complex"
    curves.get_by_text(labels.AS_TABLE).click()
    cells = curves.locator("tbody tr").first.inner_text().split()
    assert cells == ["5", "0.359", "0.357", "to", "0.361"]
    page.reload()
    curves.get_by_role("slider").wait_for()
    expect(lines).to_have_count(1)
    curves.get_by_role("checkbox", name="complex", exact=True).press("Space")
    curves.get_by_role("slider").wait_for(state="detached")
    expect(curves.get_by_role("checkbox")).to_have_count(2)


def test_number_of_a_study_opens_its_runs(visit: Visit) -> None:
    page = visit.open("studies")
    table = page.get_by_role("region", name=labels.OUTCOMES)
    number = table.get_by_role("button", name="0.379 complex on atlas")
    expect(number).to_have_attribute("aria-expanded", "false")
    expect(table.get_by_role("columnheader")).to_have_text(["Model", "atlas"])
    expect(page.locator(".outcomes + .hint")).to_contain_text("moon")
    expect(table.get_by_role("row", name="complex-conj")).to_contain_text("0.368 ±0.0004")
    expect(table.locator("th[scope=row]")).to_have_text(["complex", "complex-conj", "5star"])
    expect(table.locator("th[scope=rowgroup]")).to_have_count(2)
    number.press("Enter")
    expect(number).to_have_attribute("aria-expanded", "true")
    behind = page.get_by_role("region", name="complex on atlas", exact=True)
    expect(behind).to_contain_text("147,648")
    expect(behind.get_by_role("listitem")).to_have_text([re.compile(r"0.*0\.379.*10 s.*EPYC.*train complex")])
    curve = behind.get_by_role("slider")
    expect(curve).to_have_attribute("aria-valuetext", "epoch 15: complex 0.372")
    page.reload()
    expect(curve).to_be_visible()
    table.get_by_role("button", name="0.320 5star on atlas").click()
    expect(page.get_by_role("region", name="5star on atlas", exact=True)).to_be_visible()
    expect(behind).to_have_count(0)
    assert query(page)["cell"] == "5star"


def test_size_plot_connects_models_that_no_smaller_model_beats(visit: Visit) -> None:
    page = visit.open("studies")
    plot = page.get_by_role("region", name=labels.SIZES)
    picture = plot.get_by_role("img")
    best = re.compile(r"complex-conj \(146\.8K, 0\.368\), complex \(147\.6K, 0\.379\)")
    expect(picture).to_have_attribute("aria-label", best)
    expect(picture.locator("circle")).to_have_count(3)
    expect(picture.locator("g.main circle")).to_have_count(2)
    expect(picture.locator("text.name")).to_have_text(["complex", "complex-conj", "5star"])
    page.set_viewport_size({"width": 390, "height": 844})
    expect(picture.locator("text.name")).to_have_text(["complex", "complex-conj"])
    plot.get_by_text(labels.AS_TABLE).click()
    expect(plot.get_by_role("row")).to_have_text(
        [re.compile("MRR"), "complex-conj146,7520.368", "complex147,6480.379", "5star153,0240.320"]
    )


def test_learning_curves_of_few_epochs_label_whole_epochs(visit: Visit) -> None:
    def short(route: Route) -> None:
        report = route.fetch().json()
        for point in (point for cell in report["cells"] for point in cell["valid_mrr_by_epoch"]):
            point["epoch"] //= 5
        route.fulfill(json=report)

    visit.page.route("**/v1/study?*", short)
    page = visit.open("studies")
    named = page.get_by_role("region", name=labels.CURVES).locator("svg > text")
    expect(named).to_have_text(["0", "1", "2", "3", "epoch"])


def test_choosing_another_study_keeps_only_the_measure(visit: Visit) -> None:
    def two(route: Route) -> None:
        told = route.fetch().json()
        told["studies"].append({**told["studies"][0], "name": "other"})
        route.fulfill(json=told)

    visit.page.route("**/v1/studies", two)
    empty = {"title": "", "cells": [], "left_out": []}
    visit.page.route("**/v1/study?name=other", lambda route: route.fulfill(json=empty))
    page = visit.open("studies?study=tiny&measure=hits1&dataset=atlas&rows=complex&cell=complex")
    page.locator("label", has_text=labels.STUDY).get_by_role("combobox").select_option("other")
    page.wait_for_url("**study=other**")
    assert query(page) == {"study": "other", "measure": "hits1"}
