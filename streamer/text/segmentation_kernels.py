"""Compiled loops for jieba's segmentation: its dictionary as a trie in arrays, the likeliest path, the hidden Markov model.

`segmentation` defines the results and builds the arrays.

A trie node represents a word's beginning: a single character by its code point, every other node by SYMBOLS plus its place
in `children`, a hash table with open addressing. An entry is one 64-bit number. Its key holds the parent node and the next
character; the low bits number the weight of the word that ends there. 0 is empty. So a step down the trie reads one place in
memory.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, prefetch

HAN_FIRST, HAN_LAST = 0x4E00, 0x9FD5
SYMBOLS = 1 << 16
WEIGHT_BITS = 24
ENTRIES_MAX = 1 << 23
"""The most entries that the 24 bits for the parent node can number, besides single characters."""

_WEIGHT_MASK = np.uint64((1 << WEIGHT_BITS) - 1)

_B, _E, _M, _S = range(4)
"""Places in a word: beginning, end, middle, whole. jieba settles ties in this order."""


class Dictionary(NamedTuple):
    """The words of a dictionary, and the model for unknown words. Weights are logarithms.

    children     uint64 [a power of two], the trie
    singles      float64 [SYMBOLS], each character's share in all text as a word, -inf for no word
    weights      float64 [distinct weights], by the low WEIGHT_BITS of an entry; the first is -inf
    unknown      float64, the weight of a character that begins no word
    forced       bool [nodes], words to split into characters if the model yields them; length 0 for none
    starts       float64 [4], probability that a run begins with state B, E, M, S
    transitions  float64 [4, 4], probability that the second state follows the first
    emissions    float64 [HAN_LAST - HAN_FIRST + 1, 4], probability that a state has this character
    """

    children: npt.NDArray[np.uint64]
    singles: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    unknown: float
    forced: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.float64]
    transitions: npt.NDArray[np.float64]
    emissions: npt.NDArray[np.float64]


@compiled
def _key(node: Any, symbol: Any) -> Any:
    """Key of the node after `node` by `symbol`, a code point below SYMBOLS."""
    return (np.uint64(node) << np.uint64(16)) | np.uint64(symbol)


@compiled
def _first_place(children: npt.NDArray[np.uint64], key: Any) -> Any:
    return np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (len(children) - 1)


@compiled
def _place(children: npt.NDArray[np.uint64], key: Any) -> Any:
    """Place of a key's entry, or the empty place at which its search ends."""
    place = _first_place(children, key)
    while children[place] != 0 and children[place] >> np.uint64(WEIGHT_BITS) != key:
        place = (place + 1) & (len(children) - 1)
    return place


@compiled
def _han_at(octets: npt.NDArray[np.uint8], at: int) -> Any:
    """The Han character (three bytes of UTF-8) at a byte, else 0."""
    if not 0xE4 <= octets[at] <= 0xE9:
        return 0
    symbol = (np.int64(octets[at]) & 0xF) << 12 | (np.int64(octets[at + 1]) & 0x3F) << 6
    symbol |= np.int64(octets[at + 2]) & 0x3F
    return symbol if HAN_FIRST <= symbol <= HAN_LAST else 0


