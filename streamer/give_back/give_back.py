"""Giving drops back: the index decides, the unique output gets them, each once.

    settle       what an earlier command decided and did not deliver goes out first
    survey       read the duplicates; count what is meant, and find the earliest timestamp among it
    sent         read the unique output from that time on: what was given back stands there
    give back    read the duplicates again; decide a batch in the index, send it in a transaction, settle it in the index

Three things tell what was given back before: the unique output, where it still holds it; the index, which knows positions as
long as their entries count; and what the index holds as undelivered, of which the unique output tells whether it came out.
A command that dies leaves at most one batch undelivered. What the unique output holds and the index does not know (an
older backup was brought back) is entered, and not sent.
"""

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from index import Entries, Index, Position, Verdict, errors
from index.tools import kept_by_frames
from streamer.errors import RecoveryRefused, SettingsError
from streamer.fingerprint.scheme import Scheme
from streamer.give_back.batches import batches, position_of
from streamer.give_back.selection import Selection, host_of
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import given_back
from streamer.service.pipeline import prepare
from streamer.settings.settings import Batching
from streamer.transports.output_log import Output, OutputLog

log = structlog.get_logger(__name__)

EXAMPLES_MAX = 10

NO_HOST, NO_ORIGINAL = "", ""


@dataclass(slots=True)
class Survey:
    """What a selection means, and what became of it.

    matched      records of the duplicates that are meant
    hosts        of them by host; "" where they have none
    originals    of them by the id of the original; "" where they name none
    examples     the first of them
    first_ms     the earliest timestamp among them; None where there is none, or where it lies in the future
    given_back   records sent now
    before       records that had been given back before
    finished     records sent now that an earlier command had decided and not delivered
    gone         positions that an earlier command had decided, and whose records are gone
    """

    matched: int = 0
    hosts: Counter[str] = field(default_factory=Counter)
    originals: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)
    first_ms: int | None = None
    given_back: int = 0
    before: int = 0
    finished: int = 0
    gone: list[Position] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GiveBack:
    """One command: the ends it works with.

    bounds    of a batch
    progress  takes the number of records given back so far
    """

    output_log: OutputLog
    index: Index
    decoder: Decoder
    fingerprinter: Scheme
    bounds: Batching
    progress: Callable[[int], None] = lambda _count: None

    def survey(self, selection: Selection) -> Survey:
        """Read the duplicates, and count what is meant; changes nothing."""
        found = Survey()
        latest_ms = -1
        for output, host in self.meant(selection, selection.since_ms):
            record = output.record
            assert record is not None, "what names no position is not meant"
            found.matched += 1
            found.hosts[host or NO_HOST] += 1
            found.originals[output.headers.original_id or NO_ORIGINAL] += 1
            first_ms = record.timestamp_ms if found.first_ms is None else min(found.first_ms, record.timestamp_ms)
            found.first_ms, latest_ms = first_ms, max(latest_ms, record.timestamp_ms)
            if len(found.examples) < EXAMPLES_MAX:
                found.examples.append(_example(output, host))
        if latest_ms > time.time() * 1_000:
            # A topic that notes the time of arrival would show such a record earlier than it says.
            found.first_ms = None
        return found

    def preview(self, selection: Selection) -> Survey:
        """`survey`, with the number of those that were given back before; changes nothing."""
        found = self.survey(selection)
        if found.matched:
            since_ms = selection.since_ms if found.first_ms is None else found.first_ms
            sent = self._sent(since_ms)
            undelivered = set(self.index.undelivered())
            for batch in batches((_to_send(each) for each, _ in self.meant(selection, since_ms)), self.bounds):
                positions = list(map(position_of, batch))
                known = self.index.are_given_back(positions).tolist()
                decided = zip(positions, known, strict=True)
                found.before += sum(at in sent or (was and at not in undelivered) for at, was in decided)
        return found

    def run(self, selection: Selection) -> Survey:
        """Give back what is meant. Raises GivingBack, IndexProblem, SettingsError, and what the transport raises."""
        finished, gone = self._settle()
        found = self.survey(selection)
        found.finished, found.gone = finished, gone
        if found.matched:
            since_ms = selection.since_ms if found.first_ms is None else found.first_ms
            sent = self._sent(since_ms)
            meant = (_to_send(output) for output, _ in self.meant(selection, since_ms))
            for batch in batches(meant, self.bounds):
                self._give_back(batch, sent, found)
                self.progress(found.given_back)
        log.info(
            "gave back",
            **{name: value for name, value in _filters(selection).items() if value is not None},
            matched=found.matched,
            given_back=found.given_back,
            before=found.before,
            finished=found.finished,
        )
        return found

    def _give_back(self, batch: Sequence[Record], sent: set[Position], found: Survey) -> None:
        out = [record for record in batch if position_of(record) in sent]
        if out:
            # It came out: an index that does not know has lost it.
            self.index.give_back(self._entries(out), delivered=True)
        rest = [record for record in batch if position_of(record) not in sent]
        new = self.index.give_back(self._entries(rest)) if rest else np.zeros(0, np.bool_)
        chosen = [record for record, is_new in zip(rest, new.tolist(), strict=True) if is_new]
        if chosen:
            self.output_log.append(chosen)
            self.index.settle(list(map(position_of, chosen)))
        found.given_back += len(chosen)
        found.before += len(batch) - len(chosen)

    def _settle(self) -> tuple[int, list[Position]]:
        """Deliver what an earlier command decided, unless it came out; returns how much, and positions that are gone."""
        decided = self.index.undelivered()
        if not decided:
            return 0, []
        undelivered = set(decided) - self._sent(None)
        dropped = self.output_log.outputs([Destination.DUPLICATE]) if undelivered else ()
        wanted = {
            position_of(each.record): _to_send(each)
            for outputs in dropped
            for each in outputs
            if each.record is not None and position_of(each.record) in undelivered
        }
        if wanted:
            self.output_log.append([wanted[position] for position in sorted(wanted)])
        self.index.settle(decided)
        return len(wanted), sorted(undelivered - wanted.keys())

    def _sent(self, since_ms: int | None) -> set[Position]:
        return {
            each.headers.position
            for outputs in self.output_log.outputs([Destination.UNIQUE], since_ms)
            for each in outputs
            if each.headers.verdict is Verdict.GIVEN_BACK and each.headers.position is not None
        }

    def meant(self, selection: Selection, since_ms: int | None) -> Iterator[tuple[Output, str | None]]:
        """Duplicates that a selection means, each with its host."""
        for outputs in self.output_log.outputs([Destination.DUPLICATE], since_ms):
            chosen = [output for output in outputs if selection.may_mean(output)]
            records = [output.record for output in chosen if output.record is not None]
            documents = self.decoder.decode(records)
            meant = [
                (output, host)
                for output, host in zip(chosen, map(host_of, documents), strict=True)
                if selection.means_host(host)
            ]
            yield from self._for_template(meant) if selection.for_template else meant

    def _for_template(self, meant: Sequence[tuple[Output, str | None]]) -> Iterator[tuple[Output, str | None]]:
        """Those of these duplicates that the frames of their hosts would keep today."""
        with_host = [(output, host) for output, host in meant if host is not None and output.record is not None]
        by_position = {position_of(output.record): (output, host) for output, host in with_host if output.record}
        for batch in batches((output.record for output, _ in with_host if output.record), self.bounds):
            chosen = [by_position[position_of(record)] for record in batch]
            originals = [output.headers.original for output, _ in chosen]
            kept = kept_by_frames(self.index, self._entries(batch), originals)
            yield from (each for each, is_kept in zip(chosen, kept.tolist(), strict=True) if is_kept)

    def _entries(self, records: Sequence[Record]) -> Entries:
        return prepare(self.decoder, self.fingerprinter, records)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold the lock of the only command that gives back by this index. Raises GivingBack where another one does.

    The lock ends with its process. Whoever names another kafka.instance would not be kept off by the brokers.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise errors.GivingBack(f"Another give-back works by the index in {directory}: wait for its end.") from error
    finally:
        os.close(descriptor)


