"""Restoring: documents that the index lost enter it again from the outputs, with their verdicts of then.

A restoration covers every source that is behind, whoever owns it, and all uniques come before the first duplicate: the
original of a duplicate may stand in another source. The applied offsets move when all of it is done. So a restoration
that breaks off leaves every source behind, and the next one does it all again, leaving out what the index knows.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence

import numpy as np
import structlog

from index import Index, Kind, Position, Source, Verdict
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import parse_original_position
from streamer.service.pipeline import prepare
from streamer.transports.transport import Transport

log = structlog.get_logger(__name__)

REPORT_SECONDS = 5.0
"""Time between two lines of the log that say how far a restoration has come."""


class Restoration:
    """One restoration, carried out a slice at a time."""

    def __init__(
        self,
        transport: Transport,
        index: Index,
        decoder: Decoder,
        fingerprinter: Scheme,
        behind: Mapping[Source, range],
        names: Mapping[str, str],
        *,
        insert: str,
        progress: Callable[[int], None],
    ) -> None:
        """
        behind    input offsets by source whose documents enter again
        names     name of every stream among them, for people
        insert    which documents became entries: "unique", or "all"
        progress  is called at least once per batch of restored records, with their number
        """
        self._transport = transport
        self._index = index
        self._decoder = decoder
        self._fingerprinter = fingerprinter
        self._behind = dict(behind)
        self._names = names
        # Uniques first: a duplicate can enter only after its original.
        self._outputs = [(Destination.UNIQUE, Verdict.UNIQUE)]
        if insert == "all":
            self._outputs.append((Destination.DUPLICATE, Verdict.DUPLICATE))
        self._progress = progress
        self._found = 0
        self._steps = self._all_steps()

    def go_on(self, seconds: float) -> bool:
        """Restore for about this long, or until all is done; returns whether it is."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if next(self._steps, "done") == "done":
                return True
        return False

    def close(self) -> None:
        """Release what reads the outputs back; what was restored stays."""
        self._steps.close()

    def _all_steps(self) -> Generator[None]:
        sources = [f"{self._names[source.stream]}/{source.partition}" for source in sorted(self._behind)]
        offsets = sum(map(len, self._behind.values()))
        log.info("restoring the index from the outputs", sources=sources, offsets=offsets)
        began = reported = time.monotonic()
        # All changelogs are opened before the first is read, so that a refusal comes before any change.
        logs = [(verdict, self._transport.changelog(self._behind, [to])) for to, verdict in self._outputs]
        for verdict, changelog in logs:
            for records in changelog:
                self._enter(records, verdict)
                if time.monotonic() - reported > REPORT_SECONDS:
                    reported = time.monotonic()
                    log.info("restoring", restored=self._found, offsets=offsets, seconds=round(reported - began))
                yield
        for source, offsets_behind in self._behind.items():
            self._index.begin(source, self._names[source.stream], offsets_behind.stop)
            self._index.set_applied(source, offsets_behind.stop)
        log.info("restored", restored=self._found, offsets=offsets, seconds=round(time.monotonic() - began))

    def _enter(self, records: Sequence[Record], verdict: Verdict) -> None:
        if not records:
            # An empty batch: time passes while nothing is found, and the supervisor needs a sign of life.
            self._progress(0)
            return
        entries = prepare(self._decoder, self._fingerprinter, records)
        decided = np.isin(entries.kinds, (Kind.NEAR, Kind.EXACT))
        entries = entries.take(np.flatnonzero(decided))
        originals: list[Position | None] = [
            parse_original_position(record.headers) if verdict is Verdict.DUPLICATE else None
            for record, keep in zip(records, decided, strict=True)
            if keep
        ]
        verdicts = np.full(len(entries), verdict, dtype=np.uint8)
        self._index.restore(entries, verdicts, originals)
        self._found += len(records)
        self._progress(len(entries))
