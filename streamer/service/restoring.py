"""Re-entry: delivered records enter a lost or new index, with their earlier verdicts.

All uniques precede the first duplicate, because a duplicate's original may be in another source. Likewise, updates come
twice, the second time to retire what they replaced.

A restoration covers every lagging source. The applied offsets move at the end, so an interrupted restoration starts over,
except for documents that the index knows.

A delivered record may name an original that another worker decided and never delivered. The original then enters from the
input, under its position, as unique, and the journal repeats that verdict when the record is read. Otherwise a later copy
could become the unique one, and a dropped duplicate might resemble no output.

Outputs may have lost records, by retention, by hand, by compaction: reposts would come out as unique. A policy leaves this to
a person, unless the index keeps documents no longer than the remaining outputs.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import structlog

from index import Index, Insert, Kind, Position, Retention, Source, Verdict
from streamer.errors import RecoveryRefused
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import (
    parse_original_position,
    restored_as,
    restoring_outputs,
    restoring_reasons,
    restoring_verdict,
)
from streamer.transports.transport import Transport, Trimmed

if TYPE_CHECKING:
    from index.tools import BulkLoader

log = structlog.get_logger(__name__)

REPORT_SECONDS = 5.0
"""Interval between progress lines in the log."""

_NOT_OF_THE_INPUT = 2**63


class RestoringListener:
    """Events in a restoration; subclasses react to some.

    >>> RestoringListener().restored(1)
    """

    def restored(self, count: int) -> None:
        """Documents entered again; 0 is a heartbeat."""

    def behind(self, offsets: int) -> None:
        """The index lags this many input offsets; 0 at the end."""

    def gaps(self, parts: int) -> None:
        """Output parts have lost records, and the policy accepts that."""


def destinations_to_read(insert: Insert) -> list[Destination]:
    """Destinations whose documents enter again."""
    return list(dict.fromkeys(destination for destination, _ in restoring_outputs(insert)))


@dataclass
class Reentry:
    """Enters delivered records into an index, after the undelivered originals that they name.

    inputs_at  input records at these positions, as far as they exist
    delivered  offset per source below which everything was delivered
    counts     documents by outcome: the fields of `Index.restore`, given_back and undelivered_originals
    newest_ms  greatest timestamp of a record with a verdict; -1 before the first

    >>> from index import Parameters
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     reentry = Reentry(index, None, None, lambda positions: [], {})
    ...     [*reentry.enter_all(lambda destination: [[]])], reentry.read
    ([0, 0], 0)
    """

    _index: "Index | BulkLoader"
    _decoder: Decoder
    _fingerprinter: Scheme
    _inputs_at: Callable[[Collection[Position]], Iterable[Sequence[Record]]]
    _delivered: Mapping[Source, int]
    counts: Counter[str] = field(default_factory=Counter)
    read: int = 0
    newest_ms: int = -1
    _originals_asked: set[Position] = field(default_factory=set)

    def enter_all(
        self, changelog: Callable[[Destination], Iterable[Sequence[Record]]], *, set_applied: bool = False
    ) -> Generator[int]:
        """Enter the outputs, by turn; yields numbers of documents, zeros too, often enough for a heartbeat.

        A verdict outside the unique output has no turn there.

        changelog    an output's batches
        set_applied  whether a source's applied offset moves when no later turn enters records below it
        """
        insert = self._index.parameters.insert
        outputs, among_uniques = restoring_outputs(insert), {Verdict.UNIQUE}
        # Duplicates name originals even if only unique documents enter.
        naming = [] if Destination.DUPLICATE in destinations_to_read(insert) else [Destination.DUPLICATE]
        for destination, verdict in outputs:
            if destination is Destination.UNIQUE and verdict not in among_uniques:
                continue
            for records in changelog(destination):
                if destination is Destination.UNIQUE:
                    among_uniques.update(map(restoring_verdict, records))
                is_last = destination is outputs[-1][0] and (
                    verdict is outputs[-1][1] or Verdict.UPDATE not in among_uniques
                )
                yield from self._enter_undelivered_originals(records)
                yield self._enter(verdict, records, set_applied=set_applied and is_last and not naming)
        for destination in naming:
            for records in changelog(destination):
                yield from self._enter_undelivered_originals(records)
                yield 0

    def _enter(self, verdict: Verdict, delivered: Sequence[Record], *, set_applied: bool) -> int:
        """Enter the records whose turn it is; returns their number of documents.

        Given-back documents enter with the unique ones: they are their own originals.
        """
        count = 0
        given_back = restored_as(Verdict.GIVEN_BACK, delivered) if verdict is Verdict.UNIQUE else []
        if given_back:
            entries = prepare(self._decoder, self._fingerprinter, given_back)
            count = int(self._index.give_back(entries, delivered=True).sum())
            self.counts["given_back"] += count
        records = restored_as(verdict, delivered)
        if records:
            verdicts = list(map(restoring_verdict, records))
            originals = [
                parse_original_position(record.headers) if each.names_original else None
                for record, each in zip(records, verdicts, strict=True)
            ]
            restored = self._restore(records, verdicts, originals, set_applied=set_applied)
            count += sum(restored.values())
            if verdict is not Verdict.UPDATE:
                self.counts.update(restored)
            self.newest_ms = max([self.newest_ms, *(record.timestamp_ms for record in records)])
        if verdict is not Verdict.UPDATE:
            self.read += len(given_back) + len(records)
        return count

    def _enter_undelivered_originals(self, records: Sequence[Record]) -> Generator[int]:
        originals = (parse_original_position(record.headers) for record in records)
        named = {
            position
            for position in originals
            if position is not None and position.offset >= self._delivered.get(position.source, _NOT_OF_THE_INPUT)
        } - self._originals_asked
        self._originals_asked |= named
        absent = len(named)
        for inputs in self._inputs_at(named) if named else ():
            count = len(inputs)
            absent -= count
            entered = self._restore(inputs, [Verdict.UNIQUE] * count, [None] * count) if count else {}
            self.counts["undelivered_originals"] += entered.get("restored", 0)
            yield sum(entered.values())
        if absent:
            log.warning("originals of delivered duplicates are neither delivered nor in the input", count=absent)

    def _restore(
        self,
        records: Sequence[Record],
        verdicts: Sequence[Verdict],
        originals: Sequence[Position | None],
        *,
        set_applied: bool = False,
    ) -> dict[str, int]:
        """Enter records with a fingerprint. Returns the counts of `Index.restore`."""
        entries = prepare(self._decoder, self._fingerprinter, records)
        reasons = restoring_reasons(entries.reasons.tolist(), records, originals)
        entries = replace(entries, reasons=np.array(reasons, np.uint8))
        kept = np.flatnonzero(np.isin(entries.kinds, (Kind.NEAR, Kind.EXACT)))
        named = [originals[row] for row in kept.tolist()]
        ends = {record.source: record.offset + 1 for record in records} if set_applied else {}
        return self._index.restore(entries.take(kept), np.array(verdicts, np.uint8)[kept], named, ends)._asdict()


@dataclass
class Restoration:
    """A restoration in slices.

    behind              input offsets per source whose documents enter again
    names               display name per stream
    stop_where_trimmed  policy for outputs with lost records
    """

    _transport: Transport
    _index: Index
    _reentry: Reentry
    _behind: Mapping[Source, range]
    _names: Mapping[str, str]
    _stop_where_trimmed: bool
    _listener: RestoringListener

    def __post_init__(self) -> None:
        self._steps = self._all_steps()

    def go_on(self, seconds: float) -> bool:
        """Restore for about this long; returns whether all is done.

        Raises RecoveryRefused for lost records, and the errors of transport and index.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if next(self._steps, "done") == "done":
                return True
        return False

    def close(self) -> None:
        """Release the outputs' readers; restored documents stay."""
        self._steps.close()

    def _all_steps(self) -> Generator[None]:
        offsets, began = sum(map(len, self._behind.values())), time.monotonic()
        log.info("restoring the index from the outputs", sources=self._named(self._behind), offsets=offsets)
        self._listener.behind(offsets)
        trimmed = yield from self._trimmed()
        yield from self._enter_all(offsets)
        trimmed = [part for part in trimmed if not self._lost_only_expired(part)]
        if trimmed:
            self._refuse(trimmed)
            self._listener.gaps(len(trimmed))
        for source, offsets_behind in self._behind.items():
            self._index.begin(source, self._names[source.stream], offsets_behind.stop)
            self._index.set_applied(source, offsets_behind.stop)
        self._listener.behind(0)
        if without_original := self._reentry.counts["without_original"]:
            log.warning("duplicates left out: their originals are not in the index", count=without_original)
        log.info("restored", **self._reentry.counts, offsets=offsets, seconds=round(time.monotonic() - began))

    def _trimmed(self) -> Generator[None, None, list[Trimmed]]:
        """Output parts with lost records; refused at once if the restored documents cannot excuse them."""
        trimmed: list[Trimmed] = []
        for part in self._transport.trimmed(self._behind, destinations_to_read(self._index.parameters.insert)):
            self._listener.restored(0)
            if part is not None:
                trimmed.append(part)
                log.warning(f"records to restore may be gone: {part.place} {part.why}", of=self._named(part.sources))
            yield
        if trimmed and self._index.retention == Retention():
            self._refuse(trimmed)
        return trimmed

    def _enter_all(self, offsets: int) -> Generator[None]:
        began = reported = time.monotonic()
        for count in self._reentry.enter_all(lambda to: self._transport.changelog(self._behind, [to])):
            # Without documents too: the search takes time, and the supervisor needs a heartbeat.
            self._listener.restored(count)
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                log.info("restoring", **self._reentry.counts, offsets=offsets, seconds=round(reported - began))
            yield

    def _lost_only_expired(self, part: Trimmed) -> bool:
        """Whether the index would no longer count an output part's lost records: by number, as many newer documents remain as it
        keeps; by age, they reach as far back.
        """
        retention = self._index.retention
        counts = self._reentry.counts
        entered = counts["restored"] + counts["already_known"]
        if retention.entries_max is not None and entered >= retention.entries_max:
            return True
        if retention.age_max_ms is None or part.first_time_ms is None:
            return False
        return self._reentry.newest_ms - part.first_time_ms >= retention.age_max_ms

    def _refuse(self, trimmed: Sequence[Trimmed]) -> None:
        if not self._stop_where_trimmed:
            return
        parts = "; ".join(f"{part.place} {part.why}" for part in trimmed)
        sources = self._named({source for part in trimmed for source in part.sources})
        raise RecoveryRefused(
            f"the index cannot be restored in full, for the outputs have lost records: {parts}. Documents of "
            f"{', '.join(sources)} may be among them, and reposts of those would come out as unique. Bring a newer backup "
            "back (streamer index restore), or set recovery.outputs_trimmed = 'continue' to go on with what is left."
        )

    def _named(self, sources: Iterable[Source]) -> list[str]:
        ranges = ((source, self._behind[source]) for source in sorted(sources))
        return [f"{self._names[source.stream]}/{source.partition} [{at.start}, {at.stop})" for source, at in ranges]
