"""Frames that an index knows, host by host."""

from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from index.index import Index, internals_of
from index.kernels.frames import Counting, set_frames
from index.matching.frame import OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, frame_bins, without_frames
from index.session import ReadSession
from index.storage.layout import HostSample, Table, unpack_numbers, unpack_sample


class HostFrame(NamedTuple):
    """What the pages of a host have often.

    host         name of the host
    pages        distinct pages taken into its sample, ever
    is_known     whether these are enough for its frame
    kept         pages that were unique by the frame alone
    frame_share  share of the bins that are in the frame, in the mean over the sample, 0 to 1
    """

    host: str
    pages: int
    is_known: bool
    kept: int
    frame_share: float


def frames_of(index: Index, limit: int) -> list[HostFrame]:
    """Hosts whose frames kept the most pages, at most `limit`; of equal ones those with the largest frames first."""

    def operation(session: ReadSession) -> list[HostFrame]:
        found = (_host_frame(session, sample) for _, sample in stored_samples(session))
        return nlargest(limit, found, key=lambda each: (each.kept, each.is_known, each.frame_share, each.pages))

    return internals_of(index).read(operation)


def stored_samples(session: ReadSession) -> Iterator[tuple[int, HostSample]]:
    """All samples with the keys of their hosts, ascending by key."""
    for key, value in session.transaction.walk(Table.FRAMES):
        yield int(unpack_numbers([bytes(key)])[0]), unpack_sample(value)


def _host_frame(session: ReadSession, sample: HostSample) -> HostFrame:
    rule, banding = session.parameters.frames, session.parameters.banding
    assert rule is not None, "only an index that learns frames has samples"
    assert banding is not None
    pages, taken = without_frames(sample.signatures, session.words), np.array([len(sample.signatures)])
    counting = Counting(1, rule.every, OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, banding.bin_bits)
    rows = np.arange(len(pages))
    set_frames(pages, rows, np.zeros_like(rows), sample.signatures[None], taken, False, counting)
    filled = np.bitwise_count(sample.signatures).any(axis=1)
    share = float(frame_bins(pages, banding.bin_bits)[filled].mean()) if filled.any() else 0.0
    return HostFrame(sample.name, sample.taken, len(pages) >= rule.pages_min, sample.kept, share)
