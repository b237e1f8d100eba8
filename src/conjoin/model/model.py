"""Model = a form + a table of entities + a table of relations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.notation import form as form_of
from conjoin.model.init import fill_normal, generator
from conjoin.model.padding import pad_rows_for
from conjoin.model.score_blocks import Blocks
from conjoin.model.scorer import Pairs, Scorer, check_sizes, positions_of
from conjoin.model.sharded import ShardedTable
from conjoin.model.table import EntityTable, RankCounts
from conjoin.runtime.distributed import Mesh, current

INITIAL_SCALE = 1e-3
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
"""Types whose range includes squared gradients and scores. float16 rounds numbers below 6e-8 to 0."""


def check_dtype(dtype: torch.dtype, *, such_as: str = "") -> None:
    """Raise UsageError for a type that a model cannot be trained in; `such_as` names a way out."""
    if dtype not in DTYPES:
        names = ", ".join(str(known).removeprefix("torch.") for known in DTYPES)
        raise UsageError(f"A model of {dtype} cannot be trained. Choose from {names}{such_as}.")


class Model(nn.Module):
    """Numbers for a form: entities (n_entities, entity_width), relation rows (form.relation_rows, relation_width), and
    the module that relations share, where the form has one.

    `seed` draws them, with the deviation `scale`; with None they are zero, to be filled from a file. `budget` is
    how many bytes scores may take at once, by default 256 MiB on a CPU and 2 GiB on a GPU. `mesh` says which rows of
    the entities this process holds; the default is the mesh that the launcher set up.

    >>> model = Model("complex-conj", 14541, 237, rank=500)
    >>> model.n_parameters
    14778000
    >>> model = Model("complex-conj", 5, 2, rank=4, seed=0)
    >>> model.n_entities, model.n_relation_parameters, model.device.type
    (5, 16, 'cpu')
    >>> model.check_graph("a graph of 5 entities", n_entities=5, n_relations=2)
    >>> h, r, t = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 3]), torch.tensor([4, 4, 4])
    >>> model.query(h, r).shape, model.scores(h, r).shape
    (torch.Size([3, 8]), torch.Size([3, 5]))
    >>> {name: tuple(squared.shape) for name, squared in model.factors(("head", "relation"), h, r, t).items()}
    {'head': (3, 4), 'relation': (3, 4)}
    >>> model.score(h, r, t).shape, model.unfold(model.relation_rows(r), r).keys() == {"a1", "a2"}
    (torch.Size([3]), True)
    >>> model.relation_places(r).tolist(), model.title, model.questions_at_once() >= 32
    ([0, 1, 3], 'ComplEx(a2=conj(a1)) of rank 4', True)
    >>> [block.shape for _, block in model.score_blocks(h, r)], model.similarity(0).shape
    ([torch.Size([3, 5])], torch.Size([5]))
    >>> none = torch.empty(0, dtype=torch.long)
    >>> model.standing(h, r, t, (none, none)).candidates.tolist(), model.best(h, r, k=2)[1].shape
    ([5, 5, 5], torch.Size([3, 2]))
    """

    @torch.inference_mode(mode=False)
    def __init__(
        self,
        form: Form | str,
        n_entities: int,
        n_relations: int,
        *,
        rank: int,
        seed: int | None = 0,
        dtype: torch.dtype = torch.float32,
        scale: float = INITIAL_SCALE,
        device: torch.device | str | None = None,
        budget: int | None = None,
        mesh: Mesh | None = None,
    ) -> None:
        super().__init__()
        self.form = form_of(form)
        self.form.check_rank(rank)
        check_dtype(dtype)
        if n_entities < 1 or n_relations < 1:
            raise UsageError(
                f"A model needs at least one entity and one relation, got {n_entities} entities and "
                f"{n_relations} relations."
            )
        self.rank = rank
        self.n_relations = n_relations
        mesh = current() if mesh is None else mesh
        first, stop = mesh.span(n_entities)
        rows = pad_rows_for(stop - first, self.form.entity_width(rank), dtype=dtype, device=device)
        shape = self.form.relation_rows(n_relations), self.form.relation_width(rank)
        relations = torch.zeros(*shape, dtype=dtype, device=rows.device)
        if seed is not None:
            fill_normal(rows, first, seed=seed, stream="entities", scale=scale)
            fill_normal(relations, 0, seed=seed, stream="relations", scale=scale)
            self.form.prepare(rows, relations)
        link = self.form.link
        self.entities = (
            EntityTable(rows, link=link, budget=budget)
            if mesh.count == 1
            else ShardedTable(rows, n_entities, mesh=mesh, link=link, budget=budget)
        )
        self.relations = nn.Parameter(relations)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator(seed or 0, "shared", 0).initial_seed())
            shared = self.form.shared(rank)
        self.shared = None if shared is None else shared.to(rows.device, dtype)
        self.eval()

    def __repr__(self) -> str:
        sizes = f"{self.n_entities:,} entities, {self.n_relations:,} relations, {self.n_parameters:,} parameters"
        return f"Model({self.title}: {sizes}, {self.relations.dtype} on {self.device})"

    @property
    def title(self) -> str:
        """Form and rank."""
        return f"{self.form} of rank {self.rank}"

    @property
    def n_entities(self) -> int:
        """Rows of the whole table, wherever they are."""
        return len(self.entities)

    @property
    def n_parameters(self) -> int:
        """Stored real numbers: entities, relation rows, and what relations share."""
        shared = sum(p.numel() for p in self.shared.parameters()) if self.shared is not None else 0
        return len(self.entities) * self.form.entity_width(self.rank) + self.relations.numel() + shared

    @property
    def n_relation_parameters(self) -> int:
        """Stored real numbers of relations and reciprocals."""
        return self.relations.numel()

    @property
    def device(self) -> torch.device:
        """Where the numbers are."""
        return self.relations.device

    def check_graph(self, name: str, *, n_entities: int, n_relations: int) -> None:
        """Refuse a graph with other numbers of entities or relations: its ids would mean other rows."""
        check_sizes(self, name, n_entities=n_entities, n_relations=n_relations)

    def questions_at_once(self) -> int:
        """How many queries to score together within the memory budget."""
        return self.entities.questions_at_once()

    def relation_places(self, r: Tensor) -> Tensor:
        """Which stored rows the relations r < 2·n_relations have; those from n_relations on are reciprocals."""
        return r % self.n_relations if self.form.derives_reciprocals else r

    def relation_rows(self, r: Tensor) -> Tensor:
        """The stored rows (B, relation_width) of relations and reciprocals; differentiable."""
        return self.relations[self.relation_places(r)]

    def unfold(self, rows: Tensor, r: Tensor) -> Any:
        """What the form's query computes with, from the stored rows (B, relation_width) of relations r."""
        if self.form.derives_reciprocals:
            rows = torch.where((r >= self.n_relations)[:, None], self.form.reversed_rows(rows), rows)
        return self.form.unfold(rows, self.shared)

    def query(self, h: Tensor, r: Tensor) -> Tensor:
        """Query rows (B, query_width) of heads h and relations r < 2·n_relations; differentiable."""
        return self.form.query(self.entities(h), self.unfold(self.relation_rows(r), r))

    def scores(self, h: Tensor, r: Tensor) -> Tensor:
        """Scores of every entity as the tail of (h, r, ?), shape (B, n_entities); differentiable."""
        return self.entities.scores(self.query(h, r))

    def score_blocks(self, h: Tensor, r: Tensor) -> Blocks:
        """The same scores in blocks (B, columns) within the memory budget; equal rows have exactly equal scores."""
        return self.entities.score_blocks(self.query(h, r))

    def score(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Scores (B,) of the facts (h, r, t); `t` has B entries, or is a scalar tensor, the one tail of all queries.

        Differentiable.
        """
        return self.entities.score(self.query(h, r), t)

    def standing(self, h: Tensor, r: Tensor, t: Tensor, hidden: Pairs) -> RankCounts:
        """How many entities score higher than each t (B,), and the same; hidden pairs never compete, t always does."""
        return self.entities.standing(self.query(h, r), t, hidden)

    def best(
        self, h: Tensor, r: Tensor, k: int, hidden: Pairs | None = None, among: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k best entities of every query, of all or of the sorted ids `among`: scores and ids, each (B, k)."""
        if among is None:
            return self.entities.best(self.query(h, r), min(k, self.n_entities), hidden)
        inside = None if hidden is None else positions_of(hidden, among)
        scores, positions = self.entities.subset(among).best(self.query(h, r), min(k, len(among)), inside)
        return scores, among[positions]

    def similarity(self, e: int) -> Tensor:
        """The cosine of every entity's row (n_entities,) with that of entity e."""
        return self.entities.cosines(self.entities.rows(torch.tensor([e], device=self.device))[0])

    def factors(self, names: Iterable[str], h: Tensor, r: Tensor, t: Tensor) -> dict[str, Tensor]:
        """The squared moduli that a penalty sees of triples (h, r, t), by name, each (B, k); differentiable."""
        heads, unfolded = self.entities(h), self.unfold(self.relation_rows(r), r)
        return self.form.factors(names, heads, unfolded, self.entities(t), self.form.query(heads, unfolded))


def single_model(scorer: Scorer, task: str) -> Model:
    """The scorer, if it is a Model. UsageError for others, because `task` (a noun for the message) needs embeddings."""
    if isinstance(scorer, Model):
        return scorer
    raise UsageError(
        f"{task} needs the embeddings of one model, and {scorer!r} stores no embeddings. Use one of its members."
    )
