"""A knowledge graph as integers: vocabularies, three splits, reciprocal queries, known answers.

A reciprocal relation is a relation read from tail to head: (?, r, t) is asked as (t, r + n_relations, ?).
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from conjoin.errors import GraphError, unknown
from conjoin.graph.column_roles import PLACES
from conjoin.graph.filter import KnownTails
from conjoin.graph.mmap_names import MmapNames, SortedIndex

Ids = npt.NDArray[np.int64]
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
HeldOut = Literal["valid", "test"]
HELD_OUT: tuple[HeldOut, ...] = ("valid", "test")
FEW = 20_000
LISTED = 12
"""An error about an unknown name lists all names if there are at most this many."""
CHUNK = 1 << 20
KNOWN_AT_ONCE = 1 << 21
"""Up to this many triples, all known answers are sorted for a ranking, which takes 170 bytes each."""
KNOWN_BLOCK = 1 << 18
"""Triples per block when the known answers of a larger graph are collected."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Names in id order. `labels` are readable texts for names; a name without one is shown itself.

    Names are unique, labels need not be: `find` accepts either and refuses an ambiguous label. The names of an ingested
    graph stay on disk (`MmapNames`).
    """

    kind: str
    names: Sequence[str]
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.labels and len(self.labels) != len(self.names):
            raise GraphError(
                f"There are {len(self.labels)} labels for {len(self.names)} {self.kind} names. "
                "Give one label for each name, or none at all."
            )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Vocabulary({self.kind}: {len(self):,} names)"

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Name to id."""
        if isinstance(self.names, MmapNames):
            return SortedIndex(self.names)
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _by_label(self) -> dict[str, list[int]]:
        ids: dict[str, list[int]] = {}
        for i, label in enumerate(self.labels):
            if label:
                ids.setdefault(_normalised(label), []).append(i)
        return ids

    @cached_property
    def _shared(self) -> set[int]:
        """The hashes of labels that several names share. Hashes take eight bytes per label, labels much more."""
        hashes = np.sort(np.fromiter((hash(_normalised(label)) for label in self.labels if label), np.int64))
        return {*hashes[1:][hashes[1:] == hashes[:-1]].tolist()}

    def label(self, i: int) -> str:
        """The text to show for id `i`: its label, with the name if others share the label, or the name if it has none.

        >>> people = Vocabulary("entity", ("Q1", "Q2", "Q3", "Q4"), ("Ann", "Bob", "Ann", ""))
        >>> [people.label(i) for i in range(4)], people.find("Ann (Q3)")
        (['Ann (Q1)', 'Bob', 'Ann (Q3)', 'Q4'], 2)
        """
        label = self.labels[i] if self.labels else ""
        if not label:
            return self.names[i]
        return f"{label} ({self.names[i]})" if hash(_normalised(label)) in self._shared else label

    def matching(self, word: str) -> list[int]:
        """The id with that name; without one, the ids with that label, in any case and any Unicode form."""
        for spelt in dict.fromkeys((word, normalize("NFC", word), normalize("NFD", word))):
            if spelt in self.index:
                return [self.index[spelt]]
        return self._by_label.get(_normalised(word)) or self._as_shown(word)

    def _as_shown(self, word: str) -> list[int]:
        """The id of a text `label (name)`, as `label` writes it for a shared label."""
        ends = (word[at.end() : -1] for at in (re.finditer(r" \(", word) if self.labels else ()))
        return [i for name in ends if (i := self.index.get(name)) is not None and self.label(i) == word]

    def find(self, word: str) -> int:
        """The id of a name or of an unambiguous label."""
        matches = self.matching(word)
        if len(matches) == 1:
            return matches[0]
        if matches:
            choices = ", ".join(self.names[i] for i in matches[:5])
            way_out = f"{len(matches)} have that label: use one of the names {choices}."
            raise unknown(self.kind, word, [], way_out=way_out)
        raise unknown(self.kind, word, self._near(word), if_none_is_close=self._where_to_look(word))

    def _where_to_look(self, word: str) -> str:
        if len(self.names) <= LISTED:
            return f"Known names: {', '.join(map(self.label, range(len(self.names))))}."
        among = " --relations" if self.kind == "relation" else ""
        name = f"-- {shlex.quote(word)}" if word.startswith("-") else shlex.quote(word)
        return f"`conjoin find RUN{among} {name}` finds names by a part."

    def _near(self, word: str) -> list[str]:
        """Names and labels to compare a misspelt word with: all, or names with the same first two letters if many."""
        if len(self.names) + len(self.labels) <= FEW:
            return [*self.names, *self.labels]
        if isinstance(self.index, SortedIndex):
            starts = {word[:2], word[:2].lower(), word[:2].upper(), word[:2].title()}
            return [name for start in sorted(starts) for name in self.index.beginning(start, limit=FEW)]
        everything = [*self.names, *self.labels]
        start = word[:2].casefold()
        return [name for name in everything if name[:2].casefold() == start][:FEW]


