"""Streams and applied offsets: the tables `streams`, `stream_numbers` and `applied`."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from index.entry import Applied, Source, is_given_back, plain_source
from index.storage import layout
from index.storage.layout import NUMBER_KEY, SOURCE_KEY, Table
from index.storage.store import Transaction

STREAM_BYTES_MAX = 511
"""LMDB's maximum key bytes: a stream is a key."""


def known_number(transaction: Transaction, stream: str) -> int | None:
    """A stream's number; None: unknown."""
    key = layout.pack_text(stream)
    value = transaction.get(Table.STREAM_NUMBERS, key) if 0 < len(key) <= STREAM_BYTES_MAX else None
    return None if value is None else int(NUMBER_KEY.unpack(value)[0])


def number_of(transaction: Transaction, stream: str) -> int:
    """A stream's number; an unknown stream gets the next number and no name. Raises ValueError if its id is too long."""
    known = known_number(transaction, stream)
    if known is not None:
        return known
    key = layout.pack_text(stream)
    if not 0 < len(key) <= STREAM_BYTES_MAX:
        raise ValueError(f"a stream's id must have 1 to {STREAM_BYTES_MAX} bytes: {stream[:80]!r}")
    last = transaction.floor(Table.STREAMS, NUMBER_KEY.pack(2**32 - 1))
    number = 0 if last is None else int(NUMBER_KEY.unpack(last[0])[0]) + 1
    transaction.put(Table.STREAM_NUMBERS, key, NUMBER_KEY.pack(number))
    transaction.put(Table.STREAMS, NUMBER_KEY.pack(number), layout.pack_stream(stream, ""))
    return number


def streams_of(transaction: Transaction, numbers: Iterable[int]) -> dict[int, str]:
    """Streams by number; a given-back stream counts as the stream it came from. Omits numbers never given."""
    streams = transaction.get_many(Table.STREAMS, [NUMBER_KEY.pack(number) for number in sorted(set(numbers))])
    return {
        NUMBER_KEY.unpack(key)[0]: plain_source(Source(layout.unpack_stream(value)[0], 0)).stream
        for key, value in streams
    }


def set_name(transaction: Transaction, stream: str, name: str) -> None:
    """Store a stream's display name; the latest counts."""
    key = NUMBER_KEY.pack(number_of(transaction, stream))
    value = layout.pack_stream(stream, name)
    if transaction.get(Table.STREAMS, key) != value:
        transaction.put(Table.STREAMS, key, value)


def named_streams(transaction: Transaction) -> list[tuple[str, str]]:
    """(stream, name) for all streams, oldest first."""
    return [layout.unpack_stream(bytes(value)) for _, value in transaction.walk(Table.STREAMS)]


def begin_with(
    transaction: Transaction,
    prefix: str,
    ids: Sequence[str],
    sources: npt.NDArray[np.void],
    offsets: npt.NDArray[np.uint64],
) -> npt.NDArray[np.bool_]:
    """Whether n documents have ids that begin with `prefix`, bool [n]; a name by position is none.

    sources, offsets  LOG_SOURCE [n] and uint64 [n], their positions. A document without an id is named by its own: in topic
                      a it is a/0/7, which is no id of a tenant a
    """
    begin = np.array([id_.startswith(prefix) for id_ in ids], np.bool_)
    rows = np.flatnonzero(begin).tolist()
    if rows:
        names, streams = dict(named_streams(transaction)), streams_of(transaction, sources["stream"][rows].tolist())
        places = zip(rows, sources["stream"][rows].tolist(), sources["partition"][rows], offsets[rows], strict=True)
        for row, stream, partition, offset in places:
            begin[row] = ids[row] != f"{names.get(streams[stream], '')}/{partition}/{offset}"
    return begin


def move_applied(transaction: Transaction, ends: Mapping[Source, int], marks: Mapping[Source, bytes]) -> None:
    """Move applied offsets forward to `ends`, never back.

    A mark belongs to its offset: a new offset drops the old mark, and at the same offset a new mark replaces it.
    Given-back sources have no applied offset: nothing is read from them.
    """
    for source, end in ends.items():
        if is_given_back(source.stream):
            continue
        key = SOURCE_KEY.pack(number_of(transaction, source.stream), source.partition)
        value = transaction.get(Table.APPLIED, key)
        offset, mark = layout.unpack_applied(value) if value is not None else (-1, b"")
        if end > offset:
            transaction.put(Table.APPLIED, key, layout.pack_applied(end, marks.get(source, b"")))
        elif end == offset and marks.get(source, mark) != mark:
            transaction.put(Table.APPLIED, key, layout.pack_applied(end, marks[source]))


def applied(transaction: Transaction) -> dict[Source, Applied]:
    """Applied offsets and marks, by source."""
    rows = [
        (SOURCE_KEY.unpack(key), layout.unpack_applied(bytes(value))) for key, value in transaction.walk(Table.APPLIED)
    ]
    streams = streams_of(transaction, (number for (number, _), _ in rows))
    return {Source(streams[number], partition): Applied(*row) for (number, partition), row in rows}


def is_known(transaction: Transaction, source: Source) -> bool:
    """Whether the source has an applied offset."""
    number = known_number(transaction, source.stream)
    return number is not None and transaction.get(Table.APPLIED, SOURCE_KEY.pack(number, source.partition)) is not None
