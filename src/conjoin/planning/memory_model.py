"""The memory of a training, term by term: arithmetic on sizes.

Bytes are per process, of the device that trains, and on top of what the loaded program and graph take. A term is what
the code allocates, with its place named; `bench/plan.py` holds the sum against measured peaks.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.link import DOT, LiftedLink
from conjoin.forms.tied import TiedForm
from conjoin.graph.graph import KNOWN_AT_ONCE, KNOWN_BLOCK, SPLITS, Graph
from conjoin.model.padding import GRAIN
from conjoin.model.table import CPU_BUDGET, FEWEST, GPU_BUDGET, SCORED_TOGETHER, SWEPT
from conjoin.planning.fused_memory import fused_bytes, input_bytes
from conjoin.training.batches import CPU_SPAN, GPU_SPAN
from conjoin.training.optimizer import SLOTS
from conjoin.training.recipe import OptimizerName
from conjoin.training.steps.choose import WITH_KERNELS
from conjoin.training.steps.dense import GROUPED

REAL = 4
ID = 8
MIB = 1 << 20
STATES = {rule: len(names) for rule, names in SLOTS.items()}
"""Numbers that an optimiser keeps beside every parameter."""
BUDGET = {"cpu": CPU_BUDGET, "cuda": GPU_BUDGET}
TILE = 8 * MIB
"""A tile of scores, its gradient and what the optimiser needs for it, on a CPU (`conjoin.model.softmax`)."""
LINKED_TILE = 2 * TILE
"""The same with a link that is not a dot product, whose gradient takes more buffers of a tile."""
ENTITY_ROWS, SLOT_ROWS = 17, 11
"""Buffers of a batch that autograd holds: per width of an entity and per width of the slots. Measured with ComplEx and
5★E, whose slots differ fourfold in width."""
ASKED_ROWS, ASKED_SLOTS, ANSWERED_ROWS = 3, 2, 6
"""The same for `training/steps/dense.py`, of different questions and of all answers."""
FILTER_BYTES = 170
"""Per triple of all splits, while the filter of known answers is sorted (`conjoin.graph.filter`)."""
FILTER_KEPT = 48
FILTER_BLOCK = 128
"""Per triple of a block that is searched for known answers, if there are too many to sort all at once."""
ANSWERS = 100
"""Known answers to a question on average, to be on the safe side."""
LINKED = 3
"""Buffers of scores that a link other than the dot product needs beside the scores themselves, in ranking."""
COMPARED, COMPARED_SHARED = 2, 3
"""Ranking holds scores (4 bytes each) and the signs of differences (4): `EntityTable.standing`; a shard holds the
summands of a count (8)."""
PICKED = 3 * ID
"""A question on the device."""
GATHERING = 2 * PICKED + 36
"""Per question of a span: this one and the one before, and what picking it takes (`training/batches.py`)."""
SORTING = 114
"""Per question, while the inputs of fused steps are sorted on the GPU. Measured with FB15K and FB15K-237, where 171 to
195 bytes were in use for a question in all."""
PROGRAM = {"cpu": 16 * MIB, "cuda": 70 * MIB}
"""Handles, thread stacks, Parquet buffers: memory outside all other terms. On a GPU: two workspaces of 32 MiB for
products, for the usual stream and for the one that is recorded."""
FREED_SLOTS = 5
"""Freed memory that stays in the heap of a CPU: about the buffers of answers once more and this many times the buffers
of slots. Measured with ComplEx, 5★E and QuatE in batches of 300 to 8,000."""
PIECES = 512 * MIB
"""The most freed memory that stays in the heap. Blocks of 32 MiB and more return to the system."""

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class PlannedSizes:
    """A graph in numbers."""

    entities: int
    relations: int
    train: int
    valid: int = 0
    test: int = 0

    def __post_init__(self) -> None:
        if min(self.entities, self.relations, self.train) < 1 or min(self.valid, self.test) < 0:
            raise UsageError(
                f"entities, relations, train must be at least 1, got {self.entities}, {self.relations}, {self.train}."
            )
        if max(vars(self).values()) >= 2**63:
            raise UsageError("The sizes of a graph must be below 2^63.")

    @classmethod
    def of(cls, graph: Graph) -> PlannedSizes:
        sizes = {split: len(graph.triples(split)) for split in SPLITS}
        return cls(entities=graph.n_entities, relations=graph.n_relations, **sizes)

    @property
    def examples(self) -> int:
        return 2 * self.train

    @property
    def triples(self) -> int:
        return self.train + self.valid + self.test


@dataclass(frozen=True, kw_only=True)
class PlannedSetting:
    """The settings of a training that its memory depends on."""

    form: Form
    rank: int
    batch: int
    optimizer: OptimizerName = "adagrad"
    precision: str = "fp32"
    validates: bool = False
    negatives: int = 0
    processes: int = 1
    device: Device = "cpu"

    def __post_init__(self) -> None:
        self.form.check_rank(self.rank)
        if self.batch < 1 or self.processes < 1:
            raise UsageError(f"batch and processes must be at least 1, got {self.batch} and {self.processes}.")

    @property
    def width(self) -> int:
        """Numbers of an entity."""
        return self.form.entity_width(self.rank)

    def relation_numbers(self, sizes: PlannedSizes) -> int:
        """Numbers of all relation rows."""
        return self.form.relation_rows(sizes.relations) * self.form.relation_width(self.rank)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes per process. Not all terms are allocated at the same time; `peak` is their largest sum.

    `host` is beside the others: what a GPU's process keeps in the machine's own memory.
    """

    table: int
    optimizer: int
    gradient: int
    copies: int
    best_weights: int
    examples: int
    shuffling: int
    scores: int
    activations: int
    filtering: int
    ranking: int
    program: int
    peak: int
    host: int = 0

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def parameters(sizes: PlannedSizes, setting: PlannedSetting) -> tuple[int, int]:
    """Stored real numbers of all entities, and of all relations with their reciprocals."""
    return sizes.entities * setting.width, setting.relation_numbers(sizes)


