"""The Geometry page, and the page that `conjoin figure sphere` writes, in a real browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.browser import labels
from tests.browser.page_helpers import PHONE, Visit, expect, pixels, query, until, until_like, until_shown, until_unlike

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = Path(__file__).resolve().parents[2] / "src" / "conjoin" / "geometry" / "sphere.js"


def test_linked_spheres_turn_together(visit: Visit) -> None:
    page = visit.open("geometry?relation=borders&with=complex-conj")
    spheres = page.locator(".sphere canvas")
    spheres.nth(1).wait_for()
    assert page.get_by_text("Complεx").first.is_visible()
    before = [until_shown(spheres.nth(i)) for i in range(2)]
    box = spheres.first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 160, steps=5)
    page.mouse.up()
    turned = [until_unlike(spheres.nth(i), before[i]) for i in range(2)]
    page.get_by_label(labels.LINK_CAMERAS).uncheck()
    spheres.first.focus()
    page.keyboard.press("ArrowLeft")
    until_unlike(spheres.first, turned[0])
    assert np.array_equal(turned[1], pixels(spheres.nth(1)))
    page.get_by_role("button", name=labels.RESET_VIEW).click()
    page.get_by_label(labels.LINK_CAMERAS).check()
    until_like(spheres.nth(1), before[1])


def test_address_stores_relation_coordinate_and_runs(visit: Visit) -> None:
    page = visit.open("geometry")
    page.locator(".sphere canvas").wait_for()
    expect(page.get_by_role("combobox", name="Relation", exact=True)).to_have_value("near")
    page.get_by_role("combobox", name="Relation", exact=True).fill("")
    page.keyboard.press("Tab")
    expect(page.get_by_role("combobox", name="Relation", exact=True)).to_have_value("near")
    page.get_by_role("combobox", name="Relation", exact=True).fill("located")
    page.get_by_role("option").filter(has_text="located in").click()
    page.wait_for_url("**relation=located_in**")
    page.get_by_label(labels.COORDINATE_LEFT).select_option("3")
    page.wait_for_url("**i=3**")
    page.get_by_label(labels.REPETITIONS).select_option("8")
    page.wait_for_url("**n=8**")
    page.get_by_label(labels.COMPARE_WITH).select_option("complex-conj")
    page.get_by_label(labels.COORDINATE_RIGHT).wait_for()
    page.reload()
    page.get_by_label(labels.COORDINATE_RIGHT).wait_for()
    expect(page.get_by_label(labels.COORDINATE_LEFT)).to_have_value("3")
    assert query(page) == {"relation": "located_in", "i": "3", "n": "8", "with": "complex-conj"}
    page.get_by_label(labels.RUN_LEFT).select_option("complex-conj")
    page.wait_for_url("**run=complex-conj**")


def test_the_flow_plays_and_stops(visit: Visit) -> None:
    page = visit.open("geometry?relation=borders")
    canvas = page.locator(".sphere canvas")
    canvas.wait_for()
    still = until_shown(canvas)
    page.get_by_role("button", name=labels.PLAY).click()
    page.locator("output").filter(has_not_text=re.compile(r"^0\.00$")).wait_for()
    page.get_by_role("button", name=labels.STOP).click()
    until_unlike(canvas, still)
    page.get_by_label(labels.TIME).fill("2")
    expect(page.locator("output")).to_have_text("2.00")
    page.get_by_role("button", name=labels.RESET_VIEW).click()
    until_like(canvas, still)


def test_picture_and_data_are_saved(visit: Visit) -> None:
    page = visit.open("geometry?relation=has_capital&with=complex-conj")
    page.locator(".sphere canvas").nth(1).wait_for()
    with page.expect_download() as found:
        page.get_by_role("button", name=labels.SAVE_PICTURE).click()
    assert found.value.suggested_filename == "sphere-has-capital.png"
    assert Path(found.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as found:
        page.get_by_role("button", name=labels.SAVE_DATA).click()
    scenes = json.loads(Path(found.value.path()).read_text(encoding="utf-8"))
    assert [scene["run"] for scene in scenes] == ["complex", "complex-conj"]


def test_phase_run_explains_itself_and_can_be_drawn_as_mobius(visit: Visit) -> None:
    page = visit.open("geometry?run=5star&relation=borders")
    page.locator(".sphere .notice").wait_for()
    assert page.locator(".sphere canvas").count() == 0
    for tool in (page.get_by_role("button", name=labels.SAVE_PICTURE), page.get_by_role("list", name=labels.LEGEND)):
        expect(tool).to_have_count(0)
    page.get_by_role("button", name=re.compile(labels.DRAW_AS_MOBIUS)).click()
    page.locator(".sphere canvas").wait_for()
    expect(page.locator(".sphere > .hint")).not_to_be_empty()


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_two_spheres_fit_a_phone(visit: Visit) -> None:
    page = visit.open("geometry?relation=borders&with=complex-conj")
    page.locator(".sphere canvas").nth(1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_script_and_library_compute_the_same_flow(browser: Browser) -> None:
    from conjoin.geometry.mobius import Mobius, points_of, to_sphere

    encoded = base64.b64encode(SCRIPT.read_bytes()).decode()
    page = browser.new_page()
    generator = np.random.default_rng(0)
    maps = [Mobius.of(*(generator.normal(size=(4, 2)) @ [1, 1j])) for _ in range(20)]
    maps += [Mobius.of(1, 1, 0, 1), Mobius.of(1, 0, 0, 1), Mobius.of(-1, 0, 0, 1), Mobius.of(1, 1e-5, 0, 1)]
    asked = [
        ([[float(z.real), float(z.imag)] for z in map_.generator.ravel()], t) for map_ in maps for t in (-2, 0.3, 1)
    ]
    found = page.evaluate(
        """async ([code, asked]) => {
            const { flow, toSphere } = await import("data:text/javascript;base64," + code);
            return asked.map(([generator, t]) => { const [, b, , d] = flow(generator, t); return toSphere(b, d); });
        }""",
        [encoded, asked],
    )
    expected = [to_sphere(map_.flow(t)(points_of(0))) for map_ in maps for t in (-2, 0.3, 1)]
    assert np.allclose(found, expected, atol=1e-9)
    page.close()


def test_written_page_works_without_a_service(browser: Browser, runs: Path) -> None:
    from tests.cli.commands import conjoin

    file = runs / "spheres.html"
    ran = conjoin("figure", "sphere", runs / "complex", runs / "complex-conj", "--relation", "borders", "-o", file)
    assert ran.code == 0, ran.err
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.goto(file.as_uri())
    canvas = page.locator("canvas").nth(1)
    before = until_shown(canvas)
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowRight")
    until_unlike(canvas, before)
    page.get_by_role("button", name=labels.FIGURE_PLAY).click()
    until(page, "document.querySelector('#time').value !== '0'")
    page.get_by_role("button", name=labels.FIGURE_STOP).click()
    with page.expect_download() as found:
        page.get_by_role("button", name=labels.FIGURE_SAVE).click()
    assert Path(found.value.path()).read_bytes().startswith(b"\x89PNG")
    context.close()
    assert complaints == []
