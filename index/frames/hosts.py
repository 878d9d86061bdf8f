"""Samples of hosts in the file, and the frames they give pages, within the deciding transaction.

A frame does not depend on verdicts. So a batch gets its frames before any look-up, each from the host's earlier pages.
`frames.samples` says which hosts have a sample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.entry import Entries, Kind
from index.frames.samples import NOTHING_TAKEN, admit_hosts, counting_by, framed, groups_of
from index.kernels.frames import Counting
from index.matching.host_sketch import NAME_CHARACTERS_MAX, NO_HOST, host_keys
from index.session import ReadSession, WriteSession
from index.storage import layout
from index.storage.store import Transaction


def with_frames(
    session: ReadSession, entries: Entries, rows: npt.NDArray[np.int64], *, are_known: bool = False
) -> Entries:
    """Set these rows' frames, int64 [m], each as if it came alone; returns the same entries if no row has a frame.

    are_known  the rows came before: their own pages in the samples do not count against their novelty
    """
    keys, rows = _with_host(session, entries, rows)
    known = read_samples(session.transaction, np.unique(keys[rows]))
    hosts = np.array(list(known), np.uint64)
    rows = rows[np.isin(keys[rows], hosts)]
    if not len(rows):
        return entries
    counting = _counting(session)._replace(**{"new_min": 0} if are_known else {})
    numbers = np.searchsorted(hosts, keys[rows])
    return _with(
        entries, framed(entries.fingerprints, rows, numbers, list(known.values()), counting, learning=False)[0]
    )


def learn_frames(session: WriteSession, entries: Entries, rows: npt.NDArray[np.int64]) -> Entries:
    """Set frames in order, each by the earlier rows too, and sample the pages."""
    transaction = session.transaction
    keys, rows = _with_host(session, entries, rows)
    if not len(rows):
        return entries
    numbers, group_places = np.unique(groups_of(keys[rows]), return_inverse=True)
    groups = _groups(transaction, numbers.tolist())
    before = groups.hosts.copy()
    admitted = admit_hosts(groups, keys[rows], group_places)
    _put_groups(transaction, numbers.tolist(), groups)
    known = read_samples(transaction, np.unique(admitted.hosts[~admitted.are_new]))
    hosts, names = admitted.hosts.tolist(), _names(entries.hosts or (), keys, rows)
    stored = [
        NOTHING_TAKEN if is_new else known[host] for host, is_new in zip(hosts, admitted.are_new.tolist(), strict=True)
    ]
    rows, counting = rows[admitted.rows], _counting(session)
    fingerprints, changed = framed(entries.fingerprints, rows, admitted.samples, stored, counting, learning=True)
    written = {
        hosts[number]: sample._replace(name=names[hosts[number]])
        for number, sample in changed.items()
        if admitted.stays[number]
    }
    for key in layout.pack_numbers(np.setdiff1d(before, np.append(groups.hosts, NO_HOST))):
        transaction.delete(layout.Table.FRAMES, key)
    write_samples(transaction, written)
    return _with(entries, fingerprints)


def note_kept(session: WriteSession, keys: npt.NDArray[np.uint64]) -> None:
    """Count pages that are unique only by their hosts' frames: uint64 [n], host keys."""
    distinct, counts = np.unique(keys[keys != NO_HOST], return_counts=True)
    if len(distinct):
        kept = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
        samples = read_samples(session.transaction, distinct)
        changed = {key: sample._replace(kept=sample.kept + kept[key]) for key, sample in samples.items()}
        write_samples(session.transaction, changed)


def read_samples(transaction: Transaction, keys: npt.NDArray[np.uint64]) -> dict[int, layout.HostSample]:
    """Samples by host key: uint64 [n], ascending and distinct; omits hosts without one."""
    if not transaction.count(layout.Table.FRAMES):
        return {}
    values = transaction.get_many(layout.Table.FRAMES, layout.pack_numbers(keys))
    there = layout.unpack_numbers([key for key, _ in values]).tolist()
    return {key: layout.unpack_sample(value) for key, (_, value) in zip(there, values, strict=True)}


def write_samples(transaction: Transaction, samples: Mapping[int, layout.HostSample]) -> None:
    """Store host samples, by key."""
    keys = layout.pack_numbers(np.array(list(samples), np.uint64))
    transaction.put_all(layout.Table.FRAMES, keys, [layout.pack_sample(sample) for sample in samples.values()])


def enter_samples(transaction: Transaction, samples: Mapping[int, layout.HostSample]) -> None:
    """Store samples in an index without any, by key, at most HOSTS_MAX a group."""
    keys, groups = np.sort(np.array(list(samples), np.uint64)), host_groups(transaction)
    for group in range(layout.HOST_GROUPS):
        hosts = keys[groups_of(keys) == group][: layout.HOSTS_MAX]
        groups.hosts[group, : len(hosts)] = hosts
        groups.counted[group] += np.uint64(1)
        groups.seen[group, : len(hosts)] = groups.counted[group]
    _put_groups(transaction, list(range(layout.HOST_GROUPS)), groups)
    write_samples(transaction, {key: samples[key] for key in groups.hosts[groups.hosts != NO_HOST].tolist()})


def host_groups(transaction: Transaction) -> layout.HostGroups:
    """All host groups."""
    return _groups(transaction, list(range(layout.HOST_GROUPS)))


def hosts_with_samples(transaction: Transaction) -> npt.NDArray[np.uint64]:
    """Keys for the hosts that have a place for a sample, ascending, uint64 [n]."""
    hosts = host_groups(transaction).hosts
    return np.sort(hosts[hosts != NO_HOST])


def _groups(transaction: Transaction, numbers: Sequence[int]) -> layout.HostGroups:
    return layout.unpack_host_groups(
        [transaction.get(layout.Table.META, layout.host_group_key(number)) for number in numbers]
    )


def _put_groups(transaction: Transaction, numbers: Sequence[int], groups: layout.HostGroups) -> None:
    for number, value in zip(numbers, layout.pack_host_groups(groups), strict=True):
        transaction.put(layout.Table.META, layout.host_group_key(number), value)


def _counting(session: ReadSession) -> Counting:
    rule, banding = session.parameters.frames, session.parameters.banding
    assert rule is not None
    assert banding is not None
    return counting_by(rule, banding.bin_bits)


def _with(entries: Entries, fingerprints: npt.NDArray[np.uint64]) -> Entries:
    """The same entries if no fingerprint changed."""
    is_same = np.array_equal(fingerprints, entries.fingerprints)
    return entries if is_same else replace(entries, fingerprints=fingerprints)


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
