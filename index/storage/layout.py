"""The bytes on disk, format version 14. Only `storage` knows them; a change of any byte is a new version.

One LMDB file with seventeen tables. Table `chunks` holds the segments, table `amendments` the tombstones, and the key
"merge" the compaction state; only the file uses these names.

    >     big-endian: keys, and values that LMDB sorts
    <     little-endian
    fp    the fingerprint's words as <u64: 8 or 16 bytes, a MinHash signature 32 to 256
    look  bytes that only `second_look` reads: one length per index, none without a second look
    text  UTF-8; a lone surrogate, which JSON can hold, as WTF-8

Every value ends with its checksum, which is not drawn below: XXH64 of table, key and value, <u64 (see `file.checksums`).
 `store` appends it, checks it and removes it. All other checksums are XXH64 too.

    meta       "stamp"                             -> JSON {"format": 14, "bits": .., "distance_max": .., ..}
               "identity"                          -> 16 random bytes, drawn at creation; copies have the same
               "counters"                          -> next document number <u64, journal rows <u64, next tombstone <u64,
                                                      NEAR entries <u64
               "merge", "ids"                      -> compaction state for chunks, for ids: merged to <u64, frozen to
                                                      <u64, frozen tombstones <u64, version of the segments <u64, rows
                                                      merged to <u64, rows frozen to <u64, entries of the first level
                                                      <u64, of the last <u64, table u8, bytes of the bound u8, bound (as
                                                      in a key of the table), settled to: such a key, or nothing
               "horizon"                           -> entries below this number have expired <u64, cleaned up to: a key
                                                      of log, horizons of sources
                                                      a horizon: stream <u32, partition <u32, number <u64, rows <u64
               "hosts met", group u8               -> documents counted <u64, documents by hash of their host: u8 [4,096],
                                                      hosts with a sample: XXH3 of the name <u64 [n], documents counted at
                                                      its last document <u64 [n]; missing before the first
               "hosts"                         -> documents counted <u64, hosts <u32, 0 <u32, hosts, their names with
                                                      line breaks between them text; missing before the first
                                                      a host: XXH3 of its name <u64, count <u32, documents <u32,
                                                      unequal duplicates <u32, beyond the limits <u32
               "given back"                        -> given-back documents, ascending by hash: XXH3 of the id
                                                      <u64, document number <u64; missing before the first
               "giving back"                       -> key of the batch in log whose delivery is unsettled; or missing
               "bases"                         -> JSON [identity, ..]: the base sets it has met; or missing
               "stories"                           -> key in log from which on batches are not in stories yet; or missing
    streams    stream number >u32                  -> length of stream <u32, stream text, name text
    stream_numbers  stream text                    -> stream number >u32
    applied    stream >u32, partition >u32         -> applied offset <u64, mark
    log        next document number >u64, journal rows >u64, both as before the batch
                                                   -> rows <u32, sources <u32, entered <u32, duplicates <u32,
                                                      bytes of a look <u32, words of a fp <u32,
                                                      sources, rows, fps and looks of the rows that entered, originals
                                                      of the duplicates, ids text of the rows, ids text of the
                                                      duplicates' originals
                                                      a source: stream <u32, partition <u32
                                                      a row: offset <u64, number <u64, time_ms <i64, source <u32,
                                                      end of its id in the ids <u32, distance <i16, verdict u8,
                                                      reason u8, kind u8, filing u8, digests of the text and of its
                                                      substance <u64, digest of the host <u32, returns u8,
                                                      strangers u8, length <u24
                                                      an original: offset <u64, stream <u32, partition <u32, end of its
                                                      id in the ids <u32, length ratio <u16
    journal    stream >u32, partition >u32, first offset >u64
                                                   -> last offset <u64, key of a batch in log, source in it <u32
    exact      fp                                  -> document number >u64        many values to a key, in one size
    chunks, ids
               table u8, level u8, bound: hash >u64, number >u64
                                                   -> checksum of the head <u64, entries <u32, bits of a rest u8, bits of a
                                                      number u8, words before the starts <u16, first hash <u64, parts <u32,
                                                      words before the rests <u32, checksum of starts and rests <u64,
                                                      checksums of 4 KiB of numbers each <u64, starts <u32 [parts + 1], and from
                                                      whole words on rests [entries], numbers [entries]; zeros to the end
    amendments number of the tombstones >u64       -> rows <u32, 0 <u32, numbers: <u64 [rows], fps, changes: u8 [rows]
    retired    document number >u64                -> nothing
    times      stream >u32, partition >u32         -> watermark_ms <i64, the latest times_ms <i64
    frames     host: XXH3 of its name >u64         -> pages taken into the sample, ever <u32, pages kept for the frame <u32,
                                                      bytes of the name <u32, words of a signature <u16, pages that
                                                      wait <u16, sampled signatures, then those that wait:
                                                      <u64 [pages][words], name text
    ages       stream >u32, partition >u32, watermark_ms >u64
                                                   -> log key after the last batch decided at this watermark
    stories    root's document number >u64         -> documents <u64, first time_ms <i64 (2^63 - 1: unknown), longest
                                                      member, newest member, journal rows after its last batch <u64, hosts
                                                      a member: length <u32, time_ms <i64, stream <u32, partition <u32,
                                                      offset <u64
                                                      a host: digest <u32, first time_ms <i64 (2^63 - 1: unknown)
    due        mark >u64                           -> root's document numbers, ascending: <u64 [n]
    host_names digest of the host >u32             -> name text

Numbers: the `number` of a UNIQUE, UPDATE, TEMPLATE, EXTENDS, ADDS or GIVEN_BACK row is its own, that of another its original's.
Documents are numbered as they enter, and numbers never repeat. Those from 2^62 on are of base sets (see `bases`). The rows of
a batch that entered (filing is not NOTHING) have consecutive numbers. A duplicate's batch names the original too, for replays.

Journal: a source's runs never overlap. A run covers its source's rows in its batch, from its first offset to its last.

Filing: a NEAR entry is filed by blocks, an EXACT entry in `exact`. An entry replaced within its own batch is in neither. An entry
filed by blocks is in every table of the segments, as a hash, the top 40 bits in a word, and its number. SimHash: table t has the
first 40 bits of the blocks t, t + 1, ... and, after the last, 0, 1, ... MinHash: table t has band t's hash. Ids have one table:
the high bits of a row id's XXH64, and the row's number in log order, which log keys count (`journal rows`); rows with an empty
id have no entry.

Segments: a segment holds a table's entries from its bound to the next bound, ascending. A table has two levels, and an entry is
in one of them; a third one holds removed entries that may still be in the last. A segment cuts the hashes, less its first one,
into parts with equal width. A part has the entries from its start to the next. An entry keeps its rest, the hash bits below its
part's, and its number, packed without gaps from the lowest bit in the lowest word on. The head's checksum covers the other
checksums, and the key. Entries move from the first level into the last at `settled to`, which cycles through all tables. Rows
that have left the log leave `ids` when a segment is rewritten.

Frames: if the index learns frames, a fingerprint is a signature followed by its frame's bits (see `matching.frame`). A batch
without frames stores only signatures. Bands wholly in the frame are not those of the signature (see `lsm.shape`). The host's
sample is a ring: taken page p is at place p modulo its size.

Compaction: segments hold the entries of batches before the log key `merged to`, `rows merged to`. Entries from there to `frozen
to`, `rows frozen to` are moving: the tables below `table` have all of them, `table` has those below `bound`, the others none.
Later entries are only in the log.

Tombstones: entries filed before that leave the segments, in order: EXPIRED or FORGOTTEN ones. Tombstones below `frozen
tombstones` move with the frozen entries, and are then dropped.

Stories: a root's row counts the batches before `stories` in `meta`. Hosts ascend by digest; a story has the 10,000 least ones at
most. Roots in `due` are to be written out, by ascending marks; with one document or none, as removed.

Visibility: an entry is retired when its number is below the horizon or its source's horizon, or in `retired`. Number and rows in
a horizon make a `log` key: the source's batches below it have expired.
"""

