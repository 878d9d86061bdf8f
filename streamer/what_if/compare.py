"""Comparison: other settings decide delivered documents again, in a temporary index.

1. Read texts and verdicts from the outputs, up to the committed offsets, and lost records from the input.
2. Fingerprint every text, and note its sentences in a file.
3. Sort the documents in the existing index's decision order.
4. Decide them, and compare the verdicts.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from index import Entries, Position, Verdict, errors
from index.tools import Snapshot, portions, snapshot
from streamer.delivered.table import Delivered, Table, blobs, opened, print_columns, text_bytes, text_of
from streamer.fingerprint.documents import entries_of, fingerprint_documents
from streamer.fingerprint.scheme import measure_of, scheme_with_parameters
from streamer.index_admin.tools import key_in_place, open_for_reading
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.output_headers import OutputHeaders, parse_headers
from streamer.records.record import Destination, Record
from streamer.service.wiring import open_index
from streamer.settings.settings import Settings
from streamer.text.normalisation import Normaliser
from streamer.transports.output_log import Extent, OutputLog
from streamer.verification.texts import NOT_TO_BE_READ
from streamer.verification.verify import Progress, extent_of, shown
from streamer.what_if.differences import Differences
from streamer.what_if.order import SCHEMA, write_order
from streamer.what_if.sentence_file import SentenceFile

ROWS_AT_ONCE = 4_096

_UNKNOWN = parse_headers((), Destination.UNIQUE)
"""Headers for a document that only the input has."""


@contextmanager
def compared(settings: Settings, output_log: OutputLog, progress: Progress) -> Iterator[Differences]:
    """Decide delivered documents again by `settings`, and compare both decisions.

    The settings' index gives the order; without one, timestamps do. Raises NoDocuments before the first commit,
    IndexDamagedError, SettingsError, and the output log's errors.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-compare-") as folder:
        extent = extent_of(output_log, progress, "to compare with")
        with opened(Path(folder) / "delivered", extent) as table:
            yield _Comparison(settings, output_log, progress, Path(folder), table).run(extent)


