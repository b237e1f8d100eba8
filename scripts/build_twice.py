"""Build the distribution twice, from two copies of the tree, and prove that both are the same.

Leaves the wheel, the source archive, their checksums and sbom.json (CycloneDX, of constraints.txt) in dist/.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.script_words import parser

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EPOCH = "1577836800"
"""The date in archives of a tree without a commit: 2020-01-01."""


def built(place: Path) -> dict[str, Path]:
    """The archives of a fresh copy of the tree, by name."""
    tree = place / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    page = ROOT / "src" / "conjoin" / "server" / "static"
    if page.is_dir():
        shutil.copytree(page, tree / page.relative_to(ROOT))
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(tree)]
    subprocess.run(words, check=True, env=build_environment(), stdout=subprocess.DEVNULL)
    return {file.name: file for file in sorted((place / "dist").iterdir())}


def build_environment() -> dict[str, str]:
    """The variables of a build that others can repeat: the commit's date goes into the archives."""
    return {**os.environ, "SOURCE_DATE_EPOCH": _date(), "CONJOIN_WITHOUT_PAGE": "1"}


def _date() -> str:
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() or EPOCH


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second = built(Path(one)), built(Path(other))
        differing = [name for name in first if sha256(first[name]) != sha256(second[name])]
        if differing or set(first) != set(second):
            raise SystemExit(f"built twice, these differ: {', '.join(differing) or 'the lists of files'}")
        DIST.mkdir(exist_ok=True)
        for name, file in first.items():
            shutil.copyfile(file, DIST / name)
    words = [
        "-m",
        "cyclonedx_py",
        "requirements",
        "--output-reproducible",
        "--of",
        "JSON",
        "-o",
        str(DIST / "sbom.json"),
    ]
    subprocess.run([sys.executable, *words, str(ROOT / "constraints.txt")], check=True, stderr=subprocess.DEVNULL)
    names = [*first, "sbom.json"]
    lines = [f"{sha256(DIST / name)}  {name}" for name in names]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("built twice, byte for byte the same:", *lines, sep="\n")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