import struct
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.matching.host_sketch import HOST, UNKNOWN, HostSketch

FORMAT_VERSION = 14


class Table(Enum):
    """The tables; the value is the name in the file.

    many_values    whether a key has many values, all of one size, sorted bytewise
    read_in_parts  whether values are large, and lookups read a few of their pages again and again

    >>> Table.SEGMENTS.value, [table.name for table in Table if table.many_values]
    (b'chunks', ['EXACT'])
    """

    META = b"meta"
    STREAMS = b"streams"
    STREAM_NUMBERS = b"stream_numbers"
    APPLIED = b"applied"
    LOG = b"log"
    JOURNAL = b"journal"
    EXACT = b"exact"
    SEGMENTS = b"chunks"
    IDS = b"ids"
    TOMBSTONES = b"amendments"
    RETIRED = b"retired"
    FRAMES = b"frames"
    TIMES = b"times"
    AGES = b"ages"
    STORIES = b"stories"
    DUE = b"due"
    HOST_NAMES = b"host_names"

    def __init__(self, name: bytes) -> None:
        # Read for every value: a property would take longer than everything else that some calls do.
        self.many_values = name == b"exact"
        self.read_in_parts = name in (b"log", b"chunks", b"ids")

    # Members are singletons; the inherited hash is computed in Python.
    __hash__ = object.__hash__