def memory(sizes: PlannedSizes, setting: PlannedSetting) -> Memory:
    """The memory that each process of a training needs. Entity rows are divided among processes, all else is not."""
    return _on_gpu(sizes, setting) if setting.device == "cuda" else _on_cpu(sizes, setting)


def _on_cpu(sizes: PlannedSizes, setting: PlannedSetting) -> Memory:
    rows, relation_reals, batch = _shapes(sizes, setting)
    width = setting.width
    table = REAL * (rows * width + relation_reals)
    optimizer, best_weights = STATES[setting.optimizer] * table, table if setting.validates else 0
    alone = setting.processes == 1 and not setting.negatives
    distinct = _different(batch, sizes) if alone else batch
    scores, gradient = _softmax_on_cpu(rows, width, batch, distinct, setting)
    gradient += REAL * relation_reals
    examples, shuffling = _examples(sizes, batch, CPU_SPAN)
    activations = _activations_on_cpu(setting, batch, distinct) if alone else _activations(setting, batch)
    filtering = _filter(sizes, FILTER_BYTES)
    ranking = _ranking(sizes, rows, setting)
    freed = _freed(setting, batch, distinct) if alone else activations
    program = PROGRAM["cpu"] + min(freed, PIECES)
    standing = table + optimizer + gradient + best_weights + examples + scores + program
    return Memory(
        table=table,
        optimizer=optimizer,
        gradient=gradient,
        copies=0,
        best_weights=best_weights,
        examples=examples,
        shuffling=shuffling,
        scores=scores,
        activations=activations,
        filtering=filtering,
        ranking=ranking,
        program=program,
        # The allocator reuses small blocks such as the activations, above all for sorting the filter. It does not
        # reuse them for the large blocks of ranking.
        peak=standing + max(activations + max(shuffling, ranking), filtering),
    )


