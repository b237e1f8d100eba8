"""Train and rank ComplEx with PyKEEN, run by an interpreter that has it: python trained_by_pykeen.py DATA OUT

DATA holds train.tsv, valid.tsv and test.tsv. OUT gets one folder a model, as PipelineResult.save_to_directory writes
it, with the rank of every test fact, by PyKEEN's evaluator, beside it in ranks.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """With and without inverse triples; as trained, and rounded.

    Whole numbers make scores that are exact in float32 and often equal: ties, whatever the order of adding.
    """
    from pykeen.pipeline import pipeline
    from pykeen.triples import TriplesFactory

    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    for name, inverse in (("inverse", True), ("plain", False)):
        train = TriplesFactory.from_path(data / "train.tsv", create_inverse_triples=inverse)
        ids = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
        valid, test = (TriplesFactory.from_path(data / f"{split}.tsv", **ids) for split in ("valid", "test"))
        result = pipeline(
            training=train,
            validation=valid,
            testing=test,
            model="ComplEx",
            model_kwargs={"embedding_dim": 7},
            loss="crossentropy",
            training_loop="LCWA",
            training_kwargs={"num_epochs": 5, "batch_size": 128, "use_tqdm": False},
            evaluation_kwargs={"use_tqdm": False},
            random_seed=0,
            device="cpu",
        )
        keep(result, out / name, train, valid, data / "test.tsv")
        for parameter in result.model.parameters():
            parameter.data = parameter.data.round()
        keep(result, out / f"{name}-rounded", train, valid, data / "test.tsv")


def keep(result: Any, folder: Path, train: Any, valid: Any, test: Path) -> None:
    """The model, and how PyKEEN ranks the test facts that it knows."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator

    result.save_to_directory(folder)
    facts = [line.split("\t") for line in test.read_text(encoding="utf-8").splitlines()]
    known = [f for f in facts if f[0] in train.entity_to_id and f[2] in train.entity_to_id]
    ids = [(train.entity_to_id[h], train.relation_to_id[r], train.entity_to_id[t]) for h, r, t in known]
    evaluator = RankBasedEvaluator(filtered=True, clear_on_finalize=False)
    evaluator.evaluate(
        result.model,
        torch.tensor(ids),
        batch_size=64,
        additional_filter_triples=[train.mapped_triples, valid.mapped_triples],
        use_tqdm=False,
    )
    ranks = {
        f"{target} {ties}": [rank for part in parts for rank in part.tolist()]
        for (target, ties), parts in evaluator.ranks.items()
    }
    (folder / "ranks.json").write_text(json.dumps({"facts": known, "ranks": ranks}), encoding="utf-8")


if __name__ == "__main__":
    main()
