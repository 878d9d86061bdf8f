"""Samples of hosts in the file: which hosts have one, how many there are, and which leave."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.entry import Verdict
from index.frames import samples as sampling
from index.index import Index, internals_of
from index.matching.host_sketch import host_keys
from index.matching.minhash import pack_bins
from index.storage import layout
from index.storage.layout import HostSample, Table, host_group_key, unpack_host_groups
from index.tools.frames import stored_samples
from tests.support.entries import ONE
from tests.support.framed_sites import BINS, PARAMETERS, batch_of
from tests.support.indexes import opened


def pages(seed: int, count: int) -> np.ndarray:
    return pack_bins(np.random.default_rng(seed).integers(1, 256, (count, BINS)).astype(np.uint8), 8)


def admit(index: Index, names: list[str | None], begin: int = 0) -> np.ndarray:
    """Decide pages of these hosts, each unlike all others."""
    batch = batch_of(pages(begin, len(names)), 0, len(names), names)
    moved = type(batch)(**{name: getattr(batch, name) for name in batch.__slots__} | {"offsets": batch.offsets + begin})
    return index.admit(moved, {ONE: begin + len(names)}).verdicts


def samples(index: Index) -> dict[str, HostSample]:
    return {
        sample.name: sample for _, sample in internals_of(index).read(lambda session: list(stored_samples(session)))
    }


def of_one_group(count: int) -> list[str]:
    """Names of hosts in one group."""
    names = [f"host {number}" for number in range(40 * count)]
    groups = host_keys(names) >> np.uint64(60)
    return [names[row] for row in np.flatnonzero(groups == groups[0])[:count].tolist()]


def test_a_host_has_a_sample_from_its_third_page_on(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        admit(index, ["a", "b", "a", None, ""])
        assert samples(index) == {}
        admit(index, ["a", "b", "a"], 10)
        assert {name: sample.taken for name, sample in samples(index).items()} == {"a": 2}
        admit(index, ["b"], 20)
        assert {name: sample.taken for name, sample in samples(index).items()} == {"a": 2, "b": 1}


def test_records_that_come_again_are_not_counted_again(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        for _ in range(3):
            assert admit(index, ["a"] * 5).tolist() == [Verdict.UNIQUE] * 5
        assert samples(index)["a"].taken == 3


def test_counts_of_hosts_are_halved_as_documents_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "HALVED_EVERY", 8)
    one, other = of_one_group(2)
    with opened(tmp_path, PARAMETERS) as index:
        admit(index, [one])
        for turn in range(1, 9):
            admit(index, [other], 10 * turn)
        key = host_group_key(int(host_keys([one])[0]) >> 60)
        groups = unpack_host_groups(
            [internals_of(index).read(lambda session: session.transaction.get(Table.META, key))]
        )
        assert groups.counted.tolist() == [9]
        assert sorted(groups.counts[groups.counts > 0].tolist()) == [4]
        admit(index, [one, one], 200)
        assert one not in samples(index)


def test_a_group_has_so_many_samples_at_most_and_the_host_not_seen_for_longest_loses_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "HOSTS_MAX", 4)
    busy, *others = of_one_group(13)
    with opened(tmp_path, PARAMETERS) as index:
        for turn, other in enumerate(others):
            admit(index, [busy, *[other] * 4, busy], 10 * turn)
        found = samples(index)
    assert sorted(found) == sorted([busy, *others[-3:]])


def test_an_index_without_frames_keeps_no_samples(tmp_path: Path) -> None:
    with opened(tmp_path, replace(PARAMETERS, frames=None)) as index:
        admit(index, ["a"] * 20)
        assert internals_of(index).read(lambda session: session.transaction.count(Table.FRAMES)) == 0
        assert internals_of(index).read(lambda session: session.words) == PARAMETERS.words
