"""Check that several processes compute the same numbers as one: python -m bench.same_numbers [--processes 2,4]

Compares the same quantities as `tests/distributed` (losses, gradients, answers, trained tables, the MRR on UMLS, ranks
and ties on WN18RR) for any number of processes, each with one shard. 13 and 14 entities give uneven shards, and with
more than six processes empty ones. UMLS and WN18RR are used if CONJOIN_DATA has them. Writes
bench/results/same_numbers_<cores>cores_<date>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"


def compared(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The largest difference of real numbers, and the number of different integers."""
    real = [name for name, tensor in expected.items() if tensor.is_floating_point()]
    whole = [name for name in expected if name not in real]
    return {
        "real_numbers": sum(expected[name].numel() for name in real),
        "largest_difference": max((float((found[name] - expected[name]).abs().max()) for name in real), default=0.0),
        "whole_numbers": sum(expected[name].numel() for name in whole),
        "different": sum(int((found[name] != expected[name]).sum()) for name in whole),
    }


def main() -> None:
    """Compare and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", default="2,4")
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from tests.distributed import work
    from tests.distributed.processes import together

    expected = {name: values for name, work_of in work.ALL.items() if (values := work_of())}
    rows = []
    for count in map(int, chosen.processes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            together(count, "tests.distributed.work", folder, 1, ",".join(expected))
            for name, values in expected.items():
                found = load_file(Path(folder) / f"{name}.safetensors")
                rows.append({"processes": count, "what": name, **compared(found, values)})
                if name == "umls":
                    rows[-1] |= {"mrr": float(found["umls mrr"]), "mrr_of_one": float(values["umls mrr"])}
                print(json.dumps(rows[-1]), flush=True)
    report = {"machine": {"torch": torch.__version__, "cores": os.cpu_count()}, "rows": rows}
    out = chosen.out or RESULTS / f"same_numbers_{os.cpu_count()}cores_{date.today().isoformat()}.json"
    out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
