"""The published recipe in plain PyTorch, as its authors ran it: the baseline of the benchmarks.

Embeddings, autograd, cross-entropy over all scores, N3, and torch.optim.Adagrad over dense gradients, in eager mode.
The code is neither optimised nor slowed down. With `wide=True`, entities have the columns of the published code (8k for
5★E, 4k for its tied forms). A score reads 2k of them, and the optimiser updates all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from bench.compare.cells import BenchCell, graph_of
from torch import Tensor, nn

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.complex import ComplEx
from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import form as form_of
from conjoin.forms.tied import TiedForm
from conjoin.graph.graph import Graph
from conjoin.runtime.device import choose_device, peak_bytes, reset_peak, synchronize

SCALE = 1e-3
Complex = tuple[Tensor, Tensor]
CLONE = Path(__file__).resolve().parents[2]


class PlainModel(nn.Module):
    """A form of the paper as two embeddings. An entity's row: real parts, imaginary parts, unused columns."""

    def __init__(
        self,
        form: Form | str,
        n_entities: int,
        n_relations: int,
        *,
        rank: int,
        wide: bool = False,
        sparse: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        chosen, self.rank = form_of(form), rank
        if not can_be_plain(chosen):
            raise UsageError(f"plain PyTorch supports ComplEx and 5★ in the published reading only, not {chosen}.")
        assert isinstance(chosen, TiedForm)
        self.form: TiedForm = chosen
        width = published_width(self.form, rank) if wide else 2 * rank
        self.entities = nn.Embedding(n_entities, width, sparse=sparse, device=device)
        self.relations = nn.Embedding(2 * n_relations, self.form.relation_width(rank), sparse=sparse, device=device)
        for table in (self.entities, self.relations):
            table.weight.data *= SCALE

    def forward(self, examples: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Scores of all entities (B, N) for examples (B, 3), and the moduli for the regulariser."""
        h = self._entity(self.entities(examples[:, 0]))
        t = self._entity(self.entities(examples[:, 2]))
        slots = self._slots(self.relations(examples[:, 1]))
        if isinstance(self.form, FiveStar):
            q, modulus = five_star(h, slots)
        else:
            q, modulus = complex_(h, slots)
        everything = self._entity(self.entities.weight)
        scores = q[0] @ everything[0].transpose(0, 1) + q[1] @ everything[1].transpose(0, 1)
        return scores, (length(h), modulus, length(t))

    def _entity(self, rows: Tensor) -> Complex:
        return rows[:, : self.rank], rows[:, self.rank : 2 * self.rank]

    def _slots(self, rows: Tensor) -> dict[str, Complex]:
        """All slots. Tied slots are computed from stored ones. Storage: all real parts, then all imaginary parts."""
        width, number = self.form.slot_width(self.rank), len(self.form.stored)
        parts = torch.split(rows, width, dim=1)
        slots = {slot: (parts[i], parts[number + i]) for i, slot in enumerate(self.form.stored)}
        for slot, tie in self.form.ties.items():
            re, im = slots[str(tie.slot)]
            sign = -1 if tie.negated else 1
            slots[slot] = sign * re, sign * (-im if tie.conjugated else im)
        return slots


def can_be_plain(form: Form) -> bool:
    """True for published forms: ComplEx, or 5★ in the published reading, tied or not."""
    if not isinstance(form, TiedForm):
        return False
    usual = isinstance(form, ComplEx) or (isinstance(form, FiveStar) and form.quotient == "phase")
    options = {option: value for option, value in form.options.items() if option != "quotient"}
    ordinary = set(options.values()) <= {"proper", "full"}
    return usual and ordinary and all(tie.slot is not None for tie in form.ties.values())


def published_width(form: Form, rank: int) -> int:
    """Columns of an entity in the published code: for 5★ as many as of a relation, for ComplEx as many as needed."""
    return form.relation_width(rank) if isinstance(form, FiveStar) else 2 * rank


def times(x: Complex, y: Complex) -> Complex:
    """The complex product."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def length(x: Complex) -> Tensor:
    """The modulus of every coordinate."""
    return torch.sqrt(x[0] ** 2 + x[1] ** 2)


def complex_(h: Complex, slots: dict[str, Complex]) -> tuple[Complex, Tensor]:
    """Query and modulus of ComplEx; the relation vector is joined from its halves."""
    r = torch.cat([slots["a1"][0], slots["a2"][0]], dim=1), torch.cat([slots["a1"][1], slots["a2"][1]], dim=1)
    return times(r, h), length(r)


def five_star(h: Complex, slots: dict[str, Complex]) -> tuple[Complex, Tensor]:
    """Query and modulus of 5★ in the published reading: conj(a h + b) (c h + d) / |c h + d|."""
    a_h, c_h = times(slots["a"], h), times(slots["c"], h)
    top = a_h[0] + slots["b"][0], a_h[1] + slots["b"][1]
    down = c_h[0] + slots["d"][0], c_h[1] + slots["d"][1]
    size = length(down)
    q = (top[0] * down[0] + top[1] * down[1]) / size, (top[0] * down[1] - top[1] * down[0]) / size
    return q, torch.sqrt(sum_of_squares(slots))


def sum_of_squares(slots: dict[str, Complex]) -> Tensor:
    """Σ |z|² over all slots."""
    total = torch.zeros_like(slots["a"][0])
    for re, im in slots.values():
        total = total + re**2 + im**2
    return total


class PlainTraining:
    """Epochs of the plain recipe: the host shuffles the examples and reads the loss after every step."""

    def __init__(self, model: PlainModel, *, lr: float, n3: float, batch: int) -> None:
        self.model, self.n3, self.batch = model, n3, batch
        self.loss = nn.CrossEntropyLoss(reduction="mean")
        self.optimizer = torch.optim.Adagrad(model.parameters(), lr=lr)

    def epoch(self, queries: Tensor) -> float:
        """One pass over the queries (n, 3) in host memory; returns the last loss."""
        device, last = self.model.entities.weight.device, 0.0
        shuffled = queries[torch.randperm(len(queries))]
        for examples in torch.split(shuffled, self.batch):
            last = self.step(examples.to(device))
        return last

    def step(self, examples: Tensor) -> float:
        """One optimiser step."""
        scores, moduli = self.model(examples)
        loss = self.loss(scores, examples[:, 2]) + self._penalty(moduli)
        self.optimizer.zero_grad()
        loss.backward()
        # torch warns unless a program says whether it checks sparse gradients; the published recipe does not.
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return float(loss.item())

    def _penalty(self, moduli: tuple[Tensor, ...]) -> Tensor:
        total = moduli[0].new_zeros(())
        for modulus in moduli:
            total = total + self.n3 * torch.sum(torch.abs(modulus) ** 3)
        return total / len(moduli[0])


@torch.no_grad()
def plain_ranks(model: PlainModel, graph: Graph, *, batch: int) -> Tensor:
    """Filtered pessimistic ranks of the test questions; the filter is applied to one question at a time."""
    queries = torch.from_numpy(graph.queries("test"))
    ranks = torch.ones(len(queries), dtype=torch.long)
    for start in range(0, len(queries), batch):
        asked = queries[start : start + batch]
        scores, _ = model(asked.to(model.entities.weight.device))
        target = scores.gather(1, asked[:, 2:].to(scores.device))
        for row, (h, r, _) in enumerate(asked.tolist()):
            hidden = torch.from_numpy(graph.known.tails_of(h, r).copy())
            scores[row, hidden.to(scores.device)] = -1e6
        ranks[start : start + batch] += (scores >= target).sum(dim=1).cpu()
    return ranks


def seconds_alone(cell: BenchCell, *, steps: int, rounds: int) -> float:
    """Seconds per epoch in a new process on the CPU, with the same number of threads as this process."""
    words = [sys.executable, "-m", "bench.plain", "--dataset", cell.dataset, "--form", cell.form, "--device", "cpu"]
    words += ["--rank", str(cell.rank), "--batch", str(cell.batch), "--steps", str(steps), "--rounds", str(rounds)]
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=threads, cwd=CLONE)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise UsageError(f"plain PyTorch failed on {cell} with exit status {done.returncode}: {said[-1]}")
    return float(json.loads(done.stdout)["seconds_per_epoch"])


def main() -> None:
    """Time a part of an epoch several times; print one JSON object."""
    import resource

    from bench.compare.training import part_of, recipe_of

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="wn18rr")
    parser.add_argument("--form", default="5star")
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--wide", action="store_true", help="entity columns as in the published code")
    parser.add_argument("--sparse", action="store_true", help="sparse gradients of the lookups")
    parser.add_argument("--steps", type=int, default=100, help="steps of a round; an epoch is extrapolated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device")
    chosen = parser.parse_args()
    device = choose_device(chosen.device).device
    cell = BenchCell(chosen.dataset, chosen.form, chosen.rank, chosen.batch)
    graph, recipe = graph_of(cell.dataset), recipe_of(cell)
    reset_peak(device)
    sizes = graph.n_entities, graph.n_relations
    model = PlainModel(cell.form, *sizes, rank=cell.rank, wide=chosen.wide, sparse=chosen.sparse, device=device)
    training = PlainTraining(model, lr=recipe.lr, n3=recipe.n3, batch=cell.batch)
    queries = torch.from_numpy(part_of(graph, chosen.steps * cell.batch).queries("train"))
    taken, faults = [], 0
    for _ in range(1 + chosen.rounds):
        faults = -resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        synchronize(device)
        start = time.perf_counter()
        training.epoch(queries)
        synchronize(device)
        taken.append((time.perf_counter() - start) / len(queries) * 2 * len(graph.train))
        faults += resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    told = {"cell": str(cell), "wide": chosen.wide, "sparse": chosen.sparse, "peak_bytes": peak_bytes(device)}
    told |= {"page_faults_per_step": faults / math.ceil(len(queries) / cell.batch)}
    told |= {"seconds_per_epoch": statistics.median(taken[1:]), "rounds": taken[1:]}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
