"""Names and text of forms: `form("5star-conj")`, `form("FiveStar(c=conj(b), d=conj(a), quotient=mobius)")`."""

from __future__ import annotations

import re
from dataclasses import replace
from inspect import isabstract
from types import MappingProxyType
from typing import Any

from conjoin.errors import FormError, did_you_mean, unknown
from conjoin.forms.base import Form
from conjoin.forms.complex import ComplEx
from conjoin.forms.distmult import DistMult
from conjoin.forms.five_star import FiveStar
from conjoin.forms.pair import Pair
from conjoin.forms.ties import Tie, conj, zero
from conjoin.forms.transe import TransE
from conjoin.forms.transh import TransH
from conjoin.runtime import plugins

FAMILIES: dict[str, type[Form]] = {
    family.__name__: family for family in (ComplEx, FiveStar, Pair, DistMult, TransE, TransH)
}
"""The built-in families. Each is also a named form: itself with its defaults, unless FORMS names that already."""

_TIED: dict[str, Form] = {
    "complex": ComplEx(),
    "complex-conj": ComplEx(a2=conj("a1")),
    "complex-twin": ComplEx(a2=Tie("a1")),
    "5star": FiveStar(),
    "5star-conj": FiveStar(c=conj("b"), d=conj("a")),
    "5star-neg": FiveStar(c=-conj("b"), d=conj("a")),
    "5star-vert": FiveStar(c=conj("a"), d=conj("b")),
    "5star-horiz": FiveStar(b=conj("a"), d=conj("c")),
    "5star-twin": FiveStar(c=Tie("b"), d=Tie("a")),
    "5star-halfreg": FiveStar(penalty="half"),
    "pair": Pair(),
    "quate": Pair(c=-conj("b"), d=conj("a"), unit="true"),
}
FORMS: MappingProxyType[str, Form] = MappingProxyType(
    {
        **_TIED,
        **{name.casefold(): made for name, family in FAMILIES.items() if (made := family()) not in _TIED.values()},
        "transe-squared": TransE(distance="squared"),
    }
)
"""The named forms."""

SYMBOLS: MappingProxyType[str, str] = MappingProxyType(
    {
        "complex": "ComplEx",
        "complex-conj": "Complεx",
        "5star": "5★E",
        "5star-conj": "5★ε",
        "5star-neg": "5★ε_n",
        "5star-vert": "5★ε_v",
        "5star-horiz": "5★ε_h",
        "5star-halfreg": "5★E_r",
        "quate": "QuatE",
    }
)
"""The symbols of the paper for named forms."""

LONGEST = 500

_SHAPE = re.compile(r"\s*(?P<name>[\w★-]+)\s*(?:\(\s*(?P<body>.*?)\s*\)\s*)?", re.DOTALL)
_ITEM = re.compile(r"\s*(?P<key>\w+)\s*=\s*(?P<value>[^,=]+?)\s*")
_EXPRESSION = re.compile(r"(?P<sign>-?)\s*(?:conj\(\s*(?P<conjugated>\w+)\s*\)|(?P<plain>\w+))")


def form(text: str | Form, *, quotient: str | None = None, layout: str | None = None) -> Form:
    """A form from its name or its text. Options given here override options in the text.

    >>> str(form("5star-conj", quotient="mobius"))
    'FiveStar(c=conj(b), d=conj(a), quotient=mobius)'
    """
    value = text if isinstance(text, Form) else parse(text)
    for option, choice in (("quotient", quotient), ("layout", layout)):
        if choice is not None:
            value = _replace(value, {option: choice})
    return value


def name_of(value: Form) -> str | None:
    """The name of a form that has one."""
    return next((name for name, named in FORMS.items() if named == value), None)


def short(value: Form) -> str:
    """The name of a form, or its text where it has none."""
    return name_of(value) or str(value)


def parse(text: str) -> Form:
    """The inverse of `str(form)`; a named form may stand in the family's place: `5star-conj(quotient=mobius)`."""
    if len(text) > LONGEST:
        raise FormError(f"The form has {len(text)} characters; at most {LONGEST} are allowed.")
    shape = _SHAPE.fullmatch(text)
    if not shape:
        raise FormError(f"Cannot read the form {text!r}. Write a name such as 5star-conj, or {_EXAMPLE}.")
    return _replace(_base(shape["name"]), _items(shape["body"] or "", text))


_EXAMPLE = "FiveStar(c=conj(b), d=conj(a), quotient=mobius)"


def _base(name: str) -> Form:
    folded = {known.casefold(): value for known, value in FORMS.items()}
    folded |= {symbol.casefold(): FORMS[known] for known, symbol in SYMBOLS.items()}
    families = {known.casefold(): family for known, family in FAMILIES.items()}
    if name.casefold() in families:
        return families[name.casefold()]()
    if name.casefold() in folded:
        return folded[name.casefold()]
    announced = plugins.names("form")
    for known in announced:
        if known.casefold() == name.casefold():
            return plugin_forms(known)
    raise unknown("form", name, [*FORMS, *FAMILIES, *announced], way_out="`conjoin forms` lists them all.")


def plugin_forms(name: str) -> Form:
    """The form that another package has announced as `name`: a value, or a family, which becomes its default value.

    Runs store a form as text, so a family must be announced under its own name.
    """
    value = plugins.load_plugin("form", name)
    if isinstance(value, type) and issubclass(value, Form) and not isabstract(value):
        if value.__name__ != name:
            raise plugins.broken("form", name, f"a family is announced under its own name, {value.__name__}")
        if value.__name__ in FAMILIES:
            raise plugins.broken("form", name, "that family is built in")
        return value()
    if not isinstance(value, Form):
        raise plugins.broken("form", name, f"it is {type(value).__name__}, not a form")
    family = FAMILIES.get(value.family) or (
        plugins.load_plugin("form", value.family) if value.family in plugins.names("form") else None
    )
    if family is not type(value):
        raise plugins.broken("form", name, f"its family is not announced: add {value.family} to conjoin.forms")
    return value


def _items(body: str, text: str) -> dict[str, str]:
    items: dict[str, str] = {}
    for part in body.split(",") if body else []:
        item = _ITEM.fullmatch(part)
        if not item:
            raise FormError(f"Cannot read {part.strip()!r} in {text!r}. Write slot=expression or option=value.")
        if item["key"] in items:
            raise FormError(f"{item['key']} is given twice in {text!r}. Give it once.")
        items[item["key"]] = item["value"]
    return items


def _replace(base: Form, items: dict[str, str]) -> Form:
    changes: dict[str, Any] = {}
    for key, value in items.items():
        if key in base.SLOTS:
            changes[key] = _tie(value)
        elif key in base.CHOICES:
            changes[key] = value
        else:
            known = [*base.SLOTS, *base.CHOICES]
            owners = [name for name, other in FAMILIES.items() if key in (*other.SLOTS, *other.CHOICES)]
            hint = f" {' and '.join(owners)} forms have it." if owners else did_you_mean(key, known)
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise FormError(f"{base.family} has no slot or option {key!r}. {has}{hint}")
    return replace(base, **changes)


def _tie(text: str) -> Tie:
    if text == "0":
        return zero
    match = _EXPRESSION.fullmatch(text)
    if not match:
        raise FormError(f"Cannot read the tie {text!r}. Write conj(x), -conj(x), x, -x or 0, with x a stored slot.")
    tie = conj(match["conjugated"]) if match["conjugated"] else Tie(match["plain"])
    return -tie if match["sign"] else tie
