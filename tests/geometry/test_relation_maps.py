"""The map of a trained coordinate is what the model computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.forms.form_strategies import values_of
from tests.geometry.trained import graph, model

from conjoin.errors import UsageError
from conjoin.forms.base import Form
from conjoin.forms.five_star import FiveStar
from conjoin.forms.planar import Z
from conjoin.forms.tied import Slots
from conjoin.geometry.mobius import chordal, points_of
from conjoin.geometry.relation_maps import RelationMaps, best_head, reading_of, symbol
from conjoin.model.model import Model

EVERYONE = list(range(12))


@pytest.mark.parametrize("form", ["5star", "5star-conj", "5star-neg", "5star-vert", "5star-horiz", "complex-conj"])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_the_map_moves_heads_to_queries(form: str, r: int) -> None:
    text = form if form.startswith("complex") else f"{form}(quotient=mobius)"
    own, net = graph(), model(text)
    moves = RelationMaps(net, own, r)
    ids = torch.arange(12)
    query = net.query(ids, torch.full_like(ids, r)).numpy()
    expected = query[:, : net.rank] + 1j * query[:, net.rank :]
    for i in range(len(moves)):
        found = values_of(moves.map(i)(moves.places(i, EVERYONE)))
        slots = net.form.unfold(net.relations[r : r + 1])
        if "c" in slots:  # the model's denominator is |down|² + 0.001
            c, d = (complex(slots[s].re[0, i], slots[s].im[0, i]) for s in "cd")
            down = np.abs(c * values_of(moves.places(i, EVERYONE)) + d) ** 2
            found = found * down / (down + 1e-3)
        assert np.allclose(found, expected[:, i])


@pytest.mark.parametrize("form", ["pair", "quate"])
def test_pairs_move_as_ratios(form: str) -> None:
    own, net = graph(), model(form)
    moves = RelationMaps(net, own, 0)
    assert len(moves) == 3
    ids = torch.arange(12)
    query = net.query(ids, torch.zeros_like(ids)).numpy()
    z = query[:, :6] + 1j * query[:, 6:]
    for i in range(3):
        found = moves.map(i)(moves.places(i, EVERYONE))
        assert chordal(found, np.stack([z[:, i], z[:, i + 3]], axis=-1)).max() < 1e-9
        assert moves.map(i).turns_rigidly == (form == "quate")


@pytest.mark.parametrize("quotient", ["phase", "aligned"])
def test_other_quotients_are_drawn_only_with_as_mobius(quotient: str) -> None:
    own, net = graph(), model(f"5star-neg(quotient={quotient})")
    with pytest.raises(UsageError, match=f"quotient={quotient}"):
        RelationMaps(net, own, 0)
    moves = RelationMaps(net, own, 0, as_mobius=True)
    assert "another function" in moves.reading.note
    slots = net.form.unfold(net.relations[:1])
    stored = [complex(slots[s].re[0, 2], slots[s].im[0, 2]) for s in "abcd"]
    assert np.allclose(moves.matrices[2].ravel(), stored)
    assert moves.map(2).turns_rigidly
    assert reading_of(net.form).drawn is None


@dataclass(frozen=True, kw_only=True)
class Doubled(FiveStar):
    """A family with another formula than the built-in families, as a package may add it."""

    def apply(self, h: Z, slots: Slots) -> Z:
        q = super().apply(h, slots)
        return q * q


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Doubled(quotient="mobius"), "Doubled"),
        (Doubled(), "Doubled"),
        ("complex-conj(layout=published)", "layout=published|layout='published'"),
    ],
)
def test_forms_without_a_mobius_map_are_refused(form: Form | str, value: str) -> None:
    with pytest.raises(UsageError, match=value):
        RelationMaps(Model(form, 12, 2, rank=6), graph(), 0, as_mobius=True)


def test_weights_are_parts_of_the_score_and_the_strongest_comes_first() -> None:
    own, net = graph(), model("5star(quotient=mobius)")
    for r in (0, own.n_relations):
        facts = own.train[own.train[:, 1] == 0]
        heads, tails = (facts[:, 0], facts[:, 2]) if r == 0 else (facts[:, 2], facts[:, 0])
        moves = RelationMaps(net, own, r)
        scores = net.scores(torch.from_numpy(heads.copy()), torch.full((len(heads),), r))
        mean = scores.numpy()[np.arange(len(tails)), tails].mean()
        assert moves.weights.sum() == pytest.approx(mean)
        assert moves.strongest() == int(np.argmax(moves.weights))
    with pytest.raises(UsageError, match="5"):
        moves.map(6)


def test_the_default_coordinate_skips_constant_maps() -> None:
    own, net = graph(), model("5star(quotient=phase)")
    first = RelationMaps(net, own, 0, as_mobius=True).strongest()
    for slot in range(4):  # a = b = c = d: everything goes to one point
        for plane in range(2):
            net.relations[0, plane * 24 + slot * 6 + first] = 1.0
    changed = RelationMaps(net, own, 0, as_mobius=True)
    assert changed.map(first).kind == "constant"
    assert changed.map(changed.strongest()).kind not in ("constant", "identity")


def test_the_entity_is_a_head_far_from_fixed_points() -> None:
    own, net = graph(), model("5star-neg(quotient=mobius)")
    moves = RelationMaps(net, own, 0)
    heads = moves.heads()
    assert set(heads) == set(own.train[own.train[:, 1] == 0][:, 0].tolist())
    chosen = best_head([(moves, 1)])
    room = [min(chordal(moves.places(1, [e])[0], still) for still in moves.map(1).fixed) for e in heads]
    assert chosen == heads[int(np.argmax(room))]


def test_symbols_of_forms() -> None:
    assert symbol(model("5star-neg(quotient=mobius)")) == "5★ε_n"
    assert symbol(model("complex-conj")) == "Complεx"
    assert symbol(model("FiveStar(c=0, quotient=mobius)")).startswith("FiveStar(c=0")
    assert values_of(points_of(0)) == 0
