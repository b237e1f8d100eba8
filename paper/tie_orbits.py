"""All ways to tie half of {a, b, c, d}, and which of them are the same model.

Two of the four slots are derived from the other two, each by ±x or ±conj(x): 384 texts. Which slot of a tied pair is
called stored does not matter, which leaves 112 different sets of matrices (a, b, c, d). The published reading,

    q = conj(a h + b) · (c h + d) / |c h + d|,    score(t) = Re Σ q conj(t),

has a symmetry that leaves 39. For unit numbers u, v turn every entity x into v x and every relation into

    a → u v⁻¹ a,    b → u b,    c → u c,    d → u v d.

Then top → u top and down → u v down, so q → v q, and no score changes. Moduli do not change either, so neither do the
penalty and the law of the start. A tie y = ±x becomes y = ± (w_y / w_x) x and y = ±conj(x) becomes y = ± w_y w_x
conj(x), where w are the four factors above: where these are signs again, two ties are two names for one model. Only
signs can change in this way; conjugating all entities and slots changes no tie at all. u and v with u⁸ = v⁴ = 1 reach
every sign that can be reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import name_of
from conjoin.forms.ties import Tie

SLOTS = FiveStar.SLOTS
EIGHTHS = 8
"""Angles are counted in eighths of a full turn: u⁸ = 1."""
QUARTER = 2


@dataclass(frozen=True)
class Turn:
    """The symmetry for u = e^(2πi relation/8) and v = e^(2πi entity/8), `entity` a multiple of 2."""

    relation: int
    entity: int

    def eighths(self, slot: str) -> int:
        """The factor of a slot, as an angle in eighths of a full turn."""
        return self.relation + {"a": -1, "b": 0, "c": 0, "d": 1}[slot] * self.entity

    def carry(self, form: FiveStar) -> FiveStar | None:
        """The form with the same scores after this turn; None where a factor other than ±1 stands in a tie."""
        carried: dict[str, Tie] = {}
        for slot, tie in form.ties.items():
            if tie.slot is None:
                carried[slot] = tie
                continue
            way = 1 if tie.conjugated else -1
            angle = (self.eighths(slot) + way * self.eighths(tie.slot)) % EIGHTHS
            if angle % (EIGHTHS // 2):
                return None
            carried[slot] = -tie if angle else tie
        return FiveStar(**carried, quotient=form.quotient, penalty=form.penalty)


TURNS = tuple(Turn(relation, entity) for relation in range(EIGHTHS) for entity in range(0, EIGHTHS, QUARTER))


def texts() -> Iterator[FiveStar]:
    """Every way to derive two slots from the other two: 384 values, many of them the same set of matrices."""
    signs = [Tie("", conjugated=bool(c), negated=bool(n)) for c, n in product((0, 1), repeat=2)]
    for derived in combinations(SLOTS, 2):
        stored = [slot for slot in SLOTS if slot not in derived]
        for sources in product(stored, repeat=2):
            for shapes in product(signs, repeat=2):
                ties = {
                    slot: Tie(source, shape.conjugated, shape.negated)
                    for slot, source, shape in zip(derived, sources, shapes, strict=True)
                }
                yield FiveStar(**ties, quotient="phase", penalty="full")


def canonical(form: FiveStar) -> FiveStar:
    """The text in which, of slots that are tied together, the first owns the numbers."""
    ties: dict[str, Tie] = {}
    groups: dict[str, list[str]] = {}
    for slot in SLOTS:
        source = form.ties[slot].slot if slot in form.ties else slot
        groups.setdefault(str(source), []).append(slot)
    for source, members in groups.items():
        first = members[0]
        base = form.ties.get(first, Tie(source))
        for slot in members[1:]:
            tie = form.ties.get(slot, Tie(source))
            # x = ±conj?(s) has the inverse s = ±conj?(x) with the same sign and bar, so bars and signs add up.
            ties[slot] = Tie(first, base.conjugated != tie.conjugated, base.negated != tie.negated)
    return FiveStar(**ties, quotient=form.quotient, penalty=form.penalty)


def halvings() -> tuple[FiveStar, ...]:
    """The 112 different sets of matrices, pairs before triples."""
    return tuple(sorted({canonical(form) for form in texts()}, key=_order))


def orbit(form: FiveStar) -> frozenset[FiveStar]:
    """All forms with the scores of this one, itself included."""
    reached = (turn.carry(form) for turn in TURNS)
    return frozenset(found for found in reached if found is not None)


def representatives() -> tuple[FiveStar, ...]:
    """One form of every orbit: the one that has a name, else the one with the fewest minus signs."""
    chosen = {min(orbit(form), key=_order) for form in halvings()}
    return tuple(sorted(chosen, key=_order))


def paired_ties(form: FiveStar) -> bool:
    """Do the slots share numbers two by two? Else three share theirs and one owns its own."""
    return len({tie.slot for tie in form.ties.values()}) == len(form.ties)


def sees_small_entities(form: FiveStar) -> bool:
    """Can d be nothing while b and c are not? In the published reading that decides what a small entity can say.

    If so, d = 0 gives q = conj(b) (c/|c|) (h/|h|) + O(|a h|): however small h is, its direction turns the query. If
    not, q stays within 3 M |h| of its value at h = 0, with M the largest modulus of a slot: |b c h/d| is at most M |h|
    because d has the modulus of b or of c.
    """
    source = {slot: form.ties[slot].slot if slot in form.ties else slot for slot in SLOTS}
    return None not in (source["b"], source["c"]) and source["d"] not in (source["b"], source["c"])


def _order(form: FiveStar) -> tuple[bool, bool, int, str]:
    return not paired_ties(form), name_of(form) is None, sum(tie.negated for tie in form.ties.values()), str(form)
