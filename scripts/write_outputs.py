"""Fill in the outputs shown in README.md and docs/: python scripts/write_outputs.py [FILE …]

A block that follows a line `<!-- run: COMMAND -->` holds what the command prints on standard output; it is never typed.
Commands run in a scratch folder, one after the other, so that a later one may use what an earlier one left.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- run: (?P<command>[^\n]+) -->\n```text\n.*?\n```", re.DOTALL)


def filled(text: str, folder: Path) -> str:
    """The text with every block replaced by what its command prints now."""

    def fill(block: re.Match[str]) -> str:
        command = block["command"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{command} ended with {done.returncode}")
        return f"<!-- run: {command} -->\n```text\n{done.stdout.rstrip()}\n```"

    return BLOCK.sub(fill, text)


def main() -> None:
    """Rewrite the given files, or README.md and everything under docs/."""
    files = [Path(name) for name in sys.argv[1:]] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with tempfile.TemporaryDirectory() as scratch:
        for file in files:
            text = file.read_text(encoding="utf-8")
            if BLOCK.search(text):
                file.write_text(filled(text, Path(scratch)), encoding="utf-8")


if __name__ == "__main__":
    main()
