"""Verification of a service: input, outputs and index compared.

It reads outputs and input first, and the index last, so a running service's work shows as in flight.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from index import Index, Parameters
from streamer.errors import NoDocuments
from streamer.fingerprint.scheme import Scheme, key_for, measure_of, scheme_with_parameters, settings_digest
from streamer.records.decode import Decoder
from streamer.settings.settings import Settings
from streamer.transports.output_log import Extent, OutputLog
from streamer.verification.comparison import Comparison
from streamer.verification.delivered import DeliveredCheck
from streamer.verification.findings import Findings
from streamer.verification.journal import JournalCheck
from streamer.verification.ledger import Ledger, LedgerWriter
from streamer.verification.originals import check_originals
from streamer.verification.position_table import places_by
from streamer.verification.similarity import SimilarityCheck, check_lengths
from streamer.verification.texts import Prints, Sample, TextCheck
from streamer.verification.uniques import UniquesCheck
from streamer.verification.updates import check_updates

Item = TypeVar("Item")

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""A phase's progress bar, by title and total; the callable takes the amount done."""


def verify(
    settings: Settings, output_log: OutputLog, index: Index, progress: Progress, *, sample: int | None
) -> Findings:
    """Verify a service, with `index` open for reading.

    sample  approximate number of documents to fingerprint and compare with all others; None: all, as a second look and
            outputs without headers need

    Raises ParametersDifferError, NoDocuments before the first commit, IndexDamagedError, and the output log's errors.
    """
    scheme, asked = scheme_with_parameters(settings, key_for(settings, index.secret))
    deciding = index.parameters.deciding(asked, str(settings.index.directory))
    with tempfile.TemporaryDirectory(prefix="streamer-verify-") as folder:
        return _Verification(settings, output_log, index, deciding, scheme, progress, sample, Path(folder)).run()


def extent_of(output_log: OutputLog, progress: Progress, purpose: str) -> Extent:
    """Fix the reading's end. `purpose` completes "nothing ...". Raises NoDocuments before the first commit."""
    with progress("asking how far all is committed", None):
        extent = output_log.extent()
    if not extent.committed:
        names = ", ".join(map(repr, extent.names.values()))
        raise NoDocuments(
            f"Nothing of {names} was ever committed, so there is nothing {purpose}; is kafka.group, or --out, that of the "
            "service?"
        )
    return extent


def shown(batches: Iterable[Sequence[Item]], progress: Progress, title: str, total: int) -> Iterator[Sequence[Item]]:
    """The same batches, with progress by items."""
    count = 0
    with progress(title, total) as done:
        for batch in batches:
            yield batch
            count += len(batch)
            done(count)


@dataclass
class _Verification:
    _settings: Settings
    _output_log: OutputLog
    _index: Index
    _deciding: Parameters
    _scheme: Scheme
    _progress: Progress
    _sample: int | None
    _folder: Path
    _findings: Findings = field(default_factory=Findings)

    def run(self) -> Findings:
        extent = extent_of(self._output_log, self._progress, "to verify")
        ledger = self._ledger(extent)
        prints = Prints.blank(self._folder, len(ledger), self._index.parameters)
        share = self._share(len(ledger))
        delivered = self._read_outputs(ledger, extent, prints, share)
        self._read_index(ledger, extent, prints)
        delivered.finish(strict_start=self._settings.recovery.first_start == "earliest")
        check_originals(ledger, self._index.parameters.insert)
        # Earlier settings may have been less strict than these, but not than the index's.
        comparison, measure = Comparison(prints, self._index.parameters), measure_of(self._settings, self._deciding)
        check_updates(ledger, comparison)
        limits = self._settings.index
        check_lengths(ledger, comparison, measure, passes=limits.longer == "pass", new_max=limits.new_max)
        with self._progress("comparing duplicates with their originals", len(ledger)) as done:
            SimilarityCheck(ledger, comparison).run(done)
        with self._progress("comparing unique documents with each other", len(ledger)) as done:
            UniquesCheck(ledger, Comparison(prints, self._deciding), share >= 1).run(self._folder, done)
        return self._findings

    def _share(self, rows: int) -> float:
        if self._sample is None or self._index.parameters.look is not None or not self._output_log.has_headers:
            return 1.0
        return min(1.0, self._sample / max(rows, 1))

    def _ledger(self, extent: Extent) -> Ledger:
        writer = LedgerWriter(self._folder)
        for records in shown(self._output_log.inputs(), self._progress, "reading the input", extent.inputs):
            for record in records:
                if record.lost is not None:
                    writer.note_unreadable(record.source, range(record.offset, record.offset + record.lost.offsets))
            readable = [record for record in records if record.lost is None]
            for source, places in places_by(record.source for record in readable).items():
                writer.add(source, [readable[place] for place in places])
            self._findings.counts["input"] += len(readable)
        return writer.finish(extent.names, self._findings)

    def _read_outputs(self, ledger: Ledger, extent: Extent, prints: Prints, share: float) -> DeliveredCheck:
        has_headers = self._output_log.has_headers
        texts = TextCheck(ledger, prints, Decoder(self._settings.decode), self._scheme, Sample(share), has_headers)
        names = self._index.stream_names()
        # Verdicts over files name an original by its file.
        streams = names if has_headers else names | {name: name for name in names.values()}
        digest = settings_digest(self._settings, self._scheme.stamp())
        longer_min = self._settings.index.longer_min
        check = DeliveredCheck(ledger, extent, streams, texts, digest, longer_min, has_headers)
        for outputs in shown(self._output_log.outputs(), self._progress, "reading the outputs", extent.outputs):
            check.add(outputs)
            self._findings.counts["outputs"] += len(outputs)
        return check

    def _read_index(self, ledger: Ledger, extent: Extent, prints: Prints) -> None:
        statistics, retention = self._index.statistics(), self._settings.index
        expires = bool(retention.entries_max or retention.age_max_hours or statistics.expired_below)
        check = JournalCheck(ledger, extent, prints)
        with self._progress("reading the index", statistics.journal_rows) as done:
            check.run(self._index, expires=expires, progress=done)
