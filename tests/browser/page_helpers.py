"""Helpers that read a page and wait for it by polling, never by a fixed delay."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from playwright.sync_api._generated import LocatorAssertions

PATIENCE = 20_000
"""Milliseconds after which a page on a busy machine counts as failed."""
PHONE = {"viewport": {"width": 375, "height": 780}, "has_touch": True}
DRAWN = """canvas => new Promise(done => {
    requestAnimationFrame(() => requestAnimationFrame(() => done(canvas.toDataURL())))
})"""
"""Waits two frames: when the second one comes, earlier drawing requests are done."""


class Visit(Protocol):
    page: Page
    service: str
    expected: str
    complaints: list[str]

    def open(self, address: str = "") -> Page: ...


def query(page: Page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def expect(locator: Locator) -> LocatorAssertions:
    """Playwright's assertions, which retry until they hold."""
    from playwright.sync_api import expect as playwright_expect

    playwright_expect.set_options(timeout=PATIENCE)
    return playwright_expect(locator)


def until(page: Page, condition: str | Callable[[], bool], why: str = "") -> None:
    """Poll every 50 ms, because the page's security policy forbids Playwright's own waiting inside the page."""
    for _ in range(PATIENCE // 50):
        if page.evaluate(condition) if isinstance(condition, str) else condition():
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never: {why or condition}")


def picture(png: bytes) -> np.ndarray:
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(png), format="png"))


def colours(pixels: np.ndarray) -> int:
    """The number of different colours of a picture; a blank canvas has one."""
    return len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0))


def pixels(canvas: Locator) -> np.ndarray:
    """The pixels of a canvas after pending drawing."""
    return picture(base64.b64decode(str(canvas.evaluate(DRAWN)).partition(",")[2]))


def until_shown(canvas: Locator) -> np.ndarray:
    """The pixels of a sphere once it is drawn and two readings agree."""
    looks = [pixels(canvas)]

    def settled() -> bool:
        looks.append(pixels(canvas))
        return np.array_equal(looks[-1], looks[-2]) and colours(looks[-1]) > 100

    until(canvas.page, settled, "the sphere is drawn and stands still")
    return looks[-1]


def until_like(canvas: Locator, before: np.ndarray) -> None:
    until(canvas.page, lambda: np.array_equal(pixels(canvas), before), "the sphere is unchanged")


def until_unlike(canvas: Locator, before: np.ndarray) -> np.ndarray:
    """The pixels of the sphere after it has moved and stopped."""
    until(canvas.page, lambda: not np.array_equal(pixels(canvas), before), "the sphere moves")
    return until_shown(canvas)
