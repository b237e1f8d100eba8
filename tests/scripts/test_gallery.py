"""The gallery and the page about maps are what the scripts write."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scripts import write_gallery, write_maps_doc

ROOT = Path(__file__).resolve().parents[2]

TEXT = write_gallery.PAGE.read_text(encoding="utf-8")


def test_every_picture_exists_is_small_and_is_drawn_by_the_page() -> None:
    shown = re.findall(r"\]\((images/[^)]+)\)", TEXT)
    assert len(shown) >= 6
    drawn = {word for block in write_gallery.BLOCK.finditer(TEXT) for word in shlex.split(block["commands"])}
    for image in shown:
        assert (ROOT / "docs" / image).stat().st_size < 400_000
        assert f"docs/{image}" in drawn


def test_output_blocks_are_not_empty() -> None:
    blocks = [block["shown"] for block in write_gallery.BLOCK.finditer(TEXT) if block["shown"]]
    assert len(blocks) >= 5
    assert all("Drawn: " in block for block in blocks)


def test_commands_fill_their_block_and_a_failure_stops(tmp_path: Path) -> None:
    page = "a\n```sh\necho one\necho two\n```\n```text\nold\n```\nb\n```sh\ntouch c\n```\n"
    assert write_gallery.filled(page, tmp_path) == page.replace("old", "one\ntwo")
    assert (tmp_path / "c").exists()
    with pytest.raises(SystemExit, match="ended with 1"):
        write_gallery.filled("```sh\nfalse\necho x\n```\n", tmp_path)


def test_maps_page_shows_the_stored_results() -> None:
    pytest.importorskip("scipy", reason="tests of differences need SciPy: pip install 'conjoin[study]'")
    text = write_maps_doc.PAGE.read_text(encoding="utf-8")
    assert write_maps_doc.page(write_maps_doc.measured()) == text, "run `python -m scripts.write_maps_doc`"
    for image in re.findall(r"\]\((images/[^)]+)\)", text):
        assert (ROOT / "docs" / image).is_file()
