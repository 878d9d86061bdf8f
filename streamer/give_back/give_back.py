"""Giving duplicates back: the index decides, and the unique output gets each record once.

    settle       deliver the batch that a killed command decided and did not deliver
    survey       count the matching duplicates, and find their earliest timestamp
    sent         read the unique output from that time on for records given back before
    give back    read the duplicates again; decide a batch in the index, send it in a transaction, settle it in the index

Three sources identify records given back before: the unique output; live entries in the index; and the index's list of
undelivered records, checked against the unique output. A killed command leaves at most one undelivered batch. An old
backup's index may lack records of the unique output: they enter and are not sent.
"""

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import structlog

from index import Entries, Index, Position, Verdict, errors
from index.tools import kept_by_frames
from streamer.errors import RecoveryRefused, SettingsError
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.scheme import Scheme
from streamer.give_back.batches import batches, position_of
from streamer.give_back.selection import Selection, host_of
from streamer.records.decode import Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import given_back
from streamer.settings.settings import Batching
from streamer.transports.output_log import Output, OutputLog

log = structlog.get_logger(__name__)

EXAMPLES_MAX = 10

Dropped = tuple[Output, Record, str | None]
NO_HOST, NO_ORIGINAL = "", ""


@dataclass(slots=True)
class Survey:
    """Counts of a selection and its outcome.

    hosts        matching duplicates by host; "" without one
    originals    matching duplicates by id of the original; "" without one
    first_ms     earliest timestamp; None without a match, or if one is in the future
    given_back   records sent now
    before       as `given_back`, by earlier commands
    finished     records sent now and decided by an earlier command
    gone         decided positions without a record

    >>> Survey(hosts=Counter({"a.example": 1, "b.example": 2})).hosts.most_common(1)
    [('b.example', 2)]
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


class Decider(Protocol):
    """What decides later documents by what was given back: an index, whose docstrings define the methods, or a job on Flink."""

    def give_back(self, entries: Entries, *, delivered: bool = False) -> npt.NDArray[np.bool_]:
        """See `Index.give_back`."""

    def are_given_back(self, positions: Sequence[Position]) -> npt.NDArray[np.bool_]:
        """See `Index.are_given_back`."""

    def undelivered(self) -> list[Position]:
        """See `Index.undelivered`."""

    def settle(self, positions: Collection[Position]) -> bool:
        """See `Index.settle`."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """One give-back command.

    index     decides. A selection by templates needs a real one
    bounds    limits of a batch
    progress  takes the records so far
    """

    output_log: OutputLog
    index: Decider
    decoder: Decoder
    fingerprinter: Scheme
    bounds: Batching
    progress: Callable[[int], None] = lambda _count: None

    def survey(self, selection: Selection) -> Survey:
        """Read the duplicates and count the matching ones; changes nothing."""
        survey = Survey()
        latest_ms = -1
        for output, record, host in self.matching(selection, selection.since_ms):
            survey.matched += 1
            survey.hosts[host or NO_HOST] += 1
            survey.originals[output.headers.original_id or NO_ORIGINAL] += 1
            first_ms = record.timestamp_ms if survey.first_ms is None else min(survey.first_ms, record.timestamp_ms)
            survey.first_ms, latest_ms = first_ms, max(latest_ms, record.timestamp_ms)
            if len(survey.examples) < EXAMPLES_MAX:
                survey.examples.append(_example(output, record, host))
        if latest_ms > time.time() * 1_000:
            # LogAppendTime would have stored such a record before its timestamp.
            survey.first_ms = None
        return survey

    def preview(self, selection: Selection) -> Survey:
        """`survey`, with records given back before."""
        selection = self._newest(selection)
        survey = self.survey(selection)
        if survey.matched:
            undelivered = set(self.index.undelivered())
            for batch, sent in self._batches(selection, survey):
                positions = list(map(position_of, batch))
                decided = zip(positions, self.index.are_given_back(positions).tolist(), strict=True)
                survey.before += sum(at in sent or (was and at not in undelivered) for at, was in decided)
        return survey

    def run(self, selection: Selection) -> Survey:
        """Give back the matching records. Raises NeardupError."""
        finished, gone = self._settle()
        filters = {name: value for name, value in asdict(selection).items() if value is not None and value is not False}
        selection = self._newest(selection)
        survey = self.survey(selection)
        survey.finished, survey.gone = finished, gone
        if survey.matched:
            for batch, sent in self._batches(selection, survey):
                self._give_back(batch, sent, survey)
                self.progress(survey.given_back)
        log.info(
            "gave back",
            **filters,
            matched=survey.matched,
            given_back=survey.given_back,
            before=survey.before,
            finished=survey.finished,
        )
        return survey

    def _newest(self, selection: Selection) -> Selection:
        """A selection with `once` as positions: of each id the latest record, of equal times the last one read."""
        if not selection.once:
            return selection
        newest: dict[str, tuple[int, Position]] = {}
        for output, record, _ in self.matching(selection, selection.since_ms):
            # A record without an id is a page of its own.
            page = output.headers.id or record.position
            # Texts of many pages would not fit into memory.
            at = record.timestamp_ms, position_of(record)
            newest[page] = max(at, newest.get(page, at), key=lambda each: each[0])
        return replace(selection, positions=frozenset(position for _, position in newest.values()))

    def _batches(self, selection: Selection, survey: Survey) -> Iterator[tuple[list[Record], set[Position]]]:
        since_ms = selection.since_ms if survey.first_ms is None else survey.first_ms
        sent = self._sent(since_ms)
        for batch in batches((_to_send(record) for _, record, _ in self.matching(selection, since_ms)), self.bounds):
            yield batch, sent

    def _give_back(self, batch: Sequence[Record], sent: set[Position], survey: Survey) -> None:
        delivered = [record for record in batch if position_of(record) in sent]
        if delivered:
            # An old backup's index may lack them.
            self.index.give_back(self._entries(delivered), delivered=True)
        rest = [record for record in batch if position_of(record) not in sent]
        new = self.index.give_back(self._entries(rest)) if rest else np.zeros(0, np.bool_)
        chosen = [record for record, is_new in zip(rest, new.tolist(), strict=True) if is_new]
        if chosen:
            self.output_log.append(chosen)
            self.index.settle(list(map(position_of, chosen)))
        survey.given_back += len(chosen)
        survey.before += len(batch) - len(chosen)

    def _settle(self) -> tuple[int, list[Position]]:
        """Deliver an earlier command's decisions; returns their number, and positions without record."""
        decided = self.index.undelivered()
        if not decided:
            return 0, []
        undelivered = set(decided) - self._sent(None)
        dropped = self.output_log.outputs([Destination.DUPLICATE]) if undelivered else ()
        wanted = {
            position_of(each.record): _to_send(each.record)
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

    def matching(self, selection: Selection, since_ms: int | None) -> Iterator[Dropped]:
        """Matching duplicates, with records and hosts."""
        for outputs in self.output_log.outputs([Destination.DUPLICATE], since_ms):
            chosen = [(each, each.record) for each in outputs if each.record is not None and selection.may_match(each)]
            documents = self.decoder.decode([record for _, record in chosen])
            matching = [
                (*each, host)
                for each, host in zip(chosen, map(host_of, documents), strict=True)
                if selection.matches_host(host)
            ]
            yield from self._for_template(matching) if selection.for_template else matching

    def _for_template(self, matching: Sequence[Dropped]) -> Iterator[Dropped]:
        by_position = {position_of(each[1]): each for each in matching if each[2] is not None}
        for batch in batches((record for _, record, host in matching if host is not None), self.bounds):
            chosen = [by_position[position_of(record)] for record in batch]
            originals = [output.headers.original for output, _, _ in chosen]
            assert isinstance(self.index, Index)
            kept = kept_by_frames(self.index, self._entries(batch), originals)
            yield from (each for each, is_kept in zip(chosen, kept.tolist(), strict=True) if is_kept)

    def _entries(self, records: Sequence[Record]) -> Entries:
        return prepare(self.decoder, self.fingerprinter, records)


@contextmanager
def lock_give_back(directory: Path) -> Iterator[None]:
    """Hold this index's lock for give-back commands. Raises GivingBackError for a held lock.

    The brokers do not fence another kafka.instance.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise errors.GivingBackError(f"Another give-back uses the index in {directory}: wait for its end.") from error
    finally:
        os.close(descriptor)


def require_whole(output_log: OutputLog, index: Index) -> None:
    """Raise SettingsError for an index of another group, RecoveryRefused if the index lags its group."""
    claims = output_log.claims()
    others = {claim.index for claim in claims.values() if claim.index not in ("", index.identity)}
    if others:
        raise SettingsError(
            f"index.directory: this index ({index.identity}) is not the group's ({', '.join(others)}): set the service's "
            "folder, on its machine."
        )
    applied = index.applied()
    lagging = [
        source for source, claim in claims.items() if source not in applied or applied[source].offset < claim.offset
    ]
    if lagging:
        raise RecoveryRefused(
            f"the index lags its group in {len(lagging)} partitions: let the service restore it first (streamer run), then "
            "run this command again."
        )


def _to_send(record: Record) -> Record:
    return replace(record, headers=given_back(record.headers))


def _example(output: Output, record: Record, host: str | None) -> dict[str, Any]:
    return {
        "position": record.position,
        "id": output.headers.id,
        "host": host,
        "original": output.headers.original_id or None,
        "timestamp_ms": record.timestamp_ms,
    }
