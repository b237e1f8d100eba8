"""A recipe: everything about learning that changes the numbers. Does not import torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, NoReturn

from conjoin.errors import UsageError, did_you_mean, unknown

OptimizerName = Literal["adagrad", "adam", "sgd"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("adagrad", "adam", "sgd")
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: dict[str, str] = {
    "fp32": "full float32 products: the default of a Recipe, the same on every device",
    "tf32": "products with 10-bit mantissas and float32 sums: several times faster on NVIDIA cards since Ampere",
    "bf16": "products with 7-bit mantissas, float32 sums and weights: what `conjoin train` takes on those cards; on "
    "a CPU that has them, for gradients only",
}
MOST = 2**31 - 1
"""The largest value of a count. More steps than any training can do; fits an int32 array."""
TargetWeights = Literal["none", "degree"]
TARGET_WEIGHTS: tuple[TargetWeights, ...] = ("none", "degree")
OWN_SETTINGS = ("nll", "n3", "f2")
"""Terms that have a setting in every recipe; `terms` must not name them."""
RENAMED = {"together": "group_queries"}
"""Earlier names of settings. Stored runs and files may use them, and run ids are computed from them."""
LARGEST = 3.4e38
"""The upper bound of real settings: larger numbers overflow float32."""


class TermWeights(dict[str, float]):
    """Weights of terms by name: sorted, without zeros, and fixed, so that it has a hash.

    >>> TermWeights({"dura-w": 0.1, "dura": 0})
    {'dura-w': 0.1}
    """

    def __init__(self, weights: Any = ()) -> None:
        try:
            given = dict(weights)
        except (TypeError, ValueError) as error:
            raise UsageError(f"terms = {weights!r} must map names to weights, such as {{'dura': 0.1}}.") from error
        checked = {}
        for name, weight in given.items():
            if not isinstance(name, str) or not name:
                raise UsageError(f"terms has the name {name!r}. The name of a term is text, such as 'dura'.")
            if name in OWN_SETTINGS:
                raise UsageError(f"{name} is not a name for terms. Set n3 and f2 by themselves (--n3, --f2).")
            checked[name] = _plain(f"terms.{name}", weight, float)
            if not 0 <= checked[name] < LARGEST:
                raise UsageError(f"terms.{name} = {weight} must be finite and not negative, below {LARGEST:.2g}.")
        super().__init__(sorted((name, weight) for name, weight in checked.items() if weight))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

    def __reduce__(self) -> tuple[type[TermWeights], tuple[dict[str, float]]]:
        return TermWeights, (dict(self),)

    def _fixed(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("The terms of a recipe cannot be changed. Use dataclasses.replace to make another recipe.")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _fixed


NO_TERMS = TermWeights()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model learns: softmax over all entities, both directions.

    The defaults do not depend on the graph or the device. `conjoin train` chooses batch, penalty and precision by
    graph, form and device instead (`conjoin.training.presets.settings_for`).
    `batch` counts queries; every fact gives two. `optimizer` is adagrad, adam or sgd.
    `precision` is the precision of the factors of products: fp32, tf32 or bf16. Weights and sums are always float32.
    `negatives` > 0 samples the softmax: a batch is compared with this number of entities instead of all. They are
    drawn in proportion to (1 + number of facts)^`negatives_power`; 0 is uniform. Ranking stays exact.
    `group_queries` > 1 puts up to this number of examples with the same head and relation next to each other in the
    order of an epoch, because a CPU scores a query once for all its answers in a batch.
    `n3` and `f2` weigh the cubic and the quadratic penalty on the factors of a batch; `terms` weighs other terms of the
    objective by name, such as {"dura": 0.1} (`conjoin.training.terms.TERMS`). `target_weights` = "degree" weighs the
    loss of an example by .1 + .9 · degree / largest degree of its target. `initial_scale` is used for the model
    of a run (`execute`); for a `Model` made by hand pass `scale` to it. With `validate_every` = n > 0 the validation
    split is ranked every n epochs and the best weights are kept in addition to the last ones; `patience` = n > 0 stops
    after n validations without a better MRR.

    >>> Recipe(epochs=50, n3=0.05).lr
    0.1
    >>> Recipe.from_mapping({"epochs": 50, "n3": 0.05}) == Recipe(epochs=50, n3=0.05)
    True
    >>> Recipe(epochs=50, n3=0.05).identity()
    {'epochs': 50, 'n3': 0.05}
    """

    epochs: int = 100
    batch: int = 1000
    lr: float = 0.1
    n3: float = 0.01
    f2: float = 0.0
    optimizer: OptimizerName = "adagrad"
    initial_scale: float = 1e-3
    precision: Precision = "fp32"
    validate_every: int = 0
    patience: int = 0
    negatives: int = 0
    negatives_power: float = 0.0
    group_queries: int = 1
    terms: Mapping[str, float] = NO_TERMS
    target_weights: TargetWeights = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", TermWeights(self.terms))
        for field in dataclasses.fields(self):
            if field.name == "terms":
                continue
            object.__setattr__(self, field.name, _plain(field.name, getattr(self, field.name), type(field.default)))
        self._check_numbers()
        self._check_choices()

    def _check_numbers(self) -> None:
        least_of = {"epochs": 0, "batch": 1, "validate_every": 0, "patience": 0, "negatives": 0, "group_queries": 1}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise UsageError(f"{name} = {getattr(self, name)} is too small. It must be at least {least}.")
            if getattr(self, name) > MOST:
                raise UsageError(f"{name} is too large. It must be at most {MOST}.")
        for name in ("lr", "initial_scale"):
            if not 0 < getattr(self, name) < LARGEST:
                raise UsageError(f"{name} = {getattr(self, name)} must be positive and finite, below {LARGEST:.2g}.")
        for name in ("n3", "f2", "negatives_power"):
            if not 0 <= getattr(self, name) < LARGEST:
                raise UsageError(
                    f"{name} = {getattr(self, name)} must be finite and not negative, below {LARGEST:.2g}."
                )

    def _check_choices(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, OPTIMIZERS, way_out=f"Choose from {', '.join(OPTIMIZERS)}.")
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS, way_out=f"Choose from {', '.join(PRECISIONS)}.")
        if self.target_weights not in TARGET_WEIGHTS:
            way_out = f"Choose from {', '.join(TARGET_WEIGHTS)}."
            raise unknown("target_weights", self.target_weights, TARGET_WEIGHTS, way_out=way_out)
        if self.negatives_power and not self.negatives:
            raise UsageError(
                f"negatives_power = {self.negatives_power} has no effect without negatives. "
                "Set negatives too (--negatives 1000)."
            )
        if self.patience and not self.validate_every:
            raise UsageError(
                f"patience = {self.patience} counts validations, but there are none. "
                "Set validate_every too (--validate-every 5)."
            )

    def identity(self) -> dict[str, Any]:
        """The settings that differ from their defaults. Ids are computed from them.

        A renamed setting has its first name here, so that ids stay when settings are added or renamed.
        """
        first = {name: old for old, name in RENAMED.items()}
        fields = {field.name: field.default for field in dataclasses.fields(self)}
        changed = {name: value for name, default in fields.items() if (value := getattr(self, name)) != default}
        return {first.get(name, name): value for name, value in changed.items()}

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Recipe:
        """A recipe from a mapping such as parsed TOML or JSON. UsageError for unknown keys and wrong types."""
        known = [field.name for field in dataclasses.fields(cls)]
        values = {}
        for key, value in settings.items():
            name = RENAMED.get(key, key)
            if name not in known:
                raise UsageError(
                    f"A recipe has no setting {key!r}.{did_you_mean(key, known)} Its settings are {', '.join(known)}."
                )
            if name in values:
                raise UsageError(f"{key!r} and {name!r} are the same setting. Keep {name!r}.")
            values[name] = value
        return cls(**values)


def check_recipe(recipe: object) -> None:
    """Raise UsageError unless `recipe` is a Recipe; a mapping of settings is not one."""
    if not isinstance(recipe, Recipe):
        raise UsageError(
            f"The recipe is a {type(recipe).__name__}. It must be a conjoin.Recipe; see Recipe.from_mapping."
        )


def _plain(name: str, value: Any, wanted: type) -> Any:
    """A setting as a plain int, float or str. lr = 1 and lr = 1.0 become equal, so they have the same run id."""
    allowed: type = {int: Integral, float: Real, str: str}[wanted]
    if not isinstance(value, allowed) or isinstance(value, bool):
        raise UsageError(f"{name} = {value!r} has the wrong type. It should be of type {wanted.__name__}.")
    try:
        return wanted(value)
    except OverflowError as error:
        raise UsageError(f"{name} is too large. It must be below {LARGEST:.2g}.") from error
