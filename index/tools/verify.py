"""Verification: the file's pages are sound, and its tables agree.

Verification only reads, and does not trust what it reads.

structure  the file's pages are sound; in a broken structure no table can be read safely, so nothing else is checked
checksums  every value fits its checksum; otherwise the tables are not compared
counters   all counters equal the tables' contents
log        batches are whole, with gaps only for expired batches, and the journal has their rows; every original exists, is
           its own original and is not later, or has left the log, or is a duplicate whose own original is retired
blocks     every entry is once in each table in which the log, the compaction state and the tombstones place it (segments,
           `exact`), and no other entry is; segments are in order
journal    a source's runs do not overlap, and name existing rows
frames     host samples are readable, and have no more pages than allowed
ids        every row with an id is once in the id segments if its compaction state places it there, else in none;
           segments are in order
stories    every row is what a recount gives, except for stories that retention may have cut; every duplicate's root has a row
applied    every source's applied offset lies beyond its journal

Verification looks up no single entry. Each table has parts (see `verify_tables`), and every part a sum of hashes. The log adds a
part's expected entries; the tables subtract the actual ones. A wrong part has a sum other than 0, except with probability 2^-64,
and only wrong parts are compared entry by entry. Time grows with the index; memory is a byte or two per document and 8 bytes per
part.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from index.decide.forget import ignored
from index.entry import is_given_back
from index.errors import IndexDamagedError
from index.index import Index, internals_of
from index.session import ReadSession
from index.storage import scan
from index.storage.file.checksums import Checksums
from index.storage.layout import Counters, Table
from index.storage.log import Batch
from index.storage.segments.compaction_state import Level
from index.tools import verify_frames, verify_ids, verify_log, verify_stories
from index.tools import verify_tables as tables
from index.tools.backup import structure_problems
from index.tools.finding import Finding
from index.tools.verify_log import Batches, LogCheck

PARTS_MAX = 64
"""Maximum table parts compared entry by entry."""


def verify(index: Index, progress: Callable[[int], None] = ignored) -> list[Finding]:
    """Run all checks of an index on one snapshot; returns one Finding each. Raises IndexDamagedError.

    `progress` receives the work done so far: every document counts once in the log and once in the segments.
    """
    opened = internals_of(index)

    def operation(session: ReadSession) -> list[Finding]:
        structure, checksums = Finding("structure", 1), Finding("checksums")
        structure.note(structure_problems(opened.directory))
        if structure.wrong:
            return [structure]
        _check_values(session, checksums, in_parts=False)
        if not checksums.wrong:
            try:
                # This checks all values that are read in parts, once.
                compared = verify_tables(session, progress)
                checksums.examined += sum(session.transaction.count(table) for table in Table if table.read_in_parts)
                return [structure, checksums, *compared]
            except IndexDamagedError as problem:
                _check_values(session, checksums, in_parts=True)
                checksums.note([] if checksums.wrong else [str(problem)])
                return [structure, checksums]
        _check_values(session, checksums, in_parts=True)
        return [structure, checksums]

    opened.store.check_again()
    return opened.read(operation)


def _check_values(session: ReadSession, finding: Finding, *, in_parts: bool) -> None:
    checksums = Checksums()
    for table in Table:
        if table.read_in_parts == in_parts:
            for key, value in session.transaction.raw(table):
                finding.examined += 1
                if not checksums.fits(table, key, value):
                    finding.note([f"the value of {key.hex()} in table {table.value.decode()} is not what was written"])


def verify_tables(session: ReadSession, progress: Callable[[int], None] = ignored) -> list[Finding]:
    """Compare the tables with each other: all checks of `verify` except structure and checksums."""
    log_finding, blocks = Finding("log"), Finding("blocks")
    batches = Batches(session, log_finding)
    documents = tables.Documents(batches)
    check = LogCheck(session, documents, log_finding)
    expected = tables.Expected(session, documents, blocks.note)
    tally = tables.Tally(expected.shape.tables + 1)
    for entries in expected.entries(_reporting(check.checked(batches), progress)):
        tally.add(entries)
    blocks.note(f"document {number} counts and has no keys" for number in expected.nowhere)
    in_levels: Counter[int] = Counter()
    for entries in _actual(session, expected, blocks.note, in_levels):
        tally.take_off(entries)
        blocks.examined += len(entries.parts)
        progress(documents.count + blocks.examined // expected.shape.tables)
    _explain(session, expected, batches, tally, blocks)
    counters = session.counters
    check.ended(counters.next_number, counters.journal_rows)
    return [
        _counters(session, expected, counters, check.near_entries, in_levels),
        log_finding,
        blocks,
        verify_log.journal(session, batches),
        verify_ids.ids(session, batches),
        verify_frames.frames(session),
        verify_stories.stories(session, batches),
        _applied(session),
    ]


def _reporting(batches: Iterable[Batch], progress: Callable[[int], None]) -> Iterator[Batch]:
    examined = 0
    for batch in batches:
        yield batch
        examined += len(batch.fingerprints)
        progress(examined)


def _counters(
    session: ReadSession, expected: tables.Expected, counters: Counters, near_entries: int, in_levels: Mapping[int, int]
) -> Finding:
    transaction, tombstones, now = session.transaction, expected.tombstones, expected.compaction
    held = {
        "NEAR entries": (counters.near_entries, near_entries),
        "streams by name": (transaction.count(Table.STREAM_NUMBERS), transaction.count(Table.STREAMS)),
        "tombstones since the memtable was frozen": (
            counters.next_tombstone - now.frozen_tombstones,
            sum(number >= now.frozen_tombstones for number in tombstones),
        ),
        "tombstones": (len(tombstones), counters.next_tombstone - tombstones[0] if tombstones else 0),
        "entries of the first level": (now.first_entries, in_levels.get(Level.FIRST, 0)),
        "entries of the last level": (now.last_entries, in_levels.get(Level.LAST, 0)),
    }
    finding = Finding("counters", len(held) + 1)
    finding.note(
        f"{name}: counted {counted}, there are {actual}"
        for name, (counted, actual) in held.items()
        if counted != actual
    )
    in_order = now.merged_to <= now.frozen_to <= counters.next_number
    stays = now.frozen_tombstones <= (tombstones[0] if tombstones and not now.is_moving else counters.next_tombstone)
    if not (in_order and stays and (now.is_moving or now.merged_to == now.frozen_to)):
        finding.note([f"the compaction state {now[:3]} does not fit {counters.next_number}, {counters.next_tombstone}"])
    return finding


def _actual(
    session: ReadSession, expected: tables.Expected, note: tables.Note, in_levels: Counter[int]
) -> Iterator[tables.TableEntries]:
    """Actual entries of `exact` and the segments, without those that may be in some tables alone; counts them per level."""
    yield from tables.actual_exact(session, expected.exact, note)
    for entries in tables.actual_in_segments(session, expected.shape, note, in_levels):
        yield entries.take(expected.holds(entries.numbers))


def _explain(
    session: ReadSession, expected: tables.Expected, batches: Batches, tally: tables.Tally, finding: Finding
) -> None:
    """Note missing and misplaced entries in the table parts whose sums are not 0."""
    differing = tally.differing()
    if not len(differing):
        return
    before, actual = finding.wrong, _actual(session, expected, tables.nothing_noted, Counter())
    for table, missing, wrong in tables.differences(tally, differing[:PARTS_MAX], expected.entries(batches), actual):
        finding.note(_missing(expected, table, missing))
        finding.note(_misplaced(expected, table, wrong))
    if len(differing) > PARTS_MAX or finding.wrong == before:
        finding.note([f"{len(differing)} parts of tables are not what they ought to be"])


def _missing(expected: tables.Expected, table: int, missing: tables.TableEntries) -> Iterator[str]:
    is_exact = table == expected.exact
    problem = "is not among the exact ones" if is_exact else f"is not found through its {_named(expected, table)}"
    return (f"document {number} {problem}" for number in missing.numbers.tolist())


def _misplaced(expected: tables.Expected, table: int, wrong: tables.TableEntries) -> Iterator[str]:
    for number, part in zip(wrong.numbers.tolist(), wrong.parts.tolist(), strict=True):
        if table == expected.exact:
            yield f"document {number} stands among the exact ones wrongly"
        else:
            where = f"{_named(expected, table)} hold document {number} under {part:#06x}"
            yield f"the segments of {where}, which does not belong"


def _named(expected: tables.Expected, table: int) -> str:
    return f"{expected.shape.unit} {table}"


def _applied(session: ReadSession) -> Finding:
    """Check the applied offsets. An unfinished restoration also leaves rows beyond the applied offset."""
    transaction = session.transaction
    streams = scan.numbered_streams(transaction)
    applied = scan.applied_offsets(transaction)
    finding = Finding("applied")
    for stream, partition in scan.journaled_sources(transaction):
        identity, name = streams.get(stream, (f"number {stream}", ""))
        if is_given_back(identity):
            continue
        finding.examined += 1
        end = applied.get((stream, partition), 0)
        beyond = scan.last_offset(transaction, stream, partition)
        if beyond >= end:
            finding.note(
                [
                    f"{name or identity}/{partition} is applied up to {end}, but journaled up to {beyond + 1}: "
                    "damage, or a restoration not yet finished, which the service goes on with when it starts"
                ]
            )
    return finding
