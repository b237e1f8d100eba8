"""The first step of an ingest: write every triple of every file, as names, to Parquet files for DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from conjoin.graph.column_roles import PLACES
from conjoin.io.formats import AnyPath
from conjoin.io.labels import read_labels_with_report
from conjoin.io.read_options import ReadOptions
from conjoin.io.read_report import ReadReport
from conjoin.io.stream import LabelRow, stream_triples
from conjoin.runtime.progress import Track, silent

ROW_GROUP = 200_000
GIVEN = -1
"""The rank of labels from a file of labels: they take precedence over labels inside RDF."""


class ParquetSpool:
    """The names of all triples in the order of the files: triples-0.parquet … per split, and labels.parquet."""

    def __init__(self, folder: Path) -> None:
        import pyarrow as pa

        self.folder = folder
        self.reports: list[ReadReport] = []
        self.parts: list[Path] = []
        self.labels = folder / "labels.parquet"
        self.n_labels = 0
        self._opened = ExitStack()
        self._columns = pa.schema([(name, pa.string()) for name in PLACES])
        self._label_columns = pa.schema(
            [
                ("kind", pa.string()),
                ("name", pa.string()),
                ("label", pa.string()),
                ("rank", pa.int64()),
                ("place", pa.int64()),
            ]
        )

    def add(
        self,
        files: Mapping[str, AnyPath],
        options: ReadOptions,
        *,
        threads: int = 1,
        track: Track = silent,
    ) -> None:
        """Read files into the next split. The keys of `files` distinguish the blank nodes of different files."""
        import pyarrow.parquet as pq

        part = self.folder / f"triples-{len(self.parts)}.parquet"
        self.parts.append(part)
        plain: dict[str, Any] = {"compression": "snappy", "use_dictionary": ["relation"], "write_statistics": False}
        with part.open("wb") as stream, pq.ParquetWriter(stream, self._columns, **plain) as writer:
            for scope, file in files.items():
                self.reports.append(
                    stream_triples(
                        file,
                        options,
                        lambda batch: writer.write_batch(batch, row_group_size=ROW_GROUP),
                        scope=scope,
                        take_labels=lambda rows: self._add_labels("any", rows),
                        threads=threads,
                        track=track,
                    )
                )

    def add_labels(self, kind: str, labels: AnyPath, options: ReadOptions) -> tuple[str, ...]:
        """Add the labels of a file. Returns notes about its bad lines."""
        label_of, report = read_labels_with_report(labels, on_error=options.on_error)
        self._add_labels(kind, [(name, label, GIVEN) for name, label in label_of.items()])
        return report.sentences() if report.problems else ()

    def _add_labels(self, kind: str, rows: Sequence[LabelRow]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not rows:
            return
        if not self.n_labels:
            stream = self._opened.enter_context(self.labels.open("wb"))
            self._label_writer: Any = self._opened.enter_context(pq.ParquetWriter(stream, self._label_columns))
        names, texts, ranks = zip(*rows, strict=True)
        places = range(self.n_labels, self.n_labels + len(rows))
        columns = [[kind] * len(rows), list(names), list(texts), list(ranks), list(places)]
        self._label_writer.write_batch(
            pa.RecordBatch.from_pydict(
                dict(zip(self._label_columns.names, columns, strict=True)), schema=self._label_columns
            )
        )
        self.n_labels += len(rows)

    def close(self) -> None:
        """Close the files, also after an error: otherwise pyarrow closes them only at garbage collection."""
        self._opened.close()
