"""Write docs/results.md from the committed results: python -m paper.write_results

Every sentence that judges is chosen by the numbers. Reads the studies paper, mobius, layout and readings with their
results, what was tried about exceptions (studies/tried.toml), and the training benchmarks under bench/results.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paper.results_ablations import ablations, cost
from paper.results_cells import (
    GOAL,
    agreement,
    card_minutes,
    missing,
    origins,
    read_tried,
    seeds_of_short_runs,
    table,
)
from paper.results_contrast import Evidence
from paper.results_costs import bytes_saved, memory_examples, time_saving
from paper.results_summary import how_sure, what_sharing_saves
from scripts.script_words import parser

from conjoin.report.collect import Findings
from conjoin.runtime.atomic_files import read_json
from paper import results_claims as claims
from paper import results_controls as controls

ROOT = Path(__file__).resolve().parents[1]

PAGE = ROOT / "docs" / "results.md"
TRIED = "tried.toml"
WIDTH = 120
KEPT = re.compile(r"`[^`]*`|p = ")
GLUE = "\0"


def benches(folder: Path) -> Iterator[Mapping[str, Any]]:
    """The benchmarks of training, in the order of their names."""
    for file in sorted(folder.glob("*.json")):
        told = read_json(file)
        if isinstance(told, dict) and isinstance(told.get("cells"), list):
            yield told


def page(root: Path = ROOT) -> str:
    """The whole document."""
    studies = root / "studies"
    evidence = Evidence.read(studies, list(benches(root / "bench" / "results")))
    paper, mobius = evidence.paper, evidence.mobius
    tried = read_tried(studies / TRIED)
    reproduced, count, cells = agreement(paper, tried)
    timing, saved, times = time_saving(evidence)
    sections = [
        claims.Claim(title="The published numbers are reproduced", verdict=reproduced, short=count, lines=cells),
        claims.layout(evidence),
        claims.small_layout(evidence),
        claims.tying(evidence),
        claims.Claim(
            title="The published recipe saves time by narrower entity tables", verdict=timing, short=saved, lines=times
        ),
        claims.Claim(
            title="What conjugation saves in bytes", verdict=None, lines=[*bytes_saved(paper), "", *memory_examples()]
        ),
        cost(evidence),
        *ablations(evidence),
        controls.equal_parameters(evidence),
        controls.printed_formula(evidence),
        controls.generalises(evidence),
    ]
    runs = sum(map(_runs, evidence.studies))
    glance = [(claim.title, claim.verdict, claim.short) for claim in sections if claim.verdict is not None]
    lines = [
        "<!-- written by paper/write_results.py from studies/results and bench/results; do not edit -->",
        "# What the results show",
        "",
        f"{runs} runs are in. This page is written from them by `python -m paper.write_results`; a test writes it"
        " again and compares. All tables, tests and plots of the study: `conjoin study report studies/paper.toml`;"
        " how to run it: [reproduce](reproduce.md); names and signs of the forms: [ties](mathematics.md#ties).",
        "",
        "What sharing parameters by conjugation saves and costs, at the paper's settings:",
        "",
        *what_sharing_saves(evidence),
        how_sure(evidence),
        "",
        *table(("claim", "verdict", "in short"), glance, left=3),
        "",
        "The verdicts are computed from 95 % intervals of differences; equal means within .003. With at least three"
        " seeds on both sides the interval is Welch's over seeds, of these test questions. With fewer it is that of the"
        " paired test over the test triples (reciprocal ranks, both questions of a triple averaged), which knows"
        " nothing of other seeds, widened by the scatter of seeds: the larger of what the paper prints and what three"
        " or more of ours show (by Student's t, as that is of few runs too); where neither is known, the case is open."
        " The p-values of both tests stand beside, unwidened."
        " Each interval is of 95 % by itself: with many cases some err. Of the cases that"
        " ran, *confirmed* means that all speak for the claim, *refuted* that some speak"
        " against it and none for it, *mixed* that some do either, *open* all else. *Proved* is what follows by"
        " algebra; runs could only contradict it. Some claims have a rule of their own: the first"
        f" counts cells and is confirmed by {GOAL} of them, so that single ones may fail; the two on the layout ask"
        " whether more than half of a loss comes back; times are compared with the scatter of their rounds.",
        "",
        *(line for claim in sections for line in (f"## {claim.title}", "", *claim.lines, "")),
        "## Not yet run",
        "",
        f"Rows without a run, and main rows with fewer than three seeds. {seeds_of_short_runs(paper)}"
        " `conjoin study plan studies/paper.toml --machine 'NVIDIA H200'` puts them in order of cost.",
        "",
        *missing(paper, tried),
        "",
        "## Card minutes",
        "",
        "Training alone, from the seconds in `result.json`; starting, validating and ranking come on top. Runs"
        " that shared the card with others took longer than alone.",
        "",
        *card_minutes(paper, mobius),
        "",
        "## Where each number comes from",
        "",
        "One line per run. Its command with `--root DIR` trains the run again beside ours. A CPU gives the same ranks"
        " if four things are the same: the sources (the commit of that line), the torch version and the number of"
        " threads (both in `run.json`), and the study file as it was when the run was committed. Another commit may"
        " round otherwise, which moves 5★ [as another seed does](reproduce.md#what-repeats). `data` begins the checksum"
        " of the graph, `seconds` are of training. `conjoin study restore STUDY -o DIR` writes the run's folder with"
        " the rest: settings, versions, every epoch, every rank. A + after a commit: files had been changed since."
        " Where the commit was not recorded, take the one that added the run to `studies/results`."
        f" Of the {_runs(evidence.readings)} runs of `studies/readings.toml` those of the chosen settings are listed;"
        " `conjoin study run studies/readings.toml --seeds 0 --root DIR` does the whole search again.",
        "",
        *origins(paper, mobius, evidence.layout, controls.chosen_readings(evidence)),
    ]
    return "\n".join(wrapped(lines)) + "\n"


def _runs(findings: Findings) -> int:
    return sum(len(outcome.runs) for outcome in findings.outcomes.values())


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Prose in lines of at most 120 characters where that can be; tables, p and what stands in backticks stay whole."""
    for line in lines:
        if line.startswith(("|", "<!--")) or len(line) <= WIDTH:
            yield line
            continue
        whole = KEPT.sub(lambda kept: kept[0].replace(" ", GLUE), line)
        after = "  " if line.startswith("- ") else ""
        parts = textwrap.wrap(whole, WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=after)
        yield from (part.replace(GLUE, " ") for part in parts)


def main() -> None:
    """Write the page again."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
