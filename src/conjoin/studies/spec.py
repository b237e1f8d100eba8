"""A study: datasets × rows × seeds, the settings of each, the comparisons, and the published numbers.

A study is a TOML file. This module neither imports torch nor reads data, because `study run` and `study report` both
use it.

    name = "tiny"                     # names the results folder
    title = "Two forms on two graphs"
    weights = "last"                  # which weights are reported: last | best (on valid)
    seeds = 3                         # 0, 1, 2; or a list
    rows = [
        { name = "complex", form = "complex", group = "main", symbol = "ComplEx" },
        { name = "tied", form = "complex-conj", options = { layout = "published" }, settings = "complex" },
        { name = "half", form = "complex", settings = "complex", rank_factor = 0.5, group = "control", seeds = [0] },
    ]
    comparisons = [{ a = "complex", b = "tied" }]

    [defaults]                        # under every settings table
    validate_every = 5

    [datasets.UMLS]
    graph = "umls"                    # a dataset's name, or a path beside this file

    [settings.UMLS]                   # rank and any setting of a recipe; a row names its table by `settings`
    complex = { rank = 64, epochs = 20, batch = 200, n3 = 0.01, lr = 0.1 }

    [published.UMLS]
    complex = { mrr = 0.93, mrr_pm = 0.001, runs = 17 }

    [published_tests.UMLS]
    mrr = [{ a = "complex", b = "tied", h = 0, p = 0.2 }]

A cell is one dataset, row and seed: one run. Its folder under the results root is

    <study>/<dataset>/<row>/seed-<seed>-<id>/

where id is eight digits of a hash of everything in the study that determines the numbers (graph, form, rank, recipe,
seed, weights). Changed settings therefore never mix with old results, and the root can be moved as a whole. The folder
holds the run (run.json, events.jsonl, ranks-test.parquet, result.json; see runs/folder.py) and cell.json, which repeats
study, dataset, row and seed. The dataset's folder holds graph.json (counts and checksum of the graph) and
questions-test-*.parquet (the questions that all its runs answer; each run's ranks-test.parquet refers to them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conjoin.datasets.registry import is_named, same_name
from conjoin.graph.synthetic import is_synthetic
from conjoin.runs.run import Run, Weights
from conjoin.runtime.atomic_files import digest
from conjoin.training.recipe import Recipe

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph

MeasureName = Literal["seconds", "mrr"]
MEASURES: tuple[MeasureName, ...] = ("seconds", "mrr")
GROUPS = ("main", "ablation", "control")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A dataset of the study. `graph` is loaded for it: a dataset's name, a file, or another graph as a stand-in.

    `published_counts` is the row of the paper's dataset table (train, valid, test, entities, relations, examples).
    `published_on` is the graphics card on which the published seconds were measured. `printed` is true where the paper
    has numbers for the dataset.
    """

    name: str
    graph: str
    published_on: str = ""
    published_counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    printed: bool = False

    @property
    def stand_in(self) -> bool:
        """Whether another graph is loaded in place of a known dataset; its published numbers then do not compare.

        A name without published numbers that is not a known dataset's belongs to the user, and is never a stand-in.
        """
        other = not same_name(self.name, self.graph) and not is_synthetic(self.graph)
        return other and (self.printed or is_named(self.name))


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the tables: a form with its options, and the settings table it is trained with.

    `also_in` names further groups whose tables show the row. `reproduces` names the published line with which this row
    is compared, by default the line of the row's own name. If another row reproduces that line (Complεx in the
    published layout reproduces complex-conj), only the other row gets a verdict.
    """

    name: str
    form: str
    settings: str
    group: str = "main"
    also_in: tuple[str, ...] = ()
    symbol: str = ""
    latex: str = ""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    rank_factor: float = 1.0
    seeds: tuple[int, ...] = ()
    datasets: tuple[str, ...] = ()
    reproduces: str = ""
    note: str = ""

    @property
    def form_text(self) -> str:
        """Name and options as one text that `conjoin.form` reads: complex-conj(layout=published)."""
        options = ", ".join(f"{key}={value}" for key, value in self.options.items())
        if not options:
            return self.form
        if not self.form.endswith(")"):
            return f"{self.form}({options})"
        return f"{self.form[:-1]}{'' if self.form.endswith('()') else ', '}{options})"

    @property
    def label(self) -> str:
        """The row's name in tables: the paper's symbol, or `name`."""
        return self.symbol or self.name


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Rank and recipe of a row on a dataset. The row's rank factor multiplies the rank."""

    rank: int
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class Published:
    """A line of the paper's tables: means and standard deviations (pm) over `runs` runs; None where not printed."""

    seconds: float | None = None
    seconds_pm: float | None = None
    mrr: float | None = None
    mrr_pm: float | None = None
    hits1: float | None = None
    hits3: float | None = None
    hits10: float | None = None
    runs: int | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedTest:
    """A printed (h, p) of Welch's test between rows a and b. `supplementary`: a test across families, in italics."""

    dataset: str
    measure: MeasureName
    a: str
    b: str
    h: int
    p: float
    supplementary: bool = False


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two rows to test against each other on each of `datasets`, by each of `measures`."""

    a: str
    b: str
    datasets: tuple[str, ...]
    measures: tuple[MeasureName, ...] = MEASURES
    supplementary: bool = False


@dataclass(frozen=True, kw_only=True)
class StudyCell:
    """One run of a study, described without its data; `run(graph)` gives the run itself."""

    study: str
    dataset: str
    graph: str
    row: Row
    rank: int
    recipe: Recipe
    seed: int
    weights: Weights

    @cached_property
    def id(self) -> str:
        """Eight hexadecimal digits of a hash of all settings that determine the numbers; defaults are left out."""
        identity = [self.graph, self.row.form_text, self.rank, self.recipe.identity(), self.seed, self.weights]
        return digest(identity)[:8]

    @property
    def folder(self) -> Path:
        """The run's folder, relative to the results root."""
        return Path(self.study, self.dataset, self.row.name, f"seed-{self.seed}-{self.id}")

    @property
    def title(self) -> str:
        return f"{self.dataset} {self.row.name} seed {self.seed}"

    def run(self, graph: Graph) -> Run:
        """The run on the loaded graph. Parses the form, which imports torch."""
        form = self.row.form_text
        return Run.of(graph, form, rank=self.rank, recipe=self.recipe, seed=self.seed, weights=self.weights)

    def to_json(self) -> dict[str, Any]:
        """The content of cell.json, which identifies the run to a reader who has only its folder."""
        return {
            "study": self.study,
            "dataset": self.dataset,
            "graph": self.graph,
            "row": self.row.name,
            "form": self.row.form_text,
            "seed": self.seed,
            "cell": self.id,
        }

    def difference(self, run: Run, record: Mapping[str, Any]) -> str:
        """The settings in which a folder's run and cell.json (`record`) differ from this cell; empty if none do."""
        expected = {"rank": self.rank, "seed": self.seed, "weights": self.weights, **asdict(self.recipe)}
        found = {"rank": run.rank, "seed": run.seed, "weights": run.weights, **asdict(run.recipe)}
        expected |= {key: value for key, value in self.to_json().items() if key in ("graph", "form", "cell")}
        found |= {key: record.get(key) for key in ("graph", "form", "cell")}
        return "; ".join(
            f"{key} is {found[key]}, not {expected[key]}" for key in expected if found[key] != expected[key]
        )