def require_whole(output_log: OutputLog, index: Index) -> None:
    """Raise RecoveryRefused where the index is behind its group, and SettingsError where it is not the index of the group."""
    claims = output_log.claims()
    others = {claim.index for claim in claims.values() if claim.index not in ("", index.identity)}
    if others:
        raise SettingsError(
            f"index.directory: this index ({index.identity}) is not the one by which the group decides ({', '.join(others)}): "
            "name the folder of the service, on its machine."
        )
    applied = index.applied()
    behind = [
        source for source, claim in claims.items() if source not in applied or applied[source].offset < claim.offset
    ]
    if behind:
        raise RecoveryRefused(
            f"the index is behind its group in {len(behind)} partitions: let the service restore it first (streamer run), "
            "then run this command again."
        )


def _to_send(output: Output) -> Record:
    """The record as it goes to the unique output: all as it came in, and headers that say what it is."""
    record = output.record
    assert record is not None, "what names no position is not meant"
    return replace(record, headers=given_back(record.headers))


def _example(output: Output, host: str | None) -> dict[str, Any]:
    record = output.record
    assert record is not None, "what names no position is not meant"
    return {
        "position": record.position,
        "id": output.headers.id,
        "host": host,
        "original": output.headers.original_id or None,
        "timestamp_ms": record.timestamp_ms,
    }


def _filters(selection: Selection) -> Mapping[str, object]:
    return {
        "id": selection.id,
        "original": selection.original,
        "host": selection.host,
        "since_ms": selection.since_ms,
        "for_template": selection.for_template or None,
    }
