"""Check that this commit can be released: python -m scripts.check_release [--built]

Without --built: the tree is clean, the changelog has a dated entry of the version, CITATION.cff has the same version,
no tag has its name, and requirements.lock fits pyproject.toml and constraints.txt. With --built: the archives in dist/
fit their checksums, the source archive holds no results of studies, and it builds the same wheel. Then prints the files
to upload. `make release` calls both.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from scripts.build_twice import DIST, build_environment
from scripts.script_words import parser

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^([\w.-]+)(?:\[[\w,.-]+\])?==([^\s;\\]+)", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    """Name and version of every pinned package."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PIN.findall(text)}


def flaws_of_lock(project: str, lock: str, constraints: str) -> Iterator[str]:
    """Dependencies that the lock lacks, and versions that it pins otherwise than constraints.txt."""
    locked, allowed = pins(lock), pins(constraints)
    for text in tomllib.loads(project)["project"]["dependencies"]:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", text)[0]).lower()
        if name not in locked:
            yield f"requirements.lock lacks {name}. Run `make lock`."
    for name, version in locked.items():
        if allowed.get(name, version) != version:
            yield f"requirements.lock has {name} {version}, constraints.txt has {allowed[name]}. Run `make lock`."


def flaws_of_version(version: str, changelog: str, citation: str) -> Iterator[str]:
    """Where the version is not the one that is released."""
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        yield f"CHANGELOG.md has no dated entry of {version}. Write `## {version} (YYYY-MM-DD)`."
    if not re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE):
        yield f"CITATION.cff has another version than {version}. Set it there, too."


def flaws_of_tree(version: str) -> Iterator[str]:
    """Where the commit is not what would be released."""
    if git("status", "--porcelain"):
        yield "The tree has changes that are not committed. Commit or remove them."
    if git("tag", "--list", f"v{version}"):
        yield f"The tag v{version} exists. Choose another version."


def flaws_of_archives(folder: Path) -> Iterator[str]:
    """Where the files in dist/ are not to be uploaded."""
    sums = (line.split("  ") for line in (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    for checksum, name in sums:
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != checksum:
            yield f"{name} does not fit SHA256SUMS. Run `make dist`."
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(source) as archive:
        names = archive.getnames()
        if results := [name for name in names if "/studies/results" in name]:
            yield f"{source.name} holds results of studies, such as {results[0]}."
        if again := _wheel_of(archive, wheel):
            yield again


def _wheel_of(archive: tarfile.TarFile, wheel: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        archive.extractall(scratch, filter="data")
        (tree,) = Path(scratch).iterdir()
        words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", f"{scratch}/dist", str(tree)]
        subprocess.run(words, check=True, env=build_environment(), stdout=subprocess.DEVNULL)
        (built,) = Path(scratch, "dist").iterdir()
        same = built.name == wheel.name and built.read_bytes() == wheel.read_bytes()
        return "" if same else f"The source archive builds another {built.name} than the one in dist/."


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    words = parser(__doc__)
    words.add_argument("--built", action="store_true", help="check the archives in dist/ and list what to upload")
    if words.parse_args().built:
        flaws = [*flaws_of_archives(DIST)]
    else:
        names = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff", "requirements.lock", "constraints.txt")
        texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
        version = tomllib.loads(texts["pyproject.toml"])["project"]["version"]
        flaws = [
            *flaws_of_tree(version),
            *flaws_of_version(version, texts["CHANGELOG.md"], texts["CITATION.cff"]),
            *flaws_of_lock(texts["pyproject.toml"], texts["requirements.lock"], texts["constraints.txt"]),
        ]
    if flaws:
        raise SystemExit("\n".join(flaws))
    if words.parse_args().built:
        print("To upload, from dist/:")
        for file in sorted(DIST.iterdir()):
            print(f"  {file.name}  {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
