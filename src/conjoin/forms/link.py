"""Links: how a query row meets an entity row and makes a score. A link is a value with a name.

Training and ranking compute scores in tiles of entities and never hold more than the memory budget allows, so a link
says three things: the scores of a tile, the scores of pairs, and the gradient of a tile's scores. The gradient may be
left out; autograd then finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from conjoin.errors import unknown
from conjoin.runtime import plugins

SOFTENED = 1e-6
"""Added to the square of a distance before its root. The rounding of a squared distance in float32 is about as large
for vectors of length 3, and the slope of a bare root would magnify it without bound where points coincide."""


class Link(ABC):
    """The base of all links. A subclass sets `name` and defines `scores` and `pairs`.

    >>> q, rows = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])
    >>> DOT.name, DOT.columns, DOT.scores(q, rows).tolist(), DOT.pairs(q, rows[:1]).tolist()
    ('dot', 0, [[11.0, 17.0]], [11.0])
    >>> DOT.points(rows).shape
    torch.Size([2, 2])
    >>> [gradient.tolist() for gradient in DOT.pull(torch.ones(1, 2), q, rows)]
    [[[8.0, 10.0]], [[1.0, 2.0], [1.0, 2.0]]]
    >>> [gradient.tolist() for gradient in DOT.pull_pairs(torch.ones(1), q, rows[:1])]
    [[[3.0, 4.0]], [[1.0, 2.0]]]
    """

    name: str
    columns: int = 0
    """Stored numbers behind an entity's vector, such as a bias."""
    query_parts: int = 1
    """How many vectors, each as long as that of an entity, a query row holds."""

    @abstractmethod
    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        """The scores (B, n) of queries (B, query_width) and entities (n, entity_width); differentiable, and new memory.

        Equal rows must get equal scores wherever they stand, so that ties in a ranking are exact: `product` and what
        treats every row alike do that.
        """

    @abstractmethod
    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        """The score (B,) of each query with the entity of the same number; differentiable."""

    def pull(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of Σ upstream · scores, upstream being (B, n), by queries and by entity rows."""
        return _by_autograd(self.scores, upstream, q, rows)

    def pull_pairs(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of Σ upstream · pairs, upstream being (B,), by queries and by entity rows."""
        return _by_autograd(self.pairs, upstream, q, rows)

    def points(self, rows: Tensor) -> Tensor:
        """The vectors of entities, without the columns behind them."""
        return rows[..., : rows.shape[-1] - self.columns] if self.columns else rows

    def __repr__(self) -> str:
        return f"<link {self.name}>"


class Dot(Link):
    """q · t."""

    name = "dot"

    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        return q @ rows.T

    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        return (q * rows).sum(dim=1)

    def pull(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return upstream @ rows, upstream.T @ q

    def pull_pairs(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return upstream[:, None] * rows, upstream[:, None] * q


class LiftedLink(Link):
    """A link that is a dot product of longer rows, plus a number for each query.

    Training then runs the paths of the dot product, for it needs the gradient of that product only and the number for
    each query drops out of a softmax.
    """

    @abstractmethod
    def lift_queries(self, q: Tensor) -> Tensor:
        """The longer queries (B, w)."""

    @abstractmethod
    def lift_rows(self, rows: Tensor) -> Tensor:
        """The longer entity rows (n, w)."""

    def offset(self, q: Tensor) -> Tensor:
        """The number for each query, (B,)."""
        return q.new_zeros(len(q))

    def pull_queries(self, upstream: Tensor, q: Tensor) -> Tensor:
        """The gradient by queries, from that by longer queries."""
        return _gradient(self.lift_queries, upstream, q)

    def pull_rows(self, upstream: Tensor, rows: Tensor) -> Tensor:
        """The gradient by entity rows, from that by longer rows."""
        return _gradient(self.lift_rows, upstream, rows)

    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        return product(self.lift_queries(q), self.lift_rows(rows)) + self.offset(q)[:, None]

    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        return (self.lift_queries(q) * self.lift_rows(rows)).sum(dim=1) + self.offset(q)

    def pull(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        dq = self.pull_queries(upstream @ self.lift_rows(rows), q) + _gradient(self.offset, upstream.sum(dim=1), q)
        return dq, self.pull_rows(upstream.T @ self.lift_queries(q), rows)


@dataclass(frozen=True, repr=False)
class Affine(LiftedLink):
    """q · t + e(t): with `square` it is -|q - t|², with `bias` a number stored behind the entity's vector is added."""

    name: str
    square: bool = False
    bias: bool = False

    @property
    def columns(self) -> int:  # type: ignore[override]
        return int(self.bias)

    def lift_queries(self, q: Tensor) -> Tensor:
        return torch.cat([2 * q if self.square else q, q.new_ones(len(q), 1)], dim=1)

    def lift_rows(self, rows: Tensor) -> Tensor:
        points = self.points(rows)
        term = -points.square().sum(dim=1, keepdim=True) if self.square else None
        if self.bias:
            term = rows[:, -1:] if term is None else term + rows[:, -1:]
        assert term is not None, "an affine link has a square, a bias or both"
        return torch.cat([points, term], dim=1)

    def offset(self, q: Tensor) -> Tensor:
        return -q.square().sum(dim=1) if self.square else super().offset(q)

    def pull_queries(self, upstream: Tensor, q: Tensor) -> Tensor:  # noqa: ARG002
        return 2 * upstream[:, :-1] if self.square else upstream[:, :-1]

    def pull_rows(self, upstream: Tensor, rows: Tensor) -> Tensor:
        of_points, of_term = upstream[:, :-1], upstream[:, -1:]
        if self.square:
            of_points = torch.addcmul(of_points, self.points(rows), of_term, value=-2)
        return torch.cat([of_points, of_term], dim=1) if self.bias else of_points


class Euclidean(Link):
    """-|q - t|, the root of squares: the link of TransE as published. The root is taken of |q - t|² + SOFTENED."""

    name = "l2"

    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        squared = product(q * -2, rows) + q.square().sum(dim=1)[:, None] + rows.square().sum(dim=1)
        return -(squared.clamp(min=0) + SOFTENED).sqrt()

    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        return -((q - rows).square().sum(dim=1) + SOFTENED).sqrt()

    def pull(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        weight = upstream / self.scores(q, rows)
        dq = torch.addcmul(-(weight @ rows), weight.sum(dim=1)[:, None], q)
        return dq, torch.addcmul(-(weight.T @ q), weight.sum(dim=0)[:, None], rows)


class Manhattan(Link):
    """-Σ |q_j - t_j|, a sum over coordinates that no product gives."""

    name = "l1"

    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        if q.dtype == torch.bfloat16:  # cdist has no kernel for it
            return -torch.cdist(q.float(), rows.float(), p=1).bfloat16()
        return -torch.cdist(q, rows, p=1)

    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        return -(q - rows).abs().sum(dim=1)

    def pull(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """One coordinate after the other: memory for one more tile of scores, and sums in a fixed order."""
        dq, drows = torch.empty_like(q), torch.empty_like(rows)
        for j in range(q.shape[1]):
            slopes = torch.sign(rows[:, j] - q[:, j, None]).mul_(upstream)
            torch.sum(slopes, dim=1, out=dq[:, j])
            torch.sum(slopes, dim=0, out=drows[:, j])
        return dq, drows.neg_()


class Hyperplane(Link):
    """-|p - (t - (w·t) w)|²: the tail is projected on the plane that is orthogonal to w. A query row holds p, then w.

    w has length 1. With two products, p·t and w·t, this is 2 p·t - 2 (p·w)(w·t) + (w·t)² - |t|² - |p|².
    """

    name = "hyperplane"
    query_parts = 2

    def scores(self, q: Tensor, rows: Tensor) -> Tensor:
        p, w = q.chunk(2, dim=1)
        along = product(w, rows)
        off_plane = (p * w).sum(dim=1)[:, None]
        constant = p.square().sum(dim=1)[:, None] + rows.square().sum(dim=1)
        return product(2 * p, rows) + along * (along - 2 * off_plane) - constant

    def pairs(self, q: Tensor, rows: Tensor) -> Tensor:
        p, w = q.chunk(2, dim=1)
        along, off_plane = (w * rows).sum(dim=1), (p * w).sum(dim=1)
        constant = p.square().sum(dim=1) + rows.square().sum(dim=1)
        return 2 * (p * rows).sum(dim=1) + along * (along - 2 * off_plane) - constant

    def pull(self, upstream: Tensor, q: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        p, w = q.chunk(2, dim=1)
        off_plane = (p * w).sum(dim=1)[:, None]
        along = product(w, rows).mul_(upstream)
        of_rows, of_along, total = upstream @ rows, along.sum(dim=1)[:, None], upstream.sum(dim=1)[:, None]
        dp = of_rows - of_along * w - total * p
        dw = along @ rows - off_plane * of_rows - of_along * p
        drows = upstream.T @ (p - off_plane * w) + along.T @ w
        drows.addcmul_(upstream.sum(dim=0)[:, None], rows, value=-1)
        return 2 * torch.cat([dp, dw], dim=1), 2 * drows


DOT = Dot()
BIAS = Affine("dot-bias", bias=True)
SQUARED = Affine("squared", square=True)
SQUARED_BIAS = Affine("squared-bias", square=True, bias=True)
L2 = Euclidean()
L1 = Manhattan()
HYPERPLANE = Hyperplane()

LINKS: MappingProxyType[str, Link] = MappingProxyType(
    {link.name: link for link in (DOT, BIAS, SQUARED, SQUARED_BIAS, L2, L1, HYPERPLANE)}
)
"""The built-in links by name. Other packages add theirs in the entry-point group conjoin.links."""


class LinkNames(Collection[str]):
    """The names of links whose query is one vector, for options of forms. Includes links of other packages.

    >>> "l2" in LinkNames(), list(LinkNames())[:2]
    (True, ['dot', 'dot-bias'])
    """

    def __iter__(self) -> Iterator[str]:
        built_in = (name for name, link in LINKS.items() if link.query_parts == 1)
        return iter(dict.fromkeys([*built_in, *plugins.names("link")]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))


def link_named(name: str) -> Link:
    """A built-in link or one that another package has announced.

    >>> link_named("squared")
    <link squared>
    """
    if name in LINKS:
        return LINKS[name]
    if name not in plugins.names("link"):
        raise unknown("link", name, [*LINKS, *plugins.names("link")])
    value = plugins.load_plugin("link", name)
    if not isinstance(value, Link):
        raise plugins.broken("link", name, f"it is {type(value).__name__}, not a Link")
    if value.name != name:
        raise plugins.broken("link", name, f"its own name is {value.name}")
    return value


def product(q: Tensor, rows: Tensor) -> Tensor:
    """q · t of all queries (B, w) and rows (n, w), as (B, n), rounded alike for equal rows.

    On a CPU the rows stand first: there a matrix library rounds a row of the first factor alike wherever it stands,
    while columns at the ragged end of a block may be rounded otherwise.
    """
    return q @ rows.T if rows.is_cuda else (rows @ q.T).T


def _by_autograd(
    formula: Callable[[Tensor, Tensor], Tensor], upstream: Tensor, q: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaves = q.detach().requires_grad_(), rows.detach().requires_grad_()
        of_q, of_rows = torch.autograd.grad(formula(*leaves), leaves, upstream)
    return of_q, of_rows


def _gradient(formula: Callable[[Tensor], Tensor], upstream: Tensor, x: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        result = formula(leaf)
        if not result.requires_grad:
            return torch.zeros_like(x)
        (found,) = torch.autograd.grad(result, leaf, upstream)
    return found
