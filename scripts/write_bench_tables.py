"""Fill the tables of the pages in PAGES from bench/results: python -m scripts.write_bench_tables"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.compare.growth import RELATIONS
from scripts.script_words import parser

from conjoin.datasets.registry import dataset
from conjoin.forms.notation import SYMBOLS, form
from conjoin.planning.memory_model import PlannedSetting, PlannedSizes, memory
from conjoin.planning.plan import sized

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = ("docs/ingest.md", "docs/performance.md", "docs/plan.md", "docs/reproduce.md")
BLOCK = re.compile(r"<!-- table: (?P<name>\w+) -->\n.*?<!-- /table -->", re.DOTALL)


def results(pattern: str) -> list[Any]:
    """The content of the matching result files, in the order of their names."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob(pattern))]


def latest(pattern: str) -> Any:
    """The content of the newest matching result file, from any machine."""
    return max(results(pattern), key=lambda told: told["date"])


def ingest_table() -> str:
    """One row per measured ingest."""
    lines = [
        "| format | triples | entities | seconds | CPU seconds | peak | opening, s | load before |",
        "|---|" + "---:|" * 7,
    ]
    for row in results("ingest_*.json"):
        cells = [row["format"], f"{row['triples']:,}", f"{row['entities']:,}", f"{row['seconds']:.0f}"]
        cells += [f"{row['cpu_seconds']:.0f}", sized(row["peak_bytes"])]
        cells += [f"{row['seconds_to_open']:.1f}", f"{row['load_before']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


class Planned(NamedTuple):
    """A measured configuration of bench/plan.py, with the current estimate of the planner."""

    device: str
    row: dict[str, Any]
    planned: int

    @property
    def off(self) -> float:
        return float(self.planned / self.row["measured"] - 1)


def planned_rows() -> list[Planned]:
    """All measured configurations."""
    found = []
    for file in sorted(RESULTS.glob("plan_*.json")):
        device = file.stem.split("_")[1]
        for row in json.loads(file.read_text(encoding="utf-8")):
            held_out = row["held_out"]
            sizes = PlannedSizes(
                **{k: row[k] for k in ("entities", "relations", "train")}, valid=held_out, test=held_out
            )
            names = ("rank", "batch", "optimizer", "validates", "precision")
            setting = PlannedSetting(form=form(row["form"]), device=device, **{k: row[k] for k in names})  # type: ignore[arg-type]
            found.append(Planned(device, row, memory(sizes, setting).peak))
    return found


def plan_table() -> str:
    """One row per measured configuration."""
    lines = [
        "| device | configuration | form | rank | batch | planned | measured | off |",
        "|---|---|---|" + "---:|" * 5,
    ]
    for each in planned_rows():
        row = each.row
        cells = [each.device, row["name"], row["form"], str(row["rank"]), f"{row['batch']:,}"]
        cells += [sized(each.planned), sized(row["measured"]), f"{100 * each.off:+.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


class Peak(NamedTuple):
    """A peak that another benchmark measured on a GPU, and the planner's estimate of the same training."""

    benchmark: str
    entities: int
    examples: int
    form: str
    rank: int
    batch: int
    precision: str
    planned: int
    measured: int


def other_peaks() -> list[Peak]:
    """Peaks of steps and epochs that the speed benchmarks measured on an H200."""
    found = []
    for result in results("growth_h200_*.json"):
        same = {"form": result["form"], "precision": result["precision"]}
        for cell in result["cells"]:
            found.append(_peak("growth", {**cell, **same, "examples": cell["batch"]}, relations=RELATIONS))
    for theme in ("train", "tied", "saving"):
        for cell in (cell for result in results(f"{theme}_h200_*.json") for cell in result["cells"]):
            found.append(_peak(theme, cell, relations=dataset(cell["dataset"]).counts.relations))
    for result in results("largest_h200_*.json"):
        examples = result["batch"] * len(result["losses"])
        found.append(_peak("largest", {**result, "examples": examples}, relations=1000))
    return sorted(set(found), key=lambda peak: (-peak.measured, peak))


def _peak(benchmark: str, cell: Mapping[str, Any], *, relations: int) -> Peak:
    shape = {name: cell[name] for name in ("entities", "examples", "form", "rank", "batch", "precision")}
    sizes = PlannedSizes(entities=cell["entities"], relations=relations, train=max(1, cell["examples"] // 2))
    setting = PlannedSetting(
        form=form(cell["form"]), rank=cell["rank"], batch=cell["batch"], precision=cell["precision"], device="cuda"
    )
    return Peak(benchmark, **shape, planned=memory(sizes, setting).peak, measured=cell["peak_bytes"])


def peaks_table() -> str:
    """One row per training, the largest first."""
    lines = [
        "| benchmark | entities | questions | form | rank | batch | precision | planned | measured | off |",
        "|---|---:|---:|---|" + "---:|" * 6,
    ]
    for peak in other_peaks():
        cells = [peak.benchmark, f"{peak.entities:,}", f"{peak.examples:,}", peak.form, str(peak.rank)]
        cells += [f"{peak.batch:,}", peak.precision, sized(peak.planned), sized(peak.measured)]
        lines.append("| " + " | ".join([*cells, f"{100 * (peak.planned / peak.measured - 1):+.1f} %"]) + " |")
    return "\n".join(lines)


def cpu_step_table() -> str:
    """One row per cell of the newest result of bench/cpu_step.py."""
    lines = [
        "| dataset | form | rank | batch | precision | ours, least | median | plain, least | median | load before |",
        "|---|---|---:|---:|---|" + "---:|" * 5,
    ]
    for row in latest("cpu_step_*.json")["cells"]:
        times = [f"{value:.1f}" for name in ("ours", "plain") for value in row["ms"][name]]
        lines.append("| " + " | ".join([*row["cell"].split("/"), *times, f"{row['load_before']:.1f}"]) + " |")
    return "\n".join(lines)


def threads_table() -> str:
    """One row per form of the newest result of bench/threads.py: the test MRR after each change."""
    forms = latest("threads_*.json")["forms"]
    columns = []
    for place, first in enumerate(forms[0]["threads"]):
        again = all(row["threads"][place]["again"] for row in forms)
        count = f"{first['threads']} thread{'s' if first['threads'] > 1 else ''}"
        columns.append(f"{count}, twice {'the same weights' if again else 'not the same'}")
    columns += ["one weight moved", "other seeds"]
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for row in forms:
        cells = [[each["mrr"]] for each in row["threads"]] + [row["nudged"], row["seeds"]]
        told = [" ".join(f"{mrr:.4f}".lstrip("0") for mrr in mrrs) for mrrs in cells]
        lines.append(f"| {SYMBOLS[row['form']]} | {' | '.join(told)} |")
    return "\n".join(lines)


def filled(text: str) -> str:
    """The text with current tables."""
    tables = {
        "ingest": ingest_table,
        "plan": plan_table,
        "peaks": peaks_table,
        "cpu_step": cpu_step_table,
        "threads": threads_table,
    }

    def fill(block: re.Match[str]) -> str:
        return f"<!-- table: {block['name']} -->\n{tables[block['name']]()}\n<!-- /table -->"

    return BLOCK.sub(fill, text)


def main() -> None:
    """Rewrite the pages."""
    for page in PAGES:
        file = ROOT / page
        file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
