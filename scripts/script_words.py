"""What the scripts here share: the words behind their names, of which --help is always one."""

from __future__ import annotations

import argparse


def parser(docstring: str | None) -> argparse.ArgumentParser:
    """A parser that tells the first line of a script's docstring, less the command that may end it."""
    first = (docstring or "").partition("\n")[0]
    return argparse.ArgumentParser(description=first.partition(": python scripts/")[0].removesuffix(".") + ".")
