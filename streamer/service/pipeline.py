"""Decode and fingerprint, the pure half of the path: a batch of records in, a batch of entries out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Kind, Source
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.record import Record


@dataclass(frozen=True, slots=True)
class Prints:
    """Fingerprints of a batch, row for row with its records. Rows of dead letters hold zeros, which nobody reads.

    kinds         uint8 [records], a `Kind` each
    reasons       uint8 [records], a `Reason` each
    fingerprints  uint64 [records, words]
    looks         uint8 [records, bytes], what a second look compares; None where there is no second look
    """

    kinds: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8] | None


def fingerprint_documents(fingerprinter: Scheme, documents: Sequence[Document | DeadLetter]) -> Prints:
    """Fingerprint the decoded documents. A dead letter keeps its reason and becomes Kind.DEAD_LETTER."""
    decoded = [row for row, document in enumerate(documents) if isinstance(document, Document)]
    readable = [document for document in documents if isinstance(document, Document)]
    found: Fingerprints = fingerprinter.fingerprint(
        [document.text for document in readable],
        [document.title for document in readable],
        [document.metadata for document in readable],
    )
    count = len(documents)
    kinds = np.full(count, Kind.DEAD_LETTER, dtype=np.uint8)
    fingerprints = np.zeros((count, found.fingerprints.shape[1]), dtype=np.uint64)
    reasons = np.array(
        [document.reason if isinstance(document, DeadLetter) else 0 for document in documents], dtype=np.uint8
    )
    kinds[decoded] = found.kinds
    reasons[decoded] = found.reasons
    fingerprints[decoded] = found.fingerprints
    looks = None
    if found.looks is not None:
        looks = np.zeros((count, found.looks.shape[1]), dtype=np.uint8)
        looks[decoded] = found.looks
    return Prints(kinds, reasons, fingerprints, looks)


def entries_of(records: Sequence[Record], documents: Sequence[Document | DeadLetter], prints: Prints) -> Entries:
    """Columns that cross the line to the index. A dead letter without an id gets its position as id."""
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in records]
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, dtype=np.uint32),
        offsets=np.array([record.offset for record in records], dtype=np.uint64),
        kinds=prints.kinds,
        reasons=prints.reasons,
        fingerprints=prints.fingerprints,
        times_ms=np.array(
            [
                document.time_ms if isinstance(document, Document) else record.timestamp_ms
                for record, document in zip(records, documents, strict=True)
            ],
            dtype=np.int64,
        ),
        ids=[document.id or record.position for record, document in zip(records, documents, strict=True)],
        looks=prints.looks,
    )


def prepare(decoder: Decoder, fingerprinter: Scheme, records: Sequence[Record]) -> Entries:
    """Decode and fingerprint records in one call, as recovery and rebuild do with records of an output."""
    documents = decoder.decode(records)
    return entries_of(records, documents, fingerprint_documents(fingerprinter, documents))
