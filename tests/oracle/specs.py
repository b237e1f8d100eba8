"""Forms as the mathematics writes them: a family, expressions for the tied slots, options. Knows nothing of conjoin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

SLOTS = {"ComplEx": ("a1", "a2"), "FiveStar": ("a", "b", "c", "d"), "Pair": ("a", "b", "c", "d")}
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "ComplEx": {"layout": ("proper", "published")},
    "FiveStar": {"quotient": ("phase", "mobius", "aligned"), "penalty": ("full", "half")},
    "Pair": {"unit": ("false", "true")},
}
EXPRESSIONS = ("conj({})", "-conj({})", "{}", "-{}", "0")


@dataclass(frozen=True)
class Spec:
    """`ties` maps a slot to the text of its expression; `options` holds what differs from the first choice."""

    family: str
    ties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def stored(self) -> tuple[str, ...]:
        return tuple(slot for slot in SLOTS[self.family] if slot not in self.ties)

    @property
    def halves(self) -> bool:
        return self.family != "FiveStar"

    def option(self, name: str) -> str:
        return self.options.get(name, CHOICES[self.family][name][0])

    def relation_width(self, rank: int) -> int:
        return 2 * len(self.stored) * (rank // 2 if self.halves else rank)

    def text(self) -> str:
        """What a person would type, slots in their order and defaults left out."""
        ties = [f"{slot}={self.ties[slot]}" for slot in SLOTS[self.family] if slot in self.ties]
        wanted = {name: self.option(name) for name in CHOICES[self.family]}
        options = [f"{name}={v}" for name, v in wanted.items() if v != CHOICES[self.family][name][0]]
        return f"{self.family}({', '.join(ties + options)})"

    def reading(self, quotient: str) -> Spec:
        return Spec(self.family, self.ties, {**self.options, "quotient": quotient})


NAMED = {
    "complex": Spec("ComplEx"),
    "complex-conj": Spec("ComplEx", {"a2": "conj(a1)"}),
    "complex-twin": Spec("ComplEx", {"a2": "a1"}),
    "5star": Spec("FiveStar"),
    "5star-conj": Spec("FiveStar", {"c": "conj(b)", "d": "conj(a)"}),
    "5star-neg": Spec("FiveStar", {"c": "-conj(b)", "d": "conj(a)"}),
    "5star-vert": Spec("FiveStar", {"c": "conj(a)", "d": "conj(b)"}),
    "5star-horiz": Spec("FiveStar", {"b": "conj(a)", "d": "conj(c)"}),
    "5star-twin": Spec("FiveStar", {"c": "b", "d": "a"}),
    "5star-halfreg": Spec("FiveStar", {}, {"penalty": "half"}),
    "pair": Spec("Pair"),
    "quate": Spec("Pair", {"c": "-conj(b)", "d": "conj(a)"}, {"unit": "true"}),
}
TIED_FIVE_STARS = ("5star-conj", "5star-neg", "5star-vert", "5star-horiz", "5star-twin")


def every_spec() -> dict[str, Spec]:
    """Every named form in every reading and layout it has."""
    found = dict(NAMED)
    for name, spec in NAMED.items():
        if spec.family == "FiveStar":
            readings = ("aligned",) if name == "5star-halfreg" else ("aligned", "mobius")
            found |= {f"{name}/{quotient}": spec.reading(quotient) for quotient in readings}
        if spec.family == "ComplEx":
            found[f"{name}/published"] = Spec("ComplEx", spec.ties, {"layout": "published"})
    found["pair/unit"] = Spec("Pair", {}, {"unit": "true"})
    return found


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Any tie pattern with any options that go together."""
    family = draw(st.sampled_from(sorted(SLOTS)))
    slots = SLOTS[family]
    stored = draw(st.lists(st.sampled_from(slots), min_size=1, max_size=len(slots), unique=True))
    expression = st.builds(str.format, st.sampled_from(EXPRESSIONS), st.sampled_from(stored))
    ties = {slot: draw(expression) for slot in slots if slot not in stored}
    options = {name: draw(st.sampled_from(choices)) for name, choices in CHOICES[family].items()}
    if options.get("quotient") == "mobius":
        options["penalty"] = "full"
    return Spec(family, ties, options)