@compiled
def read(octets: npt.NDArray[np.uint8], children: npt.NDArray[np.uint64]) -> Any:
    """Read a dictionary into a trie whose weights are still 0.

    octets    lines of UTF-8: word, space, frequency; the rest of a line is ignored. A repeated word's last line counts.
    children  uint64 [a power of two], zeros, to fill

    Returns each node's frequency, int64 [nodes], 0 for no word; whether it had a word with frequency 0, bool [nodes]; the sum of
    all frequencies; and whether the table had room. Without room nothing else holds. Words with other than Han characters count
    in the sum only.
    """
    size = len(children)
    frequencies, struck = np.zeros(SYMBOLS + size, np.int64), np.zeros(SYMBOLS + size, np.bool_)
    count, total, at = 0, np.int64(0), 0
    while at < len(octets):
        node, is_han = np.int64(0), True
        while octets[at] != 0x20:
            symbol = np.int64(_han_at(octets, at) if is_han else 0)
            if symbol == 0:
                is_han = False
                at += 1
                continue
            at += 3
            if node == 0:
                node = symbol
                continue
            key = _key(node, symbol)
            place = _place(children, key)
            if children[place] == 0:
                count += 1
                if 2 * count > size:
                    return frequencies, struck, total, False
                children[place] = key << np.uint64(WEIGHT_BITS)
            node = SYMBOLS + place
        at += 1
        frequency = np.int64(0)
        while at < len(octets) and 0x30 <= octets[at] <= 0x39:
            frequency = 10 * frequency + (np.int64(octets[at]) - 0x30)
            at += 1
        while at < len(octets) and octets[at] != 0x0A:
            at += 1
        at += 1
        total += frequency
        if is_han:
            frequencies[node] = frequency
            struck[node] |= frequency == 0
    return frequencies, struck, total, True


@compiled
def _find_path(
    codepoints: npt.NDArray[np.uint32],
    begin: int,
    end: int,
    dictionary: Dictionary,
    rests: npt.NDArray[np.float64],
    ends: npt.NDArray[np.int64],
) -> None:
    """Write to ends[place - begin] the end of the likeliest word from each character; the longest on ties.

    rests  float64, longer than the run: scratch
    """
    children, singles, weights = dictionary.children, dictionary.singles, dictionary.weights
    # Every character's first look-up is prefetched, in the order of use.
    address = np.uint64(children.ctypes.data)
    for first in range(end - 2, begin - 1, -1):
        prefetch(address + np.uint64(8 * _first_place(children, _key(codepoints[first], codepoints[first + 1]))))
    rests[end - begin] = 0.0
    for first in range(end - 1, begin - 1, -1):
        node = np.int64(codepoints[first])
        place = first + 1
        best, best_end = singles[node] + rests[place - begin], place
        while place < end:
            entry_place = _place(children, _key(node, codepoints[place]))
            entry = children[entry_place]
            if entry == 0:
                break
            node = SYMBOLS + entry_place
            place += 1
            weight = weights[entry & _WEIGHT_MASK] + rests[place - begin]
            if weight >= best:
                best, best_end = weight, place
        if best == -np.inf:
            best, best_end = dictionary.unknown + rests[first + 1 - begin], first + 1
        rests[first - begin], ends[first - begin] = best, best_end


@compiled
def _node_of(codepoints: npt.NDArray[np.uint32], begin: int, end: int, children: npt.NDArray[np.uint64]) -> Any:
    """Node of two or more characters; 0 if no word begins with them."""
    node = np.int64(codepoints[begin])
    for place in range(begin + 1, end):
        reached = _place(children, _key(node, codepoints[place]))
        if children[reached] == 0:
            return np.int64(0)
        node = SYMBOLS + reached
    return node


@compiled
def _better(one: float, other: float, state_one: int, state_other: int) -> tuple[float, int]:
    """The larger number and its state; the second on ties."""
    return (other, state_other) if other >= one else (one, state_one)


