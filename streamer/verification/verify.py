"""Verification of a service: what went in, what came out and what the index knows, held against each other.

Nothing of what the service noted is taken on trust. The evidence is taken first, and the index is read last. So whatever a
running service does meanwhile shows as work in flight, never as a problem.
"""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from index import Index
from streamer.errors import NoDocuments
from streamer.settings.settings import Settings
from streamer.transports.evidence import Evidence, Extent
from streamer.verification.delivered import DeliveredCheck
from streamer.verification.findings import Findings
from streamer.verification.journal import JournalCheck
from streamer.verification.ledger import Ledger, LedgerWriter
from streamer.verification.originals import check_originals

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""A bar for a phase: its title, and how much there is to do; the callable takes what is done so far."""


def verify(settings: Settings, evidence: Evidence, index: Index, progress: Progress) -> Findings:
    """Verify a service. `index` is open for reading.

    Raises NoDocuments where nothing was ever committed, IndexDamaged, and what the evidence raises.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-verify-") as folder:
        return _Verification(settings, evidence, index, progress, Path(folder)).run()


class _Verification:
    def __init__(self, settings: Settings, evidence: Evidence, index: Index, progress: Progress, folder: Path) -> None:
        self._settings = settings
        self._evidence = evidence
        self._index = index
        self._progress = progress
        self._folder = folder
        self._findings = Findings()

    def run(self) -> Findings:
        with self._progress("asking how far all is committed", None):
            extent = self._evidence.extent()
        if not extent.committed:
            names = ", ".join(map(repr, extent.names.values()))
            raise NoDocuments(
                f"Nothing of {names} was ever committed by group {self._settings.kafka.group!r}, so there is nothing to "
                "verify; is kafka.group that of the service?"
            )
        ledger = self._ledger(extent)
        self._read_outputs(ledger, extent)
        self._read_index(ledger, extent)
        check_originals(ledger, self._findings, self._index.parameters.insert)
        return self._findings

    def _ledger(self, extent: Extent) -> Ledger:
        writer = LedgerWriter(self._folder)
        with self._progress("reading the input", extent.inputs) as done:
            read = 0
            for records in self._evidence.inputs():
                for source in dict.fromkeys(record.source for record in records):
                    writer.add(source, [record for record in records if record.source == source])
                read += len(records)
                done(read)
        self._findings.counts["input"] = read
        return writer.finish(extent.names)

    def _read_outputs(self, ledger: Ledger, extent: Extent) -> None:
        streams = frozenset(self._index.stream_names())
        check = DeliveredCheck(ledger, extent, self._findings, streams, self._evidence.has_headers)
        with self._progress("reading the outputs", extent.outputs) as done:
            read = 0
            for outputs in self._evidence.outputs():
                check.add(outputs)
                read += len(outputs)
                done(read)
        self._findings.counts["outputs"] = read
        check.finish(strict_start=self._settings.recovery.first_start == "earliest")

    def _read_index(self, ledger: Ledger, extent: Extent) -> None:
        statistics, retention = self._index.statistics(), self._settings.index
        expires = bool(retention.entries_max or retention.age_max_hours or statistics.expired_below)
        check = JournalCheck(ledger, extent, self._findings)
        with self._progress("reading the index", statistics.journal_rows) as done:
            check.run(self._index, inserts_all=self._index.parameters.insert == "all", expires=expires, progress=done)
