"""All fingerprint pairs that share a key, by sorting: no index, and memory for one part of the keys.

MinHash keys are its bands. SimHash keys follow Manku, Jain, Das Sarma ("Detecting Near-Duplicates for Web Crawling",
WWW 2007): the bits are cut into d + k pieces, and every choice of k pieces is a table. At most d differing bits touch
at most d pieces, so two such fingerprints agree in some choice. The index cuts in another way.

A hash spreads the keys over files. Sorting one file brings equal keys together.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import combinations, pairwise
from math import comb
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index import Parameters, minhash
from streamer.delivered.table import Rows, Words
from streamer.fingerprint.hashing import present

Keys = Callable[[Words], Words]
"""Fingerprints, uint64 [n, words] -> keys, uint64 [n, tables]; different tables have different keys."""

KEYS_AT_ONCE = 1 << 22
"""Keys sorted at once: some 150 MB."""

FILES_MAX = 512
"""Most files open at once, below a process's usual limit of 1,024: for 2 billion keys."""

PAIRS_AT_ONCE = 1 << 18

_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
_KEYED_ROW = np.dtype([("key", "<u8"), ("row", "<i8")])
_TABLES_MAX = 128


def keys_of(parameters: Parameters, rows: int) -> tuple[Keys, int]:
    """Keys that matching entries share, and their number per fingerprint.

    MinHash entries without a common band need not match, however similar they are.
    """
    banding = parameters.banding
    if banding is not None:
        words = parameters.words
        return lambda fingerprints: minhash.band_keys(fingerprints[:, :words], banding), banding.bands
    masks = _masks(parameters.bits, parameters.distance_max, rows)
    return lambda fingerprints: _masked_keys(fingerprints, masks), len(masks)


def equality_keys(fingerprints: Words) -> Words:
    """One key per fingerprint, equal for equal ones: uint64 [n, words] -> uint64 [n, 1].

    >>> keys = equality_keys(np.array([[7], [8], [7]], np.uint64))
    >>> (keys == keys[0]).ravel().tolist()
    [True, False, True]
    """
    return _masked_keys(fingerprints, np.full((1, fingerprints.shape[1]), 2**64 - 1, np.uint64))


def pairs(
    parts: Iterable[tuple[Rows, Words]],
    keys: Keys,
    count: int,
    folder: Path,
    wanted: Words | None = None,
    keys_at_once: int = KEYS_AT_ONCE,
) -> Iterator[tuple[Rows, Rows]]:
    """Pairs of different rows that share a key, in portions; a pair may come once per shared key.

    parts   rows int64 [n] with their fingerprints uint64 [n, words]
    count   approximate total of keys
    wanted  keys uint64 [m] ascending, for only these; None: all
    """
    with ExitStack() as stack:
        files = min(max(1, -(-count // keys_at_once)), FILES_MAX)
        paths = [folder / f"keys-{number}" for number in range(files)]
        opened = [stack.enter_context(path.open("wb")) for path in paths]
        for rows, fingerprints in parts:
            keyed = _keyed(rows, keys(fingerprints), wanted)
            mixed = (keyed["key"] * _GOLDEN_RATIO) >> np.uint64(32)
            of_files = (mixed * np.uint64(files)) >> np.uint64(32)
            for number in range(files):
                opened[number].write(keyed[of_files == number].tobytes())
    for path in paths:
        yield from _pairs_in(*_sorted(path))
        path.unlink()


def _keyed(rows: Rows, keys: Words, wanted: Words | None) -> npt.NDArray[np.void]:
    keyed = np.empty(keys.size, _KEYED_ROW)
    keyed["key"] = keys.ravel()
    keyed["row"] = np.repeat(rows, keys.shape[1])
    return keyed if wanted is None else keyed[present(keyed["key"], wanted)]


def _sorted(path: Path) -> tuple[Words, Rows]:
    """A file's keys, ascending, and their rows. All else that sorting needs is free afterwards."""
    keyed = np.fromfile(path, _KEYED_ROW)
    order = np.argsort(keyed["key"], kind="stable")
    return keyed["key"][order], keyed["row"][order]


def _pairs_in(keys: Words, rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    left, step = np.flatnonzero(keys[1:] == keys[:-1]), 1
    while len(left):
        left = left[left + step < len(keys)]
        left = left[keys[left] == keys[left + step]]
        for begin in range(0, len(left), PAIRS_AT_ONCE):
            some = left[begin : begin + PAIRS_AT_ONCE]
            # Two keys of one row may be equal by chance.
            some = some[rows[some] != rows[some + step]]
            yield rows[some], rows[some + step]
        step += 1


def _masks(bits: int, distance_max: int, rows: int) -> Words:
    """Table masks, uint64 [tables, words]: the fewest pieces with few chance collisions among rows."""
    chosen = next(
        (
            chosen
            for chosen in range(1, bits)
            if bits * chosen // (distance_max + chosen) >= max(rows, 1).bit_length()
            or comb(distance_max + chosen + 1, chosen + 1) > _TABLES_MAX
        ),
        1,
    )
    bounds = np.linspace(0, bits, distance_max + chosen + 1).astype(int)
    pieces = [sum(1 << bit for bit in range(begin, end)) for begin, end in pairwise(bounds)]
    masks = [sum(parts) for parts in combinations(pieces, chosen)]
    low = 2**64 - 1
    return np.array([[mask >> (64 * word) & low for word in range(bits // 64)] for mask in masks], np.uint64)


def _masked_keys(fingerprints: Words, masks: Words) -> Words:
    """Hashes of masked bits and table: uint64 [n, words], uint64 [tables, words] -> uint64 [n, tables]."""
    # Numbers of tables far apart: small ones would cancel out against the bits in which two masks differ.
    tables = np.arange(1, len(masks) + 1, dtype=np.uint64) * _GOLDEN_RATIO
    keys = np.broadcast_to(tables ^ (tables >> np.uint64(32)), (len(fingerprints), len(masks))).copy()
    for word in range(fingerprints.shape[1]):
        keys = (keys + (fingerprints[:, word, None] & masks[None, :, word])) * _GOLDEN_RATIO
        keys ^= keys >> np.uint64(32)
    return keys
