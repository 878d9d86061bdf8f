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
from streamer.delivered.table import Table, opened
from streamer.errors import NoDocuments
from streamer.fingerprint.scheme import Scheme, key_for, measure_of, scheme_with_parameters, settings_digest
from streamer.protected.sets import ProtectedSets, open_sets
from streamer.records.decode import Decoder
from streamer.settings.settings import Settings
from streamer.transports.output_log import Extent, OutputLog
from streamer.verification import checks
from streamer.verification.comparison import Comparison, measure
from streamer.verification.findings import Findings
from streamer.verification.journal import JournalReading, write_sources
from streamer.verification.outputs import Reading
from streamer.verification.reports import ReportCheck
from streamer.verification.texts import Sample, TextCheck
from streamer.verification.uniques import UniquesCheck

Item = TypeVar("Item")

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""A phase's progress bar, by title and total; the callable takes the amount done."""


def verify(
    settings: Settings, output_log: OutputLog, index: Index, progress: Progress, *, sample: int | None
) -> Findings:
    """Verify a service, with `index` open for reading.

    sample  approximate number of documents to fingerprint and compare with all others; None: all, as a second look and
            outputs without headers need

    Raises ParametersDifferError, SettingsError for a protected set that cannot be asked, NoDocuments before the first commit,
    IndexDamagedError, and the output log's errors.
    """
    scheme, asked = scheme_with_parameters(settings, key_for(settings, index.secret))
    deciding = index.parameters.deciding(asked, str(settings.index.directory))
    with (
        open_sets(settings, scheme) as sets,
        tempfile.TemporaryDirectory(prefix="streamer-verify-") as folder,
    ):
        return _Verification(settings, output_log, index, deciding, scheme, progress, sample, Path(folder), sets).run()


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
    _sets: ProtectedSets
    _findings: Findings = field(default_factory=Findings)

    def run(self) -> Findings:
        extent = extent_of(self._output_log, self._progress, "to verify")
        with opened(self._folder / "delivered", extent) as table:
            reading = self._reading(table, extent)
            for records in shown(self._output_log.inputs(), self._progress, "reading the input", extent.inputs):
                reading.add_input(records)
            share = self._share()
            reading.texts = self._text_check(table, share)
            for outputs in shown(self._output_log.outputs(), self._progress, "reading the outputs", extent.outputs):
                reading.add(outputs)
                self._findings.counts["outputs"] += len(outputs)
            has_hosts = self._read_index(table, reading)
            self._check(table, reading, has_hosts=has_hosts)
            with self._progress("comparing unique documents with each other", None) as done:
                deciding = Comparison(self._deciding)
                UniquesCheck(table, self._findings, deciding, share >= 1, self._folder).run(done)
        return self._findings

    def _share(self) -> float:
        if self._sample is None or self._index.parameters.look is not None or not self._output_log.has_headers:
            return 1.0
        return min(1.0, self._sample / max(self._findings.counts["input"], 1))

    def _text_check(self, table: Table, share: float) -> TextCheck:
        decoder, words, by_headers = (
            Decoder(self._settings.decode),
            self._index.parameters.words,
            self._output_log.has_headers,
        )
        return TextCheck(table, self._findings, words, decoder, self._scheme, Sample(share), by_headers)

    def _reading(self, table: Table, extent: Extent) -> Reading:
        names, has_headers = self._index.stream_names(), self._output_log.has_headers
        # Verdicts over files name an original by its file.
        streams = names if has_headers else names | {name: name for name in names.values()}
        digest, longer_min = settings_digest(self._settings, self._scheme.stamp()), self._settings.index.longer_min
        texts = self._text_check(table, 1.0)
        reports = ReportCheck(table, self._findings, self._sets, self._index.parameters)
        return Reading(table, extent, self._findings, streams, texts, digest, longer_min, has_headers, reports)

    def _read_index(self, table: Table, reading: Reading) -> bool:
        statistics, retention = self._index.statistics(), self._settings.index
        expires = bool(retention.entries_max or retention.age_max_hours or statistics.expired_below)
        journal = JournalReading(table, reading.extent, self._findings, reading.unreadable)
        with self._progress("reading the index", statistics.journal_rows) as done:
            applied = journal.run(self._index, done)
        strict_start = self._settings.recovery.first_start == "earliest"
        write_sources(table, reading, applied, strict_start=strict_start, expires=expires)
        return bool(journal.hosts)

    def _check(self, table: Table, reading: Reading, *, has_hosts: bool) -> None:
        parameters, limits = self._index.parameters, self._settings.index
        measured = measure_of(self._settings, self._deciding)
        by_now = f"o.settings IN ('', '{reading.settings_digest}')"
        known = checks.KNOWN if parameters.look is None else checks.KNOWN_AND_READ
        # Earlier settings may have been less strict than these, but not than the index's.
        with self._progress("comparing duplicates with their originals", None):
            measure(table, Comparison(parameters), known)
            too_long = 1 + measured.longer_min if limits.longer == "pass" else float("inf")
            groups = (
                checks.journal(by_now, has_hosts=has_hosts),
                checks.unknown(),
                checks.inputs(),
                checks.given_back(),
                checks.originals(by_now, only_unique=parameters.insert == "unique"),
                checks.updates(known),
                checks.lengths(by_now, of_shingles=measured.of_shingles, too_long=too_long, new_max=limits.new_max),
                checks.similarities(known, by_now, by_similarity=parameters.by_similarity),
            )
            for group in groups:
                group.run(table, self._findings)
        self._findings.counts["in flight"], yet = table.one(checks.IN_FLIGHT)
        self._findings.leave_out("outputs that the index has yet to restore", yet)
        reading.look_for_unreadable(strict_start=self._settings.recovery.first_start == "earliest")
