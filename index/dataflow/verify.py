"""VERIFY: turns candidates into hits by the comparisons of `index.matching`. Keyed by batch shard."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import PAIR, Layout, Rows, are_alike, numbered, rows_of
from index.entry import Verdict
from index.storage.parameters import Parameters


class Verify:
    """Compares MinHash signatures, or SimHash's looks."""

    def __init__(self, parameters: Parameters, layout: Layout):
        """See `Dataflow`."""
        self._parameters, self._layout = parameters, layout
        # Compiled loops hang in a JVM's thread (see `frame`).
        self._own_thread = ThreadPoolExecutor(1)

    def _distances(self, left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.int16]:
        columns = np.ascontiguousarray(left), np.ascontiguousarray(right)
        return self._own_thread.submit(self._parameters.distances, *columns).result()

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:  # noqa: ARG002
        """Compare a slot's candidates."""
        pairs = rows_of((each.content for each in messages if each.kind == Kind.RECALLED), self._layout.recalled)
        if not len(pairs):
            return
        contents = (each.content for each in messages if each.kind == Kind.SIGNATURES)
        signatures = rows_of(contents, self._layout.signature)
        places = _places(signatures, pairs)
        own, earlier = signatures["whole"][places], pairs["earlier_whole"]
        parameters = self._parameters
        fingerprints = own["fingerprint"], earlier["fingerprint"]
        distances = self._distances(*fingerprints)
        counts = distances <= parameters.distance_max
        if parameters.frames is not None:
            # The rule notes pages that are alike by their frames alone.
            plain = (each[:, : parameters.words] for each in fingerprints)
            counts |= self._distances(*plain) <= parameters.distance_max
        if parameters.look is not None:
            judged = parameters.look.judge(distances, own["look"], earlier["look"])
            distances, counts = judged.distances, counts & judged.counts
        if self._layout.leaves:
            # RESOLVE asks for a page's records whatever their texts, and for what a seed names, and follows alike documents.
            # Short texts met as equals.
            counts = counts | (pairs["verdict"] != Verdict.DUPLICATE) | are_alike(own, earlier)
        hits = np.zeros(int(counts.sum()), self._layout.hit)
        if not len(hits):
            return
        for name in PAIR.names or ():
            hits[name] = pairs[name][counts]
        hits["distance"] = distances[counts]
        hits["whole"], hits["earlier_whole"] = own[counts], earlier[counts]
        hits["tag"], hits["earlier_tag"] = signatures["tag"][places][counts], pairs["earlier_tag"][counts]
        yield Message(Stage.RESOLVE, 0, slot, Kind.HITS, hits.tobytes())


def _places(signatures: Rows, pairs: Rows) -> npt.NDArray[np.int64]:
    """Place of each pair's document among the signatures, int64 [n]."""
    keys = [np.concatenate([signatures[name], pairs[name]]) for name in ("high", "low")]
    numbers, distinct = numbered(*keys)
    places = np.empty(len(distinct), np.int64)
    places[numbers[: len(signatures)]] = np.arange(len(signatures))
    return places[numbers[len(signatures) :]]