@dataclass(frozen=True, kw_only=True)
class Study:
    """The whole specification. Mappings keep the order of the file; rows and datasets are shown in it."""

    file: Path
    name: str
    title: str
    weights: Weights
    seeds: tuple[int, ...]
    seeds_at_most: int
    alpha: float
    datasets: Mapping[str, Benchmark]
    rows: Mapping[str, Row]
    settings: Mapping[str, Mapping[str, TrainingSettings]]
    published: Mapping[str, Mapping[str, Published]]
    published_tests: tuple[PublishedTest, ...]
    comparisons: tuple[Comparison, ...]
    grid: Mapping[str, tuple[Any, ...]]

    @property
    def root(self) -> Path:
        """The default results folder: `results` in the folder of the study's file."""
        return self.file.parent / "results"

    def source(self, dataset: str) -> str:
        """The graph to load for a dataset: a known name, a synthetic graph, or a path relative to the study's file."""
        graph = self.datasets[dataset].graph
        return graph if is_synthetic(graph) or is_named(graph) else str(self.file.parent / graph)

    def rows_in(self, group: str) -> tuple[Row, ...]:
        """The rows that the table of a group shows."""
        return tuple(row for row in self.rows.values() if row.group == group or group in row.also_in)

    def published_for(self, dataset: str, row: Row) -> Published | None:
        """The printed line with which a row is compared, if there is one."""
        return self.published.get(dataset, {}).get(row.reproduces or row.name)

    def judged(self, row: Row) -> bool:
        """Whether this row gets the verdict on its published line."""
        return bool(row.reproduces) or all(other.reproduces != row.name for other in self.rows.values())

    def seeds_of(self, row: Row) -> tuple[int, ...]:
        """The row's seeds, by default the study's, and at most `seeds_at_most` of them."""
        return (row.seeds or self.seeds)[: self.seeds_at_most]

    def datasets_of(self, row: Row) -> tuple[str, ...]:
        """The datasets of a row: those it lists, by default all."""
        return row.datasets or tuple(self.datasets)

    def cells(self) -> tuple[StudyCell, ...]:
        """Every run of the study: dataset by dataset, row by row, seed by seed."""
        return tuple(
            self.cell(dataset, row, seed)
            for dataset in self.datasets
            for row in self.rows.values()
            if dataset in self.datasets_of(row)
            for seed in self.seeds_of(row)
        )

    def cell(self, dataset: str, row: Row, seed: int) -> StudyCell:
        """The run of a row on a dataset with a seed."""
        settings = self.settings[dataset][row.settings]
        return StudyCell(
            study=self.name,
            dataset=dataset,
            graph=self.datasets[dataset].graph,
            row=row,
            rank=round(settings.rank * row.rank_factor),
            recipe=settings.recipe,
            seed=seed,
            weights=self.weights,
        )
