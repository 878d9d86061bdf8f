"""Hosts with samples follow from a group's documents in order, however these are cut into batches."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.frames import hosts as index_hosts
from index.frames import samples
from index.frames.samples import admit_hosts, groups_of
from index.index import internals_of
from index.matching.minhash import pack_bins
from index.storage import layout
from index.storage.layout import HOST_GROUPS, Table, unpack_host_groups
from index.tools.verify import verify_tables
from tests.support import brute_force_frames
from tests.support.brute_force_frames import BruteForceFrames
from tests.support.examples import examples
from tests.support.framed_sites import PARAMETERS, hosts_of, site, told
from tests.support.indexes import SMALL, opened


@examples(15)
@given(st.integers(0, 2**32), st.integers(2, 120), st.integers(1, 12), st.data())
def test_hosts_win_and_lose_their_samples_alike_in_all_batches(
    seed: int, count: int, sites: int, data: st.DataObject
) -> None:
    """Two samples to a group, and counts that are halved all the time."""
    generator = np.random.default_rng(seed)
    signatures, hosts = pack_bins(site(generator, count, 2, 1.0), 8), hosts_of(generator, count, sites)
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=6)))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "HOSTS_MAX", 2)
        patch.setattr(samples, "HALVED_EVERY", 5)
        # All hosts in one group, each with a counter of its own.
        patch.setattr(index_hosts, "host_keys", in_one_group)
        patch.setattr(brute_force_frames, "host_keys", in_one_group)
        with opened(Path(folder), PARAMETERS, sizes=SMALL) as index:
            found = list(told(index, signatures, hosts, cuts))
            assert not [each for each in internals_of(index).read(verify_tables) if each.wrong]
            kept = internals_of(index).read(lambda session: session.transaction.count(Table.FRAMES))
        oracle = BruteForceFrames(PARAMETERS)
        rows = zip(signatures, hosts, map(str, range(count)), strict=True)
        assert found == [oracle.decide(*row) for row in rows]
        assert kept == len(oracle.samples) <= 2


def in_one_group(hosts: Sequence[str | None]) -> np.ndarray:
    """Keys of hosts, from their names' last numbers."""
    numbers = [0 if host is None else 1 + int(host.split("-")[1]) for host in hosts]
    return np.array(numbers, np.uint64) << np.uint64(48)


def test_a_sample_that_loses_its_place_within_a_batch_is_another_one_than_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layout, "HOSTS_MAX", 1)
    keys, groups = np.array([5, 5, 5, 5, 6, 6, 6, 5], np.uint64) << np.uint64(48), unpack_host_groups([None])
    admitted = admit_hosts(groups, keys, np.zeros(len(keys), np.int64))
    assert admitted.rows.tolist() == [2, 3, 6, 7]
    assert admitted.samples.tolist() == [0, 0, 1, 2]
    assert (admitted.hosts >> np.uint64(48)).tolist() == [5, 6, 5]
    assert admitted.are_new.tolist() == [True, True, True]
    assert admitted.stays.tolist() == [False, False, True]


def test_the_high_bits_of_a_key_are_its_group() -> None:
    keys = np.array([0, 2**60 - 1, 2**60, 2**64 - 1], np.uint64)
    assert groups_of(keys).tolist() == [0, 0, 1, HOST_GROUPS - 1]
