"""What the scripts here share: the words behind their names, and the parts of pages that they write."""

from __future__ import annotations

import argparse


def parser(docstring: str | None) -> argparse.ArgumentParser:
    """A parser that tells the first line of a script's docstring, less the command that may end it."""
    first = (docstring or "").partition("\n")[0]
    return argparse.ArgumentParser(description=first.partition(": python -m ")[0].removesuffix(".") + ".")


def rewritten(page: str, part: str, *, begin: str, end: str) -> str:
    """The page with another part between two marks, without which nobody knows what may go."""
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise SystemExit(f"the page has no part between {begin} and {end}")
    return f"{before}{begin}\n{part}{end}{after}"
