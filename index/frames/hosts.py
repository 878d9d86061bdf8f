"""Samples of hosts in the file, and the frames that pages get by them, within the transaction that decides.

A host's frame does not depend on verdicts. So the frames of a batch are set before anything is looked up, each by the pages of
its host before it.

Most hosts of a wide crawl show a page or two, and a sample of each would write a page of the file for each document. So a host
has a sample only after others came before: `hosts met` counts documents by a hash of their host, and all counts are halved as
TinyLFU does (Einziger, Friedman, Manes, ACM Transactions on Storage 2017). There are HOSTS_MAX samples; a new one takes the
place of one that was not changed for long.
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
from index.storage.layout import (
    HOSTS_MET,
    HOSTS_MET_KEY,
    HostSample,
    Table,
    changed_at,
    pack_hosts_met,
    pack_numbers,
    pack_sample,
    unpack_hosts_met,
    unpack_numbers,
    unpack_sample,
)
from index.storage.store import Transaction

HOSTS_MAX = 10_000
"""Samples in an index: some 160 MB of the default signatures at most, where all hosts have shown hundreds of pages."""

MET_MIN = 2
"""Documents of a host before its sample begins."""

HALVED_EVERY = HOSTS_MET // 4
"""Documents with a host after which all counts are halved."""

EXAMINED = 8
"""Samples of which the one unchanged for longest leaves."""

_MET_MAX = 255


def with_frames(
    session: ReadSession, entries: Entries, rows: npt.NDArray[np.int64], *, are_known: bool = False
) -> Entries:
    """Entries with the frames of these rows, int64 [m], each as if it came alone; the same where no row has one.

    are_known  the rows came before: their own pages in the samples do not make them bring nothing new
    """
    keys, rows = _with_host(session, entries, rows)
    return _framed(session, entries, keys, rows, np.zeros(len(rows), np.bool_), are_known=are_known)


def learn_frames(session: WriteSession, entries: Entries, rows: npt.NDArray[np.int64]) -> Entries:
    """As `with_frames`, in order, each by the rows before it too; takes the pages into the samples of their hosts."""
    transaction = session.transaction
    keys, rows = _with_host(session, entries, rows)
    if not len(rows):
        return entries
    counted, counts = unpack_hosts_met(transaction.get(Table.META, HOSTS_MET_KEY))
    slots = (keys[rows] % np.uint64(HOSTS_MET)).astype(np.int64)
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    admitted = counts[slots] + rank >= MET_MIN
    more = np.bincount(slots, minlength=HOSTS_MET)
    counts = np.minimum(counts + more, _MET_MAX).astype(np.uint8)
    halvings = (counted + len(rows)) // HALVED_EVERY - counted // HALVED_EVERY
    counts >>= np.uint8(min(7, halvings))
    transaction.put(Table.META, HOSTS_MET_KEY, pack_hosts_met(counted + len(rows), counts))
    return _framed(session, entries, keys, rows, admitted, learn=session)


def note_kept(session: WriteSession, keys: npt.NDArray[np.uint64]) -> None:
    """Count pages that were unique by the frames of their hosts alone: uint64 [n], keys of hosts, in any order."""
    distinct, counts = np.unique(keys[keys != NO_HOST], return_counts=True)
    if len(distinct):
        kept = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
        samples = read_samples(session.transaction, distinct)
        changed = {key: sample._replace(kept=sample.kept + kept[key]) for key, sample in samples.items()}
        write_samples(session.transaction, changed)


def counting_by(rule: FrameRule, bin_bits: int) -> frames.Counting:
    """What the kernel of frames asks for."""
    often = OFTEN_PAGES_MIN, OFTEN_SHARE_MIN, NEW_BINS_MIN
    versions = VERSION_SHARE_MIN, VERSION_SHARE_MIN_UNFRAMED
    return frames.Counting(rule.pages_min, rule.sample_max, rule.every, *often, *versions, bin_bits)


def read_samples(transaction: Transaction, keys: npt.NDArray[np.uint64]) -> dict[int, HostSample]:
    """Samples of hosts, by key: uint64 [n], ascending and distinct; leaves out hosts without one."""
    if not transaction.count(Table.FRAMES):
        return {}
    found = transaction.get_many(Table.FRAMES, pack_numbers(keys))
    there = unpack_numbers([key for key, _ in found]).tolist()
    return {key: unpack_sample(value) for key, (_, value) in zip(there, found, strict=True)}


def write_samples(transaction: Transaction, samples: dict[int, HostSample]) -> None:
    """Store samples of hosts, by key."""
    keys = pack_numbers(np.array(list(samples), np.uint64))
    transaction.put_all(Table.FRAMES, keys, [pack_sample(sample) for sample in samples.values()])


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
    """Entries with frames; stores the samples where they are to be learnt.

    keys       uint64 [n], key of each row's host; rows: int64 [m]
    admitted   bool [m], rows of hosts that have shown enough for a sample
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
    # An operation may run twice: its entries stay as they are.
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
    """Keys of all hosts, uint64 [n], and those of these rows that are NEAR and have one, int64 [m]."""
    if session.parameters.frames is None or entries.hosts is None:
        return np.empty(0, np.uint64), rows[:0]
    keys = host_keys(entries.hosts)
    return keys, rows[(entries.kinds[rows] == Kind.NEAR) & (keys[rows] != NO_HOST)]


def _names(hosts: Sequence[str | None], keys: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64]) -> dict[int, str]:
    """Names of the hosts of rows, by key."""
    distinct, firsts = np.unique(keys[rows], return_index=True)
    named = [(hosts[row] or "")[:NAME_CHARACTERS_MAX] for row in rows[firsts].tolist()]
    return dict(zip(distinct.tolist(), named, strict=True))


def _store(
    session: WriteSession,
    keys: npt.NDArray[np.uint64],
    samples: Sequence[npt.NDArray[np.uint64]],
    taken: npt.NDArray[np.int64],
    known: dict[int, HostSample],
    names: dict[int, str],
) -> None:
    """Store changed samples, and let others leave where there are too many."""
    at, written = session.counters.next_number, {}
    for key, sample, count in zip(keys.tolist(), samples, taken.tolist(), strict=True):
        kept = known[key].kept if key in known else 0
        written[key] = HostSample(count, kept, at, names[key], sample)
    new = [key for key in written if key not in known]
    for key in new[: max(0, session.transaction.count(Table.FRAMES) + len(new) - HOSTS_MAX)]:
        _evict(session.transaction, key)
    write_samples(session.transaction, written)


def _evict(transaction: Transaction, near: int) -> None:
    """Remove the sample unchanged for longest, of some that follow this key: keys are hashes, so these are any."""
    begin = pack_numbers(np.array([near], np.uint64))[0]
    behind = chain(transaction.walk(Table.FRAMES, begin), transaction.walk(Table.FRAMES))
    examined = {bytes(key): changed_at(value) for key, value in islice(behind, EXAMINED)}
    if examined:
        transaction.delete(Table.FRAMES, min(examined, key=lambda key: examined[key]))
