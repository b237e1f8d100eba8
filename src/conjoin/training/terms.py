"""The names of the objective's terms, from this package and from other packages. Does not import torch.

A term is a value with the two methods of `conjoin.training.objective.Term`. Another package adds one by an entry point:

    [project.entry-points."conjoin.terms"]      name = "package.module:A_TERM"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING

from conjoin.errors import unknown
from conjoin.runtime import plugins

if TYPE_CHECKING:
    from conjoin.training.objective import Term

TERMS: Mapping[str, str] = MappingProxyType(
    {
        "dura": "conjoin.training.penalties:DURA",
        "dura-w": "conjoin.training.penalties:DURA_W",
    }
)
"""The address of each term, "module:object" as in an entry point. The cross-entropy, n3 and f2 need no address."""


def term_names() -> list[str]:
    """The terms that a recipe can name, in order; nothing is imported."""
    return [*TERMS, *(name for name in plugins.names("term") if name not in TERMS)]


def check_term_names(names: Iterable[str]) -> None:
    """Raise UnknownName if a name belongs to no term of this package or of an installed one."""
    known = term_names()
    for name in names:
        if name not in known:
            raise unknown("term", name, known, way_out=f"Choose from {', '.join(known)}.")


def load_term(name: str) -> Term:
    """The term with this name. UnknownName if it does not exist, BrokenPlugin if it lacks the methods of a term."""
    check_term_names([name])
    if name in TERMS:
        term: Term = resolve_name(TERMS[name])
        return term
    term = plugins.load_plugin("term", name)
    if not callable(term) or not hasattr(term, "obstacle"):
        raise plugins.broken("term", name, "a term is callable and has the method obstacle")
    return term
