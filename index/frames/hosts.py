"""Samples of hosts in the file, and the frames they give pages, within the deciding transaction.

A frame does not depend on verdicts. So a batch gets its frames before any look-up, each from the host's earlier pages.

Most hosts in a wide crawl show a page or two, and a sample each would cost a file page per document. So a sample begins
after MET_MIN documents. `hosts met` counts documents by their host's hash, and halves all counts regularly, as TinyLFU
(Einziger, Friedman, Manes, ACM Transactions on Storage 2017). Beyond HOSTS_MAX a new sample replaces one that has not
changed for long.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Kind
from index.kernels import frames
from index.matching.frame import (
    NEW_BINS_MIN,
    OFTEN_PAGES_MIN,
    OFTEN_SHARE_MIN,
    VERSION_SHARE_MIN,
    VERSION_SHARE_MIN_UNFRAMED,
    FrameRule,
)
from index.matching.host_sketch import NAME_CHARACTERS_MAX, NO_HOST, host_keys
from index.session import ReadSession, WriteSession
from index.storage import layout
from index.storage.store import Transaction

HOSTS_MAX = 10_000
"""Most samples in an index: some 160 MB with default signatures and hundreds of pages a host."""

MET_MIN = 2
"""Documents of a host before its sample begins."""

HALVED_EVERY = layout.HOSTS_MET // 4
"""Documents with a host between two halvings."""

EXAMINED = 8
"""Samples to choose from on eviction; the longest unchanged one leaves."""

_MET_MAX = 255


def with_frames(
    session: ReadSession, entries: Entries, rows: npt.NDArray[np.int64], *, are_known: bool = False
) -> Entries:
    """Set these rows' frames, int64 [m], each as if it came alone; returns the same entries if no row has a frame.

    are_known  the rows came before: their own pages in the samples do not count against their novelty
    """
    keys, rows = _with_host(session, entries, rows)
    return _framed(session, entries, keys, rows, np.zeros(len(rows), np.bool_), are_known=are_known)


def learn_frames(session: WriteSession, entries: Entries, rows: npt.NDArray[np.int64]) -> Entries:
    """Set frames in order, each by the earlier rows too, and sample the pages."""
    transaction = session.transaction
    keys, rows = _with_host(session, entries, rows)
    if not len(rows):
        return entries
    counted, counts = layout.unpack_hosts_met(transaction.get(layout.Table.META, layout.HOSTS_MET_KEY))
    # Slots [4, 9, 4] of three rows have ranks [0, 0, 1]: the third row counts the first as an earlier document.
    slots = (keys[rows] % np.uint64(layout.HOSTS_MET)).astype(np.int64)
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    admitted = counts[slots] + rank >= MET_MIN
    more = np.bincount(slots, minlength=layout.HOSTS_MET)
    counts = np.minimum(counts + more, _MET_MAX).astype(np.uint8)
    halvings = (counted + len(rows)) // HALVED_EVERY - counted // HALVED_EVERY
    counts >>= np.uint8(min(7, halvings))
    transaction.put(layout.Table.META, layout.HOSTS_MET_KEY, layout.pack_hosts_met(counted + len(rows), counts))
    return _framed(session, entries, keys, rows, admitted, learn=session)


def note_kept(session: WriteSession, keys: npt.NDArray[np.uint64]) -> None:
    """Count pages that are unique only by their hosts' frames: uint64 [n], host keys."""
    distinct, counts = np.unique(keys[keys != NO_HOST], return_counts=True)
    if len(distinct):
        kept = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
        samples = read_samples(session.transaction, distinct)
        changed = {key: sample._replace(kept=sample.kept + kept[key]) for key, sample in samples.items()}
        write_samples(session.transaction, changed)


def counting_by(rule: FrameRule, bin_bits: int) -> frames.Counting:
    """Parameters for the frames kernel."""
    often = OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, NEW_BINS_MIN
    versions = VERSION_SHARE_MIN, VERSION_SHARE_MIN_UNFRAMED
    return frames.Counting(rule.pages_min, rule.sample_max, rule.every, *often, *versions, bin_bits)


def read_samples(transaction: Transaction, keys: npt.NDArray[np.uint64]) -> dict[int, layout.HostSample]:
    """Samples by host key: uint64 [n], ascending and distinct; omits hosts without one."""
    if not transaction.count(layout.Table.FRAMES):
        return {}
    values = transaction.get_many(layout.Table.FRAMES, layout.pack_numbers(keys))
    there = layout.unpack_numbers([key for key, _ in values]).tolist()
    return {key: layout.unpack_sample(value) for key, (_, value) in zip(there, values, strict=True)}


