"""Sort names, join ids and drop repeated triples in DuckDB: in memory up to a limit, on disk beyond it.

All results are sorted, so they do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conjoin.errors import ConjoinError, GraphError, NotInstalled, UsageError

BATCH_ROWS = 100_000
SHARE = 0.55
"""The share of the memory limit that DuckDB manages; its readers, its results and Python need the rest."""


class DuckDbEngine:
    """A DuckDB connection for one ingest; names come from Parquet files, ids are rows of sorted Parquet files."""

    def __init__(self, folder: Path, *, memory: int, threads: int) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise NotInstalled("duckdb", "ingest", "`conjoin ingest`") from error
        self._duckdb = duckdb
        self._limit = int(memory * SHARE)
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{max(self._limit >> 20, 64)}MiB",
                "threads": threads,
                "temp_directory": str(folder),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )

    def close(self) -> None:
        self._connection.close()

    def batches(self, query: str) -> Iterator[Any]:
        """The rows of a query as Arrow batches, as DuckDB produces them."""
        with self._failures():
            yield from self._connection.sql(query).to_arrow_reader(BATCH_ROWS)

    def names(self, parts: Sequence[Path], columns: Sequence[str], labels: Path | None, kind: str) -> Iterator[Any]:
        """Every distinct name of some columns, sorted, with its label (null if it has none)."""
        distinct = " UNION ".join(f"SELECT {column} AS name FROM {_files(parts)}" for column in columns)
        if len(columns) == 1:
            distinct = f"SELECT DISTINCT {columns[0]} AS name FROM {_files(parts)}"
        if labels is None:
            return self.batches(f"SELECT name, NULL::VARCHAR AS label FROM ({distinct}) ORDER BY name")
        best = (
            "SELECT name, arg_min(label, {'rank': rank, 'place': place}) AS label "
            f"FROM {_files([labels])} WHERE kind IN ('any', '{kind}') GROUP BY name"
        )
        return self.batches(f"SELECT name, label FROM ({distinct}) LEFT JOIN ({best}) USING (name) ORDER BY name")

    def triples(self, part: Path, entities: Path, relations: Path) -> Iterator[Any]:
        """The distinct triples of one file of names as ids (head, relation, tail), sorted."""
        joined = (
            "SELECT h.file_row_number AS head, r.file_row_number AS relation, t.file_row_number AS tail "
            f"FROM {_files([part])} AS raw "
            f"JOIN {_numbered(entities)} AS h ON raw.head = h.name "
            f"JOIN {_numbered(relations)} AS r ON raw.relation = r.name "
            f"JOIN {_numbered(entities)} AS t ON raw.tail = t.name"
        )
        return self.batches(f"SELECT DISTINCT head, relation, tail FROM ({joined}) ORDER BY head, relation, tail")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except self._duckdb.OutOfMemoryException as error:
            limit = f"{self._limit / SHARE / 1e9:.1f} GB"
            raise UsageError(
                f"The memory limit of {limit} is too small for this graph. Raise it with memory=... (--memory-limit). "
                f"DuckDB says: {error}"
            ) from error
        except self._duckdb.IOException as error:
            raise ConjoinError(f"DuckDB cannot write its temporary files: {error}") from error
        except self._duckdb.Error as error:
            raise GraphError(f"DuckDB failed during the ingest: {error}") from error


def _files(files: Sequence[Path]) -> str:
    return f"read_parquet([{', '.join(map(_quoted, files))}])"


def _numbered(file: Path) -> str:
    return f"read_parquet({_quoted(file)}, file_row_number = true)"


def _quoted(file: Path) -> str:
    text = str(file).replace("'", "''")
    return f"'{text}'"
