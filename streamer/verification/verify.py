"""Verification of a service: input, outputs and index compared with each other.

Nothing is taken on trust from the service. Verification reads the outputs and input first, and the index last. So a running
service's work shows as in flight, never as a problem.
"""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from index import Index, Parameters, Verdict
from streamer.errors import NoDocuments
from streamer.fingerprint.scheme import Scheme, key_for, parameters_for, scheme_for, settings_digest
from streamer.records.decode import Decoder
from streamer.settings.settings import Settings
from streamer.transports.output_log import Extent, OutputLog
from streamer.verification.comparison import Comparison
from streamer.verification.delivered import DeliveredCheck
from streamer.verification.findings import Findings
from streamer.verification.journal import JournalCheck
from streamer.verification.ledger import Ledger, LedgerWriter
from streamer.verification.originals import check_originals
from streamer.verification.similarity import SimilarityCheck
from streamer.verification.texts import Prints, Sample, TextCheck
from streamer.verification.uniques import UniquesCheck
from streamer.verification.updates import check_updates

COUNTED = ("input", "outputs", *(verdict.label for verdict in Verdict), "in flight", "texts read")

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""A progress bar for a phase: its title and total; the callable takes the amount done so far."""


def verify(
    settings: Settings, output_log: OutputLog, index: Index, progress: Progress, *, sample: int | None
) -> Findings:
    """Verify a service. `index` is open for reading.

    sample  approximate number of documents to fingerprint again and compare with all others; None: all. A second look, and
            outputs without headers, need all texts.

    Raises ParametersDiffer if the settings give other fingerprints than those in the index, NoDocuments if nothing was ever
    committed, IndexDamaged, and the output log's errors.
    """
    scheme = scheme_for(settings, key_for(settings, index.secret))
    asked = parameters_for(settings, scheme.stamp())
    deciding = index.parameters.deciding(asked, str(settings.index.directory))
    with tempfile.TemporaryDirectory(prefix="streamer-verify-") as folder:
        return _Verification(settings, output_log, index, deciding, scheme, progress, sample, Path(folder)).run()


def extent_of(output_log: OutputLog, progress: Progress, purpose: str) -> Extent:
    """Fix the end for reading. `purpose` completes "nothing ...". Raises NoDocuments before the first commit."""
    with progress("asking how far all is committed", None):
        extent = output_log.extent()
    if not extent.committed:
        names = ", ".join(map(repr, extent.names.values()))
        raise NoDocuments(
            f"Nothing of {names} was ever committed, so there is nothing {purpose}; is kafka.group, or --out, that of the "
            "service?"
        )
    return extent


class _Verification:
    def __init__(
        self,
        settings: Settings,
        output_log: OutputLog,
        index: Index,
        deciding: Parameters,
        scheme: Scheme,
        progress: Progress,
        sample: int | None,
        folder: Path,
    ) -> None:
        self._settings = settings
        self._output_log = output_log
        self._index = index
        self._deciding = deciding
        self._scheme = scheme
        self._progress = progress
        self._sample = sample
        self._folder = folder
        self._findings = Findings()
        self._findings.counts.update(dict.fromkeys(COUNTED, 0))

    def run(self) -> Findings:
        extent = extent_of(self._output_log, self._progress, "to verify")
        ledger = self._ledger(extent)
        prints = Prints.blank(self._folder, len(ledger), self._index.parameters)
        share = self._share(len(ledger))
        delivered = self._read_outputs(ledger, extent, prints, share)
        self._read_index(ledger, extent, prints)
        delivered.finish(strict_start=self._settings.recovery.first_start == "earliest")
        check_originals(ledger, self._findings, self._index.parameters.insert)
        check_updates(ledger, Comparison(prints, self._index.parameters), self._findings)
        # Earlier settings may have been less strict, but at least as strict as the index's.
        with self._progress("comparing duplicates with their originals", len(ledger)) as done:
            SimilarityCheck(ledger, Comparison(prints, self._index.parameters), self._findings).run(done)
        with self._progress("comparing unique documents with each other", len(ledger)) as done:
            UniquesCheck(ledger, Comparison(prints, self._deciding), self._findings, everything=share >= 1).run(
                self._folder, done
            )
        return self._findings

    def _share(self, rows: int) -> float:
        if self._sample is None or self._index.parameters.look is not None or not self._output_log.has_headers:
            return 1.0
        return min(1.0, self._sample / max(rows, 1))

    def _ledger(self, extent: Extent) -> Ledger:
        writer = LedgerWriter(self._folder)
        with self._progress("reading the input", extent.inputs) as done:
            read = 0
            for found in self._output_log.inputs():
                records = [record for record in found if record.lost is None]
                for record in found:
                    if record.lost is not None:
                        writer.note_unreadable(record.source, range(record.offset, record.offset + record.lost.offsets))
                for source in dict.fromkeys(record.source for record in records):
                    writer.add(source, [record for record in records if record.source == source])
                read += len(records)
                done(read)
        self._findings.counts["input"] = read
        return writer.finish(extent.names)

    def _read_outputs(self, ledger: Ledger, extent: Extent, prints: Prints, share: float) -> DeliveredCheck:
        has_headers = self._output_log.has_headers
        decoder = Decoder(self._settings.decode)
        texts = TextCheck(ledger, self._findings, prints, decoder, self._scheme, Sample(share), by_headers=has_headers)
        names = self._index.stream_names()
        # Verdicts over files name an original by its file.
        streams = frozenset(names) if has_headers else frozenset([*names, *names.values()])
        digest = settings_digest(self._settings, self._scheme.stamp())
        check = DeliveredCheck(ledger, extent, self._findings, streams, texts, digest, has_headers)
        with self._progress("reading the outputs", extent.outputs) as done:
            read = 0
            for outputs in self._output_log.outputs():
                check.add(outputs)
                read += len(outputs)
                done(read)
        self._findings.counts["outputs"] = read
        return check

    def _read_index(self, ledger: Ledger, extent: Extent, prints: Prints) -> None:
        statistics, retention = self._index.statistics(), self._settings.index
        expires = bool(retention.entries_max or retention.age_max_hours or statistics.expired_below)
        check = JournalCheck(ledger, extent, self._findings, prints)
        with self._progress("reading the index", statistics.journal_rows) as done:
            check.run(self._index, inserts_all=self._index.parameters.insert == "all", expires=expires, progress=done)
