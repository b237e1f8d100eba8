"""Find names by their start, by the start of their words, by a part, or with spelling errors.

The index is in numpy. Does not import torch.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conjoin.errors import UsageError
from conjoin.graph.graph import Graph, Ids, Vocabulary

WORD = re.compile(r"[^\W_]+")
MOST_WORDS = 12
"""Words of a label by which it can be found; what follows is found as a part only."""
LONGEST_WORD = 24
"""Letters of a word that are compared when it is misspelt."""
LONGEST_TEXT = 200
LAST = chr(0x10FFFF)
SAME, EXACT, START, WORD_START, ALL_WORDS, PART, MISSPELT = range(7)
"""How a name matches, best first; a misspelt one stands the lower the more letters differ."""
Letters = npt.NDArray[np.int32]
NOWHERE = 1 << 14
ONES = np.array([number.bit_count() for number in range(1 << 16)], dtype=np.uint8)


@dataclass(frozen=True)
class Match:
    """A name that was found, what a person reads, and in how many training facts it occurs."""

    name: str
    label: str
    degree: int


def plain(text: str) -> str:
    """Letters without case and accents, words with one blank between: 'São_Tomé' is 'sao tome'."""
    low = text[:LONGEST_TEXT].casefold()
    if not low.isascii():
        apart = unicodedata.normalize("NFKD", low)
        low = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return " ".join(WORD.findall(low))


class NameIndex:
    """Names and labels of a vocabulary. Among equally good matches, entities with more facts come first."""

    def __init__(self, vocabulary: Vocabulary, degrees: Ids) -> None:
        self.vocabulary, self.degrees = vocabulary, degrees
        texts = {(plain(name), i) for i, name in enumerate(vocabulary.names)}
        texts |= {(plain(label), i) for i, label in enumerate(vocabulary.labels) if label}
        texts = {(text, i) for text, i in texts if text}
        ends, owner, whole = [], [], []
        for text, i in texts:
            found = _ends(text)
            ends += found
            owner += [i] * len(found)
            whole += [True] + [False] * (len(found) - 1)
        order = sorted(range(len(ends)), key=ends.__getitem__)
        self._ends = [ends[place] for place in order]
        self._owner = np.array(owner, dtype=np.int64)[order]
        self._whole = np.array(whole, dtype=bool)[order]
        ordered = sorted(texts)
        self._all_text = "\n".join(text for text, _ in ordered)
        self._text_owner = np.array([i for _, i in ordered], dtype=np.int64)
        self._text_start = np.cumsum([0] + [len(text) + 1 for text, _ in ordered])
        first = [end.partition(" ")[0] for end in self._ends]
        self._words = _Words(sorted(set(first)))
        number = {word: i for i, word in enumerate(self._words.spelled)}
        self._first_word = np.array([number[word] for word in first], dtype=np.int64)

    def find(self, text: str, limit: int = 10) -> list[Match]:
        """The best matches first; nothing typed finds what has the most facts."""
        if limit < 1:
            raise UsageError(f"limit = {limit} is too small: ask for at least one name")
        wanted, typed = plain(text), text.strip()
        place = np.full(len(self.vocabulary), NOWHERE, dtype=np.int64)
        if wanted:
            self._find_starts(wanted, place)
        elif not typed:
            place[:] = START
        if typed:  # C++ is not C, and € has no letter by which it could be found
            place[self.vocabulary.matching(typed)] = SAME
        if wanted and (place < NOWHERE).sum() < limit:
            self._find_parts(wanted, place)
        if wanted and not (place < NOWHERE).any():
            self._find_misspelt(wanted.split(), place)
        return [self._match(int(i)) for i in self._best(place, limit)]

    def _best(self, place: Ids, limit: int) -> Ids:
        most = int(self.degrees.max(initial=0)) + 1
        found = np.flatnonzero(place < NOWHERE)
        key = place[found] * most + most - 1 - self.degrees[found]
        if len(found) > limit:
            nearest = np.argpartition(key, limit - 1)[:limit]
            border = key[nearest].max()
            kept = np.flatnonzero(key <= border)
            found, key = found[kept], key[kept]
        return found[np.lexsort((found, key))[:limit]]

    def _match(self, i: int) -> Match:
        return Match(self.vocabulary.names[i], self.vocabulary.label(i), int(self.degrees[i]))

    def _find_starts(self, wanted: str, place: Ids) -> None:
        first, stop = self._range(wanted)
        owner, whole = self._owner[first:stop], self._whole[first:stop]
        _put(place, owner, WORD_START)
        _put(place, owner[whole], START)
        same = bisect_left(self._ends, wanted + " \0", first, stop)
        same = bisect_left(self._ends, wanted + "\0", first, same)
        _put(place, owner[: same - first][whole[: same - first]], EXACT)
        words = wanted.split()
        if len(words) > 1:
            everywhere = np.ones(len(place), dtype=bool)
            for word in words:
                here = np.zeros(len(place), dtype=bool)
                here[self._owner[slice(*self._range(word))]] = True
                everywhere &= here
            _put(place, np.flatnonzero(everywhere), ALL_WORDS)

    def _find_parts(self, wanted: str, place: Ids) -> None:
        at, found = self._all_text.find(wanted), []
        while at >= 0:
            found.append(at)
            at = self._all_text.find(wanted, at + len(wanted))
        texts = np.searchsorted(self._text_start, found, side="right") - 1
        _put(place, self._text_owner[texts], PART)

    def _find_misspelt(self, words: Sequence[str], place: Ids) -> None:
        total = np.zeros(len(place), dtype=np.int64)
        for word in words:
            near, edits = self._words.near(word)
            of_word = np.full(len(self._words.spelled), 99, dtype=np.int8)
            of_word[near] = edits
            of_end = of_word[self._first_word]
            wrong = np.full(len(place), NOWHERE, dtype=np.int64)
            for count in sorted(set(edits.tolist()), reverse=True):
                wrong[self._owner[of_end == count]] = count
            total += wrong
        found = np.flatnonzero(total < NOWHERE)
        place[found] = np.minimum(place[found], MISSPELT + total[found])

    def _range(self, start: str) -> tuple[int, int]:
        return bisect_left(self._ends, start), bisect_left(self._ends, start + LAST)


def entity_names(graph: Graph) -> NameIndex:
    """The names of a graph's entities."""
    return NameIndex(graph.entities, graph.degrees())