def _normalised(label: str) -> str:
    """A label for comparison: case-folded, in the Unicode form NFC."""
    return normalize("NFC", label).casefold()


@dataclass(frozen=True, eq=False)
class Graph:
    """Entities, relations and three arrays of (head, relation, tail) ids, each of shape (n, 3).

    Ids are contiguous and follow the sorted order of the names, so they do not depend on the order of the lines.
    Entities that occur only in valid or test are kept: they are candidates, like every other entity.

    notes      sentences about the files that the user should know
    bad_lines  file, line and reason of each skipped line, the first 1,000
    read_as    format, delimiter and columns of each file; empty for a named dataset

    >>> graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")], [("c", "r", "d")])
    >>> graph
    Graph(graph: 4 entities, 1 relations, 2 / 1 / 1 triples)
    >>> graph.n_entities, graph.n_relations, graph.triples("valid").tolist()
    (4, 1, [[0, 0, 2]])
    >>> len(graph.everything()), graph.degrees().tolist(), graph.names(0, 0, 1), graph.label(0, 0, 1)
    (4, [1, 2, 1, 0], ('a', 'r', 'b'), 'a r b')
    >>> graph.queries("valid").tolist()
    [[0, 0, 2], [2, 1, 0]]
    >>> graph.known.tails_of(0, 0).tolist(), graph.unseen.tolist(), len(graph.checksum)
    ([1, 2], [3], 64)
    >>> graph.unseen_relations.tolist()
    []
    >>> graph.known_of("valid").tails_of(0, 0).tolist()
    [1, 2]
    """

    entities: Vocabulary
    relations: Vocabulary
    train: Ids
    valid: Ids
    test: Ids
    name: str = "graph"
    notes: tuple[str, ...] = field(default=())
    bad_lines: tuple[str, ...] = field(default=())
    read_as: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        """Name and sizes, without the names: a notebook would print millions of them."""
        triples = " / ".join(f"{len(self.triples(split)):,}" for split in SPLITS)
        sizes = f"{self.n_entities:,} entities, {self.n_relations:,} relations"
        return f"Graph({self.name}: {sizes}, {triples} triples)"

    @property
    def n_entities(self) -> int:
        """Entities of all splits."""
        return len(self.entities)

    @property
    def n_relations(self) -> int:
        """Relations without their reciprocals."""
        return len(self.relations)

    def triples(self, split: Split) -> Ids:
        """The (n, 3) ids of one split."""
        if split not in SPLITS:
            raise unknown("split", split, SPLITS, way_out="Splits are train, valid and test.")
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]

    def everything(self) -> Ids:
        """The (n, 3) ids of all splits: train, then valid, then test."""
        return np.concatenate([self.train, self.valid, self.test])

    def names(self, h: int, r: int, t: int) -> tuple[str, str, str]:
        """The names of a triple."""
        return self.entities.names[h], self.relations.names[r], self.entities.names[t]

    def label(self, h: int, r: int, t: int) -> str:
        """A triple as a person reads it."""
        return f"{self.entities.label(h)} {self.relations.label(r)} {self.entities.label(t)}"

    def degrees(self) -> Ids:
        """The number of training triples of each entity, shape (n_entities,); a self-loop counts twice."""
        return np.bincount(self.train[:, [0, 2]].ravel(), minlength=self.n_entities)

    def queries(self, split: Split) -> Ids:
        """Both directions as tail queries, shape (2n, 3): (h, r, t) first, then (t, r + n_relations, h)."""
        return reciprocal(self.triples(split), self.n_relations)

    @cached_property
    def known(self) -> KnownTails:
        """Every answer that is true in train, valid or test, for the queries of both directions."""
        return KnownTails.from_queries(
            reciprocal(self.everything(), self.n_relations), n_relations=2 * self.n_relations
        )

    def known_of(self, split: Split) -> KnownTails:
        """`known`; for a large graph only the queries of this split, because sorting all takes too much memory."""
        if len(self.train) + len(self.valid) + len(self.test) <= KNOWN_AT_ONCE:
            return self.known
        if split not in self._known_of:
            asked, everything = self.queries(split), (self.triples(each) for each in SPLITS)
            blocks = (each[at : at + KNOWN_BLOCK] for each in everything for at in range(0, len(each), KNOWN_BLOCK))
            both = (reciprocal(block, self.n_relations) for block in blocks)
            self._known_of[split] = KnownTails.of_asked(asked, both, n_relations=2 * self.n_relations)
        return self._known_of[split]

    @cached_property
    def _known_of(self) -> dict[Split, KnownTails]:
        return {}

    @cached_property
    def _with_loops(self) -> npt.NDArray[np.bool_]:
        """Which relations have a self-loop in train, shape (n_relations,)."""
        with_loops = np.zeros(self.n_relations, dtype=bool)
        with_loops[self.train[self.train[:, 0] == self.train[:, 2], 1]] = True
        return with_loops

    def never_itself(self, entities: Ids, relations: Ids) -> npt.NDArray[np.bool_]:
        """Which queries (e, r, ?), reciprocal ones too, cannot have e itself as the answer; booleans (n,).

        No training fact of r links an entity to itself, and (e, r, e) is in no split.

        >>> graph = Graph.from_triples([("a", "likes", "a"), ("a", "needs", "b")])
        >>> graph.never_itself(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 3])).tolist()
        [False, True, False, True]
        """
        never = ~self._with_loops[relations % self.n_relations]
        loops = np.stack([entities, relations, entities], axis=1)
        never[never] = ~self.known.contains(loops[never])
        return never

    @cached_property
    def unseen(self) -> Ids:
        """The ids (n,) of entities that occur in no training triple."""
        seen = np.zeros(self.n_entities, dtype=bool)
        seen[self.train[:, 0]] = seen[self.train[:, 2]] = True
        return np.flatnonzero(~seen)

    @cached_property
    def unseen_relations(self) -> Ids:
        """The ids (n,) of relations that occur in no training triple."""
        unseen = np.ones(self.n_relations, dtype=bool)
        unseen[self.train[:, 1]] = False
        return np.flatnonzero(unseen)

    @cached_property
    def checksum(self) -> str:
        """sha256 of the graph's content: names in order and the ids of each split in order."""
        digest = hashlib.sha256()
        for vocabulary in (self.entities, self.relations):
            for name in vocabulary.names:
                encoded = name.encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(8, "little") + encoded)
        for split in SPLITS:
            triples = self.triples(split)
            digest.update(len(triples).to_bytes(8, "little"))
            for start in range(0, len(triples), CHUNK):
                digest.update(np.ascontiguousarray(triples[start : start + CHUNK], dtype="<i8").data)
        return digest.hexdigest()

    @classmethod
    def from_triples(
        cls,
        train: Any,
        valid: Any = None,
        test: Any = None,
        *,
        name: str = "graph",
        labels: dict[str, str] | None = None,
        relation_labels: dict[str, str] | None = None,
        notes: Iterable[str] = (),
    ) -> Graph:
        """Build a graph from names: sequences of triples, (n, 3) arrays, or tables of pandas, polars or pyarrow.

        The columns of a table are found by usual names (head, relation, tail; subject, predicate, object; …), otherwise
        the first three are read in this order.

        >>> graph = Graph.from_triples([("France", "borders", "Spain"), ("Spain", "borders", "Portugal")])
        >>> graph.n_entities, graph.n_relations, graph.train.tolist()
        (3, 1, [[0, 0, 2], [2, 0, 1]])
        """
        columns = [_columns(part) for part in (train, valid, test)]
        entities = _vocabulary("entity", {n for h, _, t in columns for ends in (h, t) for n in ends}, labels)
        relations = _vocabulary("relation", {n for _, r, _ in columns for n in r}, relation_labels)
        train_ids, valid_ids, test_ids = (
            np.stack([_ids(h, entities), _ids(r, relations), _ids(t, entities)], axis=1).reshape(len(h), 3)
            for h, r, t in columns
        )
        return cls(entities, relations, train_ids, valid_ids, test_ids, name=name, notes=tuple(notes))


