"""Model = a form + a table of entities + a table of relations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from conjoin.algebra.forms import Form
from conjoin.algebra.notation import form as form_of
from conjoin.errors import UsageError
from conjoin.model.initial import normal_rows
from conjoin.model.table import EntityTable

INITIAL_SCALE = 1e-3


class Model(nn.Module):
    """Numbers for a form: entities (n_entities, 2·rank), relations and reciprocals (2·n_relations, form.reals(rank)).

    >>> model = Model("complex-conj", 14541, 237, rank=500)
    >>> model.n_parameters
    14778000
    """

    def __init__(
        self,
        form: Form | str,
        n_entities: int,
        n_relations: int,
        *,
        rank: int,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        scale: float = INITIAL_SCALE,
        device: torch.device | str | None = None,
        budget: int | None = None,
    ) -> None:
        super().__init__()
        self.form = form_of(form)
        self.form.check_rank(rank)
        if n_entities < 1 or n_relations < 1:
            raise UsageError(f"a model needs entities and relations, got {n_entities} and {n_relations}")
        self.rank = rank
        self.n_relations = n_relations
        entities = normal_rows(0, n_entities, 2 * rank, seed=seed, stream="entities", scale=scale)
        width = self.form.reals(rank)
        relations = normal_rows(0, 2 * n_relations, width, seed=seed, stream="relations", scale=scale)
        self.entities = EntityTable(entities.to(device=device, dtype=dtype), budget=budget)
        self.relations = nn.Parameter(relations.to(device=device, dtype=dtype))

    @property
    def n_entities(self) -> int:
        return len(self.entities)

    @property
    def n_parameters(self) -> int:
        """Stored real numbers, reciprocal relations included."""
        return self.entities.weight.numel() + self.relations.numel()

    @property
    def n_relation_parameters(self) -> int:
        return self.relations.numel()

    @property
    def device(self) -> torch.device:
        return self.relations.device

    def query(self, h: Tensor, r: Tensor) -> Tensor:
        """Query rows (B, 2·rank) of heads h and relations r < 2·n_relations (reciprocals behind); differentiable."""
        return self.form.query(self.entities(h), self.form.unfold(self.relations[r]))

    def scores(self, h: Tensor, r: Tensor) -> Tensor:
        """Scores of every entity as the tail of (h, r, ?), shape (B, n_entities); differentiable."""
        return self.entities.scores(self.query(h, r))

    def squared_moduli(self, h: Tensor, r: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """|h|², m² and |t|² per coordinate: what a regulariser sees, each (B, rank)."""
        return self.form.squared_moduli(self.entities(h), self.form.unfold(self.relations[r]), self.entities(t))
