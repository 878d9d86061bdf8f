"""The index: fingerprints in, verdicts out, each position decided once.

One write transaction per call holds entries, journal rows and applied offsets. A crash leaves all of a batch or
nothing, and deciding the batch again gives the same verdicts.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from index import sets
from index.below import below as below_index
from index.decide import admit, check, find, forget, give_back, near, restore
from index.decide.find import Decided, EntryState
from index.decide.forget import ignored
from index.decide.near import Judged
from index.decide.restore import NO_ENDS, Restored
from index.entry import Applied, Decisions, Entries, Position, Source, WatchedHosts
from index.errors import IndexMissingError
from index.lsm.compaction import TreeSizes
from index.lsm.id_table import IdTable
from index.lsm.lookup import lookup_of
from index.lsm.tree import Tree
from index.matching.frame import without_frames
from index.matching.host_sketch import host_keys
from index.session import Guard, Longer, OpenIndex, Recrawl, Retention
from index.storage import sources
from index.storage.bases import base_of
from index.storage.counters import Statistics, statistics_of
from index.storage.data_file import DATA_FILE
from index.storage.documents import Document
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import HOSTS_KEY, Table, unpack_hosts
from index.storage.parameters import Parameters
from index.storage.stamp import identified, stamped
from index.storage.store import Store, Transaction
from index.stories import fold, listing
from index.stories.listing import Story
from index.turn import Turn

MAP_BYTES_INITIAL = 2**26
MAP_BYTES_MAX = 2**45
"""A map only reserves addresses: before 32 TiB the disk is full."""
SIZES = TreeSizes()
KEEP_ALL = Retention()
GUARD = Guard()
IDS_PLAY_NO_ROLE = Recrawl()
NO_REASONS: Mapping[int, int] = MappingProxyType({})

NO_MARKS: Mapping[Source, bytes] = MappingProxyType({})

STORIES_FILE = "stories.turn"
"""File in the index's folder that is locked by the process that writes stories out."""


class Match(NamedTuple):
    """An entry within the distance of a query.

    >>> from index import Entries, Source
    >>> words, source = np.array([[0b1011], [0b1001 << 40]], np.uint64), Source("topic", 0)
    >>> columns = (source,), np.zeros(2, np.uint32), np.arange(2, dtype=np.uint64), *np.zeros((2, 2), np.uint8), words
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     _ = index.admit(Entries(*columns, np.zeros(2, np.int64), ["a", "b"]), {source: 2})
    ...     [(match.document.id, match.distance) for match in index.query(np.array([[0b1001]], np.uint64))[0]]
    [('a', 1)]
    """

    document: Document
    distance: int


