"""Take the pictures of the explorer in docs/images with a real Chromium, from the runs of `conjoin demo`.

conjoin demo && conjoin calibrate runs/demo/complex && conjoin study report studies/atlas.toml
python -m scripts.shoot_explorer runs/demo
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scripts.script_words import parser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CHROMIUM = os.environ.get("CONJOIN_CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
RUNS = ("complex", "complex-conj", "5star", "5star-conj")
COLOURS = 256
STILL = 1500
"""Milliseconds until drawings have settled."""


class Shot(NamedTuple):
    """A picture: its name, the address, the size of the window and the theme."""

    name: str
    address: str
    height: int
    width: int = 1100
    theme: str = "light"


ITALY = "ask?head=Italy&relation=borders"
SHOTS = (
    Shot("start", "ask", 560),
    Shot("ask", f"{ITALY}&why=complex%3ASlovenia", 760),
    Shot("compare", f"{ITALY}&with=complex-conj", 640),
    Shot("entity", "entity?name=France", 760),
    Shot("map", "map", 760),
    Shot("map-dark", "map?q=san", 700, theme="dark"),
    Shot("relations", "relations?sort=-tail", 760),
    Shot("relation", "relations?relation=borders", 620),
    Shot("studies", "studies?cell=complex", 1830),
    Shot("api", "api", 620),
    Shot("phone", ITALY, 760, width=375),
)


def main(root: Path, *names: str) -> None:
    """Serve the runs and take all pictures, or only the named ones."""
    from playwright.sync_api import sync_playwright

    runs = [str(root / run) for run in RUNS]
    command = [sys.executable, "-m", "conjoin", "serve", *runs, "--studies", "reports", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        assert service.stdout is not None
        url = json.loads(service.stdout.readline())["url"]
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
                for shot in SHOTS:
                    if not names or shot.name in names:
                        _take(browser, url, shot)
        finally:
            service.terminate()


def _take(browser: Browser, url: str, shot: Shot) -> None:
    from PIL import Image

    size = {"width": shot.width, "height": shot.height}
    context = browser.new_context(viewport=size, color_scheme=shot.theme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/{shot.address}", wait_until="networkidle")
    page.wait_for_timeout(STILL)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(IMAGES / f"explorer-{shot.name}.png", optimize=True)
    context.close()


if __name__ == "__main__":
    words = parser(__doc__)
    words.add_argument("root", metavar="ROOT", type=Path, help="the folder of the demo's runs")
    words.add_argument("names", metavar="NAME", nargs="*", help="pictures to take; by default all")
    given = words.parse_args()
    main(given.root, *given.names)
