"""Form: what a relation does to a head, and how wide the rows of entities, relations and queries are.

A form is a value. It holds no numbers of a model: widths, queries and penalised factors follow from it and from rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from numbers import Integral
from typing import Any, ClassVar

from torch import Tensor, nn

from conjoin.errors import FormError, did_you_mean
from conjoin.forms.link import DOT, Link

MOST_COORDINATES = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Form(ABC):
    """The base of all families. A subclass declares its options as fields, with their values in `CHOICES`.

    Rows are real. A relation's rows are unfolded once per batch; a query row meets entity rows through the `link`.

    >>> from conjoin.forms.distmult import DistMult
    >>> form, rank = DistMult(), 3
    >>> form.family, form.options, form.link.name, form.heads_as_tails, form.planes
    ('DistMult', {}, 'dot', True, 1)
    >>> form.entity_width(rank), form.relation_width(rank), form.query_width(rank), form.relation_rows(2)
    (3, 3, 3, 4)
    >>> form.check_rank(rank), form.shared(rank), form.derives_reciprocals
    (None, None, False)
    >>> import torch
    >>> heads, relations, tails = torch.ones(5, 3), torch.full((5, 3), 2.0), torch.ones(5, 3)
    >>> unfolded = form.unfold(relations)
    >>> query = form.query(heads, unfolded)
    >>> squared = form.factors(("head", "relation"), heads, unfolded, tails, query)
    >>> {name: tuple(values.shape) for name, values in squared.items()}
    {'head': (5, 3), 'relation': (5, 3)}
    >>> form.check_factors(form.factor_names)
    >>> torch.equal(form.factor("tail", heads, unfolded, tails, query), tails.square()), isinstance(form, Form)
    (True, True)
    >>> form.prepare(heads, relations)
    >>> form.reversed_rows(relations)
    Traceback (most recent call last):
    conjoin.errors.FormError: DistMult stores a row for every reciprocal relation. Look it up instead of deriving it.
    """

    SLOTS: ClassVar[tuple[str, ...]] = ()
    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {}

    def __post_init__(self) -> None:
        for option, value in self.options.items():
            if value not in self.CHOICES[option]:
                known = ", ".join(self.CHOICES[option])
                hint = did_you_mean(str(value), self.CHOICES[option])
                raise FormError(f"{option}={value} is not an option of {self.family}. Choose from {known}.{hint}")

    @property
    def family(self) -> str:
        """The name of the formula."""
        return type(self).__name__

    @property
    def options(self) -> dict[str, str]:
        """The chosen options by name; ties are not among them."""
        return {option: getattr(self, option) for option in self.CHOICES}

    @property
    def link(self) -> Link:
        """How a query row and an entity row make a score."""
        return DOT

    def _items(self) -> list[str]:
        """What the text of this form says in brackets, as `name=value`; defaults are left out."""
        defaults = {f.name: f.default for f in fields(self) if f.default is not MISSING}
        return [f"{name}={value}" for name, value in self.options.items() if value != defaults[name]]

    def __str__(self) -> str:
        """`Family(slot=expression, …, option=value)` without the defaults; `parse` is its inverse."""
        return f"{self.family}({', '.join(self._items())})"

    def check_rank(self, rank: int) -> None:
        """Raise FormError unless this form can have the rank."""
        whole: type = Integral
        if not isinstance(rank, whole) or isinstance(rank, bool):
            raise FormError(f"rank must be an integer, got {rank!r}.")
        if rank < 1:
            raise FormError(f"rank must be at least 1, got {rank}.")
        if rank > MOST_COORDINATES:
            raise FormError(f"rank must be at most {MOST_COORDINATES}; the given one is larger.")

    def entity_width(self, rank: int) -> int:
        """Stored real numbers of one entity."""
        return rank + self.link.columns

    def relation_width(self, rank: int) -> int:
        """Stored real numbers of one relation row."""
        return rank

    def query_width(self, rank: int) -> int:
        """Real numbers of one query row."""
        return self.link.query_parts * (self.entity_width(rank) - self.link.columns)

    @property
    def derives_reciprocals(self) -> bool:
        """Whether a reciprocal's row follows from the relation's row, so that only R rows are stored instead of 2R."""
        return type(self).reversed_rows is not Form.reversed_rows

    def relation_rows(self, n_relations: int) -> int:
        """Stored relation rows: one for each relation and one for each reciprocal, unless those are derived."""
        return n_relations if self.derives_reciprocals else 2 * n_relations

    def reversed_rows(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """The rows (B, relation_width) of the reciprocals from the rows of their relations. Override to derive them."""
        raise FormError(f"{self.family} stores a row for every reciprocal relation. Look it up instead of deriving it.")

    def shared(self, rank: int) -> nn.Module | None:  # noqa: ARG002
        """Parameters that all relations share, such as a core tensor or batch normalisation; None where there are none.

        A model holds the module, trains it and stores its state. `unfold` gets it.
        """
        return None

    def prepare(self, entities: Tensor, relations: Tensor) -> None:  # noqa: ARG002
        """Change the numbers drawn at the start in place, row by row: entities (n, entity_width) may be a part of the
        table. Columns behind the entities' vectors start at zero."""
        if self.link.columns:
            entities[:, -self.link.columns :] = 0

    def unfold(self, relations: Tensor, shared: Any = None) -> Any:  # noqa: ARG002
        """What `query` computes with, from relation rows (B, relation_width) and the model's shared module."""
        return relations

    @abstractmethod
    def query(self, heads: Tensor, unfolded: Any) -> Tensor:
        """Query rows (B, query_width) of heads (B, entity_width) and unfolded relations."""

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The factors that a penalty can ask this form for."""
        return ("head", "relation", "tail")

    def check_factors(self, names: Iterable[str]) -> None:
        """Raise FormError for a factor that this form does not have."""
        for name in names:
            if name not in self.factor_names:
                why = " It needs a query that is a product of head and relation." if name.endswith("_relation") else ""
                raise FormError(f"{self.family} has no factor {name!r}; it has {', '.join(self.factor_names)}.{why}")

    def factors(
        self, names: Iterable[str], heads: Tensor, unfolded: Any, tails: Tensor, query: Tensor
    ) -> dict[str, Tensor]:
        """The squared moduli that a penalty sees, by name, each (B, k).

        head, relation and tail belong to the three rows. head_relation is |h r|², the squared moduli of the query
        where it is a product; tail_relation is |t r̄|², the same of the query asked backwards.
        """
        wanted = tuple(names)
        self.check_factors(wanted)
        return {name: self.factor(name, heads, unfolded, tails, query) for name in wanted}

    def factor(self, name: str, heads: Tensor, unfolded: Any, tails: Tensor, query: Tensor) -> Tensor:  # noqa: ARG002
        """One of the factors that `factor_names` lists, (B, k)."""
        rows = {"head": heads, "relation": unfolded, "tail": tails}
        return self.link.points(rows[name]).square() if name != "relation" else rows[name].square()

    @property
    def heads_as_tails(self) -> bool:
        """Are the factors head and tail the squares of a stored row, summed over its `planes`, and nothing else?

        Training on a CPU then needs no graph for their penalty.
        """
        return type(self).factor is Form.factor and self.link.columns == 0

    @property
    def planes(self) -> int:
        """Into how many parts of equal width a row is cut whose squares make one squared modulus: 2 for complex."""
        return 1


def sum_of(terms: list[Tensor]) -> Tensor:
    """The sum of at least one tensor."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
