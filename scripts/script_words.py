"""Shared by the scripts: their help text, and replacing a part of a page."""

from __future__ import annotations

import argparse


def parser(docstring: str | None) -> argparse.ArgumentParser:
    """A parser described by the first line of a script's docstring, without the command that may end it."""
    first = (docstring or "").partition("\n")[0]
    return argparse.ArgumentParser(description=first.partition(": python -m ")[0].removesuffix(".") + ".")


def rewritten(page: str, part: str, *, begin: str, end: str) -> str:
    """The page with a new part between the marks `begin` and `end`; exits if a mark is missing."""
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise SystemExit(f"The page has no part between {begin} and {end}. Add both marks.")
    return f"{before}{begin}\n{part}{end}{after}"
