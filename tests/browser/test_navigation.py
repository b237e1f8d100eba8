"""Navigation in the explorer: back and reload, the keyboard, long tables, deep addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser import labels
from tests.browser.page_helpers import Visit, expect, query, until
from tests.browser.test_explorer import answers

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

LATE = 3_500
"""Milliseconds after which a page without running requests stops restoring its scroll position."""


def far_down(visit: Visit) -> tuple[Page, int]:
    """A page scrolled to its end, and its scroll position."""
    page = visit.open("entity?name=France")
    page.locator(".alike a").nth(11).wait_for()
    page.locator(".alike a").last.scroll_into_view_if_needed()
    down = page.evaluate("scrollY")
    assert down > 100
    return page, down


def test_back_restores_the_scroll_position(visit: Visit) -> None:
    page, down = far_down(visit)
    page.locator(".alike a").last.click()
    page.get_by_role("heading", level=1, name="France", exact=True).wait_for(state="detached")
    until(page, "scrollY === 0")
    until(page, "document.activeElement.id === 'content'")
    page.go_back()
    until(page, f"Math.abs(scrollY - {down}) < 3")


def test_reload_restores_the_scroll_position_after_late_answers(visit: Visit) -> None:
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


def test_tab_takes_a_suggestion_and_moves_on(visit: Visit) -> None:
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


def test_long_relation_table_opens_fully_and_partial_mining_is_reported(visit: Visit) -> None:
    nothing = {"tail": None, "head": None}
    one = {"train": 1, "valid": 0, "test": 0, "tails_per_head": 1, "heads_per_tail": 1, "cardinality": "1-1"}
    names = [f"http://example.org/terms#part_{i}" for i in range(1300)]
    rows = [{"name": name, "label": name, **one, "patterns": [], "ranks": nothing} for name in names]
    visit.page.route("**/v1/relations?*", lambda route: route.fulfill(json={"total": 1300, "relations": rows}))
    visit.page.route("**/v1/mine?*", lambda route: route.fulfill(json={"complete": False, "facts": []}))
    page = visit.open("relations?relation=nowhere")
    page.locator(".notice").filter(has_text="nowhere").wait_for()
    expect(page.locator("tbody tr")).to_have_count(500)
    page.get_by_role("button", name=re.compile("1,300")).click()
    page.get_by_role("link", name="part 1299", exact=True).click()
    page.get_by_role("heading", level=1, name="part 1299").wait_for()
    missing = page.get_by_role("region", name=labels.MISSING_FACTS)
    missing.locator("code").filter(has_text="conjoin mine").wait_for()


def test_deep_address_opens_its_page(visit: Visit) -> None:
    page = visit.open("entity/France?name=Spain")
    page.get_by_role("heading", level=1, name="Spain").wait_for()
