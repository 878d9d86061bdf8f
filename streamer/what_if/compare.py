"""Comparison: other settings decide delivered documents again, in a temporary index.

1. Read texts and verdicts from the outputs, up to the committed offsets, and lost records from the input.
2. Fingerprint every text, and note its sentences in a file.
3. Sort the documents in the existing index's decision order.
4. Decide them, and compare the verdicts.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Position, Verdict, errors, naming_originals
from streamer.fingerprint.documents import entries_of, fingerprint_documents
from streamer.fingerprint.scheme import measure_of, scheme_with_parameters
from streamer.index_admin.tools import key_in_place, open_for_reading
from streamer.records.decode import DeadLetter, Decoder, Document
from streamer.records.output_headers import OutputHeaders
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.service.wiring import open_index
from streamer.settings.settings import Settings
from streamer.text.normalisation import Normaliser
from streamer.transports.output_log import Extent, OutputLog
from streamer.verification.position_table import NO_VERDICT, NONE, Rows, chunks
from streamer.verification.texts import NOT_TO_BE_READ
from streamer.verification.verify import Progress, extent_of, shown
from streamer.what_if.differences import Decided, Differences, drops
from streamer.what_if.documents import Documents, DocumentsWriter
from streamer.what_if.order import again, order_of, ranks_in
from streamer.what_if.sentence_file import SentenceFile


@contextmanager
def compared(settings: Settings, output_log: OutputLog, progress: Progress) -> Iterator[Differences]:
    """Decide delivered documents again by `settings`, and compare both decisions.

    The settings' index gives the order; without one, timestamps do. Raises NoDocuments before the first commit,
    IndexDamagedError, SettingsError, and the output log's errors.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-compare-") as folder:
        yield _Comparison(settings, output_log, progress, Path(folder)).run()


class _Comparison:
    def __init__(self, settings: Settings, output_log: OutputLog, progress: Progress, folder: Path) -> None:
        self._settings = settings
        self._of_other_index = settings.replaced(index={"directory": folder / "index"})
        self._output_log, self._progress, self._folder = output_log, progress, folder
        self._decoder = Decoder(settings.decode)
        self._scheme, self._parameters = scheme_with_parameters(settings, key_in_place(settings)[0])
        self._measure = measure_of(settings, self._parameters)
        self._sentences = SentenceFile(folder / "sentences", Normaliser(settings.fingerprint))

    def run(self) -> Differences:
        documents = self._read(extent_of(self._output_log, self._progress, "to compare with"))
        ranks, journaled = self._ranks(documents)
        originals = documents.originals()
        order = order_of(documents, ranks, originals)
        # An update is unique even without a readable older version; but now it would be no update.
        counted = order[~(naming_originals(documents.rows["verdict"]) & (originals == NONE))[order]]
        rows, doubled = documents.rows, int(again(documents).sum())
        left_out = Counter(
            {
                "came out more than once": doubled,
                "whose original can no longer be read": len(documents) - len(counted) - doubled,
            }
        )
        verdicts = np.where(rows["verdict"] == NO_VERDICT, journaled, rows["verdict"])
        delivered = Decided(verdicts, rows["distance"], originals, rows["by_similarity"])
        of_unknown_order = int(np.count_nonzero(ranks[counted] == NONE))
        other = self._decided(documents, order)
        sentences = self._sentences.lost(counted, (~drops(delivered), ~drops(other)))
        return Differences(documents, counted, delivered, other, of_unknown_order, +left_out, sentences)

    def _read(self, extent: Extent) -> Documents:
        with DocumentsWriter(self._folder, self._parameters, extent.names) as writer:
            for outputs in shown(self._output_log.outputs(), self._progress, "reading the outputs", extent.outputs):
                chosen = [
                    (each.record, each.headers)
                    for each in outputs
                    if each.record is not None and each.record.offset < extent.committed.get(each.record.source, 0)
                    # A given-back document appears with its earlier verdict too.
                    if each.headers.verdict is not Verdict.GIVEN_BACK
                ]
                self._add(writer, [record for record, _ in chosen], [headers for _, headers in chosen])
            if extent.trimmed:
                self._read_input(writer, extent)
            return writer.documents()

    def _read_input(self, writer: DocumentsWriter, extent: Extent) -> None:
        delivered = writer.documents()
        for records in shown(self._output_log.inputs(), self._progress, "reading the input", extent.inputs):
            rows = delivered.rows_at([Position(record.source, record.offset) for record in records])
            chosen = [
                record
                for record, row in zip(records, rows.tolist(), strict=True)
                if row == NONE and record.lost is None and record.offset < extent.committed.get(record.source, 0)
            ]
            self._add(writer, chosen, [None] * len(chosen))

    def _add(self, writer: DocumentsWriter, records: Sequence[Record], headers: Sequence[OutputHeaders | None]) -> None:
        if not records:
            return
        readable = [place for place, each in enumerate(headers) if each is None or each.reason not in NOT_TO_BE_READ]
        documents: list[Document | DeadLetter] = [
            DeadLetter(
                NOT_TO_BE_READ.get("" if each is None else each.reason, Reason.POISON), "", each.id if each else None
            )
            for each in headers
        ]
        for place, document in zip(readable, self._decoder.decode([records[place] for place in readable]), strict=True):
            documents[place] = document
        entries = entries_of(records, documents, fingerprint_documents(self._scheme, documents))
        writer.add(entries, [record.timestamp_ms for record in records], headers)
        self._sentences.add([each.text if isinstance(each, Document) else "" for each in documents])

    def _ranks(self, documents: Documents) -> tuple[Rows, npt.NDArray[np.uint8]]:
        try:
            with open_for_reading(self._settings) as index, self._progress("reading the index", None):
                return ranks_in(index, documents)
        except errors.IndexMissingError:
            return np.full(len(documents), NONE), np.full(len(documents), NO_VERDICT, np.uint8)

    def _decided(self, documents: Documents, order: Rows) -> Decided:
        count = len(documents)
        verdicts, distances = np.full(count, NO_VERDICT, np.uint8), np.full(count, NO_DISTANCE, np.int16)
        originals, news, measure = np.full(count, NONE), np.full(count, np.nan), self._measure
        with (
            open_index(self._of_other_index, self._scheme) as index,
            self._progress("deciding by the other settings", len(order)) as done,
        ):
            for part in chunks(len(order), self._settings.batch.records_max):
                rows = order[part]
                entries = documents.entries(rows, part.start)
                decisions = index.admit(entries, dict.fromkeys(entries.sources, part.stop))
                verdicts[rows], distances[rows] = decisions.verdicts, decisions.distances
                news[rows] = measure.news(decisions)
                originals[rows] = [
                    NONE if position is None else order[position.offset] for position in decisions.original_positions
                ]
                done(part.stop)
        return Decided(verdicts, distances, originals, np.full(count, measure.by_similarity), news)
