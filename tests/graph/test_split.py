from __future__ import annotations

import hashlib
import random
import re
import tempfile
from inspect import signature
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conjoin
from conjoin.errors import GraphError, UsageError
from conjoin.graph.graph import SPLITS, Graph, Split
from conjoin.graph.split import parse_size, split_graph
from conjoin.graph.split_groups import bands
from conjoin.io.read_graph import read_graph
from conjoin.io.write_split import write_split

Triple = tuple[str, str, str]
SHARES = st.sampled_from([0, 1, 3, 0.0, 0.05, 0.1, 0.3, 0.45])

triples = st.tuples(
    st.integers(0, 12).map(str), st.sampled_from(["likes", "knows", "owns"]), st.integers(0, 12).map(str)
)
graphs = st.lists(triples, min_size=8, max_size=80, unique=True)


def names(graph: Graph, split: Split) -> set[Triple]:
    e, r = graph.entities.names, graph.relations.names
    return {(e[h], r[k], e[t]) for h, k, t in graph.triples(split).tolist()}


def held(graph: Graph) -> set[Triple]:
    return names(graph, "valid") | names(graph, "test")


def vocabulary(triples: set[Triple]) -> set[str]:
    return {name for triple in triples for name in triple}


@pytest.fixture(scope="module")
def plenty() -> Graph:
    """500 distinct triples between 40 entities: every size can be met."""
    chance = random.Random(0)
    found: set[Triple] = set()
    while len(found) < 500:
        found.add((f"e{chance.randrange(40)}", f"r{chance.randrange(4)}", f"e{chance.randrange(40)}"))
    return Graph.from_triples(sorted(found))


@settings(deadline=None)
@given(graphs, SHARES, SHARES, st.integers(0, 3))
def test_splits_partition_the_facts_and_keep_train_complete(
    lines: list[Triple], valid: float | int, test: float | int, seed: int
) -> None:
    graph = Graph.from_triples(lines)
    parted = split_graph(graph, valid=valid, test=test, seed=seed)
    parts = [names(parted, split) for split in SPLITS]

    assert sum(len(parted.triples(split)) for split in SPLITS) == len(lines)
    assert set.union(*parts) == set(lines)

    assert parted.entities is graph.entities
    assert parted.relations is graph.relations
    assert vocabulary(held(parted)) <= vocabulary(parts[0])

    pairs = [{frozenset((h, t)) for h, _, t in part} for part in parts]
    assert not pairs[0] & pairs[1]
    assert not pairs[0] & pairs[2]
    assert not pairs[1] & pairs[2]

    for part, size, split in ((1, valid, "valid"), (2, test, "test")):
        got, wanted = len(parts[part]), size if isinstance(size, int) else int(size * len(lines) + 0.5)
        said = [note for note in parted.notes[1:] if re.match(rf"{split}\b.*\b{got}\b.*\b{wanted}\b", note)]
        assert bool(said) == (got != wanted)
        if got > wanted:
            assert wanted
            assert len(pairs[part]) == 1
        for pair in pairs[0]:
            group = {(h, r, t) for h, r, t in parts[0] if frozenset((h, t)) == pair}
            if len(group) <= wanted - got:
                assert vocabulary(group) - vocabulary(parts[0] - group), "this group could have left train"


@settings(deadline=None)
@given(graphs, st.randoms(use_true_random=False), st.data())
def test_split_does_not_depend_on_line_order_old_splits_or_vocabulary(
    lines: list[Triple], chance: random.Random, data: st.DataObject
) -> None:
    first = split_graph(Graph.from_triples(lines), valid=0.2, test=0.2)
    chance.shuffle(lines)
    cut = data.draw(st.integers(0, len(lines)))
    again = split_graph(Graph.from_triples(lines[:cut], lines[cut:]), valid=0.2, test=0.2)
    assert again.checksum == first.checksum
    assert again.notes == first.notes


