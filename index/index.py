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

from index.decide import batch, forget, restore, retention
from index.decide.forget import ignored
from index.decide.lookup import all_visible
from index.decide.restore import Restored
from index.decide.retention import Retention
from index.entry import Applied, Decisions, Entries, Position, Source
from index.lsm.compaction import TreeSizes
from index.lsm.tree import Tree, wanted
from index.storage import documents, log, sources
from index.storage.counters import counters_of, put_counters
from index.storage.documents import Document
from index.storage.log import Origin
from index.storage.parameters import Parameters
from index.storage.stamp import stamped
from index.storage.statistics import Statistics, statistics_of
from index.storage.store import CommitHooks, Store, Transaction
from index.storage.visibility import Visibility

MAP_BYTES_INITIAL = 2**26
SIZES = TreeSizes()
KEEP_ALL = Retention()
Result = TypeVar("Result")

NO_MARKS: Mapping[Source, bytes] = MappingProxyType({})
NO_ENDS: Mapping[Source, int] = MappingProxyType({})


class Match(NamedTuple):
    """An entry within the distance asked for."""

    document: Document
    distance: int


class Index:
    """An open index. Several processes may have it open; their writes take turns. Threads may share one of these."""

    def __init__(
        self, store: Store, parameters: Parameters, sizes: TreeSizes, retention: Retention, *, journal: bool
    ) -> None:
        """Use `Index.open`."""
        self._store = store
        self._tree = Tree(parameters, sizes)
        self._retention = retention
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
        sizes: TreeSizes = SIZES,
        retention: Retention = KEEP_ALL,
    ) -> Self:
        """Open the index in `directory`, creating it where there is none.

        parameters         must equal those it was created with; None, with read_only: whatever those are
        map_bytes_initial  size of the memory map at first; doubled when needed, up to map_bytes_max
        read_only          nothing may be written, and the index must exist
        hooks              called around every commit
        journal            False: positions are neither looked up nor noted, so that deciding is no longer idempotent.
                           Only a test of the tests wants that.
        sizes              how many of the newest entries stay in memory, and how large packed values grow
        retention          how long entries count

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
            stored = stamped(store, parameters, os.fspath(directory))
            index = cls(store, stored, sizes, retention, journal=journal)
            if not read_only:
                # The newest entries are read before anybody waits for the first batch, and without the writer lock.
                store.read(index._tree.follow)
                index._tree.file()
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
        of the earliest equal EXACT one. With a second look only those count that `looks` says, and how near it says they
        are. With insert = "unique" only UNIQUE documents become entries. With "all"
        duplicates do too; a duplicate then names as its original the UNIQUE document at the root of its match, while
        `distances` holds the distance to the match itself; where the root is retired, the match is its own root.

        Entries that are retired match nothing (see `retention`, `forget`), nor are positions known whose batch has
        expired as a whole.

        `ends` moves each source's applied offset forward, never backwards; `marks` go with their ends. A stream that
        was never begun becomes known without a name. Raises IndexFull, IndexDamaged; ValueError for a broken batch.
        """
        batch.require_sound(entries, self.parameters.words, self.parameters.look_bytes)
        pieces = batch.pieces_of(entries, np.arange(len(entries)), self.parameters)
        return self._store.write(
            lambda transaction: self._admitted(transaction, entries, pieces, ends, marks), self._tree.committed
        )

    def _admitted(
        self,
        transaction: Transaction,
        entries: Entries,
        pieces: list[batch.Piece],
        ends: Mapping[Source, int],
        marks: Mapping[Source, bytes],
    ) -> Decisions:
        tree, parameters = self._tree, self.parameters
        tree.follow(transaction)
        places = batch.places_of(transaction, entries)
        past = batch.journaled(transaction, entries, places) if self._journal else batch.nothing_journaled(entries)
        if past.known.any():
            pieces = batch.pieces_of(entries, np.flatnonzero(~past.known), parameters)
        counters = counters_of(transaction)
        of_sources = log.sources_of(places.streams, places.partitions)
        retention.advance(transaction, self._retention, entries, of_sources, ~past.known, counters.next_number)
        visibility = Visibility(transaction, parameters.words)
        rows, origins, candidates = past.rows, past.origins, np.zeros(len(entries), np.int64)
        for piece in pieces:
            decided = batch.decide_piece(transaction, tree, visibility, piece, parameters, counters.next_number)
            outcome, candidates[piece.rows] = decided.outcome, decided.compared
            filings = batch.filings_of(piece.entries, outcome.entering, decided.equal)
            of_piece = batch.origins_of(transaction, piece.entries, places, outcome, counters.next_number)
            origins.update((int(piece.rows[row]), origin) for row, origin in of_piece.items())
            counters = batch.retire_stale(
                transaction, tree, visibility, piece.entries, decided.stale, filings, counters
            )
            counters = batch.write(
                transaction,
                tree,
                piece.entries,
                places,
                outcome,
                filings,
                list(of_piece.values()),
                counters,
                journal_too=self._journal,
            )
            batch.fill_rows(rows, piece, outcome)
        retention.note_ages(transaction, self._retention, of_sources, counters)
        counters = retention.clean(transaction, tree, visibility, counters, parameters.words)
        put_counters(transaction, counters)
        tree.advance(transaction, counters.next_number, counters.next_tombstone)
        sources.move_applied(transaction, ends, marks)
        return _decisions(transaction, rows, past.known, candidates, origins)

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
        only with insert = "all"; their journaled distance is then NO_DISTANCE, as the match is not known. Record times
        move on as by `admit`.
        Raises IndexFull, IndexDamaged; ValueError for a broken batch.
        """
        restore.require_restorable(entries, verdicts, originals, self.parameters)
        if not self._journal:
            raise ValueError("an index without its journal cannot be restored")

        return self.change(lambda found: self.restored(found, self._tree, entries, verdicts, originals, ends))

    def restored(
        self,
        transaction: Transaction,
        tree: Tree,
        entries: Entries,
        verdicts: npt.NDArray[np.uint8],
        originals: Sequence[Position | None],
        ends: Mapping[Source, int],
    ) -> Restored:
        """What `restore` does within a transaction; for `change`, by whoever has a `tree` of its own."""
        counters = counters_of(transaction)
        done, new, counters = restore.restore(
            transaction, tree, entries, verdicts, originals, self.parameters, counters
        )
        put_counters(transaction, counters)
        self.note_times(transaction, entries, new)
        sources.move_applied(transaction, ends, {})
        return done

    def note_times(self, transaction: Transaction, entries: Entries, new: npt.NDArray[np.bool_]) -> None:
        """Move record times on by rows that entered undecided, and note how old they are; new: bool [n], which of them did."""
        places, counters = batch.places_of(transaction, entries), counters_of(transaction)
        of_sources = log.sources_of(places.streams, places.partitions)
        retention.advance(transaction, self._retention, entries, of_sources, new, counters.next_number)
        retention.note_ages(transaction, self._retention, of_sources, counters)

    def begin(self, source: Source, name: str, offset: int) -> None:
        """Make a source known: applied up to `offset`, unless it has an applied offset already; its stream's name."""

        def operation(transaction: Transaction) -> None:
            sources.set_name(transaction, source.stream, name)
            if not sources.is_known(transaction, source):
                sources.move_applied(transaction, {source: offset}, {})

        self._store.write(operation)

    def set_applied(self, source: Source, offset: int, mark: bytes = b"") -> None:
        """Move a source's applied offset forward to `offset`; where it is there or further already, nothing happens."""
        self._store.write(lambda transaction: sources.move_applied(transaction, {source: offset}, {source: mark}))

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

        They are compared by their fingerprints alone; a second look plays no part.

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
        words, look_up = self.parameters.words, wanted(fingerprints, self.parameters, radius)

        def operation(transaction: Transaction) -> list[list[Match]]:
            self._tree.follow(transaction)
            visibility = Visibility(transaction, words)
            matches = all_visible(transaction, self._tree, visibility, look_up, words, limit)
            found = documents.read(transaction, matches.numbers, words)
            answer: list[list[Match]] = [[] for _ in range(len(fingerprints))]
            columns = (matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist())
            for row, distance, number in zip(*columns, strict=True):
                answer[row].append(Match(found[number], distance))
            return answer

        return self._store.read(operation)

    def documents(self, numbers: Sequence[int]) -> list[Document | None]:
        """The documents that have these numbers, in the order asked; None where there is none, or none any more."""
        wanted = np.array(numbers, dtype=np.uint64)
        found = self._store.read(lambda transaction: documents.read(transaction, wanted, self.parameters.words))
        return [found.get(number) for number in numbers]

    def forget(self, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
        """Remove the documents that have these ids, so that their near-duplicates are unique again.

        Verdicts stay what they were: the journal goes on to answer for every position, and to name a forgotten original.
        With insert = "all" an original takes the duplicates that entered after it along. Returns what was forgotten.
        `progress` is told how many documents were looked through. Raises IndexFull, IndexDamaged.
        """
        return forget.forget(self._store, self._tree, frozenset(ids), self.parameters, progress)

    def find(self, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
        """The documents that have one of these ids, oldest first, forgotten ones too. Looks through all documents.

        `progress` is told how many documents were looked through.
        """
        return forget.find(self._store, frozenset(ids), self.parameters.words, progress)

    def inspect(self, operation: Callable[[Transaction], Result]) -> Result:
        """MemtablePair `operation` on one moment's state: for the modules of this package that look after the tables.

        While it runs, pages that writers free are not used again: the file grows by about 1 KB a document admitted.
        """
        return self._store.read(operation)

    def change(self, operation: Callable[[Transaction], Result], tree: Tree | None = None) -> Result:
        """MemtablePair `operation` in one synced write transaction, perhaps twice; for the same modules as `inspect`.

        It may add entries to `tree`, the index's own if None is given, which follows before and advances behind it.
        """
        tree = tree or self._tree

        def following(transaction: Transaction) -> Result:
            tree.follow(transaction)
            result = operation(transaction)
            counters = counters_of(transaction)
            tree.advance(transaction, counters.next_number, counters.next_tombstone)
            return result

        return self._store.write(following, tree.committed)

    @property
    def tree(self) -> Tree:
        """What this process keeps of the entries in memory; for `change`."""
        return self._tree

    def copy_to(self, file_descriptor: int, *, compact: bool) -> None:
        """Write one moment's state into a file, as a data file of an index. Raises IndexFull, IndexDamaged."""
        self._store.copy_to(file_descriptor, compact=compact)

    def readers(self) -> list[tuple[int, int | None]]:
        """Process id, and the transaction being read or None, of everybody who reads."""
        return self._store.readers()

    def statistics(self) -> Statistics:
        """How large the index is; touches a few pages only."""

        return self._store.read(lambda transaction: statistics_of(transaction, self.parameters.words))


def _decisions(
    transaction: Transaction,
    rows: npt.NDArray[np.void],
    replayed: npt.NDArray[np.bool_],
    candidates: npt.NDArray[np.int64],
    origins: Mapping[int, Origin],
) -> Decisions:
    ids: list[str | None] = [None] * len(rows)
    positions: list[Position | None] = [None] * len(rows)
    streams = sources.streams_of(transaction, {origin.stream for origin in origins.values()})
    for row, origin in origins.items():
        ids[row] = origin.id
        positions[row] = Position(Source(streams[origin.stream], origin.partition), origin.offset)
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
