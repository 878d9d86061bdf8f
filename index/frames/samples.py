"""Which hosts have samples, and the frames that these give pages. Pure.

Most hosts in a wide crawl show a page or two, and a sample each would cost a file page per document. So a sample begins
after MET_MIN documents. Counters count documents by their host's hash, and halve regularly, as TinyLFU (Einziger, Friedman,
Manes, ACM Transactions on Storage 2017). Beyond HOSTS_MAX in a group the host not seen for longest loses its sample.

Nothing crosses groups, and all follows from a group's documents in order, however they are cut into batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import frames
from index.matching.frame import (
    NEW_BINS_MIN,
    OFTEN_PAGES_MIN,
    OFTEN_SHARE_MIN,
    SAME_SHARE_MIN,
    SPLIT_SHARE_MAX,
    TEMPLATE_PAGES_MIN,
    VERSION_SHARE_MIN,
    WAITING_MAX,
    FrameRule,
    signature_words,
)
from index.storage.layout import HOST_GROUPS, HOSTS_MET, HostGroups, HostSample

MET_MIN = 2
"""A host's documents before its sample begins."""

HALVED_EVERY = HOSTS_MET // 4
"""Documents between two halvings in a group."""

NOTHING_TAKEN = HostSample(0, 0, "", np.empty((0, 0), np.uint64), np.empty((0, 0), np.uint64))
"""A sample that begins."""


class Admitted(NamedTuple):
    """Samples for m documents in order.

    rows     int64 [k], documents whose host has a sample
    samples  int64 [k], their samples
    hosts    uint64 [s], each sample's host
    places   int64 [s], its place in the groups
    are_new  bool [s], whether it begins with these documents
    stays    bool [s], whether its host still has the place after them

    >>> from index.storage.layout import unpack_host_groups
    >>> admit_hosts(unpack_host_groups([None]), np.full(5, 7, np.uint64), np.zeros(5, np.int64)).rows
    array([2, 3, 4])
    """

    rows: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]
    hosts: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]
    are_new: npt.NDArray[np.bool_]
    stays: npt.NDArray[np.bool_]


def groups_of(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Each host's group: keys uint64 [n] -> int64 [n]."""
    return (keys >> np.uint64(65 - HOST_GROUPS.bit_length())).astype(np.int64)


def admit_hosts(groups: HostGroups, keys: npt.NDArray[np.uint64], group_places: npt.NDArray[np.int64]) -> Admitted:
    """Count documents by host, and give hosts samples; changes the groups. uint64 [m], int64 [m], places in `groups`."""
    places, begins = frames.admit_hosts(keys, group_places, *groups, MET_MIN, HALVED_EVERY)
    rows = np.flatnonzero(places >= 0)
    rows = rows[np.argsort(places[rows], kind="stable")]
    row_places, are_new = places[rows], begins[rows]
    # Places [4, 4, 4, 9] of rows whose third begins a sample have samples [0, 0, 1, 2]; the second took the place of the first.
    first = np.append(True, row_places[1:] != row_places[:-1])[: len(rows)]
    firsts = np.flatnonzero(first | are_new)
    row_samples, sample_places = np.cumsum(first | are_new) - 1, row_places[firsts]
    stays = np.append(sample_places[1:] != sample_places[:-1], True)[: len(firsts)]
    order = np.argsort(rows)
    return Admitted(rows[order], row_samples[order], keys[rows[firsts]], sample_places, are_new[firsts], stays)


def counting_by(rule: FrameRule, bin_bits: int) -> frames.Counting:
    """Parameters for the frames kernel."""
    often, shares = (OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, NEW_BINS_MIN), (SAME_SHARE_MIN, VERSION_SHARE_MIN)
    template_pages, split_share = TEMPLATE_PAGES_MIN, SPLIT_SHARE_MAX
    sample = rule.pages_min, rule.sample_max, rule.every
    return frames.Counting(*sample, *often, *shares, template_pages, split_share, bin_bits)


def framed(
    fingerprints: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    stored: Sequence[HostSample],
    counting: frames.Counting,
    *,
    learning: bool,
) -> tuple[npt.NDArray[np.uint64], dict[int, HostSample]]:
    """Fingerprints with frames for these rows, in order, uint64 [n, words]; and the samples that change, by number.

    rows      int64 [k]
    numbers   int64 [k], each row's sample
    learning  whether the samples take the pages
    """
    words = signature_words(fingerprints.shape[1])
    known = np.array([len(each.signatures) for each in stored], np.int64)
    waits = np.array([len(each.waiting) for each in stored], np.int64)
    # Pages that wait may enter too.
    most = known + waits + np.bincount(numbers, minlength=len(stored))
    ends = np.minimum(most, counting.sample_max).cumsum()
    begins = np.append(0, ends)[:-1]
    samples = np.zeros((ends[-1] if len(ends) else 0, words), np.uint64)
    waiting = np.zeros((len(stored), WAITING_MAX, words), np.uint64)
    for at, (begin, each) in enumerate(zip(begins.tolist(), stored, strict=True)):
        samples[begin : begin + len(each.signatures)] = each.signatures.reshape(-1, words)
        waiting[at, : len(each.waiting)] = each.waiting.reshape(-1, words)
    # An operation may run twice, so its input stays unchanged.
    fingerprints, taken = fingerprints.copy(), np.array([each.taken for each in stored], np.int64)
    changed = frames.set_frames(fingerprints, rows, numbers, samples, begins, taken, waiting, waits, learning, counting)
    ends = begins + np.minimum(taken, counting.sample_max)
    return fingerprints, {
        at: stored[at]._replace(
            taken=int(taken[at]), signatures=samples[begins[at] : ends[at]], waiting=waiting[at, : waits[at]]
        )
        for at in np.flatnonzero(changed).tolist()
    }
