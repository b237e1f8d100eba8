"""Export a trained model: as a bundle that opens without any other file, as Parquet tables or as word2vec text."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from conjoin.errors import UsageError, unknown
from conjoin.graph.graph import HELD_OUT, Graph, Vocabulary
from conjoin.io.formats import AnyPath
from conjoin.io.graph_store import save_graph
from conjoin.model.model import Model
from conjoin.runs.calibration_curves import FILE as CALIBRATION
from conjoin.runs.calibration_curves import read_calibration
from conjoin.runs.folder import RunFolder
from conjoin.runs.open import open_model, verified_graph
from conjoin.runtime.atomic_files import proper, replacing, replacing_all

VectorRows = npt.NDArray[np.float32]


def export(run: AnyPath, out: AnyPath, *, format: str = "safetensors", weights: str | None = None) -> list[Path]:
    """Write a run in one of FORMATS to the folder `out`; return the files written.

    parquet and word2vec write two tables of float32 rows by name: entities (n_entities, entity width) and relations
    (stored relation rows, relation width), where the rows of reciprocal relations follow those of the relations. A row
    holds the numbers that the form stores; complex numbers as all real parts, then all imaginary parts.

    >>> import conjoin
    >>> graph = conjoin.Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")], [("c", "r", "a")])
    >>> run = conjoin.Run.of(graph, "complex", rank=4, recipe=conjoin.Recipe(epochs=2))
    >>> folder = conjoin.execute(run, graph, Path("runs/exported"))
    >>> files = export("runs/exported", "bundle")
    >>> len(conjoin.open("bundle").ask("a", "r"))
    2
    """
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS, way_out=f"Choose from {', '.join(FORMATS)}.")
    source, target = RunFolder(Path(run)), Path(out)
    if target.resolve() == source.path.resolve():
        raise UsageError(f"{target} is the folder of the run. Export to another folder.")
    chosen, graph = verified_graph(source, weights)
    if format == "safetensors":
        return _bundle(source, target, chosen, graph)
    suffix, write, is_earlier = TABLES[format]
    tables = _tables(*open_model(source, chosen)[:2])
    files = {target / f"{stem}{suffix}": (vocabulary, rows) for stem, vocabulary, rows in tables}
    _refuse_foreign(target, [file for file, table in files.items() if not is_earlier(file, *table)])
    if format == "word2vec":
        for vocabulary, _ in files.values():
            _words(vocabulary)
    _make(target)
    with replacing_all([*files]) as asides:
        for aside, table in zip(asides, files.values(), strict=True):
            write(aside, *table)
    return list(files)


def _refuse_foreign(target: Path, files: list[Path]) -> None:
    """Raise UsageError if one of the files exists; the caller leaves out the files of an earlier export."""
    if there := [file.name for file in files if file.exists()]:
        raise UsageError(
            f"{target} contains {', '.join(there)}, and no export of this run wrote it. Export to another folder."
        )


def _make(target: Path) -> None:
    """Create the folder after all checks."""
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write to {target} ({error.strerror or error}). Choose another folder.") from error


def _bundle(source: RunFolder, target: Path, weights: str, graph: Graph) -> list[Path]:
    """Write a run folder without the files that only training needs. `conjoin.open` opens it."""
    bundle = RunFolder(target)
    if bundle.exists and bundle.run.id != source.run.id:
        raise UsageError(f"{target} contains another run. Export to another folder.")
    copies = {
        source.settings_file: bundle.settings_file,
        source.weights_file(weights): bundle.weights_file(weights),
        source.result_file: bundle.result_file,
    }
    if read_calibration(source, graph, weights) is not None:
        copies[source.path / CALIBRATION] = bundle.path / CALIBRATION
    card = target / "README.md"
    written = [*copies.values(), bundle.graph_folder, card]
    if not bundle.exists:
        _refuse_foreign(target, written)
    _make(target)
    for original, copy in copies.items():
        with replacing(copy) as aside:
            shutil.copyfile(original, aside)
    save_graph(graph, bundle.graph_folder)
    with replacing(card) as aside:
        aside.write_text(model_card(source, weights, target.resolve().name), encoding="utf-8")
    return written


def _write_parquet(path: Path, vocabulary: Vocabulary, rows: VectorRows) -> None:
    """Write the columns name, label and row, a list of float32."""
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float32()), rows.shape[1])
    columns = [list(vocabulary.names), _given_labels(vocabulary), values]
    with path.open("wb") as stream:
        pq.write_table(pa.table(columns, schema=_schema(rows)), stream, compression="zstd")


def _is_earlier_parquet(path: Path, vocabulary: Vocabulary, rows: VectorRows) -> bool:
    try:
        proper(path)
        if not pq.read_schema(path).equals(_schema(rows)):
            return False
        return bool(pq.read_table(path, columns=["name"])["name"].to_pylist() == list(vocabulary.names))
    except (OSError, pa.ArrowException):
        return False


def _schema(rows: VectorRows) -> pa.Schema:
    return pa.schema({"name": pa.string(), "label": pa.string(), "row": pa.list_(pa.float32(), rows.shape[1])})


def _given_labels(vocabulary: Vocabulary) -> list[str]:
    """The labels without the additions that make them unique; the name where there is no label."""
    return [label or name for name, label in zip(vocabulary.names, vocabulary.labels or vocabulary.names, strict=True)]


def _write_word2vec(path: Path, vocabulary: Vocabulary, rows: VectorRows) -> None:
    """Write a line with the counts, then a line for each name with its numbers."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(_counts(rows))
        for word, row in zip(_words(vocabulary), rows, strict=True):
            stream.write(f"{word} {' '.join(np.char.mod('%.9g', row))}\n")