def reciprocal(triples: Ids, n_relations: int) -> Ids:
    """The triples followed by their reciprocals (t, r + n_relations, h), shape (2n, 3)."""
    turned = triples[:, ::-1].copy()
    turned[:, 1] += n_relations
    return np.concatenate([triples, turned])


def _vocabulary(kind: str, names: set[str], labels: dict[str, str] | None) -> Vocabulary:
    ordered = tuple(sorted(names))
    return Vocabulary(kind, ordered, tuple(labels.get(name, "") for name in ordered) if labels else ())


def _ids(names: list[str], vocabulary: Vocabulary) -> Ids:
    return np.fromiter(map(vocabulary.index.__getitem__, names), dtype=np.int64, count=len(names))


def _columns(part: Any) -> tuple[list[str], list[str], list[str]]:
    """Three equally long lists of names from any supported kind of table."""
    if part is None:
        return [], [], []
    if not hasattr(part, "__len__"):
        part = list(part)
    if len(part) == 0:
        return [], [], []
    if hasattr(part, "column_names"):
        columns = [part.column(i).to_pylist() for i in _positions(part.column_names)]
    elif hasattr(part, "iloc"):
        columns = [list(part.iloc[:, i]) for i in _positions(part.columns)]
    elif hasattr(part, "columns") and hasattr(part, "__getitem__"):
        columns = [list(part[part.columns[i]]) for i in _positions(part.columns)]
    elif hasattr(part, "__array__"):
        if not (hasattr(part, "ndim") and hasattr(part, "tolist")):  # a tensor has both, and may be on a GPU
            part = np.asarray(part)
        if part.ndim != 2 or part.shape[1] != 3:
            raise GraphError(f"An array of triples must have the shape (n, 3), got {tuple(part.shape)}.")
        columns = [part[:, i].tolist() for i in range(3)]
    else:
        columns = _rows_to_columns(part)
    if len(columns) < 3:
        raise GraphError(f"A table of triples needs three columns (head, relation, tail), got {len(columns)}.")
    head, relation, tail = (_names(column, role) for column, role in zip(columns, PLACES, strict=True))
    return head, relation, tail


