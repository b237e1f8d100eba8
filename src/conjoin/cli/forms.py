"""`conjoin forms`: list the named forms."""

from __future__ import annotations

from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.datasets import available_datasets
from conjoin.cli.output import emit, show, show_table


def forms(
    *,
    rank: Annotated[int, typer.Option(min=1, help="Count the parameters at this rank.")] = 500,
    json: opt.Json = False,
) -> None:
    """List the named forms and their parameters per relation.

    A form is the formula by which a relation transforms an entity; a tie computes some of its parameters from others.
    Every other pattern of ties can be written as text.

    \b
    conjoin forms
    conjoin train atlas --form "FiveStar(c=conj(b), d=-conj(a))"
    """
    from conjoin.forms.notation import FAMILIES, FORMS, SYMBOLS, plugin_forms
    from conjoin.forms.tied import TiedForm
    from conjoin.runtime import plugins

    others = [name for name in plugins.names("form") if name not in FORMS]
    listed_forms = {**FORMS, **dict(available_datasets(others, lambda name: (name, plugin_forms(name))))}
    if json:
        listed = [
            {
                "name": name,
                "paper": SYMBOLS.get(name),
                "package": plugins.origin("form", name) if name in others else None,
                "form": str(form),
                "slots": list(form.SLOTS),
                "stored": list(form.stored) if isinstance(form, TiedForm) else [],
                "link": form.link.name,
                "options": form.options,
                "parameters_per_relation": form.relation_width(rank),
            }
            for name, form in listed_forms.items()
        ]
        emit({"rank": rank, "forms": listed})
        return
    rows = [
        (name, SYMBOLS.get(name, ""), str(form), form.link.name, f"{form.relation_width(rank):,}")
        for name, form in listed_forms.items()
    ]
    title = f"Forms, how a query and an entity are scored (link), and real parameters of a relation at rank {rank}"
    show_table(title, ("name", "paper", "form", "link", "reals"), rows, left=4)
    show("Options:")
    for name, family in FAMILIES.items():
        for option, values in family.CHOICES.items():
            show(f"  {option} = {' | '.join(values)} ({name})")
    show("Example:")
    show('  conjoin train wn18rr --form "5star-conj(quotient=mobius)"')
