"""What a trained relation does to each of its coordinates, read as a Möbius map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.complex import ComplEx
from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import SYMBOLS, name_of, short
from conjoin.forms.pair import Pair
from conjoin.forms.tied import TiedForm
from conjoin.geometry.mobius import Complexes, Mobius, Reals, chordal, points_of
from conjoin.graph.graph import Graph
from conjoin.model.model import Model

FACTS = 2_000
"""Training facts of a relation that are enough to tell which coordinates matter."""
HEADS = 20
"""Heads with most facts among which an entity to draw is chosen."""

KNOWN = (ComplEx.apply, FiveStar.apply, Pair.apply)
Drawn = Literal["trained", "mobius"]


@dataclass(frozen=True)
class MapReading:
    """Which map is drawn and how far it is what the model computes. Without `drawn` there is none to draw."""

    drawn: Drawn | None
    note: str


def reading_of(form: Form, *, as_mobius: bool = False) -> MapReading:
    """How a relation of this form is a Möbius map, if it is one."""
    if not isinstance(form, TiedForm) or type(form).apply not in KNOWN:
        return MapReading(None, f"The formula of {form.family} is not known to be a Möbius map.")
    if not form.heads_as_tails:
        return MapReading(
            None, "Heads are read in another layout than tails: a relation does not map entities to entities."
        )
    match form:
        case FiveStar(quotient="mobius"):
            return MapReading("trained", "The model adds 0.001 to |c h + d|²; drawn is the map without it.")
        case FiveStar():
            what = f"This run was trained with quotient={form.quotient}, which is not a Möbius map"
            if as_mobius:
                return MapReading(
                    "mobius", f"{what}. Drawn is the Möbius map of the same a, b, c, d, another function."
                )
            also = ", and conjugates" if form.quotient == "phase" else ""
            return MapReading(None, f"{what}: it divides by the phase of c h + d alone{also}.")
        case ComplEx():
            return MapReading("trained", "x → a x: multiplication, which keeps 0 and ∞ in place.")
        case Pair():
            return MapReading("trained", "The ratio h1/h2 of a pair of coordinates moves by (a x + b)/(c x + d).")
    raise AssertionError(f"{form.family} has the formula of a family, and is of none")


class RelationMaps:
    """One relation of a model, coordinate by coordinate; `r` is n_relations or more for a reciprocal."""

    def __init__(self, model: Model, graph: Graph, r: int, *, as_mobius: bool = False) -> None:
        self.model, self.graph, self.r = model, graph, r
        self.reading = reading_of(model.form, as_mobius=as_mobius)
        if self.reading.drawn is None:
            way_out, form = "", model.form
            if isinstance(form, ComplEx) and form.layout == "published":
                way_out = " Train without layout='published' (--layout published) to draw it."
            elif isinstance(form, FiveStar) and type(form).apply is FiveStar.apply and form.heads_as_tails:
                name = _name(model)
                way_out = (
                    " Add as_mobius=True (--as-mobius) to draw the Möbius map of the same a, b, c, d, or train"
                    f" form({name!r}, quotient='mobius') (--form {name} --quotient mobius)."
                )
            raise UsageError(self.reading.note + way_out)
        assert isinstance(model.form, TiedForm), "only these have a reading"
        self.form: TiedForm = model.form

    def __len__(self) -> int:
        form = self.form
        return form.slot_width(self.model.rank) if isinstance(form, Pair) else self.model.rank

    @cached_property
    def matrices(self) -> Complexes:
        """a, b, c, d of every coordinate, shape (n, 2, 2)."""
        form = self.form
        rows = self.model.relations[self.r : self.r + 1].detach().double().cpu()
        slots = {name: z.re[0].numpy() + 1j * z.im[0].numpy() for name, z in form.unfold(rows).items()}
        if isinstance(form, ComplEx):
            a = np.concatenate([slots["a1"], slots["a2"]])
            flat = [a, np.zeros_like(a), np.zeros_like(a), np.ones_like(a)]
        else:
            flat = [slots[name] for name in "abcd"]
        return np.stack(flat, axis=-1).reshape(-1, 2, 2)

    def map(self, coordinate: int) -> Mobius:
        """The map of one coordinate."""
        if not 0 <= coordinate < len(self):
            raise UsageError(f"Coordinate {coordinate} is out of range. This run has 0 to {len(self) - 1}.")
        return Mobius.of(*self.matrices[coordinate].ravel())

    @cached_property
    def weights(self) -> Reals:
        """How much each coordinate adds to the score of a training fact of the relation, on average, shape (n,)."""
        facts = self._facts[:FACTS]
        if not len(facts):
            return np.zeros(len(self))
        h, t = torch.from_numpy(facts[:, 0].copy()), torch.from_numpy(facts[:, 2].copy())
        device = self.model.device
        with torch.no_grad():
            query = self.model.query(h.to(device), torch.full_like(h, self.r).to(device))
            parts = (query * self.model.entities(t.to(device))).mean(dim=0).double().cpu().numpy()
        return np.asarray(parts.reshape(-1, len(self)).sum(axis=0))

    def strongest(self) -> int:
        """The coordinate that matters most to the relation's facts, among those whose map can be iterated."""
        by_weight = [int(i) for i in np.argsort(-self.weights, kind="stable")]
        moving = (i for i in by_weight if self.map(i).kind not in ("constant", "identity"))
        return next(moving, by_weight[0])

    def places(self, coordinate: int, entities: Sequence[int]) -> Complexes:
        """Where entities lie in a coordinate as heads: points, (n, 2)."""
        ids = torch.as_tensor(entities, device=self.model.device)
        head = self.form.head(self.model.entities(ids).detach().double().cpu())
        x = head.re.numpy() + 1j * head.im.numpy()
        if isinstance(self.form, Pair):
            return np.stack([x[:, coordinate], x[:, coordinate + len(self)]], axis=-1)
        return points_of(x[:, coordinate])

    def heads(self) -> list[int]:
        """The heads of the relation with most facts of it; in a relation without facts the first entities."""
        ids, counts = np.unique(self._facts[:, 0], return_counts=True)
        order = ids[np.argsort(-counts, kind="stable")][:HEADS]
        return order.tolist() if len(order) else list(range(min(HEADS, self.graph.n_entities)))

    @cached_property
    def _facts(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        n = self.graph.n_relations
        facts = self.graph.train[self.graph.train[:, 1] == self.r % n]
        return np.asarray(facts[:, ::-1] if self.r >= n else facts)


def best_head(chosen: Sequence[tuple[RelationMaps, int]]) -> int:
    """The entity, among the frequent heads, that lies farthest from the fixed points in every (relation, coordinate).

    Close to a fixed point there is little motion to see.
    """
    heads = chosen[0][0].heads()
    room = np.full(len(heads), np.inf)
    for moves, coordinate in chosen:
        for still in moves.map(coordinate).fixed:
            room = np.minimum(room, chordal(moves.places(coordinate, heads), still))
    return heads[int(np.argmax(room))]


def symbol(model: Model) -> str:
    """The paper's name of a form, where it has one."""
    name = _name(model)
    return SYMBOLS.get(name, name)


def _name(model: Model) -> str:
    """The form's name, with its reading of the quotient left out."""
    form = model.form
    plain = replace(form, quotient="phase") if isinstance(form, FiveStar) else form
    return name_of(form) or name_of(plain) or short(form)