def write_samples(transaction: Transaction, samples: dict[int, layout.HostSample]) -> None:
    """Store host samples, by key."""
    keys = layout.pack_numbers(np.array(list(samples), np.uint64))
    transaction.put_all(layout.Table.FRAMES, keys, [layout.pack_sample(sample) for sample in samples.values()])


def _framed(
    session: ReadSession,
    entries: Entries,
    keys: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    admitted: npt.NDArray[np.bool_],
    *,
    learn: WriteSession | None = None,
    are_known: bool = False,
) -> Entries:
    """Set frames; stores the samples if `learn` is a session.

    admitted  bool [m], rows whose hosts have shown enough pages for a sample
    """
    rule, banding = session.parameters.frames, session.parameters.banding
    if rule is None or banding is None or not len(rows):
        return entries
    hosts = np.unique(keys[rows])
    known = read_samples(session.transaction, hosts)
    rows = rows[admitted | np.isin(keys[rows], np.array(list(known), np.uint64))]
    sampled = np.unique(keys[rows])
    if not len(rows):
        return entries
    words = session.parameters.words
    of_rows = np.searchsorted(sampled, keys[rows])
    stored = np.array([len(known[key].signatures) if key in known else 0 for key in sampled.tolist()])
    ends = np.minimum(stored + np.bincount(of_rows, minlength=len(sampled)), rule.sample_max).cumsum()
    begins = np.append(0, ends[:-1])
    samples, taken = np.zeros((ends[-1], words), np.uint64), np.zeros(len(sampled), np.int64)
    for place, key in enumerate(sampled.tolist()):
        if key in known:
            samples[begins[place] : begins[place] + stored[place]] = known[key].signatures
            taken[place] = known[key].taken
    # An operation may run twice, so its input stays unchanged.
    fingerprints = entries.fingerprints.copy()
    counting = counting_by(rule, banding.bin_bits)
    if are_known:
        counting = counting._replace(new_min=0)
    changed = frames.set_frames(fingerprints, rows, of_rows, samples, begins, taken, learn is not None, counting)
    if learn is not None and changed.any():
        ends = begins + np.minimum(taken, rule.sample_max)
        pages = [samples[begins[place] : ends[place]] for place in np.flatnonzero(changed).tolist()]
        _store(learn, sampled[changed], pages, taken[changed], known, _names(entries.hosts or (), keys, rows))
    return replace(entries, fingerprints=fingerprints) if fingerprints[rows, words:].any() else entries


def _with_host(
    session: ReadSession, entries: Entries, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """All host keys, uint64 [n], and the given rows that are NEAR and have a host, int64 [m]."""
    if session.parameters.frames is None or entries.hosts is None:
        return np.empty(0, np.uint64), rows[:0]
    keys = host_keys(entries.hosts)
    return keys, rows[(entries.kinds[rows] == Kind.NEAR) & (keys[rows] != NO_HOST)]


def _names(hosts: Sequence[str | None], keys: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64]) -> dict[int, str]:
    distinct, firsts = np.unique(keys[rows], return_index=True)
    named = [(hosts[row] or "")[:NAME_CHARACTERS_MAX] for row in rows[firsts].tolist()]
    return dict(zip(distinct.tolist(), named, strict=True))


def _store(
    session: WriteSession,
    keys: npt.NDArray[np.uint64],
    samples: Sequence[npt.NDArray[np.uint64]],
    taken: npt.NDArray[np.int64],
    known: dict[int, layout.HostSample],
    names: dict[int, str],
) -> None:
    at, written = session.counters.next_number, {}
    for key, sample, count in zip(keys.tolist(), samples, taken.tolist(), strict=True):
        kept = known[key].kept if key in known else 0
        written[key] = layout.HostSample(count, kept, at, names[key], sample)
    new = [key for key in written if key not in known]
    for key in new[: max(0, session.transaction.count(layout.Table.FRAMES) + len(new) - HOSTS_MAX)]:
        _evict(session.transaction, key)
    write_samples(session.transaction, written)


def _evict(transaction: Transaction, near: int) -> None:
    """Remove the longest unchanged sample among some after this key; keys are hashes, so the choice is random."""
    begin = layout.pack_numbers(np.array([near], np.uint64))[0]
    behind = chain(transaction.walk(layout.Table.FRAMES, begin), transaction.walk(layout.Table.FRAMES))
    examined = {bytes(key): layout.changed_at(value) for key, value in islice(behind, EXAMINED)}
    if examined:
        transaction.delete(layout.Table.FRAMES, min(examined, key=lambda key: examined[key]))
