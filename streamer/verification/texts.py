"""Fingerprints by row: from the outputs, and for a sample also from the texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from index import Kind, Parameters, Position, Verdict
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import from_hexadecimal, hexadecimal
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import MINOR, OTHER, RETURNED, SAME, SHARED, Reason, label
from streamer.records.record import Record
from streamer.transports.output_log import Output
from streamer.verification.ledger import Ledger
from streamer.verification.position_table import Flags, Rows, Words, column

NO_KIND = 255

_EXACT = {label(verdict, Reason.SHORT_TEXT) for verdict in (Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UPDATE)} | {
    label(Verdict.DUPLICATE, reason) for reason in (Reason.UPDATE_MINOR_SHORT_TEXT, Reason.RETURNED_SHORT_TEXT)
}
_FINER = {Verdict.DUPLICATE: (SAME, MINOR, RETURNED), Verdict.UPDATE: (OTHER,), Verdict.UNIQUE: (SHARED,)}
"""Reasons that only the decision gives, by the fingerprint's."""

_HASHES = 2**64
NOT_TO_BE_READ = {label(Verdict.DEAD_LETTER, reason): reason for reason in (Reason.POISON, Reason.UNREADABLE)}
"""Dead letters without decoding, by label: a record that ends the process, and one without bytes."""


@dataclass(frozen=True, slots=True)
class Prints:
    """Comparable data of entries, row for row with the ledger.

    fingerprints  uint64 [rows, words], as in the index; zeros if unknown
    words         words in a fingerprint without its frame
    kinds         uint8 [rows], NEAR or EXACT; NO_KIND without a fingerprint
    looks         uint8 [rows, look bytes]
    read          bool [rows], whether the text was read, and so the look is known
    texts         uint64 [rows], digests; 0 if unknown
    letters       uint32 [rows], the text's length; 0 if unknown

    >>> prints = Prints.blank(folder, rows=2, parameters=Parameters(bits=128))
    >>> prints.fingerprints.shape, prints.read.tolist()
    ((2, 2), [False, False])
    """

    fingerprints: Words
    words: int
    kinds: npt.NDArray[np.uint8]
    looks: npt.NDArray[np.uint8]
    read: Flags
    texts: Words
    letters: npt.NDArray[np.uint32]

    @classmethod
    def blank(cls, folder: Path, rows: int, parameters: Parameters) -> "Prints":
        """Columns in files."""
        kinds = column(folder / "kinds", "u1", rows)
        kinds[:] = NO_KIND
        return cls(
            column(folder / "fingerprints", "<u8", rows, parameters.stored_words),
            parameters.words,
            kinds,
            column(folder / "looks", "u1", rows, parameters.look_bytes),
            column(folder / "read", "?", rows),
            column(folder / "texts", "<u8", rows),
            column(folder / "letters", "<u4", rows),
        )


class Sample:
    """A share of the documents with all their duplicates, by the original's position.

    >>> from index import Source
    >>> position = Position(Source("stream", 0), 7)
    >>> Sample(1.0).has(position), Sample(0.0).has(position)
    (True, False)
    """

    def __init__(self, share: float) -> None:
        self._limit = int(share * _HASHES)

    def has(self, position: Position) -> bool:
        """Whether a document belongs to the sample."""
        return xxhash.xxh3_64_intdigest(f"{position.source.partition}/{position.offset}".encode()) < self._limit


