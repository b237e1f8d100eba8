"""Fixtures: a service with runs on the atlas, and a Chromium that can reach only this service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from tests.browser.page_helpers import PATIENCE

from conjoin.runtime.atomic_files import write_sealed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route

CHROMIUM = Path(os.environ.get("CONJOIN_CHROMIUM", "/usr/bin/chromium"))
PAGE = Path(__file__).resolve().parents[2] / "src" / "conjoin" / "server" / "static" / "index.html"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)
FORMS = {"complex": 6, "complex-conj": 1, "5star": 1}
"""The forms that are trained and served, with their epochs."""
REPORT = {
    "study": "tiny",
    "title": "A tiny study",
    "alpha": 0.05,
    "datasets": {"atlas": {}},
    "cells": [
        {
            "dataset": "atlas",
            "row": row,
            "form": row,
            "group": "control" if row == "5star" else "main",
            "rank": 16,
            "parameters": parameters,
            "seeds": [0],
            "seeds_wanted": [0, 1],
            "mrr": mrr,
            "mrr_sd": 0.0004 if row == "complex-conj" else None,
            "hits10": 0.7,
            "published_mrr": 0.4,
            "verdict": "within reach",
            "best": ["mrr"] if mrr > 0.37 else [],
            "valid_mrr_by_epoch": [
                {"epoch": e, "mean": mrr - 0.1 / e, "low": mrr - 0.11 / e, "high": mrr - 0.09 / e, "seeds": 2}
                for e in epochs
            ],
            "runs": [
                {
                    "seed": 0,
                    "mrr": mrr,
                    "seconds_total": 9.6,
                    "command": f"train {row}",
                    "environment": {"name": "EPYC"},
                }
            ],
        }
        for row, mrr, parameters, epochs in (
            ("complex", 0.379, 147_648, (5, 10, 15)),
            ("complex-conj", 0.368, 146_752, (5, 10)),
            ("5star", 0.32, 153_024, ()),
        )
    ]
    + [
        {
            "dataset": "moon",
            "row": "complex",
            "form": "complex",
            "group": "main",
            "rank": 16,
            "seeds": [],
            "seeds_wanted": [0, 1],
            "mrr": None,
            "verdict": "not run",
            "best": [],
            "valid_mrr_by_epoch": [],
        }
    ],
    "tests": [
        {
            "test": test,
            "dataset": "atlas",
            "measure": "mrr",
            "a": a,
            "b": b,
            "p": p,
            "p_holm": holm,
            "difference": 0.011,
        }
        for test, a, b, p, holm in (
            ("welch", "complex", "complex-conj", 0.03, 0.06),
            ("paired", "complex", "complex-conj", 1e-9, 2e-9),
            ("welch", "5star", "complex", 0.004, 0.012),
            ("welch", "5star", "complex-conj", None, None),
        )
    ],
    "left_out": ["atlas 5star seed 1: Diverged", "atlas 5star has no paired test: its ranks are damaged"],
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that drives a browser is slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def missing(reason: str) -> NoReturn:
    """Fail in CI, skip elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not PAGE.is_file():
        missing("The explorer page is not built. Run `make page`.")
    if not CHROMIUM.is_file():
        missing(f"No Chromium at {CHROMIUM}. Install it, or set CONJOIN_CHROMIUM.")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("The Python package playwright is not installed.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def runs(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small runs on the atlas, the first calibrated, and a study report. Needs `browser` first: it may skip."""
    import conjoin

    root = tmp_path_factory.mktemp("explorer")
    graph = conjoin.load("atlas")
    for form, epochs in FORMS.items():
        recipe = conjoin.Recipe(epochs=epochs, batch=500, lr=0.1, n3=0.02)
        conjoin.execute(conjoin.Run.of(graph, form, rank=16, recipe=recipe), graph, root / form)
    subprocess.run(
        [sys.executable, "-m", "conjoin", "calibrate", str(root / "complex"), "--json"], check=True, capture_output=True
    )
    study = root / "studies" / "tiny"
    study.mkdir(parents=True)
    write_sealed(study / "report.json", REPORT)
    return root


@pytest.fixture(scope="session")
def service(runs: Path) -> Iterator[str]:
    """The address of a real `conjoin serve`."""
    command = [sys.executable, "-m", "conjoin", "serve", *(str(runs / form) for form in FORMS)]
    options = ["--port", "0", "--json", "--studies", str(runs / "studies")]
    with (
        (runs / "log.txt").open("w", encoding="utf-8") as log,
        subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, (runs / "log.txt").read_text(encoding="utf-8")
        yield json.loads(first)["url"].rstrip("/")
        process.terminate()
        process.wait(timeout=20)


@dataclass
class Visit:
    """One page with its console errors and its requests to other addresses."""

    page: Page
    service: str
    expected: str = ""
    """Part of the console errors that a test provokes; they may arrive late."""
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, address: str = "") -> Page:
        self.page.goto(f"{self.service}/{address}")
        return self.page


@pytest.fixture
def visit(browser: Browser, service: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A fresh browser context. A test may set viewport and colour scheme with an indirect parameter."""
    settings = getattr(request, "param", {})
    context: BrowserContext = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **settings})
    context.set_default_timeout(PATIENCE)
    visit = Visit(context.new_page(), service)

    def guard(route: Route) -> None:
        if route.request.url.startswith(f"{service}/"):
            route.continue_()
        else:
            visit.outside.append(route.request.url)
            route.abort()

    context.route("**/*", guard)

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error" and not (visit.expected and visit.expected in message.text):
            visit.complaints.append(message.text)

    visit.page.on("console", listen)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    yield visit
    context.close()
    assert visit.complaints == []
    assert visit.outside == []