def test_groups_are_ordered_by_the_documented_hash() -> None:
    """Blake2b and splitmix64 once more, slowly: in a complete graph the first pairs of that order are held out."""
    mask = 2**64 - 1

    def mix(key: int) -> int:
        key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 & mask
        key = (key ^ (key >> 27)) * 0x94D049BB133111EB & mask
        return key ^ (key >> 31)

    def key(pair: tuple[str, str]) -> int:
        secret = hashlib.blake2b(b"7", digest_size=32).digest()
        digests = (hashlib.blake2b(name.encode(), digest_size=8, key=secret).digest() for name in pair)
        low, high = sorted(int.from_bytes(digest, "little") for digest in digests)
        return mix((mix(low) + high) & mask)

    pairs = [(a, b) for a in "ABCDEFGHIJKLé" for b in "ABCDEFGHIJKLé" if a < b]
    parted = split_graph(Graph.from_triples([(a, "r", b) for a, b in pairs]), valid=2, test=2, seed=7)
    first = sorted(pairs, key=key)[:4]
    assert names(parted, "test") == {(a, "r", b) for a, b in first[::2]}
    assert names(parted, "valid") == {(a, "r", b) for a, b in first[1::2]}


def test_ids_in_another_order_give_the_same_named_triples(plenty: Graph) -> None:
    renumbered = [len(plenty.entities) - 1 - i for i in range(len(plenty.entities))]
    turned = plenty.train.copy()
    for place in (0, 2):
        turned[:, place] = [renumbered[e] for e in plenty.train[:, place]]
    other = Graph(
        type(plenty.entities)("entity", plenty.entities.names[::-1]), plenty.relations, turned, turned[:0], turned[:0]
    )
    assert held(split_graph(other, valid=0.1, test=0.1)) == held(split_graph(plenty, valid=0.1, test=0.1))


def test_split_sizes_are_exact_if_possible(plenty: Graph) -> None:
    parted = split_graph(plenty, valid=0.1, test=70)
    assert (len(parted.train), len(parted.valid), len(parted.test)) == (380, 50, 70)
    assert len(parted.notes) == 1


def test_split_depends_on_the_seed_and_repeats(plenty: Graph) -> None:
    zero, one, again = (split_graph(plenty, valid=0.1, test=0.1, seed=seed) for seed in (0, 1, 0))
    assert held(zero) != held(one)
    assert zero.checksum == again.checksum


def test_most_of_a_split_survives_when_the_graph_grows(plenty: Graph) -> None:
    grown = Graph.from_triples([*names(plenty, "train"), ("new", "r0", "e1")])
    before, after = (held(split_graph(graph, valid=0.1, test=0.1)) for graph in (plenty, grown))
    assert len(before & after) > 95


def test_repeated_triples_are_kept_once_and_counted() -> None:
    lines = [("a", "r", "b"), ("b", "r", "c"), ("a", "r", "c"), ("a", "r", "b")]
    parted = split_graph(Graph.from_triples(lines, [("a", "r", "b")], notes=["read"]), valid=0, test=1)
    assert len(parted.train) + len(parted.test) == 3
    assert parted.notes[0] == "read"
    assert parted.notes[2].startswith("2 ")


def test_star_stays_in_train_completely() -> None:
    parted = split_graph(Graph.from_triples([("hub", "r", str(i)) for i in range(50)]), valid=0.1, test=0.1)
    assert len(parted.train) == 50
    assert re.match(r"test\b.*\b0\b.*\b5\b", parted.notes[-1])
    assert re.match(r"valid\b.*\b0\b.*\b5\b", parted.notes[-2])


def test_last_triple_of_a_relation_stays_in_train() -> None:
    common = [(str(i), "common", str(j)) for i in range(5) for j in range(i)]
    for seed in range(20):
        parted = split_graph(Graph.from_triples([*common, ("0", "rare", "4")]), valid=0, test=5, seed=seed)
        assert ("0", "rare", "4") in names(parted, "train")


def test_relation_in_both_directions_of_one_pair_stays_in_train() -> None:
    around = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]
    parted = split_graph(Graph.from_triples([*around, ("a", "s", "b"), ("b", "s", "a")]), valid=0, test=3)
    assert ("a", "s", "b") in names(parted, "train")