@dataclass
class TextCheck:
    """Reads fingerprints from outputs, and for the sample also from texts.

    by_headers  whether outputs carry fingerprints; if not, all texts are read

    >>> from streamer.verification.findings import Findings
    >>> from streamer.verification.ledger import LedgerWriter
    >>> ledger, prints = LedgerWriter(folder).finish({}, Findings()), Prints.blank(folder, 0, Parameters())
    >>> TextCheck(ledger, prints, None, None, Sample(0.1), True).add([], np.zeros(0, np.int64))
    >>> ledger.findings.counts["texts read"]
    0
    """

    _ledger: Ledger
    _prints: Prints
    _decoder: Decoder
    _scheme: Scheme
    _sample: Sample
    _by_headers: bool

    def add(self, outputs: Sequence[Output], rows: Rows) -> None:
        """Note the outputs' fingerprints for these rows, int64 [n]."""
        if self._by_headers:
            self._note_headers(outputs, rows)
        chosen = [
            place
            for place, each in enumerate(outputs)
            if each.headers.reason not in NOT_TO_BE_READ and (not self._by_headers or self._is_in_sample(each))
        ]
        if chosen:
            self._read([outputs[place] for place in chosen], rows[chosen])

    def _is_in_sample(self, output: Output) -> bool:
        headers = output.headers
        position = (
            headers.original
            if headers.original is not None and headers.verdict and headers.verdict.names_original
            else headers.position
        )
        return position is not None and self._sample.has(position)

    def _note_headers(self, outputs: Sequence[Output], rows: Rows) -> None:
        digits = self._prints.words * 16
        places, words = [], []
        for place, each in enumerate(outputs):
            headers = each.headers
            if headers.verdict is None or not (headers.verdict.stands_for_itself or headers.verdict.names_original):
                continue
            try:
                words.append(from_hexadecimal(headers.fingerprint or "", digits * 4))
                places.append(place)
            except ValueError:
                where = self._ledger.text(int(rows[place]))
                self._ledger.findings.note("fingerprint", [f"{where}: names no fingerprint of {digits} digits"])
        if places:
            self._prints.fingerprints[rows[places], : self._prints.words] = np.concatenate(words)
            self._prints.kinds[rows[places]] = [
                Kind.EXACT if outputs[place].headers.reason in _EXACT else Kind.NEAR for place in places
            ]

    def _read(self, outputs: Sequence[Output], rows: Rows) -> None:
        records: list[Record] = [each.record for each in outputs if each.record is not None]
        documents = self._decoder.decode(records)
        fingerprints = fingerprint_documents(self._scheme, documents)
        digits = hexadecimal(fingerprints.kinds, fingerprints.fingerprints)
        self._ledger.findings.counts["texts read"] += len(rows)
        self._ledger.findings.examine("fingerprint", len(rows))
        for place, (output, document) in enumerate(zip(outputs, documents, strict=True)):
            kind, reason = int(fingerprints.kinds[place]), int(fingerprints.reasons[place])
            if problem := self._problem(output, document, digits[place], kind, reason):
                self._ledger.findings.note("fingerprint", [f"{self._ledger.text(int(rows[place]))}: {problem}"])
        has_fingerprint = (fingerprints.kinds == Kind.NEAR) | (fingerprints.kinds == Kind.EXACT)
        if not self._by_headers:
            self._prints.fingerprints[rows, : self._prints.words] = fingerprints.fingerprints
            self._prints.kinds[rows] = np.where(has_fingerprint, fingerprints.kinds, NO_KIND)
        if fingerprints.looks is not None:
            self._prints.looks[rows] = fingerprints.looks
        if fingerprints.digests is not None:
            self._prints.texts[rows] = fingerprints.digests[:, 0]
        if fingerprints.lengths is not None:
            self._prints.letters[rows] = fingerprints.lengths
        self._prints.read[rows] = True

    def _problem(
        self, output: Output, document: Document | DeadLetter, fingerprint: str | None, kind: int, reason: int
    ) -> str:
        headers = output.headers
        if headers.verdict is None:
            return ""
        try:
            finer = [each[Reason(reason)] for each in _FINER.get(headers.verdict, ()) if Reason(reason) in each]
            expected = {label(headers.verdict, each) for each in (Reason(reason), *finer)}
        except KeyError:
            return f"cannot be {headers.verdict.label}: the text is of kind {Kind(kind).name.lower()}"
        if headers.reason not in expected:
            return f"gives {headers.reason!r} as the reason, not {' or '.join(map(repr, sorted(expected)))}"
        if headers.id != (document.id or ""):
            return f"names the id {headers.id!r}, not {document.id!r}"
        if self._by_headers and headers.fingerprint != fingerprint:
            return f"has the fingerprint {fingerprint}, and tells {headers.fingerprint}"
        return ""
