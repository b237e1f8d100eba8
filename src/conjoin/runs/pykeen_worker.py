"""Read the weights of a PyKEEN model, run by an interpreter with PyKEEN: python pykeen_worker.py FOLDER OUT

FOLDER is what `PipelineResult.save_to_directory` wrote. It imports nothing from Conjoin, so that PyKEEN can have a
separate environment. Only this file unpickles the model; use it with files you trust.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Write OUT/weights.npz, complex rows in the order of the names, and OUT/about.json."""
    import numpy as np
    import torch
    from pykeen import get_version
    from pykeen.triples import TriplesFactory

    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    facts = TriplesFactory.from_path_binary(source / "training_triples")
    model = torch.load(source / "trained_model.pkl", map_location="cpu", weights_only=False)
    if type(model).__name__ != "ComplEx":
        raise SystemExit(f"Cannot import a model of class {type(model).__name__}. Only ComplEx is supported.")
    with torch.no_grad():
        tables = {
            "entities": model.entity_representations[0]().numpy(),
            "relations": model.relation_representations[0]().numpy(),
        }
    np.savez(target / "weights.npz", **tables)
    history = json.loads((source / "results.json").read_text(encoding="utf-8")).get("losses") or []
    about = {
        "version": get_version(),
        "entities": [name for name, _ in sorted(facts.entity_to_id.items(), key=lambda pair: pair[1])],
        "relations": [name for name, _ in sorted(facts.relation_to_id.items(), key=lambda pair: pair[1])],
        "inverse": bool(model.use_inverse_triples),
        "epochs": len(history),
    }
    (target / "about.json").write_text(json.dumps(about), encoding="utf-8")


if __name__ == "__main__":
    main()
