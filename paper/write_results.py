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
        "This page shows what a model saves and loses when its relations share parameters by conjugation, and which"
        " claims of the paper hold. *Tied* means that one half of a relation's numbers is computed from the other half."
        " A *form* is one way to build a relation's map from numbers, such as ComplEx or 5★E;"
        " [ties](mathematics.md#ties) lists all names and signs.",
        "",
        f"{runs} runs are in. `python -m paper.write_results` writes this page from them; a test checks that it is"
        " current. For all tables, tests and plots, use `conjoin study report studies/paper.toml`. To run the study,"
        " see [reproduce](reproduce.md).",
        "",
        "At the paper's settings:",
        "",
        *what_sharing_saves(evidence),
        how_sure(evidence),
        "",
        *table(("claim", "verdict", "evidence in short"), glance, left=3),
        "",
        "### How to read the numbers",
        "",
        "A test question asks for the head or the tail of a known fact, and the model ranks all entities as answers."
        " *MRR* is the mean of 1 / rank of the right answer: 1 is perfect. *Hits@n* is the fraction of questions"
        " whose right answer is among the first n. A *cell* is one form on one dataset.",
        "",
        "The verdicts come from 95 % intervals of differences; *equal* means within .003.",
        "",
        "- With at least three seeds on both sides, the interval is that of *Welch's test*. It compares the means of"
        " two sets of runs, and says whether a difference would hold for other seeds on these test questions.",
        "- With fewer seeds, the interval is that of the *paired test*. It compares the reciprocal ranks of two"
        " models on the same test triples, averaged over the two questions about each triple. It says nothing about"
        " other seeds, so the interval is widened by the scatter of seeds (by Student's t, because few runs determine"
        " it). That is the larger of two deviations: the one the paper prints, and the one of three or more of our"
        " runs. If neither is known, the case is open.",
        "- The p-values of both tests are given as they are, without this widening.",
        "- Each interval covers 95 % on its own, so among many cases some are wrong.",
        "",
        "Only cases that ran count. A claim is *confirmed* if all cases support it, *refuted* if some contradict it"
        " and none supports it, *mixed* if some support and some contradict it, and *open* otherwise. *Proved* claims"
        " follow by algebra; runs could only contradict them. Three kinds of claims have another rule."
        f" The first claim counts cells and is confirmed by {GOAL} of them, so that single cells may fail."
        " The two claims on the layout ask whether more than half of a loss comes back."
        " Times are compared with the scatter of their rounds.",
        "",
        *(line for claim in sections for line in (f"## {claim.title}", "", *claim.lines, "")),
        "## Not yet run",
        "",
        f"Rows without a run, and main rows with fewer than three seeds. {seeds_of_short_runs(paper)}"
        " `conjoin study plan studies/paper.toml --machine 'NVIDIA H200'` lists them by cost.",
        "",
        *missing(paper, tried),
        "",
        "## Card minutes",
        "",
        "These are training times from `result.json`, without start, validation and ranking. Runs that shared the"
        " graphics card with other runs took longer than they would alone.",
        "",
        *card_minutes(paper, mobius),
        "",
        "## Where each number comes from",
        "",
        "The table has one line per run. Its command with `--root DIR` trains the run again in another folder. A CPU"
        " gives the same ranks if four things are the same: the sources (the commit of that line), the torch version"
        " and the number of threads (both in `run.json`), and the study file at the commit that added the run. Another"
        " commit may round differently, which changes 5★ [as much as another seed](reproduce.md#what-repeats).",
        "",
        "`data` is the start of the graph's checksum, and `seconds` is the training time. `conjoin study restore STUDY"
        " -o DIR` writes the run's folder with its settings, versions, epochs and ranks. A + after a commit means that"
        " files had uncommitted changes. If the commit was not recorded, take the one that added the run to"
        f" `studies/results`. Of the {_runs(evidence.readings)} runs of `studies/readings.toml`, the table lists the"
        " runs with the chosen settings; `conjoin study run studies/readings.toml --seeds 0 --root DIR` repeats the"
        " whole search.",
        "",
        *origins(paper, mobius, evidence.layout, controls.chosen_readings(evidence)),
    ]
    return "\n".join(wrapped(lines)) + "\n"


def _runs(findings: Findings) -> int:
    return sum(len(outcome.runs) for outcome in findings.outcomes.values())


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Prose wrapped to at most 120 characters; tables, p-values and text in backticks are not broken."""
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
