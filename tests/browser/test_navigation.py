"""Getting about in the explorer: back and reload, the keyboard, long tables, addresses that go too deep."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.seen import Visit, expect, query, until
from tests.browser.test_explorer import answers

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

LATE = 3_500
"""Milliseconds beyond those in which a page that fetches nothing gives up looking for a place."""


def far_down(visit: Visit) -> tuple[Page, int]:
    """A page that is read to its end, and how far down that is."""
    page = visit.open("entity?name=France")
    page.locator(".alike a").nth(11).wait_for()
    page.locator(".alike a").last.scroll_into_view_if_needed()
    down = page.evaluate("scrollY")
    assert down > 100
    return page, down


def test_back_leads_to_where_one_was_reading(visit: Visit) -> None:
    page, down = far_down(visit)
    page.locator(".alike a").last.click()
    page.get_by_role("heading", level=1, name="France", exact=True).wait_for(state="detached")
    until(page, "scrollY === 0")
    until(page, "document.activeElement.id === 'content'")
    page.go_back()
    until(page, f"Math.abs(scrollY - {down}) < 3")


def test_a_reload_leads_there_too_at_once_and_however_late_the_answers_come(visit: Visit) -> None:
    page, down = far_down(visit)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/entity?*", hold)
    page.reload()
    until(page, lambda: bool(held), "the page asks for its entity")
    page.wait_for_timeout(LATE)
    assert page.evaluate("scrollY") == 0
    held[0].fallback()
    until(page, f"Math.abs(scrollY - {down}) < 3")


def test_tab_takes_a_suggestion_and_goes_on(visit: Visit) -> None:
    page = visit.open()
    page.get_by_role("combobox", name="Head").focus()
    for typed, field in (("Portugal", "relation"), ("borders", "")):
        with page.expect_response(re.compile(rf"[?&]q={typed}&")):
            page.keyboard.type(typed)
        page.locator("[role=option][aria-selected=true]").filter(has_text=typed).wait_for()
        page.keyboard.press("Tab")
        if field:
            until(page, f"document.activeElement.id === '{field}'")
    answers(page)
    assert query(page) == {"head": "Portugal", "relation": "borders"}
    until(page, "document.title === 'Portugal borders ? · Ask · Conjoin'")


def test_all_of_many_relations_can_be_reached_and_unfinished_mining_says_so(visit: Visit) -> None:
    nothing = {"tail": None, "head": None}
    one = {"train": 1, "valid": 0, "test": 0, "tails_per_head": 1, "heads_per_tail": 1, "cardinality": "1-1"}
    names = [f"http://example.org/terms#part_{i}" for i in range(1300)]
    rows = [{"name": name, "label": name, **one, "patterns": [], "ranks": nothing} for name in names]
    visit.page.route("**/v1/relations?*", lambda route: route.fulfill(json={"total": 1300, "relations": rows}))
    visit.page.route("**/v1/mine?*", lambda route: route.fulfill(json={"complete": False, "facts": []}))
    page = visit.open("relations?relation=nowhere")
    page.get_by_text("No relation is called “nowhere”").wait_for()
    expect(page.locator("tbody tr")).to_have_count(500)
    page.get_by_role("button", name="Show all 1,300").click()
    page.get_by_role("link", name="part 1299", exact=True).click()
    page.get_by_role("heading", level=1, name="part 1299").wait_for()
    page.get_by_text("The time was up before every entity was asked").wait_for()


def test_an_address_that_goes_too_deep_leads_to_its_page(visit: Visit) -> None:
    page = visit.open("entity/France?name=Spain")
    page.get_by_role("heading", level=1, name="Spain").wait_for()