STAMP_KEY = b"stamp"
IDENTITY_KEY = b"identity"
SECRET_KEY = b"secret"
COUNTERS_KEY = b"counters"
COMPACTION_KEY = b"merge"
HORIZON_KEY = b"horizon"
HOSTS_KEY = b"hosts"
IDS_KEY = b"ids"
GIVEN_BACK_KEY = b"given back"
GIVING_BACK_KEY = b"giving back"
STORIES_KEY = b"stories"
BASES_KEY = b"bases"

HOST_GROUPS = 16
"""Groups of hosts: the 4 high bits of a host's key."""

HOSTS_MET = 2**12
"""Counters in a group of hosts: the next 12 bits."""

HOSTS_MAX = 640
"""Most samples in a group of hosts: in all groups some 200 MB with default signatures and hundreds of pages a host."""

SOURCE_KEY = struct.Struct(">II")
JOURNAL_KEY = struct.Struct(">IIQ")
NUMBER_KEY = struct.Struct(">I")
LOG_KEY = struct.Struct(">QQ")
TOMBSTONE_KEY = struct.Struct(">Q")
AGE_KEY = struct.Struct(">IIQ")
LOG_KEY_BEGIN = bytes(16)
SOURCE_HORIZON = np.dtype([("stream", "<u4"), ("partition", "<u4"), ("number", "<u8"), ("rows", "<u8")])
_COUNTERS = struct.Struct("<QQQQ")
_HORIZON = struct.Struct("<Q16s")
_TIMES = struct.Struct("<q")
_HOSTS = struct.Struct("<QII")
_SAMPLE = struct.Struct("<IIIHH")
_APPLIED = struct.Struct("<Q")
_LENGTH = struct.Struct("<I")
_JOURNAL_RUN = struct.Struct("<Q16sI")


class Filing(IntEnum):
    """Table in which a row of the log became an entry.

    >>> filings = np.array([Filing.BLOCKS, Filing.NOTHING, Filing.ASIDE])
    >>> np.flatnonzero(filings)
    array([0, 2])
    """

    NOTHING = 0
    """It entered nothing."""
    ASIDE = 1
    """In `exact`, or nowhere: a NEAR row that a later one of its batch replaced."""
    BLOCKS = 2
    """Under its blocks."""


class Change(IntEnum):
    """Why an entry left.

    >>> Change.EXPIRED.name
    'EXPIRED'
    """

    EXPIRED = 0
    """Removed from the log together with its batch."""
    FORGOTTEN = 1
    """Removed one by one: it is in `retired`."""


class Counters(NamedTuple):
    """Counters of an index. `near_entries`, the NEAR entries not yet retired, may fall; the others only rise.

    >>> unpack_counters(pack_counters(Counters(7, 9, 0, 6))).near_entries, unpack_counters(None).next_number
    (6, 0)
    """

    next_number: int
    journal_rows: int
    next_tombstone: int
    near_entries: int


def pack_counters(counters: Counters) -> bytes:
    """The value of `counters` in `meta`."""
    return _COUNTERS.pack(*counters)


def unpack_counters(value: bytes | None) -> Counters:
    """Undo `pack_counters`; all zero without a value."""
    return Counters(*_COUNTERS.unpack(value)) if value else Counters(0, 0, 0, 0)


class Horizon(NamedTuple):
    """Expired entries, by age or by the number of entries.

    number      entries below this number have expired
    cleaned_to  log key at which cleaning continues; it starts over when no later batch can have expired
    sources     SOURCE_HORIZON [s], sources with a separate horizon: their entries below its number have expired

    >>> moved = unpack_horizon(None)._replace(number=10)
    >>> unpack_horizon(pack_horizon(moved)).number
    10
    """

    number: int
    cleaned_to: bytes
    sources: npt.NDArray[np.void]


