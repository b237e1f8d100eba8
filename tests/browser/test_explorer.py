"""Every page of the explorer in a real browser, against a real service with small trained runs."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.browser import labels
from tests.browser.page_helpers import PHONE, Visit, colours, expect, picture, pixels, query, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Response, Route

PAGES = ("ask", "entity?name=France", "map", "relations", "geometry", "studies?cell=complex", "api")


def choose(page: Page, field: str, typed: str, wanted: str) -> None:
    """Type, wait for the suggestion, take it with the keyboard alone."""
    page.get_by_role("combobox", name=field, exact=True).focus()
    with page.expect_response(re.compile(rf"[?&]q={typed}&")):
        page.keyboard.type(typed)
    options = page.get_by_role("listbox").get_by_role("option")
    options.filter(has_text=re.compile(f"^{re.escape(wanted)}")).first.wait_for()
    for _ in range(options.count()):
        if page.locator("[role=option][aria-selected=true]").inner_text().startswith(wanted):
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    found = page.locator(".answers > li")
    found.first.wait_for()
    return found


def test_first_visit_shows_example_questions_that_open(visit: Visit) -> None:
    page = visit.open()
    starters = page.locator(".starter")
    starters.first.wait_for()
    assert starters.count() >= 4
    assert starters.first.locator(".tells").inner_text().strip()
    starters.first.click()
    expect(answers(page)).to_have_count(10)
    assert len({"head", "relation", "tail"} & query(page).keys()) == 2


def test_keyboard_question_reasons_entity_and_back(visit: Visit) -> None:
    page = visit.open()
    choose(page, "Head", "Fran", "France")
    page.wait_for_url("**/ask?head=France")
    choose(page, "Relation", "bord", "borders")
    found = answers(page)
    assert query(page) == {"head": "France", "relation": "borders"}
    assert [found.nth(i).locator(".place").inner_text() for i in range(3)] == ["1", "2", "3"]
    scores = [float(text) for text in page.locator(".answers .score").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    assert {"known", "guess", "new"} >= set(page.locator(".answers .badge").all_inner_texts())
    assert "%" in page.locator(".answers").inner_text()

    first = found.first.locator(".who a").inner_text()
    why = found.first.get_by_role("button", name=labels.why(first))
    why.focus()
    page.keyboard.press("Enter")
    reasons = page.get_by_role("region", name=labels.WHY)
    reasons.get_by_role("heading", name=labels.SUPPORTS).wait_for()
    expect(reasons.locator(".support")).to_have_count(5)
    assert first in reasons.locator("li").first.inner_text()

    found.first.locator(".who a").click()
    page.get_by_role("heading", level=1, name=first).wait_for()
    assert query(page) == {"name": first}
    page.go_back()
    page.get_by_role("region", name=labels.WHY).wait_for()
    expect(page.get_by_role("combobox", name="Head")).to_have_value("France")
    page.reload()
    page.get_by_role("region", name=labels.WHY).wait_for()
    page.go_back()
    page.wait_for_url("**/ask?head=France")


@pytest.mark.parametrize(
    ("address", "field"),
    [("relation=has_capital&tail=Rome", "Head"), ("head=Italy&tail=Rome", "Relation")],
)
def test_questions_for_heads_and_relations_are_answered(visit: Visit, address: str, field: str) -> None:
    page = visit.open(f"ask?{address}")
    names = answers(page).locator(".who a").all_inner_texts()
    assert {"Head": "Italy", "Relation": "has capital"}[field] in names[:3]
    expect(page.get_by_role("combobox", name=field)).to_have_value("")


def test_address_stores_only_new_answer_count_and_guess_limit(visit: Visit) -> None:
    page = visit.open("ask?head=France&relation=borders")
    answers(page)
    page.get_by_label(labels.ONLY_NEW).check()
    page.wait_for_url("**new=1**")
    page.locator(".answers:not(.fading)").wait_for()
    assert "known" not in page.locator(".answers .badge").all_inner_texts()
    page.get_by_label(labels.GUESS_BELOW).select_option("10")
    page.wait_for_url("**sure=10**")
    page.get_by_role("button", name=labels.MORE_ANSWERS).click()
    expect(page.locator(".answers > li")).to_have_count(25)
    page.reload()
    answers(page)
    expect(page.locator(".answers > li")).to_have_count(25)
    expect(page.get_by_label(labels.ONLY_NEW)).to_be_checked()


def test_enter_before_suggestions_arrive_takes_the_first(visit: Visit) -> None:
    page = visit.open("ask?relation=borders")
    page.get_by_role("combobox", name="Head").focus()
    page.keyboard.type("Portugal")
    page.keyboard.press("Enter")
    answers(page)
    assert query(page) == {"relation": "borders", "head": "Portugal"}


def test_two_runs_are_compared_side_by_side(visit: Visit) -> None:
    page = visit.open("ask?head=France&relation=borders")
    answers(page)
    page.get_by_label(labels.COMPARE_WITH).select_option("complex-conj")
    page.get_by_role("region", name=labels.answers_from("complex-conj")).locator(".answers > li").first.wait_for()
    expect(page.locator(".answers")).to_have_count(2)
    expect(page.locator(".there")).to_have_count(20)


def test_complete_fact_shows_rank_and_paths(visit: Visit) -> None:
    page = visit.open("ask?head=Italy&relation=borders&tail=Austria")
    card = page.get_by_role("region", name=labels.JUDGEMENT)
    card.get_by_role("heading", name=labels.PATHS).wait_for()
    expect(card.locator(".figures dd").first).to_have_text(re.compile(r"^\d"))


def test_untrained_names_are_shown_with_answers_and_facts(visit: Visit) -> None:
    def strange(route: Route) -> None:
        names = [{"name": f"Q{i}", "label": f"Isle {i}"} for i in range(5)]
        few = names if "/ask?" in route.request.url else names[:1]
        route.fulfill(json={**route.fetch().json(), "untrained": few})

    visit.page.route(re.compile("/v1/(ask|score)[?]"), strange)
    page = visit.open("ask?head=Italy&relation=borders")
    warning = page.locator(".untrained")
    expect(warning).to_have_text(re.compile("Isle 0, Isle 1, Isle 2 and 2 more"))
    page = visit.open("ask?head=Italy&relation=borders&tail=Austria")
    expect(warning).to_have_text(re.compile(r"Isle 0\b(?!.*Isle)"))


def test_misspelt_name_shows_the_error_and_a_hint(visit: Visit) -> None:
    visit.expected = "404"
    page = visit.open("ask?head=Frnace&relation=borders")
    page.get_by_role("alert").wait_for()
    assert "Frnace" in page.get_by_role("alert").inner_text()
    assert "France" in page.get_by_role("alert").inner_text()
    box = page.get_by_role("combobox", name="Head")
    box.fill("zzzzqqqq")
    page.get_by_role("listbox").get_by_text("zzzzqqqq").wait_for()
    box.press("Escape")
    expect(box).to_have_value("Frnace")
    visit.open("ask?head=zzzzqqqq&relation=borders")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("zzzzqqqq")
    expect(alert.locator("p")).to_have_count(2)
    expect(alert).not_to_contain_text("GET")


def test_entity_shows_facts_neighbourhood_and_similar_entities(visit: Visit) -> None:
    page = visit.open("entity")
    page.locator(".chip").first.wait_for()
    choose(page, "Entity", "Portu", "Portugal")
    page.get_by_role("heading", level=1, name="Portugal").wait_for()
    facts = page.get_by_role("region", name=labels.FACTS)
    expect(facts).to_contain_text("Spain")
    expect(facts).to_contain_text("has capital")
    drawing = page.get_by_role("img", name=re.compile("Portugal with"))
    drawing.locator("canvas").first.wait_for()
    alike = page.get_by_role("region", name=labels.MOST_SIMILAR).get_by_role("link")
    expect(alike).to_have_count(12)
    facts.get_by_role("link", name="Spain", exact=True).first.click()
    page.get_by_role("heading", level=1, name="Spain").wait_for()
    page.go_back()
    page.get_by_role("heading", level=1, name="Portugal").wait_for()
    facts.get_by_role("link", name=labels.ask_for_more("borders")).first.click()
    answers(page)


def test_map_search_lasso_click_and_zoom(visit: Visit) -> None:
    page = visit.open("map")
    canvas = page.locator(".plane canvas")
    canvas.wait_for()
    until(page, lambda: colours(picture(canvas.screenshot())) > 50, "the points are drawn")
    page.get_by_label(labels.HIGHLIGHT).fill("san mar")
    points = page.get_by_role("region", name=labels.SELECTED)
    points.get_by_role("link", name="San Marino", exact=True).wait_for()
    page.wait_for_url("**q=san+mar**")

    page.get_by_role("button", name=labels.RESET).click()
    points.wait_for(state="detached")
    page.get_by_role("button", name=labels.LASSO).click()
    page.locator(".plane.encircling").wait_for()
    box = canvas.bounding_box()
    assert box is not None
    left, top, width, height = box["x"], box["y"], box["width"], box["height"]
    page.mouse.move(left + 5, top + 5)
    page.mouse.down()
    for x, y in ((0.5, 0.01), (0.5, 0.99), (0.01, 0.99)):
        page.mouse.move(left + x * width, top + y * height, steps=4)
    page.mouse.up()
    points.wait_for()
    chosen = re.sub(r"\D", "", points.get_by_role("heading").inner_text())
    assert 100 < int(chosen) < 2200
    page.reload()
    points.wait_for()
    expect(points.get_by_role("heading")).to_contain_text(f"{int(chosen):,} entities")

    page = visit.open("map?focus=France")
    points.get_by_role("link", name="France", exact=True).wait_for()
    box = canvas.bounding_box()
    assert box is not None
    pixels(canvas)
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    page.get_by_role("heading", level=1, name="France").wait_for()
    page.go_back()
    canvas.wait_for()
    page.get_by_label(labels.COLOUR).select_option("degree")
    page.wait_for_url("**colour=degree**")
    canvas.focus()
    page.keyboard.press("+")
    page.wait_for_url("**view=**")


def test_map_labels_entities_with_most_facts_and_more_when_zoomed(visit: Visit) -> None:
    page = visit.open("map")
    canvas, names = page.locator(".plane canvas"), page.locator(".plane svg text")
    expect(names.filter(has_text="Latin script")).to_have_count(1)
    far = set(names.all_text_contents())
    assert 5 < len(far) < 100
    for _ in range(8):
        canvas.press("+")
    until(page, lambda: len(set(names.all_text_contents()) - far) > 5, "names that were too many before")
    visit.open("map?focus=France")
    expect(names).to_have_text(["France"])


def test_relations_are_sorted_filtered_and_opened(visit: Visit) -> None:
    page = visit.open("relations")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(14)
    page.get_by_role("columnheader", name=labels.MRR_FOR_TAILS).get_by_role("link").click()
    page.locator("th[aria-sort=descending]").get_by_text(labels.MRR_FOR_TAILS).wait_for()
    column = [float(text) for text in page.locator("tbody tr td:nth-child(5) .reading").all_inner_texts()]
    assert column == sorted(column, reverse=True)
    page.get_by_label(labels.FILTER).fill("bord")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("symmetric")
    rows.first.get_by_role("link", name="borders").click()
    expect(page.locator("ul.plain li")).to_have_text(re.compile(r"[Ss]ymmetric.* \d+ facts, .*\d+ %"))
    missing = page.get_by_role("region", name=labels.MISSING_FACTS)
    missing.get_by_role("listitem").first.wait_for()
    expect(missing).to_contain_text("borders")


def test_relations_with_equal_words_show_their_full_names(visit: Visit) -> None:
    names = ["/award/category/winners./award/honor/winner", "/award/winner/won./award/honor/winner"]

    def alike(route: Route) -> None:
        found = route.fetch().json()
        for relation, name in zip(found["relations"], names, strict=False):
            relation |= {"name": name, "label": name}
        route.fulfill(json=found)

    visit.page.route("**/v1/relations?*", alike)
    page = visit.open("relations")
    expect(page.locator("tbody th", has_text="honor › winner")).to_have_text(
        [f"honor › winner{name}" for name in names]
    )
    expect(page.locator("tbody th .hint")).to_have_count(2)
    page = visit.open("ask")
    page.get_by_role("combobox", name="Relation").click()
    expect(page.get_by_role("option", name="honor › winner")).to_have_text([re.compile(name) for name in names])


def test_geometry_studies_and_api_pages_show_their_content(visit: Visit) -> None:
    page = visit.open("geometry")
    page.get_by_role("heading", level=1, name="Geometry").wait_for()
    page.get_by_role("link", name="Studies").click()
    page.get_by_role("heading", name="A tiny study").wait_for()
    assert page.get_by_role("region", name=labels.OUTCOMES).locator("b").all_inner_texts() == ["0.379"]
    page.get_by_role("link", name="API").click()
    page.get_by_role("button", name=labels.SEND).first.click()
    expect(page.locator(".reply")).to_contain_text('"answers"')
    description = page.get_by_role("link", name=labels.OPENAPI).get_attribute("href")
    assert description is not None
    assert page.request.get(description).json()["openapi"].startswith("3.")


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_theme_follows_the_system_until_the_reader_chooses(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    brightness = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    until(page, f"{brightness} < 60")
    page.get_by_role("button", name=labels.LIGHT_THEME).click()
    until(page, f"{brightness} > 200")
    page.reload()
    page.locator("tbody tr").first.wait_for()
    until(page, f"{brightness} > 200")


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_every_page_fits_a_phone_and_the_download_budget(visit: Visit) -> None:
    sizes: dict[str, int] = {}

    def weigh(response: Response) -> None:
        if "/v1/" not in response.url:
            sizes[urlsplit(response.url).path] = len(gzip.compress(response.body()))

    visit.page.on("response", weigh)
    for address in PAGES:
        page = visit.open(address)
        page.locator("h1").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, address
    assert any("ego" in path for path in sizes)
    assert sum(sizes.values()) < 150_000


def test_unreachable_service_shows_an_error_and_retry_works(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    visit.expected = "ERR_INTERNET_DISCONNECTED"
    page.context.set_offline(offline=True)
    page.get_by_role("link", name="Map").click()
    page.get_by_role("alert").wait_for()
    page.context.set_offline(offline=False)
    page.get_by_role("button", name=labels.TRY_AGAIN).click()
    page.get_by_role("heading", name="Map").wait_for()


def test_run_in_the_address_is_selected_and_a_missing_run_reported(visit: Visit) -> None:
    page = visit.open("relations?run=complex-conj")
    page.locator("tbody tr").first.wait_for()
    expect(page.get_by_label(labels.RUN)).to_have_value("complex-conj")
    expect(page.get_by_role("contentinfo")).to_contain_text("Complεx, rank 16")
    page.get_by_role("link", name="Ask", exact=True).click()
    page.locator(".starter").first.wait_for()
    assert query(page) == {"run": "complex-conj"}
    page = visit.open("ask?run=nowhere")
    page.locator(".notice").filter(has_text="nowhere").wait_for()


def test_token_form_appears_and_accepts_the_token(visit: Visit) -> None:
    def guarded(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer open sesame":
            route.fallback()
        else:
            route.fulfill(status=401, json={"error": {"reason": "token missing", "hint": ""}})

    visit.expected = "401"
    visit.page.route("**/v1/**", guarded)
    page = visit.open("relations")
    for token in ("please", "сезам", "open sesame\u200b"):
        page.get_by_label(labels.TOKEN, exact=True).fill(token)
        page.get_by_role("button", name=labels.CONTINUE).click()
    page.locator("tbody tr").first.wait_for()
    page.get_by_role("link", name="API", exact=True).click()
    page.get_by_text("Bearer $CONJOIN_TOKEN").first.wait_for()
