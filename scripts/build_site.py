"""Build the documentation site: python -m scripts.build_site [--out build/site]

The pages of docs/ stay plain Markdown that any git host shows. This script collects them, adds what is generated (the
two references, the front page from README.md, the list of decisions, the sources that pages link to) and lets Zensical
turn them into HTML, strictly: a link or anchor that leads nowhere ends the build. No network is needed, to build the
site or to read it.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from scripts.script_words import parser

from scripts import site_reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "start.md", "own-graph.md", "python.md", "examples.md", "coming-from.md"),
    "Use": ("asking.md", "calibration.md", "mining.md", "explanations.md", "folding.md", "explorer.md", "service.md"),
    "Data": ("atlas.md", "datasets.md", "ingest.md", "plan.md", "scale.md"),
    "Understand": ("mathematics.md", "gallery.md", "patterns.md", "ties.md", "maps.md"),
    "The paper": ("reproduce.md", "results.md", "study.md"),
    "Measured": ("performance.md", "reliability.md", "threats.md"),
    "Reference": ("reference/api.md", "reference/cli.md", "api.md"),
    "Project": (
        "extending.md",
        "contributing.md",
        "stability.md",
        "releasing.md",
        "decisions/index.md",
        "changelog.md",
        "log.md",
    ),
}
"""Sections and their pages, in order. Pages that are not there are left out, pages that are not named come last."""
SHORT = {
    "index.md": "Conjoin",
    "start.md": "Five minutes",
    "extending.md": "Add a form, reader, dataset",
    "reference/api.md": "Library",
    "reference/cli.md": "Command line",
    "decisions/index.md": "Decisions",
    "results.md": "Results",
    "gallery.md": "Gallery",
    "api.md": "HTTP interface",
    "log.md": "Log",
}
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?(?=\))")
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
STYLE = """.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) td, .md-typeset table:not([class]) th { min-width: 0; padding: .4em .9em; }
"""
LEXERS = {".py": "python", ".toml": "toml", ".sh": "sh", ".md": "markdown", ".json": "json"}


def collect(pages: Path) -> None:
    """Write every page of the site, as Markdown that Zensical reads, under `pages`."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS / "images", pages / "images")
    sources: set[str] = set()
    written = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in sorted(DOCS.rglob("*.md"))
    }
    written |= {name: (ROOT / name).read_text(encoding="utf-8") for name in OUTSIDE}
    for name, text in written.items():
        write(pages / place_of(name), translated(name, text, sources))
    write(pages / "reference" / "api.md", site_reference.api_page())
    write(pages / "reference" / "cli.md", site_reference.cli_page())
    write(pages / "decisions" / "index.md", decisions(written))
    write(pages / "site.css", STYLE)
    for source in sorted(sources):
        write(pages / place_of(source), as_page(source))


def place_of(name: str) -> str:
    """Where a file of the repository stands on the site."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    path = PurePosixPath(name)
    if path.parts[0] == "docs":
        return "decisions/index.md" if name == "docs/decisions" else path.relative_to("docs").as_posix()
    return f"source/{name}.md"


def translated(name: str, text: str, sources: set[str]) -> str:
    """A page with its links as they are on the site; files that it links to outside docs/ are added to `sources`."""

    def relink(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if there != "docs/decisions" and not there.startswith("docs/reference/") and not (ROOT / there).is_file():
            return match[0]
        if there not in OUTSIDE and not there.startswith("docs"):
            sources.add(there)
        return posixpath.relpath(place_of(there), posixpath.dirname(place_of(name)) or ".") + anchor

    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else lists(LINK.sub(relink, COMMENT.sub("", part))) for part in parts)


def lists(text: str) -> str:
    """Lists as Python-Markdown wants them: an empty line before the first item, four blanks for each level."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        is_item = bool(ITEM.match(line)) and not line.startswith("    ")
        if is_item and not inside and lines and lines[-1].strip():
            lines.append("")
        inside = is_item or (inside and (line.startswith(" ") or not line.strip()))
        blanks = len(line) - len(line.lstrip())
        lines.append(" " * blanks + line if inside and line.strip() and blanks < 8 else line)
    return "\n".join(lines)


def decisions(written: dict[str, str]) -> str:
    """The list of decisions, from their headings."""
    found = {name: text for name, text in written.items() if name.startswith("docs/decisions/")}
    lines = [f"- [{heading(text)}]({PurePosixPath(name).name})" for name, text in sorted(found.items())]
    return "\n".join(["# Decisions\n", "Why things are as they are, half a page each.\n", *lines, ""])


def as_page(source: str) -> str:
    """A file of the repository, to read."""
    text = (ROOT / source).read_text(encoding="utf-8")
    fence = "`" * (3 + max((len(run) for run in re.findall(r"^`+", text, re.MULTILINE)), default=0))
    return f"# {source}\n\n{fence}{LEXERS.get(PurePosixPath(source).suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def heading(text: str) -> str:
    """The title of a page: its first heading, without signs."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]) if found else "Untitled"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def navigation(pages: Path) -> list[dict[str, object]]:
    """The sections, of the pages that are there."""
    there = {file.relative_to(pages).as_posix() for file in pages.rglob("*.md")}
    there -= {name for name in there if name.startswith("source/") or re.match(r"decisions/\d", name)}
    sections = {title: [name for name in names if name in there] for title, names in NAVIGATION.items()}
    sections["More"] = sorted(there - {name for names in sections.values() for name in names})
    return [{title: [entry(pages, name) for name in names]} for title, names in sections.items() if names]


def entry(pages: Path, name: str) -> dict[str, str]:
    title = SHORT.get(name) or heading((pages / name).read_text(encoding="utf-8")).partition(":")[0]
    return {title: name}


def settings(pages: Path) -> str:
    """The configuration file of Zensical. It uses JSON for TOML's arrays and strings, with `=` for `:` in tables."""
    nav = json.dumps(navigation(pages), ensure_ascii=False)
    nav = re.sub(r'\{("(?:[^"\\]|\\.)*"): ', r"{\1 = ", nav)
    return f"""[project]
site_name = "Conjoin"
site_description = "Knowledge-graph embeddings in complex space, with relation parameters shared by conjugation"
docs_dir = "pages"
site_dir = "html"
use_directory_urls = false
extra_css = ["site.css"]
nav = {nav}

[project.theme]
font = false
features = ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""


def build(out: Path, *, work: Path) -> None:
    """Build the site in `out`; `work` is for what stands between."""
    pages = work / "pages"
    collect(pages)
    write(work / "zensical.toml", settings(pages))
    program = Path(sys.executable).with_name("zensical")
    command = [str(program), "build", "--strict", "--clean", "--config-file", str(work / "zensical.toml")]
    done = subprocess.run(
        command, cwd=work, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    if done.returncode or "warning" in said.lower():
        raise SystemExit(f"the site was not built:\n{said}")
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(work / "html", out)


def main() -> None:
    """Build into build/site, or where --out says."""
    words = parser(__doc__)
    words.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = words.parse_args().out.resolve()
    work = ROOT / "build" / "site-work"
    work.mkdir(parents=True, exist_ok=True)
    build(out, work=work)
    shown = os.path.relpath(out)
    print(f"{sum(1 for _ in out.rglob('*.html'))} pages in {shown}. To read them: python -m http.server -d {shown}")


if __name__ == "__main__":
    main()
