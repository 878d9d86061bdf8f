"""Decoded records -> fingerprints, and the index's columns."""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from index import Entries, Kind, Source
from streamer.fingerprint.fingerprints import Fingerprints, Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Record


def fingerprint_documents(fingerprinter: Scheme, documents: Sequence[Document | DeadLetter]) -> Fingerprints:
    """Fingerprints of documents, row for row.

    A dead letter's row has Kind.DEAD_LETTER, its reason, and unused zeros.
    """
    dead = {row: document for row, document in enumerate(documents) if isinstance(document, DeadLetter)}
    # A dead letter goes as an empty text, whose row has no features.
    texts = [document if isinstance(document, Document) else _EMPTY for document in documents]
    fingerprints: Fingerprints = fingerprinter.fingerprint(
        [document.text for document in texts],
        [document.title for document in texts],
        [document.metadata for document in texts],
        None if fingerprinter.scope is None else [document.scope for document in texts],
    )
    for row, letter in dead.items():
        fingerprints.kinds[row], fingerprints.reasons[row] = Kind.DEAD_LETTER, letter.reason
        if fingerprints.lengths is not None:
            fingerprints.lengths[row] = 0
        if fingerprints.digests is not None:
            fingerprints.digests[row] = 0
    return fingerprints


_EMPTY = Document("", "")


def entries_of(
    records: Sequence[Record], documents: Sequence[Document | DeadLetter], fingerprints: Fingerprints
) -> Entries:
    """Index columns. A dead letter without an id gets its position as id."""
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in records]
    read = [
        document if isinstance(document, Document) else Document(document.id or "", "", time_ms=record.timestamp_ms)
        for record, document in zip(records, documents, strict=True)
    ]
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, dtype=np.uint32),
        offsets=np.fromiter(map(attrgetter("offset"), records), np.uint64, len(records)),
        kinds=fingerprints.kinds,
        reasons=fingerprints.reasons,
        fingerprints=fingerprints.fingerprints,
        times_ms=np.fromiter(map(attrgetter("time_ms"), read), np.int64, len(read)),
        ids=[document.id or record.position for record, document in zip(records, read, strict=True)],
        looks=fingerprints.looks,
        hosts=list(map(attrgetter("host"), read)),
        named=np.fromiter(map(attrgetter("named"), read), np.bool_, len(read)),
        digests=fingerprints.digests,
        lengths=fingerprints.lengths,
    )


def prepare(decoder: Decoder, fingerprinter: Scheme, records: Sequence[Record]) -> Entries:
    """Decode and fingerprint output records, for recovery and rebuild."""
    documents = decoder.decode(records)
    return entries_of(records, documents, fingerprint_documents(fingerprinter, documents))
