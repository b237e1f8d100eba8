"""The explorer under failures: slow connections, incomplete answers, blocked storage, a restarted service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from tests.browser import labels
from tests.browser.page_helpers import PHONE, Visit, colours, expect, picture, query, until
from tests.server.served import listening

import conjoin
from conjoin.server.settings import ServerSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SLOW = 20_000
"""Bytes a second: the map of the atlas takes about ten seconds."""
FORBIDDEN = """for (const name of ["sessionStorage", "localStorage"])
    Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });"""


def test_page_left_while_loading_can_be_opened_again(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")

    def throttle(throughput: int) -> None:
        speed = {"offline": False, "latency": 0, "downloadThroughput": throughput, "uploadThroughput": -1}
        line.send("Network.emulateNetworkConditions", speed)

    throttle(SLOW)
    with page.expect_response(lambda response: "/v1/map?" in response.url):
        page.get_by_role("link", name="Map", exact=True).click()
    page.get_by_role("link", name="Relations", exact=True).click()
    page.locator("tbody tr").first.wait_for()
    throttle(-1)
    page.get_by_role("link", name="Map", exact=True).click()
    page.get_by_role("heading", name="entities").wait_for()


def test_invalid_answer_shows_an_error_and_is_not_cached(visit: Visit) -> None:
    visit.page.route("**/v1/relations?*", lambda route: route.fulfill(body="<p>Sign in to the network</p>"))
    page = visit.open("relations")
    page.get_by_role("alert").wait_for()
    page.unroute("**/v1/relations?*")
    page.get_by_role("button", name=labels.TRY_AGAIN).click()
    page.locator("tbody tr").first.wait_for()


def test_blocked_storage_blocks_neither_pages_nor_token(visit: Visit) -> None:
    visit.page.add_init_script(FORBIDDEN)
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    visit.expected = "401"
    page.route(
        "**/v1/**",
        lambda route: (
            route.fallback()
            if route.request.headers.get("authorization") == "Bearer open sesame"
            else route.fulfill(status=401, json={"error": {"reason": "token missing", "hint": ""}})
        ),
    )
    page.reload()
    page.get_by_label(labels.TOKEN, exact=True).fill("open sesame")
    page.get_by_role("button", name=labels.CONTINUE).click()
    page.locator("tbody tr").first.wait_for()


@pytest.mark.parametrize(
    ("status", "reason", "hint"),
    [
        (401, "The bearer token is wrong.", "Send the header Authorization: Bearer TOKEN."),
        (404, "No open run is named 'atlas'.", "GET /v1/runs lists the open runs."),
    ],
)
def test_restarted_service_asks_for_a_reload(visit: Visit, status: int, reason: str, hint: str) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    visit.expected = str(status)
    refusal = {"error": {"reason": reason, "hint": hint}}
    page.route("**/v1/entities?*", lambda route: route.fulfill(status=status, json=refusal))
    page.get_by_role("link", name="Entity", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(reason)
    expect(page.get_by_role("alert").locator("p").last).to_contain_text("Reload")
    expect(page.get_by_role("alert")).not_to_contain_text(hint)


def test_truncated_link_still_opens_its_study(visit: Visit) -> None:
    page = visit.open("studies?rows=complex%2C5%25E2%2598%2585%25E")
    page.get_by_role("checkbox", name="complex", exact=True).wait_for()
    expect(page.get_by_role("checkbox", name="complex", exact=True)).to_be_checked()


def test_search_accepts_very_long_labels(visit: Visit) -> None:
    page = visit.open()
    page.get_by_role("combobox", name="Head").fill("Portugal" + 300 * "!")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text("Portugal")


def test_copy_button_is_missing_without_a_clipboard(visit: Visit) -> None:
    page = visit.open("api")
    expect(page.get_by_role("button", name=labels.COPY)).to_have_count(5)
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined });")
    page.reload()
    page.get_by_role("button", name=labels.SEND).first.wait_for()
    expect(page.get_by_role("button", name=labels.COPY)).to_have_count(0)


def test_relation_filter_follows_the_address(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").nth(13).wait_for()
    page.get_by_label(labels.FILTER).fill("borders")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert query(page) == {"q": "borders"}
    page.get_by_role("link", name="Relations", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(14)
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_filter_keeps_every_letter_of_fast_typing(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").nth(13).wait_for()
    page.get_by_label(labels.FILTER).press_sequentially(4 * "official language ")
    until(page, lambda: query(page) == {"q": 4 * "official language "}, "all letters are in the address")


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_phone_shows_missing_facts_uncut_and_explains_plausibility(visit: Visit) -> None:
    page = visit.open("relations?relation=borders")
    facts = page.locator(".mined .sentence")
    facts.nth(19).wait_for()
    cut = "all => all.filter(one => one.scrollHeight > one.clientHeight + 1).map(one => one.textContent)"
    assert facts.evaluate_all(cut) == []
    expect(page.locator(".mined .meter").first).to_have_attribute("title", re.compile(".{40}"))


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_print_is_dark_on_light(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    page.emulate_media(media="print")
    brightness = "name => Number(getComputedStyle(document.body)[name].match(/\\d+/)[0])"
    for chosen in ("", "dark"):
        page.evaluate("chosen => { if (chosen) document.documentElement.dataset.theme = chosen; }", chosen)
        assert page.evaluate(brightness, "backgroundColor") > 200
        assert page.evaluate(brightness, "color") < 60


def test_map_is_redrawn_after_a_lost_webgl_context(visit: Visit) -> None:
    page = visit.open("map")
    page.add_style_tag(content=".plane svg { display: none; }")
    canvas = page.locator(".plane canvas")
    until(page, lambda: colours(picture(canvas.screenshot())) > 50, "the map is drawn")
    page.evaluate("""() => {
        window.card = document.querySelector(".plane canvas").getContext("webgl2").getExtension("WEBGL_lose_context");
        card.loseContext();
    }""")
    until(page, lambda: colours(picture(canvas.screenshot())) < 50, "the map is gone")
    page.evaluate("card.restoreContext()")
    until(page, lambda: colours(picture(canvas.screenshot())) > 50, "the map is drawn again")


def test_map_labels_urls_by_their_last_part(browser: Browser, tmp_path: Path) -> None:
    names = [f"http://example.org/a/long/way/{name}" for name in ("Lima", "terms#Peru", "Quito/")]
    graph = conjoin.Graph.from_triples([(head, "near", tail) for head in names for tail in names if head != tail])
    recipe = conjoin.Recipe(epochs=1, batch=4)
    conjoin.execute(conjoin.Run.of(graph, "complex", rank=2, recipe=recipe), graph, tmp_path / "run")
    page = browser.new_page()
    with listening(tmp_path / "run", ServerSettings()) as (host, port):
        for name, shown in zip(names, ("Lima", "Peru", "Quito"), strict=True):
            page.goto(f"http://{host}:{port}/map?{urlencode({'focus': name})}")
            expect(page.locator(".plane svg text")).to_have_text([shown])
        page.close()


def test_names_like_javascript_properties_work(browser: Browser, tmp_path: Path) -> None:
    names = ["constructor", "__proto__", "toString", "?"]
    graph = conjoin.Graph.from_triples([(head, "calls", tail) for head in names for tail in names if head != tail])
    recipe = conjoin.Recipe(epochs=1, batch=4)
    conjoin.execute(conjoin.Run.of(graph, "complex", rank=2, recipe=recipe), graph, tmp_path / "run")
    errors: list[str] = []
    page = browser.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    with listening(tmp_path / "run", ServerSettings()) as (host, port):
        page.goto(f"http://{host}:{port}/ask")
        page.locator(".starter").first.wait_for()
        for name in names[:3]:
            page.goto(f"http://{host}:{port}/ask?head={name}&relation=calls")
            page.locator(".answers > li").first.wait_for()
            expect(page.get_by_role("combobox", name="Head")).to_have_value(name)
        page.close()
    assert errors == []