def _is_earlier_word2vec(path: Path, vocabulary: Vocabulary, rows: VectorRows) -> bool:
    beginning = f"{_counts(rows)}{_word(vocabulary.names[0])} ".encode()
    try:
        proper(path)
        with path.open("rb") as stream:
            return stream.read(len(beginning)) == beginning
    except OSError:
        return False


def _counts(rows: VectorRows) -> str:
    return f"{len(rows)} {rows.shape[1]}\n"


def _words(vocabulary: Vocabulary) -> list[str]:
    """The names with underscores instead of spaces; raises UsageError where two names become the same."""
    words: dict[str, str] = {}
    for name in vocabulary.names:
        word = _word(name)
        if word in words:
            raise UsageError(
                f"{words[word]!r} and {name!r} both become {word!r} in word2vec text, which has no spaces in names. "
                "Export as parquet instead."
            )
        words[word] = name
    return list(words)


def _word(name: str) -> str:
    return "_".join(name.split())


def _tables(model: Model, graph: Graph) -> list[tuple[str, Vocabulary, VectorRows]]:
    """File stem, names and rows (n, width) of the entities and of the stored relation rows."""
    names, labels = graph.relations.names, _given_labels(graph.relations)
    stored = Vocabulary("relation", names, tuple(labels))
    if not model.form.derives_reciprocals:
        stored = Vocabulary("relation", (*names, *map(_reciprocal, names)), (*labels, *map(_reciprocal, labels)))
    return [
        ("entities", graph.entities, model.entities.all_rows().float().cpu().numpy()),
        ("relations", stored, model.relations.float().cpu().numpy()),
    ]


def _reciprocal(name: str) -> str:
    return f"{name} (reciprocal)"


def model_card(source: RunFolder, weights: str, folder: str) -> str:
    """The text of the bundle's README.md: what the model is, how to open it, how well it ranks."""
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
        "",
        f"conjoin.open({folder!r}).ask(HEAD, RELATION)",
        "```",
        "",
        f"Weights of epoch {measured['epoch']} ({weights}); filtered ranking, pessimistic ties:",
        "",
        "| split | MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|---|---|---|---|---|",
    ]
    for split in HELD_OUT:
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


class TableFormat(NamedTuple):
    """How to write a table, and how to recognise a table that an earlier export wrote: by its names and its shape."""

    suffix: str
    write: Callable[[Path, Vocabulary, VectorRows], None]
    is_earlier: Callable[[Path, Vocabulary, VectorRows], bool]


TABLES = {
    "parquet": TableFormat(".parquet", _write_parquet, _is_earlier_parquet),
    "word2vec": TableFormat(".txt", _write_word2vec, _is_earlier_word2vec),
}
FORMATS = ("safetensors", *TABLES)
