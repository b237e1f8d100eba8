"""Fill in what README.md and docs/ show of commands and studies: python -m scripts.write_outputs [FILE …]

The script writes four kinds of blocks; do not edit them by hand.

- After a line `<!-- run: COMMAND -->`: the output of the command. Commands run one after the other in one temporary
  folder, so that a later command can use the files of an earlier one.
- After `<!-- output -->`: the output of the block above it. doc_blocks.py states which blocks are executed.
- Between `<!-- study: FILE -->` and `<!-- /study -->`: a table of the study's finished runs, and its comparisons.
- Between `<!-- measured: THEME_HARDWARE -->` and `<!-- /measured -->`: the newest such measurement in bench/results.

`--tables` does not run commands.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.compare.results import latest, read, section_of
from paper.results_contrast import interval_of_means
from scripts.doc_running import follow
from scripts.script_words import parser

from conjoin.report.collect import Findings, collect
from conjoin.report.formatting import mean_sd, signed
from conjoin.studies.parse import read_study

ROOT = Path(__file__).resolve().parents[1]
COMMAND = re.compile(r"<!-- run: (?P<command>[^\n]+) -->\n```text\n(?:.*?\n)??```$", re.DOTALL | re.MULTILINE)
STUDY = re.compile(r"<!-- study: (?P<file>[^\n]+) -->\n.*?<!-- /study -->", re.DOTALL)
MEASURED = re.compile(r"<!-- measured: (?P<name>[^\n]+) -->\n.*?<!-- /measured -->", re.DOTALL)
SHOWN_BELOW = re.compile(r"^<!-- output -->\n```text\n(?:.*?\n)??```$", re.DOTALL | re.MULTILINE)
SHOWN = {"mrr": "MRR", "hits1": "Hits@1", "hits3": "Hits@3", "hits10": "Hits@10"}


def with_tables(text: str) -> str:
    """The text with current tables of studies."""

    def fill(block: re.Match[str]) -> str:
        return f"<!-- study: {block['file']} -->\n{study_table(ROOT / block['file'])}\n<!-- /study -->"

    return STUDY.sub(fill, text)


def with_measurements(text: str) -> str:
    """The text with the newest measurements."""

    def fill(block: re.Match[str]) -> str:
        file = latest(ROOT / "bench" / "results", block["name"])
        told = section_of(read(file)) if file else "Not measured yet."
        return f"<!-- measured: {block['name']} -->\n{told}\n<!-- /measured -->"

    return MEASURED.sub(fill, text)


def study_table(file: Path) -> str:
    """Mean ± standard deviation over the seeds of every row on every dataset, and the study's comparisons."""
    study = read_study(file)
    findings = collect(study, study.root)
    lines = [f"| dataset | form | seeds | {' | '.join(SHOWN.values())} | parameters |", "|---|---|" + "---:|" * 6]
    for dataset in study.datasets:
        for outcome in findings.on(dataset):
            if outcome.runs:
                cells = [mean_sd(measure, outcome.moments(measure)) for measure in SHOWN]
                parameters = f"{outcome.runs[0].result['parameters']:,}"
                counts = [str(len(outcome.runs)), *cells, parameters]
                lines.append(f"| {dataset} | {outcome.row.name} | {' | '.join(counts)} |")
    return "\n".join([*lines, *differences(findings)])


def differences(findings: Findings) -> list[str]:
    """Differences of the rows that a study compares, with confidence intervals over seeds."""
    lines = []
    for each in findings.study.comparisons:
        told = []
        for dataset in each.datasets:
            sides = [
                (sign, outcome.moments("mrr") if (outcome := findings.of(dataset, row)) else None)
                for sign, row in ((1, each.b), (-1, each.a))
            ]
            if reach := interval_of_means(*sides):
                middle = (reach.low + reach.high) / 2
                told.append(f"{dataset} {signed(middle)} ({signed(reach.low)} to {signed(reach.high)})")
        if told:
            lines.append(
                f"- MRR of {each.b} less that of {each.a}, and its 95 % interval over seeds (Welch): {'; '.join(told)}."
            )
    return ["", *lines] if lines else []


def with_outputs(text: str, folder: Path) -> str:
    """The text with the current output of every command."""

    def fill(block: re.Match[str]) -> str:
        command = block["command"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        shell = ["bash", "-c", command]
        done = subprocess.run(shell, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{command} ended with {done.returncode}")
        printed = "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())
        return f"<!-- run: {command} -->\n```text\n{printed}\n```"

    return COMMAND.sub(fill, text)


def with_followed_outputs(page: Path, text: str, folder: Path) -> str:
    """The text with the current output of the page's blocks, executed in order from the beginning of the page."""
    if not SHOWN_BELOW.search(text):
        return text
    folder.mkdir()
    printed = iter([words for block, words in follow(page, folder, actions=("run", "slow"), apart=True)])
    return SHOWN_BELOW.sub(lambda _: f"<!-- output -->\n```text\n{next(printed)}\n```", text)


def main() -> None:
    """Rewrite the given files, or README.md and everything under docs/."""
    words = parser(__doc__)
    words.add_argument("files", metavar="FILE", nargs="*", type=Path, help="pages; by default all")
    words.add_argument("--tables", action="store_true", help="do not run commands")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for number, file in enumerate(given.files or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]):
            before = file.read_text(encoding="utf-8")
            after = with_measurements(with_tables(before))
            if not given.tables:
                after = with_outputs(after, Path(scratch))
                after = with_followed_outputs(file.resolve(), after, Path(scratch) / f"page-{number}")
            if after != before:
                file.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