def test_entities_of_self_loops_stay_in_train() -> None:
    loops = [(name, "r", name) for name in "abc"]
    assert len(split_graph(Graph.from_triples(loops), valid=0, test=1).test) == 0
    rays = [(name, "r", "hub") for name in "abc"]
    parted = split_graph(Graph.from_triples([*loops, *rays]), valid=0, test=5)
    assert sorted(h for h, _, _ in names(parted, "test")) == ["a", "b", "c"]


def test_a_part_smaller_than_every_group_gets_the_smallest() -> None:
    small = [(x, r, y) for x, y in [("a", "b"), ("b", "c"), ("c", "a")] for r in ("r", "s")]
    large = [(x, r, y) for x, y in [("a", "d"), ("d", "b")] for r in ("r", "s", "t")]
    parted = split_graph(Graph.from_triples([*small, *large]), valid=0, test=1)
    assert len(parted.test) == 2
    assert re.match(r"test\b.*\b2\b.*\b1\b", parted.notes[-1])


def test_one_triple_stays_and_an_empty_graph_stays_empty() -> None:
    one = split_graph(Graph.from_triples([("a", "r", "b")]), valid=0.5, test=0.1)
    assert (len(one.train), len(one.valid), len(one.test)) == (1, 0, 0)
    empty = split_graph(Graph.from_triples([]), valid=0.1, test=0.1)
    assert (len(empty.train), len(empty.valid), len(empty.test)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("valid", "test"), [(0.6, 0.5), (300, 200), (0.5, 250), (-1, 0), (1.5, 0), (float("nan"), 0), (10**400, 0.1)]
)
def test_invalid_split_sizes_are_refused(plenty: Graph, valid: float | int, test: float | int) -> None:
    with pytest.raises(UsageError):
        split_graph(plenty, valid=valid, test=test)


@pytest.mark.parametrize(
    ("text", "size"), [("5%", 0.05), (" 12.5 % ", 0.125), ("0.05", 0.05), (".1", 0.1), ("500", 500), ("0", 0), ("1", 1)]
)
def test_sizes_as_text(text: str, size: float | int) -> None:
    parsed = parse_size(text)
    assert parsed == size
    assert type(parsed) is type(size)


@pytest.mark.parametrize("text", ["", "%", "five", "-5", "5%%", "1e3", "nan", "1,000", "٣"])
def test_text_that_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(text))):
        parse_size(text)


@pytest.mark.parametrize("text", ["100%", "250 %", "1.0"])
def test_share_of_the_whole_graph_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(text))):
        parse_size(text)


def test_files_hold_the_split(plenty: Graph, tmp_path: Path) -> None:
    parted = split_graph(plenty, valid=0.1, test=0)
    written = write_split(parted, tmp_path / "new" / "folder")
    assert [file.name for file in written.files] == ["train.txt", "valid.txt", "test.txt"]
    assert written.notes == ()
    assert read_graph(written.folder).checksum == parted.checksum
    assert sorted(path.name for path in written.folder.iterdir()) == ["test.txt", "train.txt", "valid.txt"]
    assert [path.name for path in written.folder.parent.iterdir()] == ["folder"]


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4)
words = (words | st.sampled_from(["head", "subject", "Relation", "tail", '"', "#", "\ufeff", "\r", "a\tb"])).filter(
    lambda name: not name.isspace()
)


@settings(deadline=None)
@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=4), st.dictionaries(words, words, max_size=3))
def test_any_names_read_back_as_they_were(lines: list[Triple], labels: dict[str, str]) -> None:
    graph = Graph.from_triples(lines, lines[1:], labels=labels)
    with tempfile.TemporaryDirectory() as folder:
        write_split(graph, folder)
        back = read_graph(folder)
    assert back.checksum == graph.checksum
    for i, name in enumerate(graph.entities.names):
        if not any(mark in name for mark in "\t\r\n\ufeff"):
            expected = re.sub("[\t\r\n\ufeff]", " ", labels.get(name, "")).strip()
            assert back.entities.label(i) == (expected or name)