def pack_horizon(horizon: Horizon) -> bytes:
    """The value of `horizon` in `meta`."""
    return _HORIZON.pack(horizon.number, horizon.cleaned_to) + horizon.sources.tobytes()


def unpack_horizon(value: bytes | None) -> Horizon:
    """Undo `pack_horizon`; all zero without a value."""
    if value is None:
        return Horizon(0, LOG_KEY_BEGIN, np.empty(0, SOURCE_HORIZON))
    number, cleaned_to = _HORIZON.unpack_from(value)
    return Horizon(number, cleaned_to, np.frombuffer(value, SOURCE_HORIZON, offset=_HORIZON.size).copy())


def pack_hosts(sketch: HostSketch) -> bytes:
    """The value of `hosts` in `meta`."""
    names = pack_text("\n".join(sketch.names))
    return _HOSTS.pack(sketch.counted, len(sketch.hosts), 0) + sketch.hosts.tobytes() + names


def unpack_hosts(value: bytes | None) -> HostSketch:
    """Undo `pack_hosts`; no hosts without a value."""
    if value is None:
        return UNKNOWN
    counted, count, _ = _HOSTS.unpack_from(value)
    names = value[_HOSTS.size + count * HOST.itemsize :]
    hosts = np.frombuffer(value, HOST, count, _HOSTS.size)
    return HostSketch(counted, hosts, unpack_text(names).split("\n") if count else ())


class HostSample(NamedTuple):
    """Sampled pages of a host: a value of `frames`.

    taken       pages ever taken into the sample
    kept        pages that were unique by the host's frame alone
    name        host's name
    signatures  uint64 [m, words], a ring: taken page p is at place p modulo the ring's size
    waiting     uint64 [w, words], versions of sampled pages, the oldest first

    >>> sample = HostSample(130, 2, "a.example", np.zeros((128, 16), np.uint64), np.zeros((0, 16), np.uint64))
    >>> next_place = sample.taken % len(sample.signatures)
    >>> next_place
    2
    """

    taken: int
    kept: int
    name: str
    signatures: npt.NDArray[np.uint64]
    waiting: npt.NDArray[np.uint64]


def pack_sample(sample: HostSample) -> bytes:
    """A value of `frames`."""
    name, words = pack_text(sample.name), sample.signatures.shape[1]
    head = _SAMPLE.pack(sample.taken, sample.kept, len(name), words, len(sample.waiting))
    pages = (sample.signatures, sample.waiting)
    return head + b"".join(each.astype("<u8", copy=False).tobytes() for each in pages) + name


def unpack_sample(value: bytes | memoryview) -> HostSample:
    """Undo `pack_sample`. A truncated value raises ValueError or struct.error."""
    taken, kept, name_bytes, words, waiting = _SAMPLE.unpack_from(value)
    end = len(value) - name_bytes
    pages = np.frombuffer(bytes(value[_SAMPLE.size : end]), "<u8").astype(np.uint64).reshape(-1, words)
    sampled = len(pages) - waiting
    return HostSample(taken, kept, unpack_text(bytes(value[end:])), pages[:sampled], pages[sampled:])


class HostGroups(NamedTuple):
    """Some host groups.

    counted  uint64 [g], documents with a host
    counts   uint8 [g, HOSTS_MET], documents by their hosts' counters, halved regularly
    hosts    uint64 [g, HOSTS_MAX], keys of hosts with a sample, from the first place on; 0: none
    seen     uint64 [g, HOSTS_MAX], `counted` at each one's last document; 0: none

    >>> unpack_host_groups([None]).counts.shape
    (1, 4096)
    """

    counted: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.uint8]
    hosts: npt.NDArray[np.uint64]
    seen: npt.NDArray[np.uint64]


def host_group_key(group: int) -> bytes:
    """A host group's key in `meta`."""
    return b"hosts met" + bytes((group,))


def pack_host_groups(groups: HostGroups) -> list[bytes]:
    """A value of `hosts met` for each group."""
    return [
        b"".join(column.tobytes() for column in (counted, counts, hosts[seen > 0], seen[seen > 0]))
        for counted, counts, hosts, seen in zip(*groups, strict=True)
    ]


