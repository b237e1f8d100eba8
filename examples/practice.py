"""From a CSV of facts to a CSV of missing facts, each with a probability.

    python examples/practice.py [FACTS.csv [FOLDER]]

Without a file, the script generates a village, holds back every tenth fact, and counts how many of them it finds.
It needs `conjoin[calibrate]`. The commands `conjoin train`, `calibrate` and `mine` do the same.
"""

import sys
from itertools import islice
from pathlib import Path

import conjoin
from conjoin.predict.calibration import calibrate
from conjoin.predict.mining import mine, write_mined
from village import SYMMETRIC, village, write_csv


def main(file: Path | None, out: Path) -> None:
    """Read the facts, train, calibrate, and write the missing facts."""
    out.mkdir(parents=True, exist_ok=True)
    hidden = set()
    if file is None:
        facts = village(families=60, seed=1)
        hidden, file = set(facts[::10]), out / "facts.csv"
        write_csv(file, [fact for fact in facts if fact not in hidden])
        print(f"{file}: {len(facts) - len(hidden)} facts; {len(hidden)} true facts are held back")

    graph = conjoin.load(file)
    recipe = conjoin.Recipe(epochs=60, batch=200, n3=0.05, validate_every=5, patience=3)
    run = conjoin.Run.of(graph, "complex-conj", rank=32, recipe=recipe, weights="best")
    folder = conjoin.execute(run, graph, out / "run")
    print(f"test MRR {folder.result['test']['mrr']:.3f} after {folder.result['epochs']} epochs")

    predictor = conjoin.open(folder.path)
    predictor.calibration = calibrate(predictor)
    missing = list(mine(predictor, n=200))
    write_mined(out / "missing.csv", missing)
    print(f"{len(missing)} facts in {out / 'missing.csv'}, the most probable first:")
    for fact in islice(missing, 5):
        print(f"  {fact.label}   (probability {fact.probability:.2f})")

    if hidden:
        # For a symmetric relation, mining lists one direction only. Both directions count as found.
        hidden |= {(tail, relation, head) for head, relation, tail in hidden if relation in SYMMETRIC}
        found = sum((fact.head, fact.relation, fact.tail) in hidden for fact in missing)
        claimed = sum(fact.probability or 0 for fact in missing)
        print(f"{found} of these {len(missing)} were held back; the probabilities sum to {claimed:.0f}")


if __name__ == "__main__":
    words = [Path(word) for word in sys.argv[1:]]
    try:
        main(words[0] if words else None, words[1] if len(words) > 1 else Path("practice"))
    except conjoin.ConjoinError as error:
        sys.exit(f"error: {error}")
