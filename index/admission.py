"""The index: fingerprints in, verdicts out, each position decided once.

One write transaction per call holds the new entries, the journal rows and the applied offsets, so a crash at any point
leaves either all of a batch or nothing, and deciding it again gives the same verdicts.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from index import batch, documents, forgetting, restoration, schemes, sources
from index.documents import Document
from index.entry import Applied, Decisions, Entries, Position, Source, Verdict
from index.errors import FormatUnknown
from index.forgetting import ignored
from index.layout import COUNTERS_KEY, STAMP_KEY, Counters, Table, pack_counters, unpack_counters
from index.parameters import Parameters, read_stamp, require_equal, stamp_of
from index.restoration import Restored
from index.store import CommitHooks, Store, Transaction

MAP_BYTES_INITIAL = 2**26
Result = TypeVar("Result")

NO_MARKS: Mapping[Source, bytes] = MappingProxyType({})
NO_ENDS: Mapping[Source, int] = MappingProxyType({})


class Match(NamedTuple):
    """An entry within the distance asked for."""

    document: Document
    distance: int


class Statistics(NamedTuple):
    """How large the index is.

    entries        NEAR entries
    exact_entries  EXACT entries
    forgotten      documents that were entries once
    journal_rows   positions in the journal
    used_bytes     bytes of the file in use, free pages within it included
    map_bytes      what the file may grow to before the map is grown
    table_bytes    bytes by table name; `buckets` has all that the others do not have: its pages and the free ones
    """

    entries: int
    exact_entries: int
    forgotten: int
    journal_rows: int
    used_bytes: int
    map_bytes: int
    table_bytes: Mapping[str, int]


class Index:
    """An open index. Several processes may have it open; their writes take turns. Threads may share one of these."""

    def __init__(self, store: Store, parameters: Parameters, *, journal: bool) -> None:
        """Use `Index.open`."""
        self._store = store
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
    ) -> Self:
        """Open the index in `directory`, creating it where there is none.

        parameters         must equal those it was created with; None, with read_only: whatever those are
        map_bytes_initial  size of the memory map at first; doubled when needed, up to map_bytes_max
        read_only          nothing may be written, and the index must exist
        hooks              called around every commit
        journal            False: positions are neither looked up nor noted, so that deciding is no longer idempotent.
                           Only a test of the tests wants that.

        Raises ParametersDiffer, FormatUnknown, IndexMissing, AlreadyOpen, IndexInUse, IndexDamaged, IndexFull.
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
            opened = True
        finally:
            if not opened:
                store.close()
        return cls(store, stored, journal=journal)

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
        return self._store.write(lambda transaction: self._admitted(transaction, entries, pieces, ends, marks))

    def _admitted(
        self,
        transaction: Transaction,
        entries: Entries,
        pieces: list[batch.Piece],
        ends: Mapping[Source, int],
        marks: Mapping[Source, bytes],
    ) -> Decisions:
        places = batch.places_of(transaction, entries)
        past = batch.journaled(transaction, entries, places) if self._journal else batch.nothing_journaled(entries)
        if past.known.any():
            pieces = batch.pieces_of(entries, np.flatnonzero(~past.known), self.parameters)
        counters = _counters(transaction)
        next_number = counters.next_number
        rows, candidates = past.rows, np.zeros(len(entries), np.int64)
        for piece in pieces:
            outcome, candidates[piece.rows] = batch.decide_piece(transaction, piece, self.parameters, next_number)
            next_number += batch.write_entering(
                transaction,
                piece.entries,
                places,
                outcome.entering,
                outcome.numbers,
                outcome.originals,
                self.parameters,
            )
            batch.fill_rows(rows, piece, outcome)
        journal_rows = counters.journal_rows
        if self._journal:
            batch.write_journal(transaction, places, rows, ~past.known)
            journal_rows += int(np.count_nonzero(~past.known))
        _put_counters(transaction, counters._replace(next_number=next_number, journal_rows=journal_rows))
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
        self,
        entries: Entries,
        verdicts: npt.NDArray[np.uint8],
        originals: Sequence[Position | None],
        ends: Mapping[Source, int] = NO_ENDS,
    ) -> Restored:
        """Enter documents that are known to have been decided: no matching; `ends` moves applied offsets forward.

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
            next_number = _counters(transaction).next_number
            done, entered = restoration.restore(transaction, entries, verdicts, originals, self.parameters, next_number)
            counters = _counters(transaction)
            _put_counters(
                transaction,
                counters._replace(
                    next_number=next_number + entered, journal_rows=counters.journal_rows + done.restored
                ),
            )
            sources.advance(transaction, ends, {})
            return done

        return self._store.write(operation)

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

        distance_max  also beyond the index's own, which None means; SimHash: 0 to 7 bits, and nothing is missed; MinHash:
                      0 to 10,000, among those that share a band
        limit         at most so many for each
        """
        radius = self.parameters.distance_max if distance_max is None else distance_max
        farthest = self.parameters.distance_limit
        if not 0 <= radius <= farthest:
            raise ValueError(f"distance_max must be 0 to {farthest}, not {radius}")
        if fingerprints.ndim != 2 or fingerprints.shape[1] != self.parameters.words:
            raise ValueError(f"fingerprints must be uint64 [m, {self.parameters.words}]")
        search = schemes.search_for(fingerprints, self.parameters, radius)

        def operation(transaction: Transaction) -> list[list[Match]]:
            matches, _ = search.entries(transaction, limit)
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

    def forget(self, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
        """Remove the documents that have these ids, so that their near-duplicates are unique again.

        Verdicts stay what they were: the journal goes on to answer for every position, and to name a forgotten original.
        With insert = "all" an original takes the duplicates that entered after it along. Returns what was forgotten.
        `progress` is told how many documents were looked through. Raises IndexFull, IndexDamaged.
        """
        return forgetting.forget(self._store, frozenset(ids), self.parameters, progress)

    def find(self, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
        """The documents that have one of these ids, oldest first, forgotten ones too. Looks through all documents.

        `progress` is told how many documents were looked through.
        """
        return forgetting.find(self._store, frozenset(ids), self.parameters.words, progress)

    def inspect(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run `operation` on one moment's state: for the modules of this package that look after the tables.

        While it runs, pages that writers free are not used again: the file grows by about 1 KB a document admitted.
        """
        return self._store.read(operation)

    def change(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run `operation` in one synced write transaction, perhaps twice; for the same modules as `inspect`."""
        return self._store.write(operation)

    def copy_to(self, file_descriptor: int, *, compact: bool) -> None:
        """Write one moment's state into a file, as a data file of an index. Raises IndexFull, IndexDamaged."""
        self._store.copy_to(file_descriptor, compact=compact)

    def readers(self) -> list[tuple[int, int | None]]:
        """Process id, and the transaction being read or None, of everybody who reads."""
        return self._store.readers()

    def statistics(self) -> Statistics:
        """How large the index is; touches a few pages only."""

        def operation(transaction: Transaction) -> Statistics:
            used_bytes, map_bytes = transaction.used_bytes(), transaction.map_bytes()
            table_bytes = {t.value.decode(): transaction.page_bytes(t) for t in Table if t is not Table.BUCKETS}
            table_bytes[Table.BUCKETS.value.decode()] = used_bytes - sum(table_bytes.values())
            return Statistics(
                entries=transaction.count(Table.BUCKETS) // self.parameters.blocks,
                exact_entries=transaction.count(Table.EXACT),
                forgotten=transaction.count(Table.FORGOTTEN),
                journal_rows=_counters(transaction).journal_rows,
                used_bytes=used_bytes,
                map_bytes=map_bytes,
                table_bytes=table_bytes,
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


def _put_counters(transaction: Transaction, counters: Counters) -> None:
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))