def relation_names(graph: Graph) -> NameIndex:
    """The names of a graph's relations."""
    return NameIndex(graph.relations, np.bincount(graph.train[:, 1], minlength=graph.n_relations))


def _ends(text: str) -> list[str]:
    """The text from each of its words on."""
    starts = [0] + [at + 1 for at, letter in enumerate(text) if letter == " "]
    return [text[at:] for at in starts[:MOST_WORDS]]


def _put(place: Ids, ids: Ids, value: int) -> None:
    place[ids] = np.minimum(place[ids], value)


class _Words:
    """Distinct words as a matrix of letters, to count in how many edits each begins like a given one."""

    def __init__(self, spelled: list[str]) -> None:
        self.spelled = spelled
        letters = np.array(spelled, dtype=f"U{LONGEST_WORD}").view(np.int32).reshape(-1, LONGEST_WORD)
        self.letters = letters
        self.first, self.second = letters[:, 0].copy(), letters[:, 1].copy()
        self.lengths = (letters > 0).sum(axis=1)
        bits = np.where(letters > 0, np.uint32(1) << (letters % 32).astype(np.uint32), 0)
        self.sets = np.bitwise_or.reduce(bits.astype(np.uint32), axis=1)

    def near(self, word: str) -> tuple[Ids, Ids]:
        """Words that begin like `word` in few edits (a swap of neighbours is one), and in how many."""
        wanted = np.array([ord(letter) for letter in word[:LONGEST_WORD]], dtype=np.int32)
        allowed = 0 if len(wanted) < 3 else 1 if len(wanted) < 6 else 2
        own = np.bitwise_or.reduce(np.uint32(1) << (wanted % 32).astype(np.uint32))
        likely = np.flatnonzero(self._begins_near(wanted)) if allowed else np.flatnonzero(self.first == wanted[0])
        missing = own & ~self.sets[likely]
        lacking = ONES[missing & 0xFFFF] + ONES[missing >> 16]
        likely = likely[(lacking <= allowed) & (self.lengths[likely] >= len(wanted) - allowed)]
        edits = prefix_edits(wanted, self.letters[likely], allowed)
        close = edits <= allowed
        return likely[close], edits[close].astype(np.int64)

    def _begins_near(self, wanted: Letters) -> npt.NDArray[np.bool_]:
        """Words that an edit may have changed at their beginning, but not two."""
        a, b = wanted[:2].tolist()
        near = (self.first == a) | (self.first == b) | (self.second == a) | (self.second == b)
        return np.asarray(near, dtype=bool)


def prefix_edits(wanted: Letters, letters: Letters, most: int) -> npt.NDArray[np.int16]:
    """The fewest edits (insert, drop, change, swap neighbours) from `wanted` to a beginning of each row of letters.

    Rows end in zeros. All rows go through one table of edit distances together; cells farther than `most` from its
    diagonal are left out, so that only numbers up to `most` are exact.
    """
    far = most + 1
    by_place = np.ascontiguousarray(letters[:, : len(wanted) + most].T)
    outside = np.full(len(letters), far, dtype=np.int16)
    older: dict[int, npt.NDArray[np.int16]] = {}
    before = {j: np.full(len(letters), j, dtype=np.int16) for j in range(min(most, len(by_place)) + 1)}
    for i, letter in enumerate(wanted.tolist(), start=1):
        now: dict[int, npt.NDArray[np.int16]] = {}
        for j in range(max(0, i - most), min(i + most, len(by_place)) + 1):
            best = before.get(j, outside) + np.int16(1)
            if j:
                best = np.minimum(best, now.get(j - 1, outside) + np.int16(1))
                best = np.minimum(best, before.get(j - 1, outside) + (by_place[j - 1] != letter))
            if i > 1 and j > 1 and j - 2 in older:
                swapped = (by_place[j - 1] == wanted[i - 2]) & (by_place[j - 2] == letter)
                best = np.where(swapped, np.minimum(best, older[j - 2] + np.int16(1)), best)
            now[j] = best
        older, before = before, now
    return np.asarray(np.minimum.reduce([outside, *before.values()]), dtype=np.int16)
