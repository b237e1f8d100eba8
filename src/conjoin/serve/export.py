"""Take a trained model elsewhere: a bundle that opens without any other file, Parquet tables, word2vec text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from conjoin.errors import UsageError, unknown
from conjoin.files import replacing
from conjoin.graph.graph import Vocabulary
from conjoin.model.model import Model
from conjoin.serve.predictor import open_run, reported_weights
from conjoin.study.folder import RunFolder


def export(run: str | Path, out: str | Path, *, format: str = "safetensors", weights: str | None = None) -> list[Path]:
    """Write a run in one of FORMATS to the folder `out`; return the files written."""
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS, way_out=f"Choose from {', '.join(FORMATS)}.")
    source, target = RunFolder(Path(run)), Path(out)
    if target.resolve() == source.path.resolve():
        raise UsageError(f"{target} is the run itself: export to another folder")
    target.mkdir(parents=True, exist_ok=True)
    return FORMATS[format](source, target, weights)


def _bundle(source: RunFolder, target: Path, weights: str | None) -> list[Path]:
    """A run folder without what only training needs. `conjoin.open` opens it."""
    chosen = reported_weights(source, weights)
    bundle = RunFolder(target)
    copies = {
        source.settings_file: bundle.settings_file,
        source.weights_file(chosen): bundle.weights_file(chosen),
        source.result_file: bundle.result_file,
    }
    for original, copy in copies.items():
        with replacing(copy) as aside:
            shutil.copyfile(original, aside)
    shutil.copytree(source.graph_folder, bundle.graph_folder, dirs_exist_ok=True)
    card = target / "README.md"
    with replacing(card) as aside:
        aside.write_text(model_card(source, chosen), encoding="utf-8")
    return [*copies.values(), bundle.graph_folder, card]


def _parquet(source: RunFolder, target: Path, weights: str | None) -> list[Path]:
    """entities.parquet and relations.parquet: name, label and one list of reals a row."""
    written = []
    for stem, vocabulary, rows in _tables(source, weights):
        values = pa.array(rows.ravel(), pa.float32())
        columns = {
            "name": list(vocabulary.names),
            "label": [vocabulary.label(i) for i in range(len(vocabulary))],
            "row": pa.FixedSizeListArray.from_arrays(values, rows.shape[1]),
        }
        path = target / f"{stem}.parquet"
        with replacing(path) as aside:
            pq.write_table(pa.table(columns), aside, compression="zstd")
        written.append(path)
    return written


def _word2vec(source: RunFolder, target: Path, weights: str | None) -> list[Path]:
    """entities.txt and relations.txt: a line with the counts, then name and numbers, spaces in names as underscores."""
    written = []
    for stem, vocabulary, rows in _tables(source, weights):
        path = target / f"{stem}.txt"
        with replacing(path) as aside, aside.open("w", encoding="utf-8") as stream:
            stream.write(f"{len(rows)} {rows.shape[1]}\n")
            for name, row in zip(vocabulary.names, rows, strict=True):
                stream.write("_".join(name.split()) + " " + " ".join(np.char.mod("%.7g", row)) + "\n")
        written.append(path)
    return written


def _tables(source: RunFolder, weights: str | None) -> list[tuple[str, Vocabulary, npt.NDArray[np.float32]]]:
    predictor = open_run(source.path, weights=weights)
    model: Model = predictor.model
    names = predictor.graph.relations.names
    both = Vocabulary("relation", (*names, *(f"{name} (reciprocal)" for name in names)))
    return [
        ("entities", predictor.graph.entities, model.entities.weight.cpu().numpy()),
        ("relations", both, model.relations.cpu().numpy()),
    ]


def model_card(source: RunFolder, weights: str) -> str:
    """What someone who finds the bundle needs to know."""
    run, result = source.run, source.result
    measured = result[weights]
    lines = [
        f"# {run.form} on {run.data}",
        "",
        f"A knowledge-graph embedding of rank {run.rank}, trained with Conjoin. It scores facts (head, relation, tail)",
        f"of the graph {run.data!r} (sha256 of its content {run.checksum}).",
        "",
        "```python",
        "import conjoin",
        f'conjoin.open("{os.fspath(source.path.name)}").ask(HEAD, RELATION)',
        "```",
        "",
        f"Weights of epoch {measured['epoch']} ({weights}); filtered ranking, pessimistic ties:",
        "",
        "| split | MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|---|---|---|---|---|",
    ]
    for split in ("valid", "test"):
        cells = [measured[split][metric] for metric in ("mrr", "hits@1", "hits@3", "hits@10")]
        lines.append(f"| {split} | " + " | ".join("-" if c is None else f"{c:.4f}" for c in cells) + " |")
    lines += [
        "",
        f"Parameters: {result['parameters']:,}, of relations {result['relation_parameters']:,}. Seed {run.seed}.",
        "Scores rank candidates of one question; they are not probabilities. Answers reflect the training facts and",
        "their gaps; check before use.",
        "",
    ]
    return "\n".join(lines)


FORMATS: dict[str, Callable[[RunFolder, Path, str | None], list[Path]]] = {
    "safetensors": _bundle,
    "parquet": _parquet,
    "word2vec": _word2vec,
}
