"""Samples of hosts in the file: which hosts have one, how many there are, and which leave."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.entry import Verdict
from index.frames import hosts
from index.index import Index, internals_of
from index.matching.minhash import pack_bins
from index.storage.layout import HOSTS_MET_KEY, HostSample, Table, unpack_hosts_met
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
    monkeypatch.setattr(hosts, "HALVED_EVERY", 8)
    with opened(tmp_path, PARAMETERS) as index:
        admit(index, ["a"])
        for turn in range(1, 9):
            admit(index, ["b"], 10 * turn)
        value = internals_of(index).read(lambda session: session.transaction.get(Table.META, HOSTS_MET_KEY))
        counted, counts = unpack_hosts_met(value)
        assert counted == 9
        assert sorted(counts[counts > 0].tolist()) == [4]
        admit(index, ["a", "a"], 200)
        assert "a" not in samples(index)


def test_there_are_so_many_samples_at_most_and_one_that_is_still_changed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "HOSTS_MAX", 4)
    with opened(tmp_path, PARAMETERS) as index:
        for turn in range(12):
            admit(index, ["busy", *[f"host {turn}"] * 4, "busy"], 10 * turn)
        found = samples(index)
    assert len(found) == 4
    assert "busy" in found
    assert "host 11" in found


def test_an_index_without_frames_keeps_no_samples(tmp_path: Path) -> None:
    with opened(tmp_path, replace(PARAMETERS, frames=None)) as index:
        admit(index, ["a"] * 20)
        assert internals_of(index).read(lambda session: session.transaction.count(Table.FRAMES)) == 0
        assert internals_of(index).read(lambda session: session.words) == PARAMETERS.words
