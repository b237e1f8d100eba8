"""Graphs that are odd but valid, from file to answer: train, rank, ask."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.stress.counts import Counts
from tests.stress.processes import ended, start

Facts = list[tuple[str, str, str]]
SHORT = ("--rank", 2, "--epochs", 1, "--device", "cpu")
STRANGE = (
    "quote \" and '",
    "👩‍👩‍👧",
    "שלום",
    "مرحبا",
    "-k",
    "?!",
    "[bold]:apple:",
    "x" * 10_000,
    "null",
    "é",
    "e\u0301",
)


def graphs(relations: int) -> dict[str, dict[str, Facts]]:
    """Name to splits. Tabs and line ends in names, which lines cannot hold, are tested with Parquet in tests/cli."""
    ring: Facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]
    names = [*STRANGE]
    odd: Facts = [(name, names[-1 - i], names[(i + 1) % len(names)]) for i, name in enumerate(names)]
    many: Facts = [(f"e{i % 50}", f"r{i}", f"e{i * 7 % 50}") for i in range(relations)]
    return {
        "one triple": {"train": ring[:1]},
        "one relation": {"train": ring, "test": [("a", "r", "c")]},
        "self-loops": {"train": [("a", "r", "a"), ("b", "r", "b"), ("a", "r", "b")], "test": [("c", "r", "c")]},
        "isolated test entities": {"train": ring, "test": [("stranger", "r", "other")]},
        "a relation only in test": {"train": ring, "test": [("a", "new", "b")]},
        "strange names": {"train": odd, "test": odd[:1]},
        "empty valid": {"train": ring, "valid": [], "test": ring[:1]},
        "empty test": {"train": ring, "valid": ring[:1], "test": []},
        "duplicates": {"train": ring * 4, "test": ring * 2},
        f"{relations:,} relations": {"train": many, "test": many[:10]},
    }


def as_process(*words: object, log: Path) -> tuple[int, str]:
    return ended(start(*words, log=log), log, seconds=1200)


def odd_graphs(place: Path, *, relations: int, call: Callable[..., tuple[int, str]] = as_process) -> Counts:
    """Every one of them by two forms; `call` runs a command and gives its exit code and what it printed."""
    tried = 0
    for name, splits in graphs(relations).items():
        folder = place / name.replace(" ", "-")
        folder.mkdir(parents=True)
        for split, facts in splits.items():
            lines = "".join("\t".join(fact) + "\n" for fact in facts)
            (folder / f"{split}.txt").write_text(lines, encoding="utf-8")
        head, relation, _ = splits["train"][0]
        batch = max(100, len(splits["train"]) // 4)
        for form in ("complex-conj", "5star-conj"):
            run, log = folder / f"run-{form}", folder / "log"
            for words in (
                ("train", folder, "--form", form, *SHORT, "--batch", batch, "-o", run),
                ("rank", run, "--split", "train" if relations < 10**5 else "test"),
                ("ask", run, "--json", "--", head, relation, "?"),
            ):
                code, said = call(*words, log=log)
                assert code == 0, (name, words, said[-2000:])
            assert json.loads(said.splitlines()[-1])["answers"], name
            tried += 1
    return {"odd graphs": len(graphs(1)), "trained, ranked and asked": tried, "relations in the largest": relations}
