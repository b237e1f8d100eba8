"""Source archive and wheel: both contain the explorer page, and installing them needs no Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="building the package needs hatchling: pip install 'conjoin[dev]'")

ROOT = Path(__file__).resolve().parents[1]
PAGE = "conjoin/server/static/index.html"
SOURCES = ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
REQUIRED = "import json; from hatchling.build import get_requires_for_build_wheel as ask; print(json.dumps(ask()))"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that a build reads, without the explorer page and the results."""
    tree = tmp_path / "clone"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("static", "__pycache__"))
    shutil.copytree(ROOT / "web", tree / "web", ignore=shutil.ignore_patterns("node_modules"))
    for name in SOURCES:
        shutil.copyfile(ROOT / name, tree / name)
    return tree


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without npm and without a package index."""
    (tmp_path / "bin").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "CONJOIN_"))}
    outside = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, "PATH": str(tmp_path / "bin"), **outside}


def build(target: str, tree: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tree.parent / "dist")]
    return subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def required(tree: Path, environment: dict[str, str]) -> list[str]:
    """The packages that a build needs in addition to hatchling."""
    done = subprocess.run(
        [sys.executable, "-c", REQUIRED], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def test_wheel_without_node_has_no_page(clone: Path, bare: dict[str, str]) -> None:
    assert required(clone, bare) == []
    done = build("wheel", clone, bare)
    assert done.returncode == 0, done.stderr
    assert "make page" in done.stderr
    (wheel,) = (clone.parent / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "conjoin/py.typed" in names
    assert PAGE not in names


def test_source_archive_needs_the_page(clone: Path, bare: dict[str, str]) -> None:
    done = build("sdist", clone, bare)
    assert done.returncode != 0
    assert not list((clone.parent / "dist").glob("*.tar.gz"))
    assert build("sdist", clone, {**bare, "CONJOIN_WITHOUT_PAGE": "1"}).returncode == 0


def test_wheel_from_the_source_archive_has_the_page(clone: Path, bare: dict[str, str]) -> None:
    page = clone / "src" / PAGE
    page.parent.mkdir(parents=True)
    page.write_text("<!doctype html><title>built before</title>", encoding="utf-8")
    done = build("sdist", clone, bare)
    assert done.returncode == 0, done.stderr
    (archive,) = (clone.parent / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(clone.parent / "unpacked", filter="data")
    (tree,) = (clone.parent / "unpacked").iterdir()
    assert required(tree, bare) == []
    assert build("wheel", tree, {**bare}).returncode == 0
    (wheel,) = (tree.parent / "dist").glob("*.whl")
    assert zipfile.ZipFile(wheel).read(PAGE) == page.read_bytes()


def test_build_requirements_are_pinned_as_in_the_constraints() -> None:
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert "hatchling" in {word.partition("==")[0] for word in required}
    assert set(required) <= set(pinned)
