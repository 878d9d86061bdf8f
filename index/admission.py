"""The index: fingerprints in, verdicts out, each position decided once.

One write transaction per call holds the new entries, the journal rows and the applied offsets, so a crash at any point
leaves either all of a batch or nothing, and deciding it again gives the same verdicts.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from index import batch, documents, restoration, sources
from index.blocks import probe_keys
from index.documents import Document
from index.entry import Applied, Decisions, Entries, Position, Source, Verdict
from index.errors import FormatUnknown
from index.layout import COUNTERS_KEY, STAMP_KEY, Counters, Table, unpack_counters
from index.merging import Merging
from index.parameters import DISTANCE_MAX, Parameters, read_stamp, require_equal, stamp_of
from index.restoration import Restored
from index.search import Search
from index.store import CommitHooks, Store, Transaction

MAP_BYTES_INITIAL = 2**26
MERGING = Merging()
NO_MARKS: Mapping[Source, bytes] = MappingProxyType({})


class Match(NamedTuple):
    """An entry within the distance asked for."""

    document: Document
    distance: int


class Statistics(NamedTuple):
    """How large the index is.

    entries        NEAR entries
    exact_entries  EXACT entries
    journal_rows   positions in the journal
    used_bytes     bytes of the file in use, free pages within it included
    map_bytes      what the file may grow to before the map is grown
    table_bytes    bytes by table name; the free pages are in none
    """

    entries: int
    exact_entries: int
    journal_rows: int
    used_bytes: int
    map_bytes: int
    table_bytes: Mapping[str, int]


class Index:
    """An open index. Several processes may have it open; their writes take turns. Threads may share one of these."""

    def __init__(self, store: Store, parameters: Parameters, merging: Merging, *, journal: bool) -> None:
        """Use `Index.open`."""
        self._store = store
        self._search = Search(parameters.words, merging)
        self._journal = journal
        self.parameters = parameters

    @classmethod
    def open(
        cls,
        directory: Path,
        parameters: Parameters | None,
        *,
        map_bytes_max: int,
        map_bytes_initial: int = MAP_BYTES_INITIAL,
        read_only: bool = False,
        hooks: CommitHooks | None = None,
        journal: bool = True,
        merging: Merging = MERGING,
    ) -> Self:
        """Open the index in `directory`, creating it where there is none.

        parameters         must equal those it was created with; None, with read_only: whatever those are
        map_bytes_initial  size of the memory map at first; doubled when needed, up to map_bytes_max
        read_only          nothing may be written, and the index must exist
        hooks              called around every commit
        journal            False: positions are neither looked up nor noted, so that deciding is no longer idempotent.
                           Only a test of the tests wants that.
        merging            how many of the newest entries stay in memory, and how large packed values grow

        Raises ParametersDiffer, FormatUnknown, IndexMissing, AlreadyOpen, IndexDamaged, IndexFull.
        """
        if parameters is None and not read_only:
            raise ValueError("an index opened for writing needs its parameters")
        store = Store(
            directory,
            map_bytes_initial=min(map_bytes_initial, map_bytes_max),
            map_bytes_max=map_bytes_max,
            read_only=read_only,
            hooks=hooks or CommitHooks(),
        )
        opened = False
        try:
            stored = _stamped(store, parameters, os.fspath(directory))
            index = cls(store, stored, merging, journal=journal)
            if not read_only:
                # The newest entries are read before anybody waits for the first batch, and without the writer lock.
                store.read(index._search.follow)
            opened = True
        finally:
            if not opened:
                store.close()
        return index

    def close(self) -> None:
        """Let go of the files; further calls do nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def admit(
        self, entries: Entries, ends: Mapping[Source, int], marks: Mapping[Source, bytes] = NO_MARKS
    ) -> Decisions:
        """Decide a batch, in one synced write transaction: all of it, or nothing if this raises.

        A position that was decided before gets its verdict of then (`replayed`) and enters nothing. The others are
        decided in order, each seeing all entries and the documents before it in the batch: a NEAR document is a
        duplicate of the nearest entry within distance_max, of the earliest among equally near ones; an EXACT document
        of the earliest equal EXACT one. With insert = "unique" only UNIQUE documents become entries. With "all"
        duplicates do too; a duplicate then names as its original the UNIQUE document at the root of its match, while
        `distances` holds the distance to the match itself.

        `ends` moves each source's applied offset forward, never backwards; `marks` go with their ends. A stream that
        was never begun becomes known without a name. Raises IndexFull, IndexDamaged; ValueError for a broken batch.
        """
        batch.require_sound(entries, self.parameters.words)
        pieces = batch.pieces_of(entries, np.arange(len(entries)), self.parameters)
        return self._store.write(
            lambda transaction: self._admitted(transaction, entries, pieces, ends, marks), self._search.committed
        )

    def _admitted(
        self,
        transaction: Transaction,
        entries: Entries,
        pieces: list[batch.Piece],
        ends: Mapping[Source, int],
        marks: Mapping[Source, bytes],
    ) -> Decisions:
        search = self._search
        search.follow(transaction)
        places = batch.places_of(transaction, entries)
        past = batch.journaled(transaction, entries, places) if self._journal else batch.nothing_journaled(entries)
        if past.known.any():
            pieces = batch.pieces_of(entries, np.flatnonzero(~past.known), self.parameters)
        counters = _counters(transaction)
        rows, candidates = past.rows, np.zeros(len(entries), np.int64)
        for piece in pieces:
            outcome, candidates[piece.rows] = batch.decide_piece(
                transaction, search, piece, self.parameters, counters.next_number
            )
            filings = batch.filings_of(outcome, piece.entries.kinds)
            counters = batch.write(
                transaction, search, piece.entries, places, outcome, filings, journal_too=self._journal
            )
            batch.fill_rows(rows, piece, outcome)
        search.advance(transaction, counters.next_number)
        sources.advance(transaction, ends, marks)
        return self._decisions(transaction, rows, past.known, candidates)

    def _decisions(
        self,
        transaction: Transaction,
        rows: npt.NDArray[np.void],
        replayed: npt.NDArray[np.bool_],
        candidates: npt.NDArray[np.int64],
    ) -> Decisions:
        ids: list[str | None] = [None] * len(rows)
        positions: list[Position | None] = [None] * len(rows)
        duplicates = np.flatnonzero(rows["verdict"] == Verdict.DUPLICATE)
        if len(duplicates):
            numbers = rows["number"][duplicates]
            found = documents.read(transaction, numbers, self.parameters.words)
            for row, number in zip(duplicates.tolist(), numbers.tolist(), strict=True):
                ids[row], positions[row] = found[number].id, found[number].position
        return Decisions(
            verdicts=rows["verdict"].astype(np.uint8),
            reasons=rows["reason"].astype(np.uint8),
            distances=rows["distance"].astype(np.int16),
            originals=rows["number"].astype(np.uint64),
            original_ids=ids,
            original_positions=positions,
            replayed=replayed,
            candidates=candidates,
        )

    def restore(
        self, entries: Entries, verdicts: npt.NDArray[np.uint8], originals: Sequence[Position | None]
    ) -> Restored:
        """Enter documents that are known to have been decided: no matching, no change of applied offsets.

        verdicts   uint8 [n], UNIQUE or DUPLICATE; rows whose kind is UNDECIDABLE or DEAD_LETTER are journaled as that
        originals  for DUPLICATE rows the original's position; not read elsewhere

        Rows whose position the journal knows are left alone. A DUPLICATE's original must be in the journal or be a
        UNIQUE row of this batch; a row whose original is neither is left out and counted. DUPLICATE rows become entries
        only with insert = "all"; their journaled distance is then NO_DISTANCE, as the match is not known.
        Raises IndexFull, IndexDamaged; ValueError for a broken batch.
        """
        batch.require_sound(entries, self.parameters.words)
        if not self._journal:
            raise ValueError("an index without its journal cannot be restored")
        if len(verdicts) != len(entries) or len(originals) != len(entries):
            raise ValueError("verdicts and originals must have one item per row")
        if not np.isin(verdicts, (Verdict.UNIQUE, Verdict.DUPLICATE)).all():
            raise ValueError("only UNIQUE and DUPLICATE documents can be restored")

        def operation(transaction: Transaction) -> Restored:
            self._search.follow(transaction)
            next_number = _counters(transaction).next_number
            done, counters = restoration.restore(
                transaction, self._search, entries, verdicts, originals, self.parameters, next_number
            )
            self._search.advance(transaction, counters.next_number)
            return done

        return self._store.write(operation, self._search.committed)

    def begin(self, source: Source, name: str, offset: int) -> None:
        """Make a source known: applied up to `offset`, unless it has an applied offset already; its stream's name."""

        def operation(transaction: Transaction) -> None:
            sources.set_name(transaction, source.stream, name)
            if not sources.is_known(transaction, source):
                sources.advance(transaction, {source: offset}, {})

        self._store.write(operation)

    def set_applied(self, source: Source, offset: int, mark: bytes = b"") -> None:
        """Move a source's applied offset forward to `offset`; where it is there or further already, nothing happens."""
        self._store.write(lambda transaction: sources.advance(transaction, {source: offset}, {source: mark}))

    def applied(self) -> dict[Source, Applied]:
        """How far every known source has been decided."""
        return self._store.read(sources.applied)

    def streams(self, name: str) -> list[str]:
        """The streams known under this name, oldest first. Reads all streams: for start-up, not for every batch."""
        named = self._store.read(sources.named_streams)
        return [stream for stream, stream_name in named if stream_name == name]

    def stream_names(self) -> dict[str, str]:
        """The name of every known stream, "" where it was never begun. Reads all streams."""
        return dict(self._store.read(sources.named_streams))

    def query(
        self, fingerprints: npt.NDArray[np.uint64], distance_max: int | None = None, limit: int = 10
    ) -> list[list[Match]]:
        """For each fingerprint, uint64 [m, words], the nearest NEAR entries, nearest and earliest first; writes nothing.

        distance_max  0 to 7, also beyond the index's own, which None means
        limit         at most so many for each
        """
        radius = self.parameters.distance_max if distance_max is None else distance_max
        if not 0 <= radius <= DISTANCE_MAX:
            raise ValueError(f"distance_max must be 0 to {DISTANCE_MAX}, not {radius}")
        if fingerprints.ndim != 2 or fingerprints.shape[1] != self.parameters.words:
            raise ValueError(f"fingerprints must be uint64 [m, {self.parameters.words}]")
        keys = probe_keys(fingerprints, radius)

        def operation(transaction: Transaction) -> list[list[Match]]:
            self._search.follow(transaction)
            matches, _ = self._search.nearest(transaction, fingerprints, keys, radius, limit)
            matches = documents.with_repeats(transaction, matches, self.parameters.words, limit)
            found = documents.read(transaction, matches.numbers, self.parameters.words)
            answer: list[list[Match]] = [[] for _ in range(len(fingerprints))]
            columns = (matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist())
            for row, distance, number in zip(*columns, strict=True):
                answer[row].append(Match(found[number], distance))
            return answer

        return self._store.read(operation)

    def documents(self, numbers: Sequence[int]) -> list[Document | None]:
        """The documents that have these numbers, in the order asked; None for a number that was never given."""
        wanted = np.array(numbers, dtype=np.uint64)
        found = self._store.read(lambda transaction: documents.read(transaction, wanted, self.parameters.words))
        return [found.get(number) for number in numbers]

    def statistics(self) -> Statistics:
        """How large the index is; touches a few pages only."""

        def operation(transaction: Transaction) -> Statistics:
            used_bytes, map_bytes = transaction.used_bytes(), transaction.map_bytes()
            counters = _counters(transaction)
            exact_entries = transaction.count(Table.EXACT)
            return Statistics(
                entries=counters.next_number - exact_entries,
                exact_entries=exact_entries,
                journal_rows=counters.journal_rows,
                used_bytes=used_bytes,
                map_bytes=map_bytes,
                table_bytes={table.value.decode(): transaction.page_bytes(table) for table in Table},
            )

        return self._store.read(operation)


def _stamped(store: Store, asked: Parameters | None, where: str) -> Parameters:
    """What the index was created with, having stamped a new one, and having made all tables usable."""
    if store.is_new() and asked is None:
        raise FormatUnknown(f"The index in {where} was never finished being created.")
    store.prepare([Table.META])
    stamp = store.read(lambda transaction: transaction.get(Table.META, STAMP_KEY))
    if stamp is not None:
        stored = read_stamp(stamp, where)
        require_equal(stored, asked or stored, where)
        store.prepare(Table)
        return stored
    if asked is None:
        raise FormatUnknown(f"The index in {where} was never finished being created.")
    store.prepare(Table)

    def operation(transaction: Transaction) -> bytes:
        # Another process may have been faster: the first stamp counts.
        first = transaction.get(Table.META, STAMP_KEY)
        if first is None:
            transaction.put(Table.META, STAMP_KEY, stamp_of(asked))
        return first or stamp_of(asked)

    stored = read_stamp(store.write(operation), where)
    require_equal(stored, asked, where)
    return stored


def _counters(transaction: Transaction) -> Counters:
    return unpack_counters(transaction.get(Table.META, COUNTERS_KEY))