def _on_gpu(sizes: PlannedSizes, setting: PlannedSetting) -> Memory:
    """Where torch's allocator counts what is in use, and blocks are given back between steps.

    The moments that may be the highest: an epoch's questions are prepared; a step; a ranking.
    """
    rows, relation_reals, batch = _shapes(sizes, setting)
    width, budget = setting.width, BUDGET["cuda"]
    relations = REAL * relation_reals
    table = REAL * -(-rows // GRAIN) * GRAIN * width + relations
    optimizer, best_weights = STATES[setting.optimizer] * table, table if setting.validates else 0
    examples, shuffling = _examples(sizes, batch, GPU_SPAN)
    host, span = 0, min(sizes.examples, GPU_SPAN)
    if sizes.examples > GPU_SPAN:
        host, shuffling = shuffling, span * PICKED
    copies, resident, picked = 0, 0, span * PICKED
    if _fused(setting):
        parts = fused_bytes(
            rows, width, batch,
            relation_width=setting.form.relation_width(setting.rank), precision=setting.precision, budget=budget,
        )  # fmt: skip
        copies, scores, activations = parts.copy, parts.exponentials, parts.buffers + parts.product
        gradient = parts.gradient + (relations if setting.optimizer == "adam" else 0)
        resident, stepping = scores + parts.buffers, gradient + parts.product
        examples += input_bytes(span, entities=rows, relations=sizes.relations, batch=batch)
        shuffling = span * SORTING
    else:
        scores, of_table, of_tile = _softmax_on_gpu(rows, width, batch, setting)
        activations, gradient = _activations(setting, batch), of_table + of_tile + relations
        resident, stepping = of_table + relations, max(scores + of_tile, 2 * of_tile) + activations
    ranking = _ranking(sizes, rows, setting)
    standing = table + optimizer + copies + best_weights + examples + resident + PROGRAM["cuda"]
    return Memory(
        table=table,
        optimizer=optimizer,
        gradient=gradient,
        copies=copies,
        best_weights=best_weights,
        examples=examples,
        shuffling=shuffling,
        scores=scores,
        activations=activations,
        filtering=0,
        ranking=ranking,
        program=PROGRAM["cuda"],
        peak=standing + max(shuffling, picked + stepping, ranking),
        host=host + _filter(sizes, FILTER_BYTES),
    )


def _shapes(sizes: PlannedSizes, setting: PlannedSetting) -> tuple[int, int, int]:
    """Rows of a shard, numbers of all relations, questions of a batch."""
    rows = -(-sizes.entities // setting.processes)
    relation_reals = setting.relation_numbers(sizes)
    return rows, relation_reals, min(setting.batch, sizes.examples)


def _examples(sizes: PlannedSizes, batch: int, span: int) -> tuple[int, int]:
    """The questions that stay, and what an epoch's order takes: of all, or of a span where there are more."""
    if sizes.examples <= span:
        return PICKED * sizes.examples, (ID + PICKED) * sizes.examples
    return 0, ID * sizes.examples + GATHERING * max(span, batch)


def _different(batch: int, sizes: PlannedSizes) -> int:
    """How many distinct queries a random batch has: only those are computed (`training/steps/dense.py`)."""
    possible = 2 * sizes.relations * sizes.entities
    return batch if batch < GROUPED else round(-possible * math.expm1(-batch / possible))


def _activations(setting: PlannedSetting, batch: int) -> int:
    return REAL * batch * (ENTITY_ROWS * setting.width + SLOT_ROWS * _slots(setting))


def _activations_on_cpu(setting: PlannedSetting, batch: int, distinct: int) -> int:
    of_questions = ASKED_ROWS * setting.width + ASKED_SLOTS * _slots(setting)
    return REAL * (distinct * of_questions + batch * ANSWERED_ROWS * setting.width)


def _freed(setting: PlannedSetting, batch: int, distinct: int) -> int:
    return REAL * (batch * ANSWERED_ROWS * setting.width + distinct * FREED_SLOTS * _slots(setting))


def _slots(setting: PlannedSetting) -> int:
    """Numbers of an unfolded relation. A tied slot shares one of its two parts with the slot it is derived from."""
    form = setting.form
    if not isinstance(form, TiedForm):
        return form.relation_width(setting.rank)
    return (2 * len(form.stored) + len(form.ties)) * form.slot_width(setting.rank)


def has_kernels(setting: PlannedSetting) -> bool:
    """Can fused kernels train this setting on a GPU, unless in fp32 (`training.steps.choose.why_not`)?"""
    return setting.processes == 1 and not setting.negatives and type(setting.form) in WITH_KERNELS


def _fused(setting: PlannedSetting) -> bool:
    return setting.device == "cuda" and has_kernels(setting) and setting.precision != "fp32"


def _longer_rows(rows: int, setting: PlannedSetting) -> int:
    """Bytes of the longer rows, their gradient and that of the table out of it, where a link is computed as a dot
    product of such rows (`EntityTable.softmax`)."""
    table = REAL * rows * setting.width
    lifts = isinstance(setting.form.link, LiftedLink) and setting.processes == 1 and table <= BUDGET[setting.device]
    return 3 * REAL * rows * (setting.width + 1) if lifts else 0


def _sampled(rows: int, width: int, batch: int, setting: PlannedSetting) -> tuple[int, int]:
    sampled = min(setting.negatives, rows)
    return 2 * REAL * batch * sampled, 3 * REAL * (sampled + 2 * batch) * width


def _softmax_on_cpu(rows: int, width: int, batch: int, distinct: int, setting: PlannedSetting) -> tuple[int, int]:
    """The buffer of scores and the gradient of the entity table, by the path that the loss takes (`Step.path`)."""
    scores, table, budget = REAL * batch * rows, REAL * rows * width, BUDGET["cpu"]
    if setting.negatives:
        return _sampled(rows, width, batch, setting)
    longer, tile = _longer_rows(rows, setting), TILE if setting.form.link is DOT else LINKED_TILE
    if setting.processes > 1 or min(scores, table) > budget:
        return tile, 0
    if setting.form.link is not DOT and not longer:
        return tile, table
    return min(REAL * distinct * rows, budget) + longer, table


def _softmax_on_gpu(rows: int, width: int, batch: int, setting: PlannedSetting) -> tuple[int, int, int]:
    """The scores of a plain step, the gradient of the whole table and that of a tile."""
    scores, table, budget = REAL * batch * rows, REAL * rows * width, BUDGET["cuda"]
    if setting.negatives:
        buffer, gradient = _sampled(rows, width, batch, setting)
        return buffer, 0, gradient
    if setting.processes > 1 or min(scores, table) > budget:
        return min(scores, budget), 0, REAL * min(rows, budget // (REAL * batch)) * width
    longer = _longer_rows(rows, setting)
    if setting.form.link is not DOT and not longer:
        return min(4 * scores, budget), table, 0
    return (2 * scores if scores <= budget else budget) + longer, table, 0


def _filter(sizes: PlannedSizes, each: int) -> int:
    """The bytes of the filter: `each` per known answer (`Graph.known_of`), or the bytes of a block if there are more
    answers than are sorted at once."""
    held_out = max(sizes.valid, sizes.test)
    if not held_out:
        return 0
    if sizes.triples <= KNOWN_AT_ONCE:
        return each * sizes.triples
    block = FILTER_BLOCK * KNOWN_BLOCK if each == FILTER_BYTES else 0
    return block + each * min(2 * sizes.triples, 2 * ANSWERS * held_out) // 2


def _ranking(sizes: PlannedSizes, rows: int, setting: PlannedSetting) -> int:
    """The filter of known answers beside the scores of as many questions as are ranked together."""
    budget = BUDGET[setting.device]
    fitting = budget // (2 * REAL * sizes.entities)
    if setting.device == "cpu":
        fitting = min(fitting, max(SCORED_TOGETHER, SWEPT // sizes.entities))
    queries = min(2 * max(sizes.valid, sizes.test), max(FEWEST, fitting))
    if not queries:
        return 0
    scores = REAL * max(queries, FEWEST) * rows
    filtering, linked = _filter(sizes, FILTER_KEPT), 0 if setting.form.link is DOT else LINKED
    if setting.device == "cpu":
        times = linked + (COMPARED if setting.processes == 1 else COMPARED_SHARED)
        return filtering + times * min(scores, budget // 2 + REAL * queries * 96)
    # Counted by a kernel where all scores are there at once; in blocks otherwise, with the signs beside them.
    if scores <= budget and setting.processes == 1:
        return filtering + (1 + linked) * scores
    return filtering + (COMPARED + linked) * min(scores, budget // 2)
