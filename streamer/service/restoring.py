"""Restoring: documents that the index lost enter it again from the outputs, with their verdicts of then.

A restoration covers every source that is behind, whoever owns it, and all uniques come before the first duplicate: the
original of a duplicate may stand in another source. For the same reason updates come twice, the second time to retire what they
replaced. The applied offsets move when all of it is done. So a restoration
that breaks off leaves every source behind, and the next one does it all again, leaving out what the index knows.

A delivered record may name an original that was decided by another worker and never delivered. The lost index decided it to stand
for itself, and a duplicate was dropped for it. So it enters from the input, under its position, as unique: the journal then gives
that verdict when the record is read. Else a later copy could become the unique one, and what was dropped might resemble nothing
that came out.

Outputs may have lost records that were to be restored: by retention, by hand, by compaction. Their documents would be missing
in the index, and reposts of them would come out as unique. So that is a decision for a person, by policy. It is none where
the index does not keep documents for longer than what is left of the outputs.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from index import Index, Kind, Position, Retention, Source, Verdict
from streamer.errors import RecoveryRefused
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import parse_original_position, restored_as, restoring_outputs, restoring_verdict
from streamer.service.pipeline import prepare
from streamer.transports.transport import Transport, Trimmed

log = structlog.get_logger(__name__)

REPORT_SECONDS = 5.0
"""Time between two lines of the log that say how far a restoration has come."""

_NOT_OF_THE_INPUT = 2**63


def _nobody(_: int) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, slots=True)
class RestoringListener:
    """Callables for what happens in a restoration.

    restored  this many documents entered the index again; 0 is a sign of life, at least once per batch
    behind    the index is behind by this many offsets of the input, now that a restoration begins; 0 at its end
    gaps      this many parts of outputs had lost records, and the policy lets it go
    """

    restored: Callable[[int], None] = _nobody
    behind: Callable[[int], None] = _nobody
    gaps: Callable[[int], None] = _nobody


class Restoration:
    """One restoration, carried out a slice at a time."""

    def __init__(
        self,
        transport: Transport,
        index: Index,
        decoder: Decoder,
        fingerprinter: Scheme,
        behind: Mapping[Source, range],
        delivered: Mapping[Source, int],
        names: Mapping[str, str],
        *,
        stop_where_trimmed: bool,
        listener: RestoringListener,
    ) -> None:
        """
        behind              input offsets by source whose documents enter again
        delivered           offset of every source of the input below which everything was delivered
        names               name of every stream among them, for people
        stop_where_trimmed  policy where outputs have lost records
        """
        self._transport = transport
        self._index = index
        self._decoder = decoder
        self._fingerprinter = fingerprinter
        self._behind = dict(behind)
        self._delivered = delivered
        self._originals_asked: set[Position] = set()
        self._names = names
        self._stop_where_trimmed = stop_where_trimmed
        self._listener = listener
        self._outputs = restoring_outputs(index.parameters.insert)
        self._seen_among_uniques = {Verdict.UNIQUE}
        self._found: Counter[str] = Counter()
        self._newest_ms = -1
        self._steps = self._all_steps()

    def go_on(self, seconds: float) -> bool:
        """Restore for about this long, or until all is done; returns whether it is.

        Raises RecoveryRefused where outputs have lost records and the policy says so, and what transport and index raise.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if next(self._steps, "done") == "done":
                return True
        return False

    def close(self) -> None:
        """Release what reads the outputs back; what was restored stays."""
        self._steps.close()

    def _all_steps(self) -> Generator[None]:
        offsets, began = sum(map(len, self._behind.values())), time.monotonic()
        log.info("restoring the index from the outputs", sources=self._named(self._behind), offsets=offsets)
        self._listener.behind(offsets)
        trimmed = yield from self._trimmed()
        yield from self._enter_all(offsets)
        trimmed = [part for part in trimmed if not self._is_of_no_use(part)]
        if trimmed:
            self._refuse(trimmed)
            self._listener.gaps(len(trimmed))
        for source, offsets_behind in self._behind.items():
            self._index.begin(source, self._names[source.stream], offsets_behind.stop)
            self._index.set_applied(source, offsets_behind.stop)
        self._listener.behind(0)
        if self._found["without_original"]:
            log.warning(
                "duplicates left out: their originals are not in the index", count=self._found["without_original"]
            )
        log.info("restored", **self._found, offsets=offsets, seconds=round(time.monotonic() - began))

    def _trimmed(self) -> Generator[None, None, list[Trimmed]]:
        """Parts of the outputs that have lost records; refused at once where what is restored cannot excuse them."""
        trimmed: list[Trimmed] = []
        destinations = list(dict.fromkeys(destination for destination, _ in self._outputs))
        for part in self._transport.trimmed(self._behind, destinations):
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
        read: set[Destination] = set()
        for destination, verdict in self._outputs:
            if destination is Destination.UNIQUE and verdict not in self._seen_among_uniques:
                continue
            for records in self._transport.changelog(self._behind, [destination]):
                if destination is Destination.UNIQUE:
                    self._seen_among_uniques.update(map(restoring_verdict, records))
                self._enter_undelivered_originals(records)
                self._enter(records, verdict)
                if time.monotonic() - reported > REPORT_SECONDS:
                    reported = time.monotonic()
                    log.info("restoring", **self._found, offsets=offsets, seconds=round(reported - began))
                yield
            read.add(destination)
        if Destination.DUPLICATE not in read:
            # They enter nothing where only unique documents do, but name their originals.
            for records in self._transport.changelog(self._behind, [Destination.DUPLICATE]):
                self._enter_undelivered_originals(records)
                self._listener.restored(0)
                yield

    def _enter(self, found: Sequence[Record], verdict: Verdict) -> None:
        records = restored_as(verdict, found)
        if verdict is Verdict.UNIQUE:
            self._give_back(restored_as(Verdict.GIVEN_BACK, found))
        of_records = list(map(restoring_verdict, records))
        if not records:
            # An empty batch: time passes while nothing is found, and the supervisor needs a sign of life.
            self._listener.restored(0)
            return
        originals = [
            parse_original_position(record.headers) if own.names_original else None
            for record, own in zip(records, of_records, strict=True)
        ]
        restored = self._restore(records, of_records, originals)
        if verdict is not Verdict.UPDATE:
            self._found.update(restored)
        self._newest_ms = max([self._newest_ms, *(record.timestamp_ms for record in records)])

    def _restore(
        self, records: Sequence[Record], verdicts: Sequence[Verdict], originals: Sequence[Position | None]
    ) -> dict[str, int]:
        """Enter records with these verdicts, as far as they have a fingerprint. Returns the counts of `Index.restore`."""
        entries = prepare(self._decoder, self._fingerprinter, records)
        kept = np.flatnonzero(np.isin(entries.kinds, (Kind.NEAR, Kind.EXACT)))
        named = [originals[row] for row in kept.tolist()]
        restored = self._index.restore(entries.take(kept), np.array(verdicts, np.uint8)[kept], named)
        self._listener.restored(len(kept))
        return restored._asdict()

    def _enter_undelivered_originals(self, records: Sequence[Record]) -> None:
        """Enter the originals that delivered records name and that were not delivered: as unique, from the input."""
        named = {
            position
            for record in records
            if (position := parse_original_position(record.headers)) is not None
            and position.offset >= self._delivered.get(position.source, _NOT_OF_THE_INPUT)
        } - self._originals_asked
        if not named:
            return
        self._originals_asked |= named
        absent = len(named)
        for originals in self._transport.inputs_at(named):
            absent -= len(originals)
            self._listener.restored(0)
            if originals:
                entered = self._restore(originals, [Verdict.UNIQUE] * len(originals), [None] * len(originals))
                self._found["undelivered_originals"] += entered["restored"]
        if absent:
            log.warning("originals of delivered duplicates are neither delivered nor in the input", count=absent)

    def _give_back(self, records: Sequence[Record]) -> None:
        """Enter documents that were given back. They stand for themselves, so they need not wait for others."""
        if records:
            new = self._index.give_back(prepare(self._decoder, self._fingerprinter, records), delivered=True)
            self._found.update(given_back=int(new.sum()))
            self._listener.restored(int(new.sum()))

    def _is_of_no_use(self, part: Trimmed) -> bool:
        """Whether the index would not count any more what a part of an output has lost.

        By number: newer documents are left, as many as the index keeps. By age: what is left reaches as far back.
        """
        retention = self._index.retention
        entered = self._found["restored"] + self._found["already_known"]
        if retention.entries_max is not None and entered >= retention.entries_max:
            return True
        if retention.age_max_ms is None or part.first_time_ms is None:
            return False
        return self._newest_ms - part.first_time_ms >= retention.age_max_ms

    def _refuse(self, trimmed: Sequence[Trimmed]) -> None:
        """Raise RecoveryRefused, if the policy says so."""
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
        """Sources with their input offsets to restore, for people."""
        ranges = ((source, self._behind[source]) for source in sorted(sources))
        return [f"{self._names[source.stream]}/{source.partition} [{at.start}, {at.stop})" for source, at in ranges]
