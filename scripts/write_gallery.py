"""Draw the figures of docs/gallery.md again: python -m scripts.write_gallery

Executes the commands of the page's `sh` blocks in the repository's root, one after the other, and writes their output
to the `text` block after each. Finished runs are not trained again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.script_words import parser

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gallery.md"
BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n(?P<shown>```text\n(?:.*?\n)??```\n)?", re.DOTALL)


def filled(text: str, folder: Path) -> str:
    """The page with the current output of its commands."""

    def fill(block: re.Match[str]) -> str:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        shell = ["bash", "-e", "-c", block["commands"]]
        done = subprocess.run(shell, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"ended with {done.returncode}:\n{block['commands']}")
        head = f"```sh\n{block['commands']}```\n"
        printed = "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())
        return f"{head}```text\n{printed}\n```\n" if block["shown"] else head

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), ROOT), encoding="utf-8")