def _positions(names: Iterable[Any]) -> Sequence[int]:
    from conjoin.graph.column_roles import column_roles

    words = [str(name) for name in names]
    return column_roles(words) if len(words) >= 3 else range(len(words))


def _rows_to_columns(rows: Sequence[Any]) -> list[list[Any]]:
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str | bytes | Mapping | Set) or not hasattr(row, "__len__") or len(row) != 3:
            raise GraphError(f"Triple {number} must be (head, relation, tail), got {row!r}.")
    return [list(column) for column in zip(*rows, strict=True)]


def _names(column: list[Any], role: str) -> list[str]:
    """Names as strings: numbers become their decimal digits, bytes are decoded as UTF-8."""
    names = []
    for number, value in enumerate(column, start=1):
        name = value if type(value) is str else _spelled(value)
        if not name or name.isspace():
            raise GraphError(f"Triple {number} has no {role}. Remove such rows, or fill in a name.")
        names.append(name)
    return names


def _spelled(value: Any) -> str:
    """A value as a string, empty for a missing value (None, NaN, NaT, pandas.NA)."""
    try:
        if value is None or value != value:  # noqa: PLR0124 (only NaN and NaT differ from themselves)
            return ""
        if hasattr(value, "item") and not isinstance(value, np.generic):
            value = value.item()  # 5 instead of tensor(5); NumPy scalars keep their own text of 0.1 and of dates
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise GraphError(f"The name {value!r} is not valid UTF-8: {error.reason}. Decode it before.") from error
    except (TypeError, ValueError):
        return ""