@compiled
def _find_states(
    codepoints: npt.NDArray[np.uint32],
    begin: int,
    end: int,
    dictionary: Dictionary,
    states: npt.NDArray[np.uint8],
    before: npt.NDArray[np.uint8],
) -> None:
    """Write these characters' likeliest states (Viterbi) to states[place - begin].

    before  uint8 [a run, 4]: scratch
    """
    moves, emissions = dictionary.transitions, dictionary.emissions
    of_first = emissions[np.int64(codepoints[begin]) - HAN_FIRST]
    b, e = dictionary.starts[_B] + of_first[_B], dictionary.starts[_E] + of_first[_E]
    m, s = dictionary.starts[_M] + of_first[_M], dictionary.starts[_S] + of_first[_S]
    for place in range(begin + 1, end):
        emitted = emissions[np.int64(codepoints[place]) - HAN_FIRST]
        to = before[place - begin]
        next_b, to[_B] = _better(e + moves[_E, _B] + emitted[_B], s + moves[_S, _B] + emitted[_B], _E, _S)
        next_e, to[_E] = _better(b + moves[_B, _E] + emitted[_E], m + moves[_M, _E] + emitted[_E], _B, _M)
        next_m, to[_M] = _better(b + moves[_B, _M] + emitted[_M], m + moves[_M, _M] + emitted[_M], _B, _M)
        s, to[_S] = _better(e + moves[_E, _S] + emitted[_S], s + moves[_S, _S] + emitted[_S], _E, _S)
        b, e, m = next_b, next_e, next_m
    state = _better(e, s, _E, _S)[1]
    for offset in range(end - begin - 1, -1, -1):
        states[offset] = state
        state = before[offset, state]


@compiled
def _add(
    begin: int, end: int, is_whole: bool, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], count: int
) -> int:
    """Append a word, or each character in it; returns the number of words so far."""
    if is_whole:
        starts[count], lengths[count] = begin, end - begin
        return count + 1
    for place in range(begin, end):
        starts[count], lengths[count] = place, 1
        count += 1
    return count


@compiled
def _recognise(
    codepoints: npt.NDArray[np.uint32],
    begin: int,
    end: int,
    dictionary: Dictionary,
    states: npt.NDArray[np.uint8],
    before: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    count: int,
) -> int:
    """Append words from characters that the path leaves single; returns the number of words so far."""
    node = _node_of(codepoints, begin, end, dictionary.children)
    if node != 0 and dictionary.children[node - SYMBOLS] & _WEIGHT_MASK != 0:
        return _add(begin, end, False, starts, lengths, count)
    _find_states(codepoints, begin, end, dictionary, states, before)
    first = begin
    for place in range(begin, end):
        state = states[place - begin]
        if state == _B:
            first = place
        elif state == _S:
            count = _add(place, place + 1, True, starts, lengths, count)
        elif state == _E:
            forced = (
                len(dictionary.forced) > 0
                and (dictionary.forced[_node_of(codepoints, first, place + 1, dictionary.children)])
            )
            count = _add(first, place + 1, not forced, starts, lengths, count)
    return count


@compiled
def segment(
    dictionary: Dictionary,
    codepoints: npt.NDArray[np.uint32],
    run_starts: npt.NDArray[np.int64],
    run_lengths: npt.NDArray[np.int64],
    are_han: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Starts and lengths of the words in runs: int64 [words] twice, in the runs' order.

    run_starts, run_lengths  int64 [runs], each run's first code point and length
    are_han                  bool [runs]; every other run is one word
    """
    words, longest = len(run_starts), 0
    for run in range(len(run_starts)):
        if are_han[run]:
            words += run_lengths[run] - 1
            longest = max(longest, run_lengths[run])
    starts, lengths = np.empty(words, np.int64), np.empty(words, np.int64)
    rests, ends = np.empty(longest + 1, np.float64), np.empty(longest, np.int64)
    states, before = np.empty(longest, np.uint8), np.zeros((longest, 4), np.uint8)
    count = 0
    for run in range(len(run_starts)):
        begin, end = run_starts[run], run_starts[run] + run_lengths[run]
        if not are_han[run]:
            count = _add(begin, end, True, starts, lengths, count)
            continue
        _find_path(codepoints, begin, end, dictionary, rests, ends)
        single = place = begin
        while place <= end:
            # Characters that the path leaves single go before the next longer word. The end counts as such a word.
            following = ends[place - begin] if place < end else end + 2
            if following - place > 1:
                if place - single > 1:
                    count = _recognise(codepoints, single, place, dictionary, states, before, starts, lengths, count)
                elif place > single:
                    count = _add(single, place, True, starts, lengths, count)
                if place < end:
                    count = _add(place, following, True, starts, lengths, count)
                single = following
            place = following
    return starts[:count], lengths[:count]
