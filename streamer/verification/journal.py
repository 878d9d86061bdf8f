"""The index knows every output with the same verdict, and its entries are the unique documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import xxhash

from index import (
    EXTENDING,
    Index,
    Kind,
    Position,
    Source,
    Verdict,
    naming_originals,
    plain_source,
    standing_for_themselves,
)
from index.tools import Record, Snapshot, frames_of, portions, snapshot
from streamer.records.reason import Reason
from streamer.transports.output_log import Extent
from streamer.verification.ledger import ELSEWHERE, FRAME_UNKNOWN, FRAMED, Ledger, digest_of_text, within
from streamer.verification.position_table import NO_VERDICT, NONE, Flags, Rows, chunks, places_by
from streamer.verification.texts import NO_KIND, Prints

ROWS_AT_ONCE = 4_096

HOSTS_MAX = 1 << 20
"""Limit for sampled hosts, above their real maximum."""


@dataclass
class JournalCheck:
    """Compares the index with the ledger, and writes the index's verdicts into it.

    >>> from index import Parameters
    >>> from streamer.verification.findings import Findings
    >>> from streamer.verification.ledger import LedgerWriter
    >>> ledger, prints = LedgerWriter(folder).finish({}, Findings()), Prints.blank(folder, 0, Parameters())
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     check = JournalCheck(ledger, Extent({}, {}, {}, {}, outputs=0, inputs=0), prints)
    ...     check.run(index, expires=False, progress=print)
    >>> ledger.findings.sound
    True
    """

    ledger: Ledger
    extent: Extent
    prints: Prints
    _rank: int = 0
    _names: Mapping[str, str] = field(default_factory=dict)
    """Names of the index's streams."""
    _hosts: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    """Digests of hosts with a sample, as in the log of the index."""
    _counting_from: dict[Source, int] = field(default_factory=dict)
    """A source's least offset whose entry still counts."""

    def run(self, index: Index, *, expires: bool, progress: Callable[[int], None]) -> None:
        """Read a snapshot of the index, taken after the outputs. Raises IndexDamagedError.

        expires  whether positions before the first live entry may be unknown
        """

        def operation(taken: Snapshot) -> Mapping[Source, int]:
            self._names = taken.streams()
            for portion in portions(taken.records(), ROWS_AT_ONCE):
                self._add(portion)
                progress(self._rank)
            return {source: applied.offset for source, applied in taken.applied().items()}

        hosts = frames_of(index, HOSTS_MAX) if index.parameters.frames is not None else []
        self._hosts = np.array([_digest_of_host(each.host) for each in hosts], np.uint32)
        applied = snapshot(index, operation)
        self._unknown(applied, expires=expires)

    def _add(self, portion: Sequence[Record]) -> None:
        for source, places in places_by(record.source for record in portion).items():
            if plain_source(source) != source:
                self._note_given_back(plain_source(source), [portion[place].offset for place in places])
                continue
            if source.stream not in self.extent.names:
                strange = self.extent.strange_input(self._names[source.stream])
                self.ledger.findings.leave_out(f"positions of {strange}", len(places))
                continue
            records = [portion[place] for place in places]
            offsets = np.array([record.offset for record in records], np.uint64)
            rows = self.ledger.rows_of(source, offsets)
            first, end = self.extent.first.get(source, 0), self.extent.end.get(source, 0)
            inside = (offsets >= first) & (offsets < end)
            excused = rows == NONE
            if not self.extent.compacted:
                excused &= np.array([record.reason == Reason.UNREADABLE for record in records], np.bool_) | within(
                    self.ledger.unreadable, source, offsets
                )
            self.ledger.findings.excuse("positions whose records the input no longer has", inside, excused)
            self.ledger.findings.examine("journal-foreign", int(inside.sum()))
            self.ledger.findings.note(
                "journal-foreign",
                (
                    f"{self.ledger.position_text(Position(source, records[place].offset))}: is {records[place].verdict.label}"
                    for place in np.flatnonzero(inside & (rows == NONE)).tolist()
                ),
            )
            known = np.flatnonzero(rows != NONE)
            self._write(source, [records[place] for place in known.tolist()], rows[known], np.array(places)[known])
        self._rank += len(portion)

    def _note_given_back(self, source: Source, offsets: Sequence[int]) -> None:
        rows = self.ledger.rows_of(source, np.array(offsets, np.uint64))
        self.ledger.state["known_given_back"][rows[rows != NONE]] = 1

    def _write(self, source: Source, records: Sequence[Record], rows: Rows, places: Rows) -> None:
        if not len(rows):
            return
        state = self.ledger.state
        self.ledger.note("journal-differs", rows[state["rank"][rows] != NONE], "stands twice in the index")
        state["rank"][rows] = self._rank + places
        state["journaled"][rows] = [record.verdict for record in records]
        state["retired"][rows] = [record.forgotten or record.document is None for record in records]
        if len(self._hosts):
            entering = np.array([record.document is not None for record in records], np.bool_)
            # The index knows hosts also of documents whose texts are not read.
            unknown = ~entering | np.isin([record.version.host for record in records], self._hosts)
            state["frame"][rows] = np.where(unknown, FRAME_UNKNOWN, 0)
            self._note_frames(records, rows)
        counting = [each.offset for each in records if each.document is not None and not each.forgotten]
        if counting:
            self._counting_from[source] = min(self._counting_from.get(source, counting[0]), *counting)
        delivered = state["outputs"][rows] > 0
        self.ledger.findings.examine("journal-differs", int(delivered.sum()))
        self._compare(records, rows, delivered)

    def _note_frames(self, records: Sequence[Record], rows: Rows) -> None:
        for row, record in zip(rows.tolist(), records, strict=True):
            if record.document is not None and record.document.frame:
                self.prints.fingerprints[row, self.prints.words :] = record.document.frame
                self.ledger.state["frame"][row] = FRAMED

    def _compare(self, records: Sequence[Record], rows: Rows, delivered: Flags) -> None:
        state = self.ledger.state[rows]
        verdicts = np.array([record.verdict for record in records], np.uint8)
        differs = delivered & (state["verdict"] != verdicts)
        # A restored index may not have known the match when the page entered again.
        keep_name = np.isin(state["verdict"], (Verdict.TEMPLATE, *EXTENDING))
        name = "pages of templates, longer versions and new text that a restored index knows as unique alone"
        self.ledger.findings.excuse(name, differs, keep_name & (verdicts == Verdict.UNIQUE))
        self.ledger.note("journal-differs", rows[differs], "has another verdict in the index")
        duplicate = delivered & ~differs & naming_originals(verdicts)
        away = duplicate & (state["original"] >= 0) & (self._origins(records) != state["original"])
        self.ledger.note("journal-differs", rows[away], "has another original in the index")
        ids = np.array([0 if each.origin is None else digest_of_text(each.origin.id) for each in records], np.uint64)
        # Restoring reads ids by earlier settings, perhaps not those of the output or its original.
        by_now = state["by_other_settings"] == 0
        originals = np.where(state["original"] >= 0, state["original"], rows)
        named_by_now = by_now & (self.ledger.state["by_other_settings"][originals] == 0)
        named_wrong = duplicate & named_by_now & (ids != state["original_id"])
        self.ledger.note("journal-differs", rows[named_wrong], "names its original by another id")
        distances = np.array([-1 if each.distance is None else each.distance for each in records], np.int16)
        # A restored duplicate has lost its distance, which its output may still have.
        wrong = duplicate & (distances != state["distance"]) & (distances != -1) & (state["distance"] != -1)
        # A restored index measures by its own key, outputs by the key that decided them.
        name = "distances that another key or other settings than those of now measured"
        self.ledger.findings.excuse(name, wrong, ~named_by_now)
        # A restored index learns frames in another order.
        name = "distances in the frames of hosts, which a restored index may know otherwise"
        self.ledger.findings.excuse(name, wrong, len(self._hosts) > 0)
        self.ledger.note("journal-differs", rows[wrong], "has another distance in the index")
        entered = np.array([each.document is not None for each in records], np.bool_)
        ids = np.array(
            [0 if each.document is None else digest_of_text(each.document.id) for each in records], np.uint64
        )
        self.ledger.findings.examine("entry-differs", int(entered.sum()))
        self.ledger.note(
            "entry-differs", rows[delivered & entered & by_now & (ids != state["id"])], "entered under another id"
        )
        self._compare_fingerprints(records, rows, delivered & entered)
        standing = standing_for_themselves(verdicts)
        self.ledger.note("entry-differs", rows[standing & ~entered], "stands for itself, and never entered")

    def _compare_fingerprints(self, records: Sequence[Record], rows: Rows, compared: Flags) -> None:
        places = np.flatnonzero(compared & (self.prints.kinds[rows] != NO_KIND))
        documents = [document for place in places.tolist() if (document := records[place].document) is not None]
        if not documents:
            return
        of_rows = rows[places]
        fingerprints = np.array([document.fingerprint for document in documents], np.uint64)
        kinds = np.array([document.kind for document in documents], np.uint8)
        differs = (fingerprints != self.prints.fingerprints[of_rows, : self.prints.words]).any(axis=1) | (
            kinds != self.prints.kinds[of_rows]
        )
        self.ledger.note("entry-differs", of_rows[differs], "entered with another fingerprint")
        looks = np.frombuffer(b"".join(document.look for document in documents), np.uint8).reshape(len(documents), -1)
        near = self.prints.read[of_rows] & (kinds == Kind.NEAR)
        differs = near & (looks != self.prints.looks[of_rows]).any(axis=1)
        self.ledger.note("entry-differs", of_rows[differs], "entered with another second look")

    def _origins(self, records: Sequence[Record]) -> Rows:
        """Rows of originals, int64 [n]; ELSEWHERE without one in the ledger."""
        rows = self.ledger.rows_at([record.origin and record.origin.position for record in records])
        return np.where(rows == NONE, ELSEWHERE, rows)

    def _unknown(self, applied: Mapping[Source, int], *, expires: bool) -> None:
        for source, base, offsets in self.ledger.sources():
            committed, behind = self.extent.committed.get(source, 0), applied.get(source, 0)
            excused_below = self._counting_from.get(source, behind) if expires else 0
            places = int(np.searchsorted(offsets, behind))
            self.ledger.findings.leave_out(
                "outputs that the index has yet to restore", max(0, int(np.searchsorted(offsets, committed)) - places)
            )
            for part in chunks(places):
                rows = np.arange(part.start, part.stop) + base
                state, at = self.ledger.state[rows], offsets[part]
                unknown = state["journaled"] == NO_VERDICT
                self.ledger.findings.examine("journal-missing", len(rows))
                enters = standing_for_themselves(state["verdict"])
                needed = unknown & (enters | ((at >= committed) & (state["outputs"] == 0)))
                self.ledger.findings.leave_out(
                    "outputs that enter nothing, and that a restored index does not know",
                    (unknown & ~needed & (state["outputs"] > 0)),
                )
                self.ledger.findings.excuse("outputs that may have expired from the index", needed, at < excused_below)
                self.ledger.note("journal-missing", rows[needed], "is not known to the index")


def _digest_of_host(host: str) -> int:
    """The digest of a host's name in the index's log: 32 bits."""
    return xxhash.xxh3_64_intdigest(host.encode("utf-8", "surrogatepass")) & 0xFFFF_FFFF