def unpack_host_groups(values: Sequence[bytes | None]) -> HostGroups:
    """Undo `pack_host_groups`; zeros without a value."""
    count, places = len(values), np.zeros((2, len(values), HOSTS_MAX), np.uint64)
    groups = HostGroups(np.zeros(count, np.uint64), np.zeros((count, HOSTS_MET), np.uint8), *places)
    for place, value in enumerate(values):
        if value is not None:
            (groups.counted[place],) = np.frombuffer(value, "<u8", 1)
            groups.counts[place] = np.frombuffer(value, np.uint8, HOSTS_MET, 8)
            known = np.frombuffer(value, "<u8", offset=8 + HOSTS_MET).reshape(2, -1)
            groups.hosts[place, : known.shape[1]], groups.seen[place, : known.shape[1]] = known
    return groups


class Times(NamedTuple):
    """A source's progress in record time: a value of `times`.

    watermark_ms  -1: unknown
    latest_ms     int64 [n], the latest record times

    >>> unpack_times(None).watermark_ms, unpack_times(pack_times(Times(1_000, np.array([990, 1_000])))).latest_ms
    (-1, array([ 990, 1000]))
    """

    watermark_ms: int
    latest_ms: npt.NDArray[np.int64]


def pack_times(times: Times) -> bytes:
    """A value of `times`."""
    return _TIMES.pack(times.watermark_ms) + times.latest_ms.astype("<i8").tobytes()


def unpack_times(value: bytes | None) -> Times:
    """Undo `pack_times`; an unknown watermark without a value."""
    if value is None:
        return Times(-1, np.empty(0, np.int64))
    return Times(_TIMES.unpack_from(value)[0], np.frombuffer(value, "<i8", offset=_TIMES.size).astype(np.int64))


def pack_text(text: str) -> bytes:
    """Stored form of a text."""
    return text.encode("utf-8", "surrogatepass")


def unpack_text(value: bytes) -> str:
    """Undo `pack_text`."""
    return value.decode("utf-8", "surrogatepass")


def pack_stream(stream: str, name: str) -> bytes:
    """A value of `streams`."""
    text = pack_text(stream)
    return _LENGTH.pack(len(text)) + text + pack_text(name)


def unpack_stream(value: bytes) -> tuple[str, str]:
    """Undo `pack_stream`."""
    end = _LENGTH.size + _LENGTH.unpack_from(value)[0]
    return unpack_text(value[_LENGTH.size : end]), unpack_text(value[end:])


def pack_applied(offset: int, mark: bytes) -> bytes:
    """A value of `applied`."""
    return _APPLIED.pack(offset) + mark


def unpack_applied(value: bytes) -> tuple[int, bytes]:
    """Undo `pack_applied`."""
    return _APPLIED.unpack_from(value)[0], value[_APPLIED.size :]


def pack_numbers(numbers: npt.NDArray[np.uint64]) -> list[bytes]:
    """Document numbers uint64 [n] as n keys or values; their bytes sort as the numbers do."""
    return _as_bytes(numbers.astype(">u8"))


def unpack_numbers(values: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """Undo `pack_numbers`.

    >>> unpack_numbers(pack_numbers(np.array([3, 256], np.uint64))).tolist()
    [3, 256]
    """
    return np.frombuffer(b"".join(values), dtype=">u8").astype(np.uint64)


def pack_fingerprints(fingerprints: npt.NDArray[np.uint64]) -> list[bytes]:
    """Fingerprints uint64 [n, words] as n keys of `exact`."""
    return _as_bytes(fingerprints.astype("<u8"))


class JournalRun(NamedTuple):
    """A value of `journal`.

    last    the run's last offset
    batch   a batch's key in the log
    source  the run's source, by its place among the batch's sources

    >>> run = JournalRun(last=17, batch=LOG_KEY_BEGIN, source=1)
    >>> unpack_journal_run(pack_journal_run(run)) == run, len(pack_journal_run(run))
    (True, 28)
    """

    last: int
    batch: bytes
    source: int


def pack_journal_run(run: JournalRun) -> bytes:
    """A value of `journal`."""
    return _JOURNAL_RUN.pack(*run)


def unpack_journal_run(value: bytes) -> JournalRun:
    """Undo `pack_journal_run`."""
    return JournalRun(*_JOURNAL_RUN.unpack(value))


def _as_bytes(rows: npt.NDArray[np.generic]) -> list[bytes]:
    count = len(rows)
    if count == 0:
        return []
    flat = np.ascontiguousarray(rows)
    return flat.view(np.uint8).reshape(count, -1).view(f"V{flat.nbytes // count}")[:, 0].tolist()  # type: ignore[no-any-return]
