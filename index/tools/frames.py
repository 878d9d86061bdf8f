"""An index's known frames, host by host."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.check import check
from index.decide.prepare import stored_form
from index.entry import Entries, Kind, Position, Verdict
from index.frames.hosts import with_frames
from index.frames.samples import counting_by
from index.index import Index, internals_of
from index.kernels.frames import set_frames
from index.lsm.lookup import first_of_equals
from index.matching.frame import frame_bins, without_frames
from index.session import ReadSession
from index.storage.layout import HostSample, Table, unpack_numbers, unpack_sample


class HostFrame(NamedTuple):
    """A host's frame: what its pages often have in common.

    pages        distinct pages ever taken into its sample
    is_known     whether these are enough for its frame
    kept         pages that were unique by the frame alone
    frame_share  mean share of a page's bins in the frame over the sample, 0 to 1

    >>> frames = [HostFrame("a.example", 40, True, 12, 0.6), HostFrame("b.example", 3, False, 0, 0.9)]
    >>> [frame.host for frame in frames if frame.is_known]
    ['a.example']
    """

    host: str
    pages: int
    is_known: bool
    kept: int
    frame_share: float


def frames_of(index: Index, limit: int) -> list[HostFrame]:
    """Hosts whose frames kept the most pages, at most `limit`; on ties those with the largest frames first."""

    def operation(session: ReadSession) -> list[HostFrame]:
        frames = (_host_frame(session, sample) for _, sample in stored_samples(session))
        return nlargest(limit, frames, key=lambda each: (each.kept, each.is_known, each.frame_share, each.pages))

    return internals_of(index).read(operation)


def kept_by_frames(index: Index, entries: Entries, originals: Sequence[Position | None]) -> npt.NDArray[np.bool_]:
    """Which dropped documents their hosts' frames would keep today: bool [n]. Their ids count for nothing.

    The frame separates such a document from its original, and it resembles no other document that counts. Documents
    dropped for the same original do not count against it. Only the first of equal documents is kept.

    entries    the documents, with their hosts
    originals  each document's original, by position; None if unknown
    """
    parameters, rows = index.parameters, np.arange(len(entries))
    if parameters.frames is None or parameters.banding is None or not len(rows):
        return np.zeros(len(rows), np.bool_)
    stored = stored_form(entries, parameters)
    fingerprints = (
        internals_of(index).read(lambda session: with_frames(session, stored, rows, are_known=True)).fingerprints
    )
    asked = sorted({position for position in originals if position is not None})
    documents = {at: each.document for at, each in zip(asked, index.decided_at(asked), strict=True) if each is not None}
    named = [None if position is None else documents.get(position) for position in originals]
    known = np.array([document is not None for document in named], np.bool_)
    known &= (entries.kinds == Kind.NEAR) & frame_bins(fingerprints, parameters.banding.bin_bits).any(axis=1)
    original_fingerprints = np.zeros_like(fingerprints)
    for row in np.flatnonzero(known).tolist():
        document = named[row]
        assert document is not None, "just asked for"
        words = document.fingerprint + document.frame
        original_fingerprints[row, : len(words)] = words
    apart = parameters.distances(fingerprints, original_fingerprints) > parameters.distance_max
    answer = check(internals_of(index), replace(entries, named=np.zeros(len(rows), np.bool_)), are_known=True)
    dropped = answer.verdicts == Verdict.DUPLICATE
    for_same = np.array(
        [one == other for one, other in zip(answer.original_positions, originals, strict=True)], np.bool_
    )
    kept: npt.NDArray[np.bool_] = known & apart & (for_same | ~dropped)
    places = np.flatnonzero(kept)
    kept[places] = first_of_equals(stored.fingerprints[places]) == np.arange(len(places))
    return kept


def stored_samples(session: ReadSession) -> Iterator[tuple[int, HostSample]]:
    """All samples with their host keys, ascending by key."""
    for key, value in session.transaction.walk(Table.FRAMES):
        yield int(unpack_numbers([bytes(key)])[0]), unpack_sample(value)


def _host_frame(session: ReadSession, sample: HostSample) -> HostFrame:
    rule, banding = session.parameters.frames, session.parameters.banding
    assert rule is not None, "only an index that learns frames has samples"
    assert banding is not None
    pages, taken = without_frames(sample.signatures, session.words), np.array([len(sample.signatures)])
    # The sample has all values of its own pages: none would add anything new.
    counting = counting_by(rule, banding.bin_bits)._replace(pages_min=1, new_min=0)
    rows, none = np.arange(len(pages)), np.zeros(1, np.int64)
    waiting = np.zeros((1, 1, sample.signatures.shape[1]), np.uint64)
    set_frames(pages, rows, np.zeros_like(rows), sample.signatures, none, taken, waiting, none.copy(), False, counting)
    filled = np.bitwise_count(sample.signatures).any(axis=1)
    share = float(frame_bins(pages, banding.bin_bits)[filled].mean()) if filled.any() else 0.0
    return HostFrame(sample.name, sample.taken, len(pages) >= rule.pages_min, sample.kept, share)
