"""Auditor: keeps the sampled documents of decided batches."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from index import Decisions, Entries, EntryState, Index, Position, Source, Verdict
from streamer.audit.report import store_of
from streamer.audit.store import Audited
from streamer.explain.positions import position_text
from streamer.settings.settings import Settings


class Auditor:
    """Adds every sampled document to the store, once its verdict is final.

    >>> import numpy as np
    >>> from index import Parameters
    >>> zero, settings = np.zeros(1, np.uint64), Settings().replaced(index={"directory": folder})
    >>> entries = Entries((Source("stream", 0),), zero, zero, np.zeros(1, np.uint8), zero, zero[:, None], zero, ["a"])
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     decisions = index.admit(entries, {})
    ...     Auditor(settings, index).observe(entries, {0: (5, np.arange(9, dtype=np.uint32))}, decisions, {})
    >>> [each.id for each in store_of(settings).judged()]
    ['a']
    """

    def __init__(self, settings: Settings, index: Index) -> None:
        self._index = index
        self._one_in = settings.audit.one_in
        self._store = store_of(settings, self._counting)

    def observe(
        self,
        entries: Entries,
        samples: Mapping[int, tuple[int, npt.NDArray[np.uint32]]],
        decisions: Decisions,
        names: Mapping[str, str],
    ) -> None:
        """Add the sampled documents of a decided batch.

        samples  rows of the sample, each with its least feature and all its features; see `fingerprint.sample`
        names    of the streams
        """
        audited = []
        for row, (least, features) in samples.items():
            verdict, original = Verdict(decisions.verdicts[row]), decisions.original_positions[row]
            at = Position(entries.sources[entries.source_numbers[row]], int(entries.offsets[row]))
            audited.append(
                Audited(
                    position_text(at, {}),
                    position_text(at, names),
                    entries.ids[row],
                    (entries.hosts[row] if entries.hosts else None) or "",
                    least,
                    features,
                    dropped=verdict is Verdict.DUPLICATE,
                    named=verdict.names_original,
                    original="" if original is None else position_text(original, {}),
                    replaces=verdict is Verdict.UPDATE,
                    one_in=self._one_in,
                )
            )
        self._store.add(audited, time.time())

    def _counting(self, places: Sequence[str]) -> list[bool]:
        """Whether the index still has these documents: neither expired nor forgotten. One that never entered counts."""
        if not places:
            return []
        parts = [place.rsplit("/", 2) for place in places]
        states = self._index.states_at(
            [Position(Source(stream, int(partition)), int(offset)) for stream, partition, offset in parts]
        )
        return [state is EntryState.COUNTS for state in states]
