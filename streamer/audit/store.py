"""Sampled documents and how they stand to those before them: a file next to the index, in a bounded number of bytes.

A lost or damaged file loses the sample alone; the next document begins another one.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import compress
from operator import not_
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import structlog

from streamer.audit.features import overlaps, packed, unpacked
from streamer.fingerprint.hashing import present

log = structlog.get_logger(__name__)

FILE_NAME = "audit.sqlite"

COMPARED_MAX = 64
"""Most earlier documents that a new one is compared with: its original, then kept ones, then dropped ones, newest first."""

COPY_MIN = 0.9
"""A duplicate so similar to its original is stored as the difference: a reprint on a thousand sites takes little room."""

Counting = Callable[[Sequence[str]], Sequence[bool]]
"""Whether the documents at these places still count in the index."""

_BUSY_SECONDS = 5.0
_EVICTED_SHARE = 16
_WAITING_MAX = 1_000
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS sample (
    number INTEGER PRIMARY KEY, place TEXT NOT NULL UNIQUE, position TEXT NOT NULL, id TEXT NOT NULL, host TEXT NOT NULL,
    least BLOB NOT NULL, seconds REAL NOT NULL, dropped INTEGER NOT NULL, named INTEGER NOT NULL, kept INTEGER NOT NULL,
    kept_similarity REAL NOT NULL, kept_place TEXT NOT NULL, near_similarity REAL NOT NULL, original_similarity REAL,
    new_share REAL, nearer_chance REAL NOT NULL, copy_of TEXT NOT NULL, features BLOB NOT NULL,
    one_in INTEGER NOT NULL DEFAULT 0
)""",
    "DROP INDEX IF EXISTS by_least",
    "CREATE INDEX IF NOT EXISTS by_group ON sample (least, kept)",
)

_SCHEMA_VERSION = 1
"""Earlier builds left it 0."""

_EARLIER = (
    "SELECT a.place, a.kept, a.least, a.features, b.features FROM sample a LEFT JOIN sample b ON b.place = a.copy_of "
    "WHERE (a.copy_of = '' OR b.features NOT NULL) AND "
)
_ORIGINAL = _EARLIER + "a.place = ?"
_GROUP = _EARLIER + "a.least = ? AND a.place <> ? ORDER BY a.kept DESC, a.number DESC LIMIT ?"


@dataclass(frozen=True, slots=True)
class Audited:
    """A sampled document with its verdict.

    place     its position in the input; the key
    position  the same, in words
    least     see `sample.Sample`
    dropped   whether it is a duplicate
    named     whether it names another document
    original  that document's place; "" without one
    replaces  whether it replaces that document
    one_in    one document in how many the sample has; 0: unknown

    >>> Audited("t/0/7", "pages.jsonl/0/7", "a", "", 1, np.zeros(0, np.uint32), False, False).original
    ''
    """

    place: str
    position: str
    id: str
    host: str
    least: int
    features: npt.NDArray[np.uint32]
    dropped: bool
    named: bool
    original: str = ""
    replaces: bool = False
    one_in: int = 0


class Judged(NamedTuple):
    """Exact similarities of a sampled document, each to sampled documents before it; 0 without one.

    group      number that documents with an equal least feature share
    kept       to the nearest one that was kept
    near       to the nearest one, kept or dropped
    original   to its original, if dropped; None: not dropped, or the original is not in the sample
    new_share  share of its features that are not in the original
    nearer_chance  if the original is in the sample: chance that one nearer is too; 1 if none nearer was found
    one_in     one document in how many was sampled when it came; 0: unknown

    >>> of_document, is_dropped = ("pages/0/7", "a", "a.example", b"", 0.0), True
    >>> judged = Judged(*of_document, is_dropped, True, 0.6, "pages/0/2", near=0.9, original=0.9, new_share=0.05, nearer_chance=1)
    >>> judged.kept < 0.8 <= judged.near
    True
    """

    position: str
    id: str
    host: str
    group: bytes
    seconds: float
    dropped: bool
    named: bool
    kept: float
    kept_position: str
    near: float
    original: float | None
    new_share: float | None
    nearer_chance: float = 1.0
    one_in: int = 0


class AuditStore:
    """Samples in the folder of an index; several processes may add.

    >>> audited = Audited("id/0/7", "pages/0/7", "a", "", 1, np.array([3, 5], np.uint32), dropped=False, named=False)
    >>> store = AuditStore(folder, bytes_max=2**20)
    >>> store.add([audited], seconds=100.0)
    >>> [one.position for one in store.judged(since_seconds=50.0)]
    ['pages/0/7']
    """

    def __init__(
        self,
        directory: Path,
        bytes_max: int,
        counting: Counting | None = None,
    ) -> None:
        self.path = directory / FILE_NAME
        self._bytes_max = bytes_max
        self._counting = counting or (lambda places: [True] * len(places))
        self._waiting: deque[tuple[Audited, float]] = deque()
        self._is_well = True

    def add(self, documents: Iterable[Audited], seconds: float) -> None:
        """Add documents, in decision order; one that is there already stays as it is.

        Verdicts do not wait for the sample: while the file cannot be written, documents wait for the next call.
        """
        self._waiting.extend((document, seconds) for document in documents)
        if not self._waiting:
            return
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = OFF")
                is_present = connection.execute("PRAGMA user_version").fetchone() == (_SCHEMA_VERSION,)
                if not is_present:
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                if not is_present:
                    _make_present(connection)
                standing = [_add(connection, document, at_seconds) for document, at_seconds in self._waiting]
                _correct_kept(connection, standing, self._counting)
                _evict(connection, self._bytes_max)
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._waiting = deque(self._waiting, _WAITING_MAX)
            if self._is_well:
                log.warning("the audit cannot be written", file=str(self.path), reason=str(error))
            self._is_well = False
            # The low byte is the kind; the rest says where.
            if error.sqlite_errorcode & 0xFF in _DAMAGED:
                for suffix in ("", "-wal", "-shm"):
                    self.path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
        else:
            self._is_well = True
            self._waiting.clear()

    def judged(self, since_seconds: float = 0.0) -> list[Judged]:
        """Documents sampled since then, in decision order; none without a file. Raises OSError for a damaged one."""
        if not self.path.exists():
            return []
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as connection:
                rows = connection.execute(
                    "SELECT a.position, a.id, a.host, a.least, a.seconds, a.dropped, a.named, a.kept_similarity, "
                    "coalesce(b.position, ''), a.near_similarity, a.original_similarity, a.new_share, a.nearer_chance, "
                    f"{'a.one_in' if _knows_rates(connection) else '0'} FROM sample a "
                    "LEFT JOIN sample b ON b.place = a.kept_place WHERE a.seconds >= ? ORDER BY a.number",
                    (since_seconds,),
                )
                return [Judged._make((*row[:5], bool(row[5]), bool(row[6]), *row[7:])) for row in rows]
        except sqlite3.DatabaseError as error:
            raise OSError(f"{self.path}: {error}") from error