def test_labels_are_stored_on_one_line(tmp_path: Path) -> None:
    graph = Graph.from_triples(
        [("a", "r", "b")], labels={"a": "Ann\tthe\nfirst", "b": ""}, relation_labels={"r": "is related to"}
    )
    written = write_split(graph, tmp_path / "out")
    assert (written.folder / "entity_labels.tsv").read_bytes() == b"a\tAnn the first\n"
    assert (written.folder / "relation_labels.tsv").read_bytes() == b"r\tis related to\n"
    back = read_graph(written.folder)
    assert (back.entities.label(0), back.relations.label(0)) == ("Ann the first", "is related to")


@pytest.mark.parametrize("name", ["tab\there", "line\nbreak", "carriage\r", "\ufeffmark"])
def test_names_that_break_lines_go_to_parquet(name: str, tmp_path: Path) -> None:
    graph = Graph.from_triples([("a", "r", name)], labels={"a": "Ann", name: "broken"})
    written = write_split(graph, tmp_path / "out")
    assert [file.name for file in written.files] == [*(f"{s}.parquet" for s in SPLITS), "entity_labels.tsv"]
    assert read_graph(written.folder).checksum == graph.checksum
    assert repr(name) in written.notes[0]
    assert re.search(r"entity_labels\.tsv.*\b1\b|\b1\b.*entity_labels\.tsv", written.notes[1])


def test_a_first_line_that_looks_like_a_header_goes_to_parquet(tmp_path: Path) -> None:
    written = write_split(Graph.from_triples([("Source", "property", "target")]), tmp_path / "out")
    assert written.files[0].name == "train.parquet"
    assert "'Source', 'property', 'target'" in written.notes[0]


def test_a_full_folder_is_refused_without_overwrite(plenty: Graph, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(UsageError, match=re.escape(str(tmp_path))):
        write_split(plenty, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]

    write_split(Graph.from_triples([("tab\t", "r", "b")], labels={"b": "Bea"}), tmp_path, overwrite=True)
    write_split(plenty, tmp_path, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"notes.md", "train.txt", "valid.txt", "test.txt"}
    assert (tmp_path / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["Test.csv.gz", "dev.tsv", "graph.json", "entity_labels.tsv.gz"])
def test_files_that_take_precedence_over_the_new_split_are_refused(name: str, plenty: Graph, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UsageError, match=re.escape(name)):
        write_split(plenty, tmp_path, overwrite=True)


def test_invalid_unicode_names_and_files_as_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        write_split(Graph.from_triples([("a", "r", "b")]), tmp_path / "file")
    for broken in ("\udc80", "\udc80\t"):
        with pytest.raises(GraphError, match="udc80"):
            write_split(Graph.from_triples([("a", "r", broken)]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pairs_stay_whole_where_their_keys_are_equal() -> None:
    """Sixty-four bits hardly ever meet; here they all do."""
    chance = np.random.default_rng(0)
    triples = np.unique(chance.integers(0, (6, 3, 6), (80, 3)), axis=0)
    found = bands(lambda: iter([triples]), np.zeros(6, np.uint64), n_triples=len(triples))
    pairs: list[frozenset[int]] = []
    for groups in found:
        for start, stop in pairwise(groups.starts):
            ends = {frozenset((groups.heads[i], groups.tails[i])) for i in range(start, stop)}
            assert len(ends) == 1
            pairs += ends
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, {frozenset((h, t)) for h, _, t in triples.tolist()}))


def test_a_group_larger_than_wanted_is_not_taken_from_another_split() -> None:
    twins = [(f"e{i}", r, f"e{j}") for i in range(6) for j in range(i) for r in ("likes", "knows")]
    parted = split_graph(Graph.from_triples(twins), valid=1, test=2)
    assert [len(parted.triples(split)) for split in SPLITS] == [len(twins) - 4, 2, 2]
    assert len(held(parted)) == 4


def test_calls_that_errors_recommend_can_be_made() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in Path(conjoin.__path__[0]).rglob("*.py"))
    recommended = re.findall(r"with split_graph\(graph, (.+?)\) \(", sources)
    assert recommended
    for arguments in recommended:
        named = dict(argument.split("=") for argument in arguments.split(", "))
        signature(split_graph).bind("graph", **named)
