"""Write requirements.lock, which pins a user's installation with hashes: python -m scripts.write_lock

`pip install --require-hashes -r requirements.lock`, then `pip install --no-deps` with the wheel, installs exactly these
files and no others. uv resolves for every platform at once, within the versions of constraints.txt. An editable install
cannot use hashes, so a clone uses constraints.txt instead. `make lock` calls this script.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.script_words import parser
from scripts.try_bounds import OURS

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"


def extras_for_users(project: str) -> list[str]:
    """The extras of pyproject.toml that are not for work on Conjoin itself."""
    return [name for name in tomllib.loads(project)["project"]["optional-dependencies"] if name not in OURS]


def main() -> None:
    extras = extras_for_users((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    words = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--constraints", "constraints.txt"]
    words += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--quiet"]
    words += [word for extra in extras for word in ("--extra", extra)]
    environment = {**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "make lock"}
    subprocess.run([*words, "--output-file", LOCK.name], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
