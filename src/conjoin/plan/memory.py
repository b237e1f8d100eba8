"""The memory of a training, term by term: arithmetic on sizes.

Bytes are per process and on top of what the loaded program and graph take. A term is what the code allocates, with
its place named; `bench/plan.py` holds the sum against measured peaks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from conjoin.algebra.forms import Form
from conjoin.errors import UsageError
from conjoin.graph.graph import SPLITS, Graph
from conjoin.learn.recipe import Optimizer
from conjoin.model.table import CPU_BUDGET, GPU_BUDGET

REAL = 4
ID = 8
MIB = 1 << 20
STATES: dict[Optimizer, int] = {"adagrad": 1, "adam": 2, "sgd": 0}
"""Numbers that an optimiser keeps beside every parameter."""
BUDGET = {"cpu": CPU_BUDGET, "cuda": GPU_BUDGET}
TILE = 8 * MIB
"""A tile of scores, its gradient and what the optimiser needs for it, on a CPU (`conjoin.model.tiled`)."""
ENTITY_ROWS, SLOT_ROWS = 17, 11
"""Buffers of a batch that autograd holds: per width of an entity and per width of the slots. Measured with ComplEx and
5★E, whose slots differ fourfold in width."""
FILTER_BYTES = 170
"""Per triple of all splits, while the filter of known answers is sorted (`conjoin.graph.known`)."""
FILTER_KEPT = 48
FEWEST = 32
COMPARED = 3
"""Ranking holds scores (4 bytes each) and the summands of a count (8): `EntityTable.standing`."""
PROGRAM = {"cpu": 50 * MIB, "cuda": 10 * MIB}
"""Handles, thread stacks, tables of Parquet: what no term explains."""

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A graph in numbers."""

    entities: int
    relations: int
    train: int
    valid: int = 0
    test: int = 0

    def __post_init__(self) -> None:
        if min(self.entities, self.relations, self.train) < 1 or min(self.valid, self.test) < 0:
            raise UsageError("a graph has at least one entity, one relation and one training triple")

    @classmethod
    def of(cls, graph: Graph) -> Sizes:
        sizes = {split: len(graph.triples(split)) for split in SPLITS}
        return cls(entities=graph.n_entities, relations=graph.n_relations, **sizes)

    @property
    def examples(self) -> int:
        return 2 * self.train

    @property
    def triples(self) -> int:
        return self.train + self.valid + self.test


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is to be trained and how."""

    form: Form
    rank: int
    batch: int
    optimizer: Optimizer = "adagrad"
    precision: str = "fp32"
    validates: bool = False
    negatives: int = 0
    processes: int = 1
    device: Device = "cpu"

    def __post_init__(self) -> None:
        self.form.check_rank(self.rank)
        if self.batch < 1 or self.processes < 1:
            raise UsageError("batch and processes are at least 1")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes per process. Training and ranking do not happen at once: the peak is the larger of the two."""

    table: int
    optimizer: int
    gradient: int
    best_weights: int
    examples: int
    shuffling: int
    scores: int
    activations: int
    filtering: int
    ranking: int
    program: int

    @property
    def standing(self) -> int:
        """What is held from the first step to the end, the buffer of scores too."""
        parameters = self.table + self.optimizer + self.gradient + self.best_weights
        return parameters + self.examples + self.scores + self.program

    @property
    def peak(self) -> int:
        # The allocator keeps blocks as small as the activations and gives them out again, to the filter's sorting
        # above all, but not for blocks as large as those of ranking.
        return self.standing + max(self.activations + max(self.shuffling, self.ranking), self.filtering)

    def to_json(self) -> dict[str, int]:
        return {**asdict(self), "peak": self.peak}


def parameters(sizes: Sizes, setting: Setting) -> tuple[int, int]:
    """Stored real numbers of all entities, and of all relations with their reciprocals."""
    return sizes.entities * 2 * setting.rank, 2 * sizes.relations * setting.form.reals(setting.rank)


def memory(sizes: Sizes, setting: Setting) -> Memory:
    """What a training needs in every process; entity rows are divided among them, the rest is not."""
    rows = -(-sizes.entities // setting.processes)
    width = 2 * setting.rank
    relation_reals = 2 * sizes.relations * setting.form.reals(setting.rank)
    table = REAL * (rows * width + relation_reals)
    batch = min(setting.batch, sizes.examples)
    # A tied slot shares one of its two parts with the slot it is derived from.
    slots = (2 * len(setting.form.stored) + len(setting.form.ties)) * setting.form.slot_width(setting.rank)
    scores, gradient = _softmax(rows, width, batch, setting)
    return Memory(
        table=table,
        optimizer=STATES[setting.optimizer] * table,
        gradient=gradient + REAL * relation_reals,
        best_weights=table if setting.validates else 0,
        examples=3 * ID * sizes.examples,
        shuffling=(1 if setting.negatives else 4) * ID * sizes.examples,
        scores=scores,
        activations=REAL * batch * (ENTITY_ROWS * width + SLOT_ROWS * slots),
        filtering=FILTER_BYTES * sizes.triples if sizes.valid + sizes.test else 0,
        ranking=_ranking(sizes, rows, BUDGET[setting.device]),
        program=PROGRAM[setting.device],
    )


def _softmax(rows: int, width: int, batch: int, setting: Setting) -> tuple[int, int]:
    """The buffer of scores and the gradient of the entity table, by the path that the loss takes (`Step.path`)."""
    on_gpu, budget = setting.device == "cuda", BUDGET[setting.device]
    scores, table = REAL * batch * rows, REAL * rows * width
    if setting.negatives:
        sampled = min(setting.negatives, rows)
        return 2 * REAL * batch * sampled, 3 * REAL * (sampled + 2 * batch) * width
    if on_gpu and setting.precision != "fp32" and setting.processes == 1:
        return min(scores, budget), 0
    if setting.processes > 1 or min(scores, table) > budget:
        chunk = min(rows, budget // (REAL * batch)) if on_gpu else 0
        return (min(scores, budget), REAL * chunk * width) if on_gpu else (TILE, 0)
    if on_gpu:
        return 2 * scores if scores <= budget else budget, table
    return min(scores, budget), table


def _ranking(sizes: Sizes, rows: int, budget: int) -> int:
    """The filter of known answers beside the scores of as many questions as are ranked together."""
    asked = min(2 * max(sizes.valid, sizes.test), max(FEWEST, budget // (2 * REAL * rows)))
    if not asked:
        return 0
    compared = COMPARED * min(REAL * max(asked, FEWEST) * rows, budget // 2 + REAL * asked * 96)
    return FILTER_KEPT * sizes.triples + compared


@dataclass(frozen=True)
class Tying:
    """What ties save against the same family without ties, in training (table, optimiser state and gradient)."""

    relation_bytes: int
    untied_relation_bytes: int
    saved_bytes: int
    share_of_relations: float
    share_of_everything: float


def tying(sizes: Sizes, setting: Setting) -> Tying:
    """Ties concern relations only, and the entity table is usually nearly everything: both shares are given."""
    form = setting.form
    untied = type(form)(**form.options)
    copies = 1 + STATES[setting.optimizer] + 1
    own, whole = (2 * sizes.relations * f.reals(setting.rank) * REAL for f in (form, untied))
    entities = sizes.entities * 2 * setting.rank * REAL
    saved = whole - own
    return Tying(own, whole, copies * saved, saved / whole, saved / (entities + whole))