def _knows_rates(connection: sqlite3.Connection) -> bool:
    return any(column[1] == "one_in" for column in connection.execute("PRAGMA table_info(sample)"))


def _make_present(connection: sqlite3.Connection) -> None:
    """Give a new file, or one that an earlier build began, the present schema; another process may do so too."""
    for statement in _SCHEMA:
        connection.execute(statement)
    if not _knows_rates(connection):
        connection.execute("ALTER TABLE sample ADD COLUMN one_in INTEGER NOT NULL DEFAULT 0")
    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _add(connection: sqlite3.Connection, document: Audited, seconds: float) -> list[tuple[str, float, str]]:
    """Add a document, with the nearest kept one as if that counted.

    Returns all kept ones, nearest first: its own place, the similarity, and their place; nothing for a known document.
    """
    if connection.execute("SELECT 1 FROM sample WHERE place = ?", (document.place,)).fetchone():
        return []
    own, least = document.features, document.least.to_bytes(8, "big")
    group = [
        *(connection.execute(_ORIGINAL, (document.original,)) if document.original else ()),
        *connection.execute(_GROUP, (least, document.original, COMPARED_MAX)),
    ][:COMPARED_MAX]
    places, kept, leasts, stored, bases = zip(*group, strict=True) if group else ((),) * 5
    shared, sizes = overlaps(own, stored, bases)
    similarities = shared / (len(own) + sizes - shared)
    # An original of another group is there for its verdict alone: it would favour what was found.
    alike = np.array([each == least for each in leasts], np.bool_)
    findable = np.flatnonzero(alike & np.array(kept, np.bool_))
    nearest = findable[np.argsort(-similarities[findable], kind="stable")]
    standing = [
        (document.place, similarity, places[row])
        for row, similarity in zip(nearest.tolist(), similarities[nearest].tolist(), strict=True)
    ]
    original, new_share, nearer_chance, copied = None, None, 1.0, None
    if document.dropped and group and places[0] == document.original:
        original, new_share = float(similarities[0]), float(1 - shared[0] / len(own))
        nearer = np.flatnonzero(alike & (similarities > original)).tolist()
        if nearer:
            # In the original's group the least feature is one that it has too.
            common = own[present(own, unpacked(stored[0], bases[0]))]
            others = np.concatenate([unpacked(stored[row], bases[row]) for row in nearer])
            nearer_chance = float(present(common, np.sort(others)).mean() if alike[0] else similarities[nearer].max())
        # The difference to a copy would need that copy's original too.
        copied = unpacked(stored[0], None) if original >= COPY_MIN and bases[0] is None else None
    if document.replaces:
        connection.execute("UPDATE sample SET kept = 0 WHERE place = ?", (document.original,))
    columns = (
        *(None, document.place, document.position, document.id, document.host, least, seconds),
        *(document.dropped, document.named, not document.dropped, *(standing or [("", 0.0, "")])[0][1:]),
        *(similarities[alike].max(initial=0.0), original, new_share, nearer_chance),
        *("" if copied is None else document.original, packed(own, copied), document.one_in),
    )
    connection.execute(f"INSERT INTO sample VALUES ({', '.join('?' * len(columns))})", columns)
    return standing


def _correct_kept(
    connection: sqlite3.Connection, standing: Iterable[list[tuple[str, float, str]]], counting: Counting
) -> None:
    """Let documents whose nearest kept one does not count any more have the nearest one that does."""
    asked = [kept for kept in standing if kept]
    # The nearest one nearly always counts, so the index is asked about the others only if it does not.
    for kept in compress(asked, map(not_, counting([kept[0][2] for kept in asked]))):
        others = [*compress(kept[1:], counting([other for *_, other in kept[1:]])), ("", 0.0, "")]
        connection.execute(
            "UPDATE sample SET kept_similarity = ?, kept_place = ? WHERE place = ?", (*others[0][1:], kept[0][0])
        )


def _evict(connection: sqlite3.Connection, bytes_max: int) -> None:
    """Delete the oldest documents beyond the bound, some more than needed so that it happens seldom."""
    pages, free, page_bytes = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    if (pages - free) * page_bytes > bytes_max:
        connection.execute(
            "DELETE FROM sample WHERE number <= (SELECT min(number) + (max(number) - min(number)) / ? FROM sample)",
            (_EVICTED_SHARE,),
        )
