"""Write and read measurements: JSON with the machine and all cells, and a Markdown page. Does not import torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from bench.compare.growth_text import in_words

from conjoin.runtime.atomic_files import read_json, replacing, write_json

Column = tuple[str, Callable[[Mapping[str, Any]], str]]
GIB = 1 << 30


def write(folder: Path, found: Mapping[str, Any], *, name: str | None = None) -> list[Path]:
    """Write `<theme>_<hardware>_<date>.json` and `.md`; return both paths. `name` replaces the theme."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name or found['theme']}_{found['hardware']}_{found['date']}"
    stored, page = folder / f"{stem}.json", folder / f"{stem}.md"
    write_json(stored, found)
    with replacing(page) as aside:
        aside.write_text(page_of(found), encoding="utf-8")
    return [stored, page]


def today() -> str:
    """The date that names a results file."""
    return date.today().isoformat()


def hardware_of(machine: Mapping[str, Any], cores: int) -> str:
    """A short name of the machine for file names: the GPU, or the number of cores."""
    if str(machine["device"]).startswith("cuda"):
        return re.sub(r"[^a-z0-9]+", "-", str(machine["name"]).casefold().removeprefix("nvidia ")).strip("-")
    return f"{cores}cores"


def page_of(found: Mapping[str, Any]) -> str:
    """The results as a Markdown page."""
    title = {"train": "Training", "rank": "Ranking", "growth": "Growth of a training step"}[found["theme"]]
    lines = [
        f"<!-- written by {found['command']} -->",
        f"# {title}, measured on {found['hardware']}",
        "",
        section_of(found),
    ]
    return "\n".join(lines) + "\n"


def section_of(found: Mapping[str, Any]) -> str:
    """The machine, the table and its explanation, for a separate page or a part of another."""
    machine = found["machine"]
    lines = [
        f"`{found['command']}`, {found['date']}, {machine['name']}, {machine['threads']} threads, torch "
        f"{machine['torch']}, Python {machine['python']}, commit {machine['commit'] or 'unknown'}.",
    ]
    if "rates" in found:
        rates = found["rates"]
        products = {rates["flops_of"]: rates["flops_per_second"], "fp32": rates["exact_flops_per_second"]}
        told = ", ".join(f"{rate / 1e12:.3g} TFLOP/s ({kind})" for kind, rate in products.items())
        copies = f"{rates['bytes_per_second'] / 1e9:,.0f} GB/s (read and written)"
        lines.append(
            f"Measured in the same run: copies {copies}, matrix products {told}. Load before: {found['load']}."
        )
        if found.get("pykeen"):
            lines.append(f"PyKEEN {found['pykeen']}: LCWA, cross-entropy, one pass over the same triples.")
    return "\n".join([*lines, "", table_of(found), "", *words_of(found)]).rstrip()


def latest(folder: Path, name: str) -> Path | None:
    """The newest result file of `<theme>_<hardware>`, or None."""
    dated = re.compile(re.escape(name) + r"_\d{4}-\d\d-\d\d\.json")
    return max((path for path in folder.glob("*.json") if dated.fullmatch(path.name)), default=None)


def table_of(found: Mapping[str, Any]) -> str:
    """The cells as a Markdown table."""
    columns = COLUMNS[found["theme"]]
    used = [column for column in columns if any(column[1](cell) for cell in found["cells"])]
    words = [name for name, _ in used]
    rule = ["---" if name in ("dataset", "form", "precision", "moves", "path") else "---:" for name in words]
    rows = [[tell(cell) or "-" for _, tell in used] for cell in found["cells"]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [words, rule, *rows])


def words_of(found: Mapping[str, Any]) -> list[str]:
    """Lines below the table: the columns explained, the gains of each graph, and the ways that steps were computed."""
    if found["theme"] == "growth":
        return [f"- {sentence}" for sentence in in_words(found["cells"])]
    lines = [*explained(found), "", *ranges(found["cells"])]
    paths = {cell["path"]: f"{cell['dataset']} {cell['form']}" for cell in found["cells"] if "path" in cell}
    if paths:
        lines += ["How each step was computed:", "", *(f"- {where}: {path}" for path, where in paths.items()), ""]
    for cell in found["cells"]:
        if reached := cell.get("time_to"):
            lines.append(
                f"{cell['dataset']} {cell['form']} reached a test MRR of {reached['mrr']:.4f} after "
                f"{reached['epochs']} epochs; the target was {reached['wanted_mrr']}. Training took "
                f"{reached['training_seconds']:.1f} s, of which the first epoch took "
                f"{reached['first_epoch_seconds']:.1f} s. Training and ranking together took "
                f"{reached['seconds']:.1f} s."
            )
    return lines


def read(path: Path) -> dict[str, Any]:
    """The content of a result file."""
    found: dict[str, Any] = read_json(path)
    return found


