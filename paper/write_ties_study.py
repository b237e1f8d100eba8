"""Write studies/ties.toml, a row for every distinct way to tie half of a relation: python -m paper.write_ties_study

The rows come from `tie_orbits`; a test checks that the file is current.
"""

from __future__ import annotations

from pathlib import Path

from paper.tie_orbits import halvings, orbit, paired_ties, representatives
from scripts.script_words import parser

from conjoin.forms.notation import SYMBOLS, name_of

FILE = Path(__file__).resolve().parents[1] / "studies" / "ties.toml"
HEAD = """\
# Written by paper/write_ties_study.py: every distinct way to tie half of {{a, b, c, d}} by ±, conjugation, position,
# {sets} sets of matrices, {orbits} models after the symmetry in paper/tie_orbits.py. Low rank, few epochs.
# conjoin study run studies/ties.toml --seeds 0            then --seeds 1, --seeds 2
# main: slots share numbers two by two, as in the paper. ablation: three slots share theirs. control: nothing tied.

name = "ties"
title = "All ways to tie half of a 5★ relation"
weights = "last"
seeds = 3
"""
TAIL = """
# Nothing tied: twice the numbers per relation, and as many as the tied forms at half their rank.

[[rows]]
name = "5star"
form = "5star"
settings = "all"
group = "control"
symbol = "5★E"

[[rows]]
name = "5star-half"
form = "5star"
settings = "all"
rank_factor = 0.5
group = "control"
symbol = "5★E, half rank"

[defaults]
precision = "bf16"

[datasets."WN18RR"]
graph = "wn18rr"

[datasets."FB15K-237"]
graph = "fb15k-237"

# The published settings of 5★E, but for the rank and the epochs.

[settings."WN18RR"]
all = { rank = 100, epochs = 100, batch = 1000, n3 = 0.5, lr = 0.1 }

[settings."FB15K-237"]
all = { rank = 100, epochs = 60, batch = 2000, n3 = 0.1, lr = 0.01 }
"""


def content() -> str:
    """The file's text."""
    chosen = representatives()
    rows = []
    for form in chosen:
        name = name_of(form) or ".".join(f"{slot}_{word(str(tie))}" for slot, tie in form.ties.items())
        equations = ", ".join(f"{slot} = {tie}" for slot, tie in form.ties.items())
        others = [str(other) for other in sorted(orbit(form), key=str) if other != form]
        rows += [
            "",
            "[[rows]]",
            f'name = "{name}"',
            f'form = "{name_of(form) or form}"',
            'settings = "all"',
            f'group = "{"main" if paired_ties(form) else "ablation"}"',
            f'symbol = "{SYMBOLS.get(name, equations)}"',
            f'note = "the same model: {"; ".join(others)}"',
        ]
    return HEAD.format(sets=len(halvings()), orbits=len(chosen)) + "\n".join(rows) + "\n" + TAIL


def word(tie: str) -> str:
    """A tie as part of a folder's name: minus_conj_b."""
    return tie.replace("-", "minus_").replace("conj(", "conj_").rstrip(")")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    FILE.write_text(content(), encoding="utf-8")