class Index(AbstractContextManager["Index"]):
    """An open index. Threads may share it; other processes may open it too, and their writes take turns.

    After `close`, and in a forked child, every method but `close` and `give_turn_back` raises IndexClosedError. A child may
    open the directory itself.

    with Index.open(directory, Parameters(bits=64, distance_max=3), map_bytes_max=2**30) as index:
        decisions = index.admit(entries, ends)

    >>> from index import Entries, Source
    >>> words, source = np.array([[5], [7]], np.uint64), Source("topic", 0)
    >>> columns = (source,), np.zeros(2, np.uint32), np.arange(2, dtype=np.uint64), *np.zeros((2, 2), np.uint8), words
    >>> with Index.open(folder, Parameters(distance_max=3), map_bytes_max=2**24) as index:
    ...     index.admit(Entries(*columns, np.zeros(2, np.int64), ["a", "b"]), {source: 2}).original_ids
    [None, 'a']
    """

    def __init__(self, opened: OpenIndex, secret: bytes | None = None) -> None:
        """Use `Index.open`."""
        self._opened = opened
        self._turn = Turn((opened.directory / DATA_FILE).absolute())
        self._stories_turn = Turn((opened.directory / STORIES_FILE).absolute())
        self.parameters = opened.parameters
        """The parameters in effect: those given at opening, else those from its creation."""
        self.retention = opened.retention
        self.identity = opened.identity
        self.secret = secret
        """16 random bytes made with the index, for the caller's hashes; None if the index has none."""

    @classmethod
    def open(
        cls,
        directory: Path,
        parameters: Parameters | Callable[[bytes | None], Parameters] | None,
        *,
        map_bytes_max: int | None = None,
        map_bytes_initial: int = MAP_BYTES_INITIAL,
        read_only: bool = False,
        hooks: CommitHooks | None = None,
        sizes: TreeSizes = SIZES,
        retention: Retention = KEEP_ALL,
        guard: Guard = GUARD,
        recrawl: Recrawl = IDS_PLAY_NO_ROLE,
        equal_reasons: Mapping[int, int] = NO_REASONS,
        longer: Longer | None = None,
        stories: bool = False,
        secret: bytes | None = None,
        bases: Sequence[Path] = (),
    ) -> Self:
        """Open the index in `directory`, or create one if there is none.

        parameters         equal to those from the index's creation, except stricter thresholds (`Parameters.deciding`).
                           None, with read_only: any. A callable receives the index's `secret`.
        map_bytes_max      largest size of the file; None: the disk is the limit
        map_bytes_initial  first size of the memory map, which doubles up to map_bytes_max
        read_only          no writes, and the index must exist
        hooks              called around every commit
        sizes              when the memtable freezes, and how large segments grow
        equal_reasons      by a duplicate's own reason: the one to journal if its text equals its original's
        longer             None: a document may be a duplicate however much longer it is
        stories            count roots with their duplicates, also those in the log; only with insert = "root"
        secret             16 bytes for a new index, from the index whose entries it will hold
        bases              folders of base sets, indexes with the same parameters that are only read. A new index has their secret

        Raises ParametersDifferError, BaseDiffersError, FormatUnknownError, IndexMissingError, AlreadyOpenError, IndexInUseError,
        IndexDamagedError, IndexFullError.
        """
        if parameters is None and not read_only:
            raise ValueError("an index opened for writing needs its parameters")
        store = Store(
            directory,
            map_bytes_initial=min(map_bytes_initial, map_bytes_max or MAP_BYTES_MAX),
            map_bytes_max=map_bytes_max or MAP_BYTES_MAX,
            read_only=read_only,
            hooks=hooks or CommitHooks(),
        )
        with ExitStack() as on_failure:
            on_failure.callback(store.close)
            where = os.fspath(directory)
            below = below_index(bases, lambda folder: cls.open(folder, None, read_only=True, sizes=sizes)._opened)
            on_failure.callback(below.close)
            parameters, kept = below.asked(store, parameters, secret, where, read_only=read_only)
            if guard.suspects and parameters is not None and parameters.insert == "unique":
                raise ValueError('suspects enter the index, which insert = "unique" does not allow')
            stored = stamped(store, parameters, where)
            # Every batch reads the numbers of forgotten documents by key alone, so a walk verifies their values here.
            store.read(lambda transaction: all(True for _ in transaction.walk(Table.RETIRED)))
            tree, ids = Tree(stored, sizes), IdTable(sizes)
            named_hosts: set[int] | None = set() if stories else None
            base_sets = below.sets(store, stored, read_only=read_only)
            policies = retention, guard, recrawl, equal_reasons, longer, named_hosts, base_sets
            opened = OpenIndex(directory, identified(store, where), store, tree, ids, stored, *policies)
            if not read_only:
                # Load the newest entries now, without the writer lock, so the first batch does not wait for them.
                opened.read(lambda session: (session.tree, session.ids))
                tree.file()
                while stories and opened.write(fold.fold):
                    pass
            on_failure.pop_all()
        return cls(opened, kept)

    def close(self) -> None:
        """Close the files; further calls do nothing."""
        self._turn.give_back()
        self._stories_turn.give_back()
        for base in self._opened.bases:
            base.opened.store.close()
        self._opened.store.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def require_open(self) -> None:
        """Raise IndexClosedError unless this process has the index open."""
        self._opened.store.require_open()

    def admit(
        self, entries: Entries, ends: Mapping[Source, int], marks: Mapping[Source, bytes] = NO_MARKS
    ) -> Decisions:
        """Decide a batch in one synced write transaction: all of it, or nothing if this raises.

        A position decided before keeps its verdict (`replayed`) and enters nothing. All others are decided in order;
        each sees all entries and the batch's earlier documents. A NEAR document is a duplicate of the nearest entry
        within distance_max, the earliest on ties; an EXACT document, of the earliest equal EXACT entry. With a second
        look only matches that it accepts count, at its distances.

        With insert = "unique" only UNIQUE documents become entries. With "root" duplicates far enough from all their
        matches become entries too. A match then counts only if its root is near enough too, and `distances` has the
        distance to that root. A match that went out as unique is its own root once its root is retired.

        With recrawl = "update" a known id with another text is an UPDATE: an entry that names and retires the older
        version. `distances` has their distance if both are NEAR. If another entry is nearer than the older version, the
        document is a DUPLICATE of that entry, and the older version stays. A document equal to its older version is a
        DUPLICATE of it.

        The older version is the visible entry, from a UNIQUE or UPDATE row with the same id, that the last record
        with this id was or duplicated; without one, the record before counts, back to the last 64.

        Texts in a row that have nothing in common show that many documents share an id: `index.decide.recrawl`. They are
        then no versions.

        With `longer` a match counts only if its root lacks little of the document (see `Longer`). A document with other
        matches alone is EXTENDS or ADDS: an entry that names the root of the nearest one, with the distance to it.

        Retired entries match nothing (see `retention`, `forget`). Positions in a wholly expired batch are unknown again.

        `ends` moves each source's applied offset forward, never backwards; `marks` go with their ends. A new stream
        becomes known without a name. Raises IndexFullError, IndexDamagedError; ValueError for an unsound batch.
        """
        return admit.admit(self._opened, entries, ends, marks)

    def check(self, entries: Entries) -> Decisions:
        """Decide each document as `admit` would if it came next, alone, at a new position; writes nothing.

        No row is `replayed`. `originals` is NO_NUMBER for rows that name no other document, as a check assigns no
        numbers. A document's own time does not advance retention by age, as it might in `admit`. Never waits for a
        writer. Raises IndexDamagedError; ValueError for an unsound batch.
        """
        return check.check(self._opened, entries)

    def restore(
        self,
        entries: Entries,
        verdicts: npt.NDArray[np.uint8],
        originals: Sequence[Position | None],
        ends: Mapping[Source, int] = NO_ENDS,
    ) -> Restored:
        """Enter documents with known verdicts, without matching; `ends` moves applied offsets forward.

        verdicts   uint8 [n], UNIQUE, TEMPLATE, UPDATE, EXTENDS, ADDS, DUPLICATE or SUSPECT; UNDECIDABLE and DEAD_LETTER rows are
                   journaled as such by kind
        originals  position of the original, for rows that name one

        A TEMPLATE, EXTENDS or ADDS document whose original is unknown enters as UNIQUE. An UPDATE retires its older version, if
        known, even if the UPDATE was known before: pass updates once more after all others. Without its older version's
        position it enters as UNIQUE.

        Rows at journaled positions stay unchanged. The original of a DUPLICATE or SUSPECT row must be in the journal or
        an original in this batch; otherwise the row is left out and counted. Such rows become entries only with
        insert = "root". Reasons of `Recrawl` say which ids are shared. Record times advance as in `admit`. Raises IndexFullError,
        IndexDamagedError; ValueError for an unsound batch.
        """
        restore.require_restorable(entries, verdicts, originals, self.parameters)
        return self._opened.write(lambda session: restore.restore(session, entries, verdicts, originals, ends))

    def give_back(self, entries: Entries, *, delivered: bool = False) -> npt.NDArray[np.bool_]:
        """Reverse the drop of documents; returns the rows not given back before, bool [n].

        Rows have the positions of their drops, which keep their verdicts. A NEAR or EXACT row becomes an entry; any
        other is only remembered. A later record with such an entry's id is a duplicate only of its own earlier
        versions (see `decide.give_back`).

        The new rows are `undelivered` until `settle`, unless `delivered`, as in a restoration. Raises GivingBackError if an
        earlier batch is not settled, IndexFullError, IndexDamagedError; ValueError for an unsound batch.
        """
        return self._opened.write(lambda session: give_back.give_back(session, entries, delivered=delivered))

    def are_given_back(self, positions: Sequence[Position]) -> npt.NDArray[np.bool_]:
        """Whether each position's drop was given back, as far as the index remembers: bool [n]."""
        return self._opened.read(lambda session: give_back.are_known(session, positions))

    def undelivered(self) -> list[Position]:
        """Positions of the last given-back batch, until `settle`."""
        return self._opened.read(give_back.undelivered)

    def settle(self, positions: Collection[Position]) -> bool:
        """Note the delivery of these positions, all that are `undelivered`; False if others are undelivered."""
        return self._opened.write(lambda session: give_back.settle(session, positions))

    def begin(self, source: Source, name: str, offset: int) -> None:
        """Register a source and name its stream; `offset` becomes the applied offset of a new source."""
        self.begin_all({source: offset}, {source.stream: name})

    def begin_all(self, offsets: Mapping[Source, int], names: Mapping[str, str]) -> None:
        """`begin` for several sources in one write transaction; `names` by stream."""

        def operation(transaction: Transaction) -> None:
            for source in offsets:
                sources.set_name(transaction, source.stream, names[source.stream])
            new = {source: offset for source, offset in offsets.items() if not sources.is_known(transaction, source)}
            sources.move_applied(transaction, new, {})

        self._opened.store.write(operation)

    def set_applied(self, source: Source, offset: int, mark: bytes = b"") -> None:
        """Move a source's applied offset forward; never backwards."""
        self._opened.store.write(
            lambda transaction: sources.move_applied(transaction, {source: offset}, {source: mark})
        )

    def take_turn(self) -> bool:
        """Take the turn to bring the index up to date, if it is free; returns whether this process has it.

        It blocks no writer: processes only agree to take turns. Raises IndexMissingError.
        """
        self.require_open()
        try:
            return self._turn.take()
        except FileNotFoundError as error:
            raise IndexMissingError(
                f"The index in {self._opened.directory} was removed while it was in use."
            ) from error

    def give_turn_back(self) -> None:
        """Release the turn to another process. A turn also ends with its process, and at `close`."""
        self._turn.give_back()

    def applied(self) -> dict[Source, Applied]:
        """Applied offset and mark of every known source."""
        return self._opened.store.read(sources.applied)

    def streams(self, name: str) -> list[str]:
        """Streams with this name, oldest first, without those of bases. Reads all streams: for start-up only."""
        names = self.stream_names().items()
        return [stream for stream, stream_name in names if stream_name == name and base_of(stream) is None]

    def stream_names(self) -> dict[str, str]:
        """Name of every known stream, oldest first; "" for a stream without `begin`. Reads all streams.

        Those of bases are among them: `base_of` says which, and their names begin with the set's.
        """
        return self._opened.read(sets.stream_names)

    def query(
        self, fingerprints: npt.NDArray[np.uint64], distance_max: int | None = None, limit: int = 10
    ) -> list[list[Match]]:
        """Nearest NEAR entries of each fingerprint, uint64 [m, words], nearest and earliest first; writes nothing.

        Compares fingerprints alone, without a second look.

        distance_max  may exceed that of `parameters` (None). SimHash: 0 to 7 bits, complete. MinHash: 0 to 10,000, among
                      entries that share a band
        limit         most matches per fingerprint
        """
        radius = self.parameters.distance_max if distance_max is None else distance_max
        farthest = self.parameters.distance_limit
        if not 0 <= radius <= farthest:
            raise ValueError(f"distance_max must be 0 to {farthest}, not {radius}")
        self._require_fingerprints(fingerprints)
        lookup = lookup_of(without_frames(fingerprints, self.parameters.stored_words), self.parameters, radius)

        found = self._opened.read(lambda session: near.queried(session, lookup, limit))
        return [[Match(*match) for match in row] for row in found]

    def judged(self, entries: Entries, distance_max: int | None = None, limit: int = 10) -> list[list[Judged]]:
        """Entries near each document, nearest and earliest first, and why each makes it a duplicate or not; writes nothing.

        Judges by the rule that `admit` applies, as if each document came next. Ids and lengths count as there. Fingerprints
        of entries may have their frames with them, as stored; others get those of their hosts.

        distance_max  as in `query`
        limit         most entries per document
        """
        radius = self.parameters.distance_max if distance_max is None else distance_max
        return self._opened.read(lambda session: near.judged(session, entries, radius, limit))

    def query_exact(self, fingerprints: npt.NDArray[np.uint64]) -> list[Match | None]:
        """Earliest equal EXACT entry of each fingerprint, uint64 [m, words]; writes nothing."""
        self._require_fingerprints(fingerprints)

        found = self._opened.read(lambda session: near.equal(session, fingerprints))
        return [None if document is None else Match(document, 0) for document in found]

    def _require_fingerprints(self, fingerprints: npt.NDArray[np.uint64]) -> None:
        if fingerprints.ndim != 2 or fingerprints.shape[1] != self.parameters.words:
            raise ValueError(f"fingerprints must be uint64 [m, {self.parameters.words}]")

    def documents(self, numbers: Sequence[int]) -> list[Document | None]:
        """Documents with these numbers, in order; None for an unknown number or an expired document."""
        asked = np.array(numbers, dtype=np.uint64)
        stored = self._opened.read(lambda session: sets.read(session, asked))
        return [stored.get(number) for number in numbers]

    def forget(
        self, ids: Collection[str], progress: Callable[[int], None] = ignored, *, dry_run: bool = False
    ) -> list[Document]:
        """Remove the documents with these ids, so that near-duplicates are unique again; returns those removed.

        Verdicts stay: the journal still answers for every position, and still names a forgotten original. Unless
        insert = "unique", an original takes along its duplicates, which requires a scan of all later documents.
        `progress` gets the count of documents examined. With `dry_run` nothing changes. Raises IndexFullError, IndexDamagedError.
        """
        return forget.forget(self._opened, frozenset(ids), progress, dry_run=dry_run)

    def forget_streams(
        self, streams: Collection[str], progress: Callable[[int], None] = ignored, *, dry_run: bool = False
    ) -> int:
        """Remove all that these streams delivered, as `forget` does, also what was given back; returns how many documents.

        It scans all documents, and removes them in several transactions. A killed call goes on by another one.
        """
        return forget.forget_all(self._opened, forget.from_streams(frozenset(streams)), progress, dry_run=dry_run)

    def forget_names(self, prefix: str, progress: Callable[[int], None] = ignored, *, dry_run: bool = False) -> int:
        """Remove all documents whose id begins with `prefix` (not empty), as `forget_streams` does; returns how many.

        A document without an id stays, though the name of its topic or file may begin so.
        """
        return forget.forget_all(self._opened, forget.with_names(prefix), progress, dry_run=dry_run)

    def find(self, ids: Collection[str]) -> list[Document]:
        """Documents with one of these ids, oldest first, even if forgotten, or expired and still in the log."""
        return self._opened.read(lambda session: find.find(session, frozenset(ids)))

    def decided(self, ids: Collection[str]) -> list[Decided]:
        """Logged decisions on records with one of these ids, oldest first, even those without an entry.

        An empty id is none. Restored documents have decisions; duplicates that were not restored have none.
        """
        return self._opened.read(lambda session: find.decided(session, frozenset(ids)))

    def newest_near(self, limit: int, host: str = "") -> list[Decided]:
        """Up to `limit` (at least 1) decisions on near but unequal duplicates, newest first.

        With `host`, only those of documents of that host, by its 32-bit digest.

        Reads the last hundred batches: some milliseconds at any index size.
        """
        return self._opened.read(lambda session: find.newest_near(session, limit, host))

    def decided_at(self, positions: Sequence[Position]) -> list[Decided | None]:
        """Decision on each position, in order; None if the journal does not have it, or no longer."""
        return self._opened.read(lambda session: find.decided_at(session, positions))

    def states_at(self, positions: Sequence[Position]) -> list[EntryState | None]:
        """Whether each position's entry still counts, in order; a record that never entered does; None if not in the log."""
        return self._opened.read(lambda session: find.states_at(session, positions))

    def standings(self, numbers: Sequence[int]) -> list[EntryState]:
        """Whether each document still counts, in order; numbers must be assigned."""
        return self._opened.read(lambda session: find.standings(session, numbers))

    def stories(self, limit: int, since_ms: int | None = None, host: str = "", prefix: str = "") -> list[Story]:
        """Up to `limit` stories with two or more documents, the largest first.

        Chooses from the 65,536 with the latest roots, at most. The index must count stories, or have counted them.

        since_ms  only stories with a document from this record time on
        host      only stories with this host
        prefix    only stories whose root's id begins so
        """
        digest = int(host_keys([host]).astype(np.uint32)[0]) if host else None
        return self._opened.read(lambda session: listing.largest(session, limit, since_ms, digest, prefix))

    def story(self, number: int) -> Story | None:
        """The story whose root has this number; None below two documents."""
        stories = self._opened.read(lambda session: listing.stories_of(session, np.array([number], np.uint64)))
        return next((story for story in stories if story.documents > 1), None)

    def due_stories(self, limit: int) -> tuple[list[Story], int]:
        """About `limit` stories to write out, and the mark for `clear_stories`.

        A story is due when its size class or its longest document changes, and when a document leaves it. One with
        fewer than two documents has no value any more.
        """
        return self._opened.read(lambda session: listing.due(session, limit))

    def clear_stories(self, mark: int) -> None:
        """Note stories up to this mark as written out; those that have become due since stay due."""
        self._opened.store.write(lambda transaction: fold.clear(transaction, mark))

    def take_stories_turn(self) -> bool:
        """Take the turn to write stories out, if it is free; returns whether this process has it, until it ends."""
        self.require_open()
        return self._stories_turn.take(create=True)

    def watched_hosts(self, limit: int = 10) -> WatchedHosts:
        """Up to `limit` hosts with the largest share of near but unequal duplicates among recent documents."""
        sketch = self._opened.read(lambda session: unpack_hosts(session.transaction.get(Table.META, HOSTS_KEY)))
        return WatchedHosts(sketch.worst(limit), sketch.beyond_count())

    def statistics(self) -> Statistics:
        """Index size in counts and bytes; reads a few pages."""
        return self._opened.read(lambda session: statistics_of(session.transaction, session.words))


def internals_of(index: Index) -> OpenIndex:
    """Internals of an open index, for `index.tools` and tests."""
    return index._opened
