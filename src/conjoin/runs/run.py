"""A run: everything that determines its numbers, and nothing else. No device, no path, no clock, no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from conjoin.errors import FormError, RunError, UnknownName, UsageError, unknown
from conjoin.graph.graph import Graph
from conjoin.runtime.atomic_files import digest
from conjoin.training.recipe import RENAMED, Recipe, check_recipe

if TYPE_CHECKING:
    from conjoin.forms.base import Form

IDENTITY = 1
"""Part of every id. It stays 1, so that ids stay; the version of the files is in `conjoin.runtime.format_version`."""
Weights = Literal["last", "best"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Frozen and hashable. `data` is only a name for people: the checksum identifies the graph.

    `form` is the form's full text, so that two spellings of one form are one run; `Run.of` takes names too.

    `weights` says which weights the run reports: those of the last epoch, as the paper does, or the best on valid.

    `origin` names what the rows start from: nothing but the seed, or the id and weights of another run.

    >>> graph = Graph.from_triples([("France", "borders", "Spain")], name="tiny")
    >>> run = Run.of(graph, "5star-conj", rank=8, recipe=Recipe(epochs=5))
    >>> run.form, run.title == f"tiny-5star-conj-{run.id[:8]}"
    ('FiveStar(c=conj(b), d=conj(a))', True)
    >>> Run.from_json(run.to_json()) == run
    True
    """

    data: str
    checksum: str
    form: str
    rank: int
    recipe: Recipe
    seed: int = 0
    weights: Weights = "last"
    origin: str = ""

    def __post_init__(self) -> None:
        for field in ("data", "checksum", "form", "origin", "rank", "seed"):
            kind = int if field in ("rank", "seed") else str
            if type(getattr(self, field)) is not kind:
                raise UsageError(f"{field} = {getattr(self, field)!r} should be of type {kind.__name__}")
        check_recipe(self.recipe)
        if self.weights not in get_args(Weights):
            raise unknown("weights", self.weights, get_args(Weights), way_out="Choose last or best.")
        if self.weights == "best" and not self.recipe.validate_every:
            raise UsageError(
                "weights = best needs the MRR of validations, but there are none. "
                "Set validate_every too (--validate-every 5)."
            )

    @classmethod
    def of(
        cls,
        graph: Graph,
        form: Form | str,
        *,
        rank: int,
        recipe: Recipe,
        seed: int = 0,
        weights: Weights = "last",
        origin: str = "",
    ) -> Run:
        """The run of a form, by name, text or value, on a graph."""
        found = _found_by_text(form)
        run = cls(
            data=graph.name,
            checksum=graph.checksum,
            form=str(found),
            rank=rank,
            recipe=recipe,
            seed=seed,
            weights=weights,
            origin=origin,
        )
        found.check_rank(rank)
        return run

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that name these settings on this graph.

        Settings left at their defaults do not count, and a renamed setting counts by its first name: a run keeps its id
        when settings are added or renamed later.
        """
        earlier = {name: old for old, name in RENAMED.items()}
        recipe = {earlier.get(name, name): value for name, value in _changed(self.recipe).items()}
        identity = {**_changed(self), "recipe": recipe, "format": IDENTITY}
        del identity["data"]
        return digest(identity)[:16]

    @property
    def title(self) -> str:
        """A folder's name: data, form and the start of the id."""
        from conjoin.forms.notation import parse, short

        words = f"{self.data}-{short(parse(self.form))}"
        readable = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in words)
        return f"{readable[:60].strip('._')}-{self.id[:8]}"

    def to_json(self) -> dict[str, Any]:
        """The settings as they are kept in run.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Run:
        """The inverse of `to_json`; refuses what it does not know."""
        try:
            return cls(**{**stored, "recipe": Recipe.from_mapping(stored["recipe"])})
        except (TypeError, KeyError, AttributeError) as error:
            raise RunError(f"these are not the settings of a run: {error}") from error


def _found_by_text(form: Form | str) -> Form:
    """The form that its text stands for: a run keeps no more of it."""
    from conjoin.forms.notation import parse

    try:
        found = parse(str(form))
    except UnknownName:
        if isinstance(form, str):
            raise
        found = None
    if found is None or (not isinstance(form, str) and found != form):
        raise FormError(
            f"a run keeps its form as text, and {form} does not lead back to yours: "
            "announce its family, under a name of its own, as an entry point of conjoin.forms"
        )
    return found


def _changed(settings: Run | Recipe) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    return {f.name: value for f in dataclasses.fields(settings) if (value := getattr(settings, f.name)) != f.default}
