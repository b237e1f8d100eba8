"""The site is built without a warning, needs nothing from elsewhere, and holds every page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scripts import build_site

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


class Loads(HTMLParser):
    """The addresses that a browser fetches by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(values.get("src") or "")
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(values.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="building the site needs Zensical: pip install 'conjoin[docs]'")
    work = tmp_path_factory.mktemp("site")
    build_site.build(work / "site", work=work)
    return work / "site"


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).exists(), name
        assert name.startswith("decisions/") or f'href="./{name}"' in front, f"{name} is not in the navigation"
    for name in (
        "reference/api.html",
        "reference/cli.html",
        "decisions/index.html",
        "changelog.html",
        "contributing.html",
    ):
        assert f'href="./{name}"' in front


def test_site_loads_no_external_resources(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert not [address for address in loads.found if re.match(r"https?:|//", address)], page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\([\"']?(?:https?:|//)", text), style


def test_linked_sources_are_included(site: Path) -> None:
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert "source/tests/forms/test_facts.py.html" in page
    assert "test_conjugation_is_tying_up_to_j" in (site / "source/tests/forms/test_facts.py.html").read_text("utf-8")


def test_broken_link_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zensical", reason="building the site needs Zensical: pip install 'conjoin[docs]'")

    def little(pages: Path) -> None:
        build_site.write(pages / "index.md", "# A\n\n[somewhere](nowhere.md)\n")
        build_site.write(pages / "site.css", "")

    monkeypatch.setattr(build_site, "collect", little)
    with pytest.raises(SystemExit, match="page does not exist"):
        build_site.build(tmp_path / "site", work=tmp_path)


def test_links_are_rewritten_for_the_site() -> None:
    sources: set[str] = set()
    text = "[a](../README.md) [b](start.md#train) [c](../tests/conftest.py) [d](https://example.org) [e](#here)\n"
    expected = (
        "[a](index.md) [b](start.md#train) [c](source/tests/conftest.py.md) [d](https://example.org) [e](#here)\n"
    )
    assert build_site.translated("docs/log.md", text, sources) == expected
    assert sources == {"tests/conftest.py"}
    assert build_site.translated("README.md", "[f](docs/decisions)", sources) == "[f](decisions/index.md)"
    assert build_site.translated("docs/decisions/0001-folders.md", "[g](../log.md)", sources) == "[g](../log.md)"
    assert (
        build_site.translated("README.md", "```sh\n[a](docs/log.md)\n```\n", sources)
        == "```sh\n[a](docs/log.md)\n```\n"
    )


def test_lists_are_converted_for_python_markdown() -> None:
    text = "words\n- one\n  more\n  - inner\n\nend\n1. first\n"
    assert build_site.lists(text) == "words\n\n- one\n    more\n    - inner\n\nend\n\n1. first\n"
