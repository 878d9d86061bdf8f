"""Giving back on Flink: the fingerprint topic names what was given back, in the transaction that delivers it.

So nothing is delivered twice, and no journal is needed: the unique topic says what came out.
"""

import time
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index import Entries, Position, given_back_source
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import key_for, require_shared_key, scheme_for
from streamer.flink.carried import dataflow_of
from streamer.flink.taking_in import Written
from streamer.parts.envelope import DOCUMENTS_MAX, Heading, stamp_text
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints
from streamer.parts.messages import between
from streamer.records.record import Handover, Outgoing, Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.topic_reader import TopicReader
from streamer.transports.kafka.topics import partitions_between


class JobThatTakesBack:
    """A job on Flink in the place of an index, for `GiveBack`."""

    def __init__(self, settings: Settings):
        """Raises SettingsError if the job cannot take back by these settings; BrokerUnavailable."""
        if not dataflow_of(settings).leaves:
            raise SettingsError(
                "index.recrawl: duplicate: without updates and without retention the state of a job on Flink says nothing about "
                'ids. Giving back needs a job with index.recrawl = "update", index.entries_max or index.age_max_hours.'
            )
        require_shared_key(settings)
        partitions_between(settings)
        self.scheme = scheme_for(settings, key_for(settings, None))
        self._settings, self._stamp = settings, stamp_text(self.scheme.stamp())
        self._entries: Entries | None = None
        self._written: dict[int, int] = {}

    def undelivered(self) -> list[Position]:
        """None: a transaction delivers all that it notes."""
        return []

    def are_given_back(self, positions: Sequence[Position]) -> npt.NDArray[np.bool_]:
        """Whether only the job knows that these were given back: never, bool [n]."""
        return np.zeros(len(positions), np.bool_)

    def settle(self, _positions: Collection[Position]) -> bool:
        """Whether something was unsettled: never."""
        return False

    def give_back(self, entries: Entries, *, delivered: bool = False) -> npt.NDArray[np.bool_]:
        """Which of these documents are to be delivered, bool [n]: all, unless they were. They come in `noted` next."""
        self._entries = None if delivered else entries
        return np.full(len(entries), not delivered)

    def noted(self, records: Sequence[Record]) -> list[Outgoing]:
        """What the log gets with these records, which are those given back last: batches by partition."""
        entries, now_ms = self._entries, int(time.time() * 1000)
        assert entries is not None
        assert len(entries) == len(records)
        outgoing = []
        for number, source in enumerate(entries.sources):
            rows = np.flatnonzero(entries.source_numbers == number)
            for first in range(0, len(rows), DOCUMENTS_MAX):
                chosen = rows[first : first + DOCUMENTS_MAX]
                head, given_back = records[int(chosen[0])], given_back_source(source)
                begin, end = int(entries.offsets[chosen[0]]), int(entries.offsets[chosen[-1]]) + 1
                heading = Heading(self._stamp, given_back.stream, head.topic, source.partition, begin, end)
                nobody = np.zeros(len(chosen), np.uint32)
                own = replace(entries.take(chosen), sources=(given_back,), source_numbers=nobody)
                packed = pack_fingerprints(FingerprintBatch(heading, own, [None] * len(chosen)))
                outgoing.append(between(Handover.FINGERPRINTS, head, packed, now_ms))
                self._written[source.partition] = self._written.get(source.partition, 0) + len(chosen)
        return outgoing

    def written(self) -> Written:
        """What the log has from this command, up to its ends now. Raises BrokerUnavailable."""
        topic = self._settings.topics.fingerprints
        with closing(TopicReader(self._settings, f"{topic!r}")) as reader:
            ends = {at.partition: left.stop for at, left in reader.ranges(reader.partitions(topic)).items()}
        return Written(topic, sum(self._written.values()), {each: ends[each] for each in self._written})
