"""Text of forms: printing and parsing are inverse, and bad text never ends in anything but a stated error."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.specs import NAMED, SLOTS, Spec, specs

from conjoin.errors import FormError, UnknownName
from conjoin.forms.base import Form
from conjoin.forms.complex import ComplEx
from conjoin.forms.five_star import FiveStar
from conjoin.forms.notation import FORMS, LONGEST, SYMBOLS, form, name_of, parse, short
from conjoin.forms.pair import Pair
from conjoin.forms.tied import TiedForm
from conjoin.forms.ties import Tie, conj, zero

TEXTS = {
    "complex": "ComplEx()",
    "complex-conj": "ComplEx(a2=conj(a1))",
    "complex-twin": "ComplEx(a2=a1)",
    "5star": "FiveStar()",
    "5star-conj": "FiveStar(c=conj(b), d=conj(a))",
    "5star-neg": "FiveStar(c=-conj(b), d=conj(a))",
    "5star-vert": "FiveStar(c=conj(a), d=conj(b))",
    "5star-horiz": "FiveStar(b=conj(a), d=conj(c))",
    "5star-twin": "FiveStar(c=b, d=a)",
    "5star-halfreg": "FiveStar(penalty=half)",
    "pair": "Pair()",
    "quate": "Pair(c=-conj(b), d=conj(a), unit=true)",
}


def test_named_forms_are_those_of_the_mathematics() -> None:
    assert {name: str(value) for name, value in FORMS.items() if isinstance(value, TiedForm)} == TEXTS
    assert {name: spec.text() for name, spec in NAMED.items()} == TEXTS


@pytest.mark.parametrize("name", NAMED)
def test_a_name_its_text_and_its_symbol_are_one_form(name: str) -> None:
    assert form(name) == parse(name.upper()) == parse(TEXTS[name]) == FORMS[name]
    assert name_of(parse(TEXTS[name])) == short(parse(TEXTS[name])) == name
    if name in SYMBOLS:
        assert parse(SYMBOLS[name]) == FORMS[name]


@pytest.mark.parametrize("name", FORMS)
def test_a_named_form_survives_its_text(name: str) -> None:
    assert parse(str(FORMS[name])) == form(name) == FORMS[name]
    assert name_of(FORMS[name]) == name


@given(specs())
def test_printing_and_parsing_are_inverse(spec: Spec) -> None:
    value = parse(spec.text())
    assert str(value) == spec.text()
    assert parse(str(value)) == value
    assert hash(parse(str(value))) == hash(value)
    assert isinstance(value, TiedForm)
    assert value.stored == spec.stored
    assert {slot: str(tie) for slot, tie in value.ties.items()} == dict(spec.ties)


@st.composite
def built(draw: st.DrawFn) -> Form:
    """Forms made in Python, of ties made in Python."""
    families: list[type[Form]] = [ComplEx, FiveStar, Pair]
    family = draw(st.sampled_from(families))
    slots = family.SLOTS
    stored = draw(st.lists(st.sampled_from(slots), min_size=1, unique=True))
    tie = st.builds(Tie, st.sampled_from(stored), conjugated=st.booleans(), negated=st.booleans())
    ties = {slot: draw(st.one_of(st.just(zero), tie)) for slot in slots if slot not in stored}
    return family(**ties)


@given(built())
def test_forms_built_in_python_survive_their_text(value: Form) -> None:
    assert parse(str(value)) == value


def test_there_is_one_zero() -> None:
    assert parse("FiveStar(c=0)") == FiveStar(c=Tie(None, conjugated=True)) == FiveStar(c=Tie(None, negated=True))


@given(specs(), st.randoms(use_true_random=False))
def test_order_space_and_case_of_the_family_do_not_matter(spec: Spec, random: object) -> None:
    items = [f" {slot} =\t{expression} " for slot, expression in spec.ties.items()]
    items += [f"{name}= {value}\n" for name, value in spec.options.items()]
    random.shuffle(items)  # type: ignore[attr-defined]
    assert parse(f"  {spec.family.swapcase()} ( {','.join(items)} ) ") == parse(spec.text())


def test_a_named_form_takes_ties_and_options() -> None:
    assert parse("5star-conj(quotient=mobius)") == FiveStar(c=conj("b"), d=conj("a"), quotient="mobius")
    assert form("5star-conj", quotient="aligned") == parse("5star-conj(quotient=aligned)")
    assert form("complex-conj", layout="published") == ComplEx(a2=conj("a1"), layout="published")
    assert parse("5star-conj(d=0)") == FiveStar(c=conj("b"), d=zero)
    assert name_of(parse("5star-conj(d=0)")) is None
    assert short(parse("5star-conj(d=0)")) == "FiveStar(c=conj(b), d=0)"
    assert form(FORMS["quate"]) is FORMS["quate"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", "''"),
        ("FiveStar(", "'FiveStar('"),
        ("FiveStar)", "'FiveStar)'"),
        ("FiveStar(c=conj(b)) extra", "extra"),
        ("FiveStar(a)", "'a'"),
        ("FiveStar(a=)", "'a='"),
        ("FiveStar(a=b,)", "''"),
        ("FiveStar(a=b, a=c)", "a"),
        ("FiveStar(a=a)", "slot a"),
        ("FiveStar(a=b, b=a)", "a=b"),
        ("FiveStar(a=conj(b), b=conj(c))", "a=conj(b)"),
        ("FiveStar(a=e)", "a=e"),
        ("FiveStar(a=-0)", "a=-0"),
        ("FiveStar(a=--b)", "'--b'"),
        ("FiveStar(a=conj(conj(b)))", "'conj(conj(b))'"),
        ("FiveStar(a=2b*)", "'2b*'"),
        ("FiveStar(a=b, b=0, c=0, d=0)", "a=b"),
        ("FiveStar(a=0, b=0, c=0, d=0)", "a, b, c, d"),
        ("FiveStar(e=a)", "'e'"),
        ("FiveStar(quotient=mobuis)", "mobius"),
        ("FiveStar(layout=published)", "'layout'"),
        ("FiveStar(quotient=mobius, penalty=half)", "penalty=half"),
        ("Pair(unit=yes)", "true"),
        ("DistMult(a=b)", "'a'"),
        ("TransE(distance=l3)", "l3"),
        ("TransE(distance=hyperplane)", "hyperplane"),
        ("x" * (LONGEST + 1), str(LONGEST + 1)),
    ],
)
def test_bad_text_raises_form_error_with_the_value(text: str, value: str) -> None:
    with pytest.raises(FormError, match=re.escape(value)):
        parse(text)


def test_misspelt_names_get_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="5star-conj"):
        parse("5star-cnoj")
    with pytest.raises(UnknownName, match="FiveStar"):
        parse("FiveStr(a=b)")
    with pytest.raises(FormError, match="quotient"):
        form("complex", quotient="mobius")


PIECES = [
    *SLOTS["FiveStar"],
    "a1",
    "a2",
    "conj(",
    ")",
    "(",
    ",",
    "=",
    "-",
    "0",
    " ",
    "FiveStar",
    "Pair",
    "5star",
    "★",
    "ε",
]
WORDS = st.lists(st.sampled_from([*PIECES, "quotient", "mobius", "unit", "true", "\n", "é", "\0", "۳"]), max_size=25)
NASTY = st.one_of(st.text(max_size=60), WORDS.map("".join), WORDS.map(lambda words: f"FiveStar({''.join(words)})"))


@settings(max_examples=400, deadline=None)
@given(NASTY)
def test_any_text_is_a_form_or_a_stated_error(text: str) -> None:
    try:
        value = parse(text)
    except (FormError, UnknownName):
        return
    assert parse(str(value)) == value


@settings(deadline=None)
@given(specs(), st.data())
def test_damaged_text_is_a_form_or_a_stated_error(spec: Spec, data: st.DataObject) -> None:
    text = spec.text()
    place = data.draw(st.integers(0, len(text)))
    damaged = text[:place] + data.draw(st.text(max_size=3)) + text[place + data.draw(st.integers(0, 4)) :]
    try:
        value = parse(damaged)
    except (FormError, UnknownName):
        return
    assert parse(str(value)) == value
