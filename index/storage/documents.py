"""Documents that became entries: by number, and EXACT ones by whole fingerprint."""

from collections.abc import Collection, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from index.entry import Kind, Position, Source
from index.matching.frame import signature_words
from index.storage import log
from index.storage.codec import GIVEN_BACK, unpack_lengths
from index.storage.layout import GIVEN_BACK_KEY, Table, pack_fingerprints, pack_text, unpack_numbers
from index.storage.log import Origin
from index.storage.sources import streams_of
from index.storage.store import Transaction
from index.storage.visibility import Visibility

EQUALS_AT_ONCE = 64
"""Values of a key read at once; few have more."""


class Document(NamedTuple):
    """A stored document.

    root         its own number, or its original's
    fingerprint  its words, as in `Entries`
    look         bytes for `second_look`; empty without a second look
    frame        words of the frame's bits; empty if no frame was known
    length       its text's letters; 0: unknown

    >>> position = Position(Source("topic", 3), 17)
    >>> duplicate = Document(number=9, root=4, id="b", position=position, time_ms=0, kind=Kind.NEAR, fingerprint=(5,))
    >>> duplicate.number == duplicate.root
    False
    """

    number: int
    root: int
    id: str
    position: Position
    time_ms: int
    kind: Kind
    fingerprint: tuple[int, ...]
    look: bytes = b""
    frame: tuple[int, ...] = ()
    length: int = 0


class VersionDigests(NamedTuple):
    """A record as a version of the document with its id.

    text, substance  digests for its text and the text's substance
    host             its host's digest; 0: unknown
    returns          how often the document had returned to an earlier substance
    strangers        how often in a row its text had nothing in common with the one before

    >>> before, now = VersionDigests(text=5, substance=8), VersionDigests(text=6, substance=8)
    >>> now.text != before.text and now.substance == before.substance
    True
    """

    text: int = 0
    substance: int = 0
    host: int = 0
    returns: int = 0
    strangers: int = 0


def in_batch(transaction: Transaction, batch: log.Batch, places: npt.NDArray[np.int64]) -> list[Document]:
    """Documents at these places, int64 [m], among those that entered with a batch."""
    at, words = batch.entered()[places], signature_words(batch.words)
    rows, sources = batch.rows[at], batch.sources[batch.rows["source"][at]]
    streams = streams_of(transaction, sources["stream"].tolist())
    names, fingerprints = ("number", "offset", "time_ms", "kind"), batch.fingerprints[places]
    lengths = unpack_lengths(rows["length"])
    columns = (batch.numbers()[places], *(rows[name] for name in names), sources, fingerprints, lengths)
    fields = zip(*(column.tolist() for column in columns), batch.ids(at), batch.lines.looks[places], strict=True)
    return [
        Document(
            number,
            root,
            id_,
            Position(Source(streams[stream], partition), offset),
            time_ms,
            Kind(kind),
            tuple(fp[:words]),
            look.tobytes(),
            tuple(fp[words:]) if any(fp[words:]) else (),
            length,
        )
        for number, root, offset, time_ms, kind, (stream, partition), fp, length, id_, look in fields
    ]


def read(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> dict[int, Document]:
    """Documents for numbers uint64 [n]; omits numbers never given, and documents that have left the log."""
    return {
        document.number: document
        for batch, places, _ in log.holding(transaction, np.unique(numbers), words)
        for document in in_batch(transaction, batch, places)
    }


def origins(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> dict[int, Origin]:
    """The same documents as originals of duplicates."""
    distinct = np.unique(numbers)
    if not len(distinct):
        return {}
    stored = log.documents(transaction, distinct, words)
    sources, there = stored.sources, stored.there.tolist()
    columns = sources["stream"].tolist(), sources["partition"].tolist(), stored.rows["offset"].tolist()
    pairs = zip(distinct.tolist(), map(Origin, stored.ids, *columns), strict=True)
    return dict(pairs if all(there) else compress(pairs, there))


def equals(
    visibility: Visibility, fingerprints: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Visible EXACT entries that equal fingerprints, uint64 [n, words]: rows int64 [m], ascending, and numbers uint64 [m]."""
    keys = pack_fingerprints(fingerprints)
    there = {key for key, _ in visibility.transaction.get_many(Table.EXACT, sorted(set(keys)))}
    numbers_of = {key: _all_equals(visibility, key) for key in there}
    found = [numbers_of.get(key, _NO_NUMBERS) for key in keys]
    rows = np.repeat(np.arange(len(keys)), np.fromiter(map(len, found), np.int64, len(keys)))
    return rows, np.concatenate([_NO_NUMBERS, *found])


_NO_NUMBERS = np.empty(0, np.uint64)


def _all_equals(visibility: Visibility, key: bytes) -> npt.NDArray[np.uint64]:
    count = EQUALS_AT_ONCE
    while True:
        numbers = unpack_numbers(visibility.transaction.first_values(Table.EXACT, key, count))
        if len(numbers) < count:
            return numbers[visibility.visible(numbers)]
        count *= 4


def note_given_back(transaction: Transaction, ids: Sequence[str], numbers: npt.NDArray[np.uint64]) -> None:
    """Note given-back documents by id and number, uint64 [n]; skips empty ids."""
    named = np.flatnonzero([bool(id_) for id_ in ids])
    if not len(named):
        return
    new = np.empty(len(named), GIVEN_BACK)
    new["id"], new["number"] = _id_hashes([ids[row] for row in named.tolist()]), numbers[named]
    noted = np.concatenate([all_given_back(transaction), new])
    transaction.put(Table.META, GIVEN_BACK_KEY, np.sort(noted, kind="stable").tobytes())


def note_versions(
    transaction: Transaction,
    ids: Sequence[str],
    numbers: npt.NDArray[np.uint64],
    replaced: npt.NDArray[np.uint64] | None,
) -> None:
    """Note new versions, uint64 [n], of given-back documents as given back too.

    replaced  older versions' numbers, uint64 [n]; None: unknown, so ids decide
    """
    if replaced is None:
        rows = np.flatnonzero(np.isin(_id_hashes(ids), all_given_back(transaction)["id"])).tolist()
    else:
        known, rows = set(given_back_of(transaction, ids)["number"].tolist()), []
        for row, former in enumerate(replaced.tolist()):
            # Of updates 8 of 5 and 9 of 8, the second is a version of 5 too.
            if former in known:
                known.add(int(numbers[row]))
                rows.append(row)
    note_given_back(transaction, [ids[row] for row in rows], numbers[rows])


def are_given_back(visibility: Visibility, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Whether each id belongs to a visible given-back document: n ids -> bool [n]; free if the index has none."""
    noted = given_back_of(visibility.transaction, ids)
    visible = noted["id"][visibility.visible(noted["number"].astype(np.uint64))]
    return np.isin(_id_hashes(ids), visible) if len(visible) else np.zeros(len(ids), np.bool_)


def given_back_of(transaction: Transaction, ids: Collection[str]) -> npt.NDArray[np.void]:
    """Given-back documents with the hash of one of these ids, visible or not: GIVEN_BACK [n]."""
    noted = all_given_back(transaction)
    return noted[np.isin(noted["id"], _id_hashes(ids))] if len(noted) else noted


def all_given_back(transaction: Transaction) -> npt.NDArray[np.void]:
    """Given-back documents and the updates that replaced them, visible or not: GIVEN_BACK [n]."""
    return np.frombuffer(transaction.get(Table.META, GIVEN_BACK_KEY) or b"", GIVEN_BACK)


def _id_hashes(ids: Collection[str]) -> npt.NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(pack_text(id_)) for id_ in ids], np.uint64)