class _Comparison:
    def __init__(
        self, settings: Settings, output_log: OutputLog, progress: Progress, folder: Path, table: Table
    ) -> None:
        self._settings = settings
        self._of_other_index = settings.replaced(index={"directory": folder / "index"})
        self._output_log, self._progress, self._table = output_log, progress, table
        self._decoder = Decoder(settings.decode)
        self._scheme, self._parameters = scheme_with_parameters(settings, key_in_place(settings)[0])
        self._measure = measure_of(settings, self._parameters)
        self._sentences = SentenceFile(folder / "sentences", Normaliser(settings.fingerprint))

    def run(self, extent: Extent) -> Differences:
        self._table.execute(SCHEMA)
        self._read(extent)
        self._read_index()
        write_order(self._table)
        self._decide()
        differences = Differences(self._table, self._measure.by_similarity)
        differences.sentences = self._sentences.lost(differences.kept(self._sentences.documents))
        return differences

    def _read(self, extent: Extent) -> None:
        for outputs in shown(self._output_log.outputs(), self._progress, "reading the outputs", extent.outputs):
            # A given-back document appears with its earlier verdict too.
            ours = [each for each in outputs if each.headers.verdict is not Verdict.GIVEN_BACK]
            self._add([(each.record, each.headers) for each in ours if each.record is not None], extent)
        if not extent.trimmed:
            return
        for records in shown(self._output_log.inputs(), self._progress, "reading the input", extent.inputs):
            rows = [self._table.row(Position(record.source, record.offset)) for record in records]
            delivered = self._table.present("output", rows)
            lost = [
                (record, None)
                for record, row in zip(records, rows, strict=True)
                if row not in delivered and record.lost is None
            ]
            self._add(lost, extent)

    def _add(self, found: Sequence[tuple[Record, OutputHeaders | None]], extent: Extent) -> None:
        found = [each for each in found if each[0].offset < extent.committed.get(each[0].source, 0)]
        if not found:
            return
        records = [record for record, _ in found]
        readable = [record for record, headers in found if headers is None or headers.reason not in NOT_TO_BE_READ]
        decoded = iter(self._decoder.decode(readable))
        documents: list[Document | DeadLetter] = [
            next(decoded)
            if headers is None or headers.reason not in NOT_TO_BE_READ
            else DeadLetter(NOT_TO_BE_READ[headers.reason], "", headers.id)
            for _, headers in found
        ]
        fingerprints = fingerprint_documents(self._scheme, documents)
        entries = entries_of(records, documents, fingerprints)
        delivered, prints = [], []
        for place, ((record, headers), columns) in enumerate(zip(found, print_columns(fingerprints), strict=True)):
            row, told = self._table.row(Position(record.source, record.offset)), headers or _UNKNOWN
            assert row is not None, "a committed offset has a row"
            names = told.verdict is not None and told.verdict.names_original
            original = self._table.row(told.original) if names else None
            delivered.append(Delivered(row, told, original, record.timestamp_ms, self._sentences.documents + place))
            host = entries.hosts[place] if entries.hosts else None
            names_of = text_bytes(entries.ids[place]), text_bytes(host)
            named = entries.named is None or bool(entries.named[place])
            prints.append((row, *columns, True, int(entries.times_ms[place]), named, *names_of))
        self._table.add_outputs(delivered)
        self._table.insert("print", prints, "ON CONFLICT (row) DO NOTHING")
        self._sentences.add([each.text if isinstance(each, Document) else "" for each in documents])

    def _read_index(self) -> None:
        """Write each document's place in the index's log, and its verdict there. Raises IndexDamagedError."""

        def operation(taken: Snapshot) -> None:
            rank = 0
            for portion in portions(taken.records(), ROWS_AT_ONCE):
                rows = [
                    (row, rank + place, int(each.verdict))
                    for place, each in enumerate(portion)
                    if (row := self._table.row(Position(each.source, each.offset))) is not None
                ]
                self._table.insert("journal", rows, replacing=True)
                rank += len(portion)

        try:
            with open_for_reading(self._settings) as index, self._progress("reading the index", None):
                snapshot(index, operation)
        except errors.IndexMissingError:
            return

    def _decide(self) -> None:
        (count,) = self._table.one("SELECT count(*) FROM ordered")
        query = """SELECT place, number, kind, print.reason, fingerprint, look, digests, letters, time_ms, named, id, host
            FROM ordered JOIN print USING (row) ORDER BY place"""
        with (
            open_index(self._of_other_index, self._scheme) as index,
            self._progress("deciding by the other settings", count) as done,
        ):
            for portion in self._table.portions(query, size=self._settings.batch.records_max):
                first, stop = portion[0][0], portion[-1][0] + 1
                entries = self._entries(portion)
                decisions = index.admit(entries, dict.fromkeys(entries.sources, stop))
                news = self._measure.news(decisions).tolist()
                originals = [None if each is None else each.offset for each in decisions.original_positions]
                columns = decisions.verdicts.tolist(), decisions.distances.tolist(), originals, news
                self._table.insert("decided", zip(range(first, stop), *columns, strict=True))
                done(stop)

    def _entries(self, portion: Sequence[tuple[Any, ...]]) -> Entries:
        """Rows as a batch, whose offsets are their places."""
        columns = tuple(zip(*portion, strict=True))
        places, numbers, kinds, reasons, fingerprints, looks, digests, letters, times_ms, named, ids, hosts = columns
        chosen, source_numbers = np.unique(np.array(numbers, np.uint32), return_inverse=True)
        width = self._parameters.look_bytes
        return Entries(
            sources=tuple(self._table.sources[number] for number in chosen.tolist()),
            source_numbers=source_numbers.astype(np.uint32),
            offsets=np.array(places, np.uint64),
            kinds=np.array(kinds, np.uint8),
            reasons=np.array(reasons, np.uint8),
            fingerprints=blobs(fingerprints, np.uint64, self._parameters.words),
            times_ms=np.array(times_ms, np.int64),
            ids=[text_of(each) for each in ids],
            looks=blobs(looks, np.uint8, width) if width else None,
            hosts=[text_of(each) for each in hosts],
            named=np.array(named, np.bool_),
            digests=blobs(digests, np.uint64, 2),
            lengths=np.array(letters, np.uint32),
        )
