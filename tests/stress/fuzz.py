"""Coverage-guided fuzzing with atheris: python -m tests.stress.fuzz [TARGET [SECONDS]]

Each target of `tests.stress.readers` runs in a separate process, with limits on time and memory per input. A finding is
written to findings/ and ends the process; it becomes a line in tests/stress/test_readers.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.stress.counts import Counts

LARGEST = 4096
SLOWEST = 20
MOST_MEBIBYTES = 3072


def fuzz_everything(place: Path, *, seconds: int, at_once: int = 4) -> Counts:
    """Every target for so long, some of them at once; counts inputs. Any finding fails."""
    from tests.stress.readers import targets

    def one(number: int, name: str) -> tuple[int, str]:
        folder = place / str(number)
        folder.mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, "-m", "tests.stress.fuzz", name, str(seconds)],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
                "TMPDIR": str(folder),  # libFuzzer leaves without tidying up
            },
            capture_output=True,
            text=True,
            check=False,
        )
        executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        found = f"{name}: {done.stderr[-3000:]}" if done.returncode or executed is None else ""
        return int(executed[1]) if executed else 0, found

    names = list(targets())
    with ThreadPoolExecutor(at_once) as pool:
        ended = list(pool.map(one, range(len(names)), names))
    findings, inputs = [found for _, found in ended if found], sum(count for count, _ in ended)
    assert not findings, "\n\n".join(findings)
    return {"targets": len(names), "seconds a target": seconds, "inputs": inputs, "findings left": 0}


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["conjoin", "tomllib", "tests.stress"]):
        from tests.stress.readers import targets
        from tests.stress.target import tried
    name, seconds = (*sys.argv[1:], *("forms", "10")[len(sys.argv) - 1 :])[:2]
    target = targets()[name]
    scratch = Path(tempfile.mkdtemp())
    corpus = Path("corpus")
    corpus.mkdir(exist_ok=True)
    for number, example in enumerate(target.examples):
        (corpus / str(number)).write_bytes(example)
        tried(target, example, scratch)  # what is imported late does not count as slow

    def once(data: bytes) -> None:
        tried(target, data, scratch)

    limits = [f"-max_len={LARGEST}", f"-timeout={SLOWEST}", f"-rss_limit_mb={MOST_MEBIBYTES}"]
    words = [sys.argv[0], *limits, f"-max_total_time={seconds}", "-print_final_stats=1", "-verbosity=1", str(corpus)]
    atheris.Setup(words, once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
