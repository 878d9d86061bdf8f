"""Fingerprints by row: from the outputs, and for a sample also from the texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from index import Kind, Position, Verdict
from streamer.delivered.table import Table, print_columns
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import from_hexadecimal, hexadecimal
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.reason import MINOR, OTHER, RETURNED, SAME, SHARED, Reason, label
from streamer.transports.output_log import Output
from streamer.verification.findings import Findings
from streamer.verification.reports import Print

_EXACT = {label(verdict, Reason.SHORT_TEXT) for verdict in (Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UPDATE)} | {
    label(Verdict.DUPLICATE, reason) for reason in (Reason.UPDATE_MINOR_SHORT_TEXT, Reason.RETURNED_SHORT_TEXT)
}
_FINER = {Verdict.DUPLICATE: (SAME, MINOR, RETURNED), Verdict.UPDATE: (OTHER,), Verdict.UNIQUE: (SHARED,)}
"""Reasons that only the decision gives, by the fingerprint's."""

_HASHES = 2**64
_UNREAD = (None, None, None, None, None, 0)
"""A print's columns without its text."""

NOT_TO_BE_READ = {label(Verdict.DEAD_LETTER, reason): reason for reason in (Reason.POISON, Reason.UNREADABLE)}
"""Dead letters without decoding, by label: a record that ends the process, and one without bytes."""


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
    """Reads fingerprints from outputs, and for the sample also from texts, into the table.

    by_headers  whether outputs carry fingerprints; if not, all texts are read

    >>> from streamer.delivered.table import opened
    >>> from streamer.transports.output_log import Extent
    >>> with opened(folder / "delivered", Extent({}, {}, {}, {}, outputs=0, inputs=0)) as table:
    ...     TextCheck(table, Findings(), 16, None, None, None, True).add([])
    {}
    """

    _table: Table
    _findings: Findings
    _words: int
    _decoder: Decoder
    _scheme: Scheme
    _sample: Sample
    _by_headers: bool

    def add(self, outputs: Sequence[tuple[Output, int]]) -> dict[int, Print]:
        """Note fingerprints from outputs, each with its row, and return them by row."""
        prints = {row: print_ for each, row in outputs if self._by_headers and (print_ := self._of_headers(each, row))}
        chosen = [
            (each, row)
            for each, row in outputs
            if each.headers.reason not in NOT_TO_BE_READ and (not self._by_headers or self._is_in_sample(each))
        ]
        texts, rows = self._of_texts(chosen) if chosen else {}, []
        if not self._by_headers:
            rows = [(row, *columns, True, None, None, None, None) for row, columns in texts.items()]
        else:
            for row in prints | texts:
                kind, fingerprint = prints.get(row, (None, None))
                rest = texts.get(row, _UNREAD)[2:]
                rows.append((row, kind, fingerprint, *rest, row in texts, None, None, None, None))
        self._table.insert("print", rows, replacing=True)
        by_headers = {row: Print(*print_) for row, print_ in prints.items()}
        return by_headers | {row: Print(columns[0], columns[1], columns[3]) for row, columns in texts.items()}

    def _is_in_sample(self, output: Output) -> bool:
        headers = output.headers
        position = (
            headers.original
            if headers.original is not None and headers.verdict and headers.verdict.names_original
            else headers.position
        )
        return position is not None and self._sample.has(position)

    def _of_headers(self, output: Output, row: int) -> tuple[int, bytes] | None:
        headers = output.headers
        if headers.verdict is None or not (headers.verdict.stands_for_itself or headers.verdict.names_original):
            return None
        try:
            fingerprint = from_hexadecimal(headers.fingerprint or "", self._words * 64).tobytes()
        except ValueError:
            problem = f"{self._table.text(row)}: names no fingerprint of {self._words * 16} digits"
            self._findings.note("fingerprint", [problem])
            return None
        return int(Kind.EXACT if headers.reason in _EXACT else Kind.NEAR), fingerprint

    def _of_texts(self, outputs: Sequence[tuple[Output, int]]) -> dict[int, tuple[Any, ...]]:
        documents = self._decoder.decode([each.record for each, _ in outputs if each.record is not None])
        fingerprints = fingerprint_documents(self._scheme, documents)
        digits = hexadecimal(fingerprints.kinds, fingerprints.fingerprints)
        self._findings.counts["texts read"] += len(outputs)
        self._findings.examine("fingerprint", len(outputs))
        kinds = fingerprints.kinds.tolist()
        for place, ((output, row), document) in enumerate(zip(outputs, documents, strict=True)):
            reason = int(fingerprints.reasons[place])
            if problem := self._problem(output, document, digits[place], kinds[place], reason):
                self._findings.note("fingerprint", [f"{self._table.text(row)}: {problem}"])
        return {row: columns for (_, row), columns in zip(outputs, print_columns(fingerprints), strict=True)}

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