def ranges(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """A Markdown table of how many times as long each program took: minimum to maximum over the cells of a graph and
    precision. Only cells that were also measured with `--together` count; without any the list is empty."""
    lines = []
    measured = [cell for cell in cells if cell.get("together_seconds")]
    for kind in dict.fromkeys((cell["dataset"], cell["precision"]) for cell in measured):
        here = [cell for cell in measured if (cell["dataset"], cell["precision"]) == kind]
        told = []
        for _, others, ours in CONTESTS:
            ratios = [cell[others] / cell[ours] for cell in here if cell.get(others)]
            ends = dict.fromkeys(f"{end:.1f}" for end in (min(ratios), max(ratios))) if ratios else ["-"]
            told.append(" to ".join(ends))
        lines.append(f"| {' | '.join([*kind, *told])} |")
    if not lines:
        return []
    names = [name for name, _, _ in CONTESTS]
    head = [f"| {' | '.join(['dataset', 'precision', *names])} |", "|---|---|" + "---:|" * len(names)]
    return ["Time of another program divided by ours, over the cells of a graph:", "", *head, *lines, ""]


MEANING = {
    "±": "half of the spread between the rounds, in per cent of the median",
    "together": "ours with `--group-queries 16`, which scores up to 16 answers of a question at once",
    "plain": "the published recipe in plain PyTorch, in float32, with our entity width",
    "plain alone": "the same in a separate process (`python -m bench.plain`)",
    "wide": "plain with the entity width of the published code",
    "floor": "the least time that the arithmetic or the memory traffic needs at the measured rates",
}
"""The explanation of each column whose name does not explain itself."""


def explained(found: Mapping[str, Any]) -> list[str]:
    """What the numbers and the columns of the table mean, only for the columns that are shown."""
    first = {
        "train": "Times are seconds per epoch: medians over rounds that alternate between the programs. The time of a "
        "long epoch is extrapolated from a random part of it.",
        "rank": "Times are seconds to rank all test questions, filtered: medians over rounds that alternate between "
        "the programs.",
    }[found["theme"]]
    shown = [name for name, tell in COLUMNS[found["theme"]] if any(tell(cell) for cell in found["cells"])]
    return [first, "", *(f"- *{name}*: {MEANING[name]}" for name in shown if name in MEANING)]


def _seconds(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda cell: f"{cell[key]:.3g}" if cell.get(key) is not None else ""


def _against(key: str, ours: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda cell: f"{cell[key] / cell[ours]:.1f}×" if cell.get(key) and cell.get(ours) else ""


def _whole(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda cell: f"{cell[key]:,.0f}"


def _memory(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda cell: f"{cell[key] / GIB:.2f}"


def _word(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda cell: str(cell[key])


def _spread(cell: Mapping[str, Any]) -> str:
    return f"{100 * cell['spread']['ours'] / 2:.0f} %"


CONTESTANTS = {
    "plain": "plain_seconds",
    "plain alone": "plain_alone_seconds",
    "wide": "wide_seconds",
    "PyKEEN": "pykeen_seconds",
}
ORDERS = {"ours": "seconds_per_epoch", "together": "together_seconds"}
CONTESTS = [(f"{name} / {order}", key, ours) for name, key in CONTESTANTS.items() for order, ours in ORDERS.items()]
"""Each comparison: its name, the key of the other program's seconds, and the key of ours."""


def _contest(contestant: str) -> list[Column]:
    """Two kinds of columns: the seconds of another program, and their ratio to ours."""
    seconds = CONTESTANTS[contestant]
    ratios = [(name, _against(key, ours)) for name, key, ours in CONTESTS if key == seconds]
    return [(contestant, _seconds(seconds)), *ratios]


_CELL: Sequence[Column] = [(key, _word(key)) for key in ("dataset", "form", "rank", "batch", "precision")]
COLUMNS: Mapping[str, Sequence[Column]] = {
    "train": [
        *_CELL,
        ("s/epoch", _seconds("seconds_per_epoch")),
        ("±", _spread),
        ("together", _seconds("together_seconds")),
        *(column for contestant in CONTESTANTS for column in _contest(contestant)),
        ("floor", _seconds("floor_seconds")),
        ("of floor", lambda cell: f"{100 * cell['fraction_of_floor']:.0f} %"),
        ("examples/s", _whole("examples_per_second")),
        ("peak GiB", _memory("peak_bytes")),
    ],
    "rank": [
        *_CELL[:3],
        ("questions", _whole("questions")),
        ("s", _seconds("seconds")),
        ("±", _spread),
        ("plain", _seconds("plain_seconds")),
        ("plain / ours", _against("plain_seconds", "seconds")),
        ("PyKEEN", _seconds("pykeen_seconds")),
        ("PyKEEN / ours", _against("pykeen_seconds", "seconds")),
        ("floor", _seconds("floor_seconds")),
        ("of floor", lambda cell: f"{100 * cell['fraction_of_floor']:.0f} %"),
        ("questions/s", _whole("questions_per_second")),
        ("peak GiB", _memory("peak_bytes")),
    ],
    "growth": [
        ("moves", _word("moves")),
        ("entities", _whole("entities")),
        ("rank", _whole("rank")),
        ("batch", _whole("batch")),
        ("ms/step", lambda cell: f"{1000 * cell['seconds']:.3g}"),
        ("peak GiB", _memory("peak_bytes")),
        ("table GiB", _memory("table_bytes")),
        ("path", lambda cell: str(cell["path"]).partition(":")[0]),
    ],
}
"""The columns of a table, per theme. A column that is empty in all cells is not shown."""
