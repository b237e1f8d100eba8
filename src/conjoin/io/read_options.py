"""ReadOptions: how files are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from conjoin.errors import GraphError, unknown

OnError = Literal["stop", "skip"]
ColumnChoice = int | str


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read triples from files.

    on_error     'stop' raises at the first bad line, 'skip' skips bad lines and counts them by reason.
    columns      the columns of head, relation and tail: names in the header, or positions from 0. Without it
                 a table has exactly three columns, or a header (or Parquet schema) that names them.
    header       whether the first line of a TSV or CSV file names the columns. With None, it does if `columns`
                 contains names, or if three cells are usual names of columns (subject, predicate, object; source, type,
                 target), in any order and case. With True, single letters are recognised too (s, p, o).
    delimiter    one character; None is a tab in .tsv and .txt, a comma in .csv. Only .csv has quoted cells.
    literals     triples with an RDF literal as object: 'drop' and count them, or 'keep' literals as entities.
    blank_nodes  triples with RDF blank nodes: 'keep' them, or 'drop' and count them.

    >>> from pathlib import Path
    >>> import conjoin
    >>> _ = Path("needs.csv").write_text("package,kind,of,version\\nweb,needs,net,^1.2\\nnet,needs\\n")
    >>> options = ReadOptions(columns=("package", "kind", "of"), on_error="skip")
    >>> graph = conjoin.load("needs.csv", options=options)
    >>> graph, graph.bad_lines
    (Graph(needs: 2 entities, 1 relations, 1 / 0 / 0 triples), ('needs.csv:3: wrong number of columns: ...',))
    """

    on_error: OnError = "stop"
    columns: tuple[ColumnChoice, ColumnChoice, ColumnChoice] | None = None
    header: bool | None = None
    delimiter: str | None = None
    literals: Literal["drop", "keep"] = "drop"
    blank_nodes: Literal["keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        for setting, value, choices in (
            ("on_error", self.on_error, ("stop", "skip")),
            ("literals", self.literals, ("drop", "keep")),
            ("blank_nodes", self.blank_nodes, ("keep", "drop")),
        ):
            if value not in choices:
                raise unknown(f"value of {setting}", str(value), choices, way_out=f"Use {' or '.join(choices)}.")
        if self.columns is not None:
            self._check_columns(tuple(self.columns))
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '\r\n"\0'):
            raise GraphError(
                f"The delimiter must be one character, not a quote or a line end, got {self.delimiter!r}. "
                "Write a tab as '\\t'."
            )

    def _check_columns(self, columns: tuple[ColumnChoice, ...]) -> None:
        sound = all(isinstance(c, str) or (isinstance(c, int) and not isinstance(c, bool) and c >= 0) for c in columns)
        if len(columns) != 3 or len(set(columns)) != 3 or not sound:
            raise GraphError(f"columns must be three different names or positions from 0, got {columns!r}.")
        if self.header is False and any(isinstance(c, str) for c in columns):
            raise GraphError(
                f"columns={columns!r} contains names, which need a header, but header=False. "
                "Give positions from 0, or header=True."
            )
        object.__setattr__(self, "columns", columns)
