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
# Mining: the most plausible facts that are not in the graph

    conjoin mine RUN --relation borders -n 100
    conjoin mine RUN -n 1000 --out missing.csv      # .csv, .tsv or .parquet; written whole or not at all
    conjoin mine RUN -n 1000 --out missing.csv --for-spreadsheets

Names are written as they are, so that the file can be read back. A spreadsheet runs cells that begin with `=`, `+`, `-`
or `@` as formulas; `mine` says how many cells may be such. `--for-spreadsheets` puts an apostrophe before each formula
and spells out control characters.

Scores of different relations do not compare. Facts are judged by **plausibility**, the product of three chances:

* Is there one more tail at all? Of the head's kin with at least as many known tails, the share with more. Kin are the
  entities that take part in the same relations in the same roles, this relation aside. A city without a country
  probably lacks one, a currency does not; a country with a capital hardly gets a second one.
* If so, is it this one? The softmax over all tails that would be new.
* Where the reverse is known: how often does this relation hold both ways? If a package needs another, that one hardly
  needs the first; a border has two sides.

Every entity may be a head. Known facts (train, valid and test) are left out, as are links of an entity to itself unless
the relation has such in train. Of the two directions of a symmetric relation the better one is shown. Heads are scored
in blocks of products, those with most room first: no fact is more plausible than its head has room, so that blocks with
less room than the n-th best fact are passed over. The most plausible come first, in a calibrated run the most probable.

## How many are right?

Plausibility is no probability. `conjoin calibrate RUN` rehearses: it hides the facts of valid, on which the model was
not trained, mines, and looks which of the mined facts are among them. That gives a curve from plausibility to the share
that was right, and every mined fact its **probability**. How plausible a fact must be differs by relation: where a head
has many tails none of them gets much of the softmax. So each relation with at least 50 hidden facts (`--fewest`) is
mined for by itself and has a curve of its own, the others share one, or that of all relations where none of theirs was
hidden. It is isotonic, of shares among 5 to 25 mined facts at a time, a tenth of those that were right, from five facts
for each that was hidden (250 to 5,000); what is less plausible counts as the last of these. Then it hides test instead
and says how many of the first 100 were right, and how many the curves promise. `mine` adds up the probabilities of its
own list: so many of as many facts, as plausible as these, were right in the rehearsal. It is usually less than what the
rehearsal found in a list as long: the facts that were hidden and found are known now and left out. What that does not
tell:

- Mined facts that are true, but in no split, count as wrong in the rehearsal. Where a graph lacks more than was hidden,
  more is right than said: `python examples/practice.py`, which keeps true facts back, shows by how much.
- A graph that lacks less has fewer to find, and more of the list is wrong; of a complete graph all of it is. Nothing in
  a graph says how much it lacks. Where a probability is above one half, fewer such facts can be missing than were
  hidden: most that were as plausible were the hidden ones, and only the rest is left to be found.
  Read the probabilities as what the method can do, and look at the list.
- Facts are hidden at random. If yours are missing for a reason (a whole source was never read), it may do worse.

Answers to a question have another probability ([calibration](calibration.md)): there it is given that one is missing.

## Does it find what was held out?

{form} of rank {rank} on the atlas, not calibrated, valid and test ({held_out} facts) hidden; whole graph; {date},
{hardware}. Hits are mined facts that are among them; chance is what as many random unknown pairs would hit.

| first | hits | chance |
|---:|---:|---:|
{table}

{seconds:.1f} s for {pairs:,} pairs.

Before, all entities were kin, only heads that have the relation in train were asked, and reverses did not count. On the
same run 9 of the first 100 were hits then (41 with every entity as a head). The rule for kin was chosen among five on
this experiment and on a graph of installed Debian packages, nineteen other orderings had been tried before, so the
numbers flatter it.

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
