"""Measure PyKEEN on the same triples, in an interpreter that has PyKEEN: python pykeen_worker.py SETTINGS.json

It imports nothing from this package, so PyKEEN can be in a separate environment. SETTINGS names an .npz file with the
triples; the result is one JSON object on standard output. PyKEEN's batches are (head, relation) pairs with all their
tails (LCWA, reciprocal relations, cross-entropy), so seconds are for one pass over the pairs, which is one pass over
the same triples. PyKEEN runs without a regulariser, which makes it faster.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

WARM = 2


class Enough(Exception):
    """Raised in the training loop when enough batches are timed."""


def main() -> None:
    """Measure the work that SETTINGS describes."""
    import numpy as np
    import torch
    from pykeen.triples import CoreTriplesFactory

    wanted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(wanted["threads"])
    torch.set_float32_matmul_precision("high" if wanted["precision"] == "tf32" else "highest")
    stored = np.load(wanted["triples"])
    sizes = {"num_entities": wanted["entities"], "num_relations": wanted["relations"]}

    def factory(split: str) -> Any:
        triples = torch.from_numpy(stored[split].astype(np.int64))
        return CoreTriplesFactory(triples, create_inverse_triples=split == "train", **sizes)

    found = rank(wanted, factory) if wanted["theme"] == "rank" else train(wanted, factory("train"))
    sys.stdout.write(json.dumps(found | versions()) + "\n")


def train(wanted: dict[str, Any], facts: Any) -> dict[str, Any]:
    """Seconds of one pass, from the median batch."""
    import torch
    from pykeen.training import LCWATrainingLoop, TrainingCallback

    device = torch.device(wanted["device"])
    model = complex_model(wanted, facts)
    ends: list[float] = []

    class Clock(TrainingCallback):  # type: ignore[misc]
        def on_batch(self, *_: Any, **__: Any) -> None:
            if device.type == "cuda":
                torch.accelerator.synchronize()
            ends.append(time.perf_counter())
            timed = len(ends) - 1 - WARM
            if timed >= wanted["steps"] or (timed >= 3 and ends[-1] - ends[WARM] > wanted["limit"]):
                raise Enough

    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    loop = LCWATrainingLoop(model=model, triples_factory=facts, optimizer=optimizer)
    pairs = len(torch.unique(facts.mapped_triples[:, :2], dim=0))
    pairs += len(torch.unique(facts.mapped_triples[:, 1:], dim=0))
    if device.type == "cuda":
        torch.accelerator.reset_peak_memory_stats()
    with suppress(Enough):
        loop.train(facts, num_epochs=1000, batch_size=wanted["batch"], callbacks=Clock(), use_tqdm=False)
    steps = [after - before for before, after in zip(ends[WARM:], ends[WARM + 1 :], strict=False)]
    batches = -(-pairs // wanted["batch"])
    peak = torch.accelerator.max_memory_allocated() if device.type == "cuda" else None
    return {"seconds": statistics.median(steps) * batches, "pairs": pairs, "timed": len(steps), "peak_bytes": peak}


def rank(wanted: dict[str, Any], factory: Any) -> dict[str, Any]:
    """Seconds to rank the test triples in both directions, filtered; the shorter of two measurements."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator

    facts = factory("train")
    model = complex_model(wanted, facts)
    others = [factory(split).mapped_triples for split in ("train", "valid")]
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        RankBasedEvaluator(filtered=True).evaluate(
            model,
            factory("test").mapped_triples,
            batch_size=wanted["batch"],
            additional_filter_triples=others,
            use_tqdm=False,
        )
        if wanted["device"].startswith("cuda"):
            torch.accelerator.synchronize()
        taken.append(time.perf_counter() - start)
    return {"seconds": min(taken), "timed": len(taken)}


def complex_model(wanted: dict[str, Any], facts: Any) -> Any:
    """PyKEEN's ComplEx of `rank` complex coordinates."""
    import torch
    from pykeen.models import ComplEx

    model = ComplEx(triples_factory=facts, embedding_dim=wanted["rank"], loss="crossentropy", random_seed=0)
    return model.to(torch.device(wanted["device"]))


def versions() -> dict[str, str]:
    """What was measured."""
    import torch
    from pykeen import get_version

    return {"pykeen": get_version(), "torch": torch.__version__}


if __name__ == "__main__":
    main()
