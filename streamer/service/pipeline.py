"""Decode and fingerprint, the pure half of the path: a batch of records in, a batch of entries out."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from index import Entries, Kind, Source
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Record

Item = TypeVar("Item", bound=np.generic)


def fingerprint_documents(fingerprinter: Scheme, documents: Sequence[Document | DeadLetter]) -> Fingerprints:
    """Fingerprint the decoded documents, row for row with `documents`.

    The row of a dead letter has Kind.DEAD_LETTER, the dead letter's reason, and zeros, which nobody reads.
    """
    decoded = [row for row, document in enumerate(documents) if isinstance(document, Document)]
    readable = [document for document in documents if isinstance(document, Document)]
    found: Fingerprints = fingerprinter.fingerprint(
        [document.text for document in readable],
        [document.title for document in readable],
        [document.metadata for document in readable],
    )
    if len(readable) == len(documents):
        return found
    count = len(documents)
    kinds = np.full(count, Kind.DEAD_LETTER, np.uint8)
    reasons = np.array([each.reason if isinstance(each, DeadLetter) else 0 for each in documents], np.uint8)
    kinds[decoded] = found.kinds
    reasons[decoded] = found.reasons
    return Fingerprints(
        kinds,
        reasons,
        _spread(found.fingerprints, decoded, count),
        _spread(found.feature_counts, decoded, count),
        None if found.looks is None else _spread(found.looks, decoded, count),
    )


def _spread(column: npt.NDArray[Item], rows: Sequence[int], count: int) -> npt.NDArray[Item]:
    """A column of `count` rows that holds the given items in these rows, and zeros elsewhere."""
    wide = np.zeros((count, *column.shape[1:]), column.dtype)
    wide[rows] = column
    return wide


def entries_of(
    records: Sequence[Record], documents: Sequence[Document | DeadLetter], fingerprints: Fingerprints
) -> Entries:
    """Columns that cross the line to the index. A dead letter without an id gets its position as id."""
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in records]
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, dtype=np.uint32),
        offsets=np.array([record.offset for record in records], dtype=np.uint64),
        kinds=fingerprints.kinds,
        reasons=fingerprints.reasons,
        fingerprints=fingerprints.fingerprints,
        times_ms=np.array(
            [
                document.time_ms if isinstance(document, Document) else record.timestamp_ms
                for record, document in zip(records, documents, strict=True)
            ],
            dtype=np.int64,
        ),
        ids=[document.id or record.position for record, document in zip(records, documents, strict=True)],
        looks=fingerprints.looks,
        hosts=[document.host if isinstance(document, Document) else None for document in documents],
        named=np.array([isinstance(document, Document) and document.named for document in documents], np.bool_),
    )


def prepare(decoder: Decoder, fingerprinter: Scheme, records: Sequence[Record]) -> Entries:
    """Decode and fingerprint records in one call, as recovery and rebuild do with records of an output."""
    documents = decoder.decode(records)
    return entries_of(records, documents, fingerprint_documents(fingerprinter, documents))
