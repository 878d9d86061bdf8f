"""Compiled loops from code points to their normal form; `characters` defines it."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled

COUNT_BITS = 0b0001_1111
MIXES = 0b0010_0000
NONSTARTER = 0b0100_0000
INTERACTS = 0b1000_0000
"""Bits of a code point: its form's length; the form has a letter that may look Latin; is one mark; acts upon its neighbours."""


class Tables(NamedTuple):
    """What the kernels know about code points: arrays [all code points], but for `pool` and the look-alikes.

    behaviours        uint8, the bits above
    folded            uint32, the forms with one code point
    pool, pool_starts uint32 and int64, the longer forms, each from its start on
    classes           uint8, canonical combining classes
    rules             uint8, `characters.Rule`
    inside            uint8, 1 in words' letters and digits, 2 in marks, else 0
    alphabets, forms  as in `look_alikes.LookAlikes`
    """

    behaviours: npt.NDArray[np.uint8]
    folded: npt.NDArray[np.uint32]
    pool: npt.NDArray[np.uint32]
    pool_starts: npt.NDArray[np.int64]
    classes: npt.NDArray[np.uint8]
    rules: npt.NDArray[np.uint8]
    inside: npt.NDArray[np.uint8]
    alphabets: npt.NDArray[np.uint8]
    forms: npt.NDArray[np.uint32]


@compiled
def survey(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], tables: Tables
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], np.int64]:
    """For n texts: which hold composing characters or marks out of canonical order, which may mix alphabets, and all forms' total
    length: bool [n] twice and a count.
    """
    behaviours, classes = tables.behaviours, tables.classes
    interacting, mixing = np.zeros(len(bounds) - 1, np.bool_), np.zeros(len(bounds) - 1, np.bool_)
    total = np.int64(0)
    for text in range(len(bounds) - 1):
        seen, previous = np.uint8(0), np.uint8(0)
        for place in range(bounds[text], bounds[text + 1]):
            behaviour = behaviours[codepoints[place]]
            seen |= behaviour
            total += np.int64(behaviour & np.uint8(COUNT_BITS))
            if behaviour & np.uint8(NONSTARTER):
                combining = classes[codepoints[place]]
                if combining < previous:
                    interacting[text] = True
                previous = combining
            elif behaviour & np.uint8(COUNT_BITS):
                previous = np.uint8(0)
        if seen & np.uint8(INTERACTS):
            interacting[text] = True
        mixing[text] = seen & np.uint8(MIXES) > 0
    return interacting, mixing, total


@compiled
def write(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], tables: Tables, total: Any
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """All forms, uint32 [total], and the texts' bounds among them, int64 [n + 1]. `total` is from `survey`."""
    behaviours, folded, pool, pool_starts = tables.behaviours, tables.folded, tables.pool, tables.pool_starts
    written, written_bounds = np.empty(total, np.uint32), np.zeros(len(bounds), np.int64)
    filled = np.int64(0)
    for text in range(len(bounds) - 1):
        for place in range(bounds[text], bounds[text + 1]):
            codepoint = codepoints[place]
            count = np.int64(behaviours[codepoint] & np.uint8(COUNT_BITS))
            if count == 1:
                written[filled] = folded[codepoint]
            elif count > 1:
                for offset in range(count):
                    written[filled + offset] = pool[pool_starts[codepoint] + offset]
            filled += count
        written_bounds[text + 1] = filled
    return written, written_bounds


@compiled
def letters(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], rules: npt.NDArray[np.uint8], letterless: Any
) -> npt.NDArray[np.uint32]:
    """Each text's code points whose rule is neither in `letterless`: uint32 [n]."""
    one, other = letterless
    counts = np.zeros(len(bounds) - 1, np.uint32)
    for text in range(len(counts)):
        count = 0
        for place in range(bounds[text], bounds[text + 1]):
            rule = rules[codepoints[place]]
            count += (rule != one) & (rule != other)
        counts[text] = count
    return counts


@compiled
def unmix(
    codepoints: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    mixing: npt.NDArray[np.bool_],
    tables: Tables,
) -> None:
    """Step 3 of `characters.normalise`, in place. `mixing`, bool [n]: texts to examine."""
    counts = np.zeros(len(tables.forms), np.int64)
    for text in range(len(bounds) - 1):
        written = False
        # First the words with mixed alphabets; then, if there were any, one-alphabet words that may be disguised whole.
        for whole in range(2 if mixing[text] else 0):
            if whole and not written:
                break
            place, previous = bounds[text], np.uint8(0)
            while place < bounds[text + 1]:
                first = place
                place, seen, possible = _word(codepoints, place, bounds[text + 1], tables)
                if whole and seen & (seen - np.uint8(1)) == 0 and previous & (previous - np.uint8(1)) == 0:
                    possible &= previous
                if possible and (seen & (seen - np.uint8(1)) or (whole and seen)):
                    written = True
                    chosen = _write_in_one(codepoints[first:place], possible, tables, counts)
                    seen = np.uint8(1 << chosen)
                previous = seen if seen else previous
                place += 1


@compiled
def _word(codepoints: npt.NDArray[np.uint32], place: Any, end: Any, tables: Tables) -> tuple[Any, Any, Any]:
    """The word at a place: its end, its letters' alphabets, and the alphabets with forms for all of them, both as bits."""
    inside, alphabets, forms = tables.inside, tables.alphabets, tables.forms
    seen, possible = np.uint8(0), np.uint8((1 << len(forms)) - 1)
    while place < end and inside[codepoints[place]]:
        letter = codepoints[place]
        place += 1
        if letter < len(alphabets) and alphabets[letter]:
            seen |= alphabets[letter]
            # Before a mark, another letter might compose.
            marked = place < end and inside[codepoints[place]] == 2
            for alphabet in range(len(forms)):
                if forms[alphabet, letter] == 0 or (marked and forms[alphabet, letter] != letter):
                    possible &= ~np.uint8(1 << alphabet)
    return place, seen, possible


@compiled
def _write_in_one(word: npt.NDArray[np.uint32], possible: Any, tables: Tables, counts: npt.NDArray[np.int64]) -> int:
    """Write a word in the possible alphabet with most of its letters, the first on ties; returns its number."""
    alphabets, forms = tables.alphabets, tables.forms
    counts[:] = 0
    for letter in word:
        if letter < len(alphabets):
            for alphabet in range(len(forms)):
                counts[alphabet] += (alphabets[letter] >> alphabet) & 1
    chosen, most = 0, -1
    for alphabet in range(len(forms)):
        if (possible >> alphabet) & 1 and counts[alphabet] > most:
            chosen, most = alphabet, counts[alphabet]
    for place in range(len(word)):
        if word[place] < len(alphabets) and alphabets[word[place]]:
            word[place] = forms[chosen, word[place]]
    return chosen
