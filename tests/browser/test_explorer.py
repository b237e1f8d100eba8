"""The explorer, driven as a person would: in a real browser, against a real service on a small trained run."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.browser.seen import PHONE, Visit, colours, expect, picture, pixels, query, until

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


def test_a_first_visit_shows_answers_and_one_click_opens_a_question(visit: Visit) -> None:
    page = visit.open()
    starters = page.locator(".starter")
    starters.first.wait_for()
    assert starters.count() >= 4
    assert starters.first.locator(".tells").inner_text().strip()
    starters.first.click()
    expect(answers(page)).to_have_count(10)
    assert len({"head", "relation", "tail"} & query(page).keys()) == 2


def test_a_question_by_keyboard_its_reasons_the_entity_and_back(visit: Visit) -> None:
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
    why = found.first.get_by_role("button", name=f"Why {first}?")
    why.focus()
    page.keyboard.press("Enter")
    reasons = page.get_by_role("region", name="Why")
    reasons.get_by_role("heading", name="Facts that speak for it").wait_for()
    expect(reasons.locator(".support")).to_have_count(5)
    assert first in reasons.locator("li").first.inner_text()

    found.first.locator(".who a").click()
    page.get_by_role("heading", level=1, name=first).wait_for()
    assert query(page) == {"name": first}
    page.go_back()
    page.get_by_role("region", name="Why").wait_for()
    expect(page.get_by_role("combobox", name="Head")).to_have_value("France")
    page.reload()
    page.get_by_role("region", name="Why").wait_for()
    page.go_back()
    page.wait_for_url("**/ask?head=France")


@pytest.mark.parametrize(
    ("address", "field"),
    [("relation=has_capital&tail=Rome", "Head"), ("head=Italy&tail=Rome", "Relation")],
)
def test_heads_and_relations_can_be_asked_for(visit: Visit, address: str, field: str) -> None:
    page = visit.open(f"ask?{address}")
    names = answers(page).locator(".who a").all_inner_texts()
    assert {"Head": "Italy", "Relation": "has capital"}[field] in names[:3]
    expect(page.get_by_role("combobox", name=field)).to_have_value("")


def test_only_new_more_answers_and_confidence_are_in_the_address(visit: Visit) -> None:
    page = visit.open("ask?head=France&relation=borders")
    answers(page)
    page.get_by_label("Only new facts").check()
    page.wait_for_url("**new=1**")
    page.locator(".answers:not(.fading)").wait_for()
    assert "known" not in page.locator(".answers .badge").all_inner_texts()
    page.get_by_label("Confident from").select_option("10")
    page.wait_for_url("**sure=10**")
    page.get_by_role("button", name="Show more answers").click()
    expect(page.locator(".answers > li")).to_have_count(25)
    page.reload()
    answers(page)
    expect(page.locator(".answers > li")).to_have_count(25)
    expect(page.get_by_label("Only new facts")).to_be_checked()


def test_typing_faster_than_suggestions_come_takes_the_first(visit: Visit) -> None:
    page = visit.open("ask?relation=borders")
    page.get_by_role("combobox", name="Head").focus()
    page.keyboard.type("Portugal")
    page.keyboard.press("Enter")
    answers(page)
    assert query(page) == {"relation": "borders", "head": "Portugal"}


def test_two_runs_answer_side_by_side(visit: Visit) -> None:
    page = visit.open("ask?head=France&relation=borders")
    answers(page)
    page.get_by_label("Compare with").select_option("complex-conj")
    page.get_by_role("region", name="Answers of complex-conj").locator(".answers > li").first.wait_for()
    expect(page.locator(".answers")).to_have_count(2)
    expect(page.locator(".there")).to_have_count(20)


def test_a_whole_fact_is_judged(visit: Visit) -> None:
    page = visit.open("ask?head=Italy&relation=borders&tail=Austria")
    card = page.get_by_role("region", name="How plausible the fact is")
    card.get_by_role("heading", name="Paths in the graph").wait_for()
    expect(card).to_contain_text("Rank among tails")


def test_what_was_never_trained_is_said_beside_answers_and_facts(visit: Visit) -> None:
    def strange(route: Route) -> None:
        names = [{"name": f"Q{i}", "label": f"Isle {i}"} for i in range(5)]
        few = names if "/ask?" in route.request.url else names[:1]
        route.fulfill(json={**route.fetch().json(), "untrained": few})

    visit.page.route(re.compile("/v1/(ask|score)[?]"), strange)
    page = visit.open("ask?head=Italy&relation=borders")
    said = page.get_by_text("Nothing is learned about")
    expect(said).to_have_text("Nothing is learned about Isle 0, Isle 1, Isle 2 and 2 more: no training fact has them.")
    page = visit.open("ask?head=Italy&relation=borders&tail=Austria")
    expect(said).to_have_text("Nothing is learned about Isle 0: no training fact has it.")


def test_a_misspelt_name_gets_its_reason_and_the_way_out(visit: Visit) -> None:
    visit.expected = "404"
    page = visit.open("ask?head=Frnace&relation=borders")
    page.get_by_role("alert").wait_for()
    assert "Frnace" in page.get_by_role("alert").inner_text()
    assert "France" in page.get_by_role("alert").inner_text()
    box = page.get_by_role("combobox", name="Head")
    box.fill("zzzzqqqq")
    page.get_by_text("Nothing is called").wait_for()
    box.press("Escape")
    expect(box).to_have_value("Frnace")
    visit.open("ask?head=zzzzqqqq&relation=borders")
    expect(page.get_by_role("alert")).to_contain_text("Type a part of the name")


def test_an_entity_shows_facts_neighbourhood_and_what_resembles_it(visit: Visit) -> None:
    page = visit.open("entity")
    page.locator(".chip").first.wait_for()
    choose(page, "Entity", "Portu", "Portugal")
    page.get_by_role("heading", level=1, name="Portugal").wait_for()
    facts = page.get_by_role("region", name="Facts")
    expect(facts).to_contain_text("Spain")
    expect(facts).to_contain_text("has capital")
    drawing = page.get_by_role("img", name=re.compile("Portugal with"))
    drawing.locator("canvas").first.wait_for()
    alike = page.get_by_role("region", name="Most similar").get_by_role("link")
    expect(alike).to_have_count(12)
    facts.get_by_role("link", name="Spain", exact=True).first.click()
    page.get_by_role("heading", level=1, name="Spain").wait_for()
    page.go_back()
    page.get_by_role("heading", level=1, name="Portugal").wait_for()
    facts.get_by_role("link", name="Ask for more: borders").first.click()
    answers(page)


def test_the_map_is_searched_encircled_and_clicked(visit: Visit) -> None:
    page = visit.open("map")
    canvas = page.locator(".plane canvas")
    canvas.wait_for()
    until(page, lambda: colours(picture(canvas.screenshot())) > 50, "the points are drawn")
    page.get_by_label("Highlight names").fill("san mar")
    points = page.get_by_role("region", name="Chosen entities")
    points.get_by_role("link", name="San Marino", exact=True).wait_for()
    page.wait_for_url("**q=san+mar**")

    page.get_by_role("button", name="Reset").click()
    points.wait_for(state="detached")
    page.get_by_role("button", name="Lasso").click()
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
    page.get_by_label("Colour").select_option("degree")
    page.wait_for_url("**colour=degree**")
    canvas.focus()
    page.keyboard.press("+")
    page.wait_for_url("**view=**")


def test_the_map_names_what_has_most_facts_and_more_of_it_from_near(visit: Visit) -> None:
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
    page.get_by_role("columnheader", name="MRR (h, r, ?)").get_by_role("link").click()
    page.locator("th[aria-sort=descending]").get_by_text("MRR (h, r, ?)").wait_for()
    column = [float(text) for text in page.locator("tbody tr td:nth-child(5) .reading").all_inner_texts()]
    assert column == sorted(column, reverse=True)
    page.get_by_label("Filter relations").fill("bord")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("symmetric")
    rows.first.get_by_role("link", name="borders").click()
    evidence = re.compile(r"ways \d+ facts, confidence \d+ %")
    expect(page.get_by_text("Symmetric: it holds both ways")).to_have_text(evidence)
    missing = page.get_by_role("region", name="Plausible facts that the graph does not hold")
    missing.get_by_role("listitem").first.wait_for()
    expect(missing).to_contain_text("borders")


def test_relations_that_read_alike_are_told_apart_by_their_names(visit: Visit) -> None:
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


def test_geometry_studies_and_api_say_what_there_is(visit: Visit) -> None:
    page = visit.open("geometry")
    page.get_by_role("heading", level=1, name="Geometry").wait_for()
    page.get_by_role("link", name="Studies").click()
    page.get_by_role("heading", name="A tiny study").wait_for()
    assert page.get_by_role("region", name="Models by datasets").locator("b").all_inner_texts() == ["0.379"]
    page.get_by_role("link", name="API").click()
    page.get_by_role("button", name="Run it").first.click()
    expect(page.locator(".reply")).to_contain_text('"answers"')
    description = page.get_by_role("link", name="OpenAPI description").get_attribute("href")
    assert description is not None
    assert page.request.get(description).json()["openapi"].startswith("3.")


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_dark_follows_the_system_until_the_reader_chooses(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    brightness = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    until(page, f"{brightness} < 60")
    page.get_by_role("button", name="Switch to light").click()
    until(page, f"{brightness} > 200")
    page.reload()
    page.locator("tbody tr").first.wait_for()
    until(page, f"{brightness} > 200")


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_every_page_fits_a_phone_and_a_slow_line(visit: Visit) -> None:
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


def test_a_service_that_is_gone_is_said_and_can_be_tried_again(visit: Visit) -> None:
    page = visit.open("relations")
    page.locator("tbody tr").first.wait_for()
    visit.expected = "ERR_INTERNET_DISCONNECTED"
    page.context.set_offline(offline=True)
    page.get_by_role("link", name="Map").click()
    page.get_by_role("alert").wait_for()
    page.context.set_offline(offline=False)
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Map").wait_for()


def test_another_run_and_a_missing_one(visit: Visit) -> None:
    page = visit.open("relations?run=complex-conj")
    page.locator("tbody tr").first.wait_for()
    expect(page.get_by_label("Run")).to_have_value("complex-conj")
    expect(page.get_by_role("contentinfo")).to_contain_text("Complεx, rank 16")
    page.get_by_role("link", name="Ask", exact=True).click()
    page.locator(".starter").first.wait_for()
    assert query(page) == {"run": "complex-conj"}
    page = visit.open("ask?run=nowhere")
    page.get_by_text("No run called nowhere").wait_for()


def test_a_service_with_a_token_asks_for_it(visit: Visit) -> None:
    def guarded(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer open sesame":
            route.fallback()
        else:
            route.fulfill(status=401, json={"error": {"reason": "a token is needed", "hint": ""}})

    visit.expected = "401"
    visit.page.route("**/v1/**", guarded)
    page = visit.open("relations")
    for token in ("please", "сезам", "open sesame\u200b"):
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Enter").click()
    page.locator("tbody tr").first.wait_for()
    page.get_by_role("link", name="API", exact=True).click()
    page.get_by_text("Bearer $CONJOIN_TOKEN").first.wait_for()
