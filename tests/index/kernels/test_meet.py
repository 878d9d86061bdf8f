import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels.meet import chains_of, meet
from index.lsm.lookup import NearLookup, lookup_of
from index.matching.minhash import Banding, band_keys, distance_of
from index.storage.parameters import Parameters
from tests.support.entries import clustered_fingerprints, fingerprints_of
from tests.support.examples import examples
from tests.support.signatures import signatures_of

CASES = [(bits, distance_max) for bits in (64, 128) for distance_max in range(8)]


def met_by(lookup: NearLookup, joins: np.ndarray, entering: np.ndarray) -> list[list[int]]:
    """The earlier rows that each row meets, one after the other."""
    chains = chains_of(lookup.hashes, joins, np.ones(len(lookup), np.bool_), lookup.probes)
    return [chains.met[: meet(row, chains, entering)].tolist() for row in range(len(lookup))]


@pytest.mark.parametrize(("bits", "distance_max"), CASES)
def test_a_row_meets_every_earlier_entry_within_the_distance_once(bits: int, distance_max: int) -> None:
    generator = np.random.default_rng(distance_max)
    batch = clustered_fingerprints(generator, 90, bits, centres=4)
    joins, entering = generator.random((2, 90)) < 0.9
    lookup = lookup_of(fingerprints_of(batch, bits), Parameters(bits, distance_max), distance_max)
    pairs = 0
    for row, met in enumerate(met_by(lookup, joins, entering)):
        near = {other for other in range(row) if (batch[row] ^ batch[other]).bit_count() <= distance_max}
        near = {other for other in near if joins[other] and entering[other]}
        assert near <= set(met) <= set(np.flatnonzero(joins & entering)[: row + 1].tolist())
        assert max(met, default=-1) < row
        assert len(met) == len(set(met))
        pairs += len(near)
    assert pairs


@examples(40)
@given(st.integers(0, 2**32), st.integers(0, 40), st.sampled_from([0.05, 0.4, 1.0]))
def test_a_row_meets_the_earlier_entries_that_share_a_band_and_no_others(seed: int, count: int, filled: float) -> None:
    banding, generator = Banding(64, 8, 12, 5), np.random.default_rng(seed)
    signatures, keys = signatures_of(seed, count, banding, filled), np.empty((0, 12), np.uint64)
    keys = band_keys(signatures, banding) if count else keys
    entering = generator.random(count) < 0.8
    parameters = Parameters(banding.bits, distance_of(0.5), banding=banding)
    lookup = lookup_of(signatures, parameters, parameters.distance_max)
    for row, met in enumerate(met_by(lookup, np.ones(count, np.bool_), entering)):
        sharing = [other for other in range(row) if entering[other] and (keys[row] == keys[other]).any()]
        assert sorted(met) == sharing


def test_a_batch_in_which_all_rows_meet_takes_bounded_memory() -> None:
    count = 2_048
    lookup = lookup_of(np.zeros((count, 1), np.uint64), Parameters(), 3)
    everyone = np.ones(count, np.bool_)
    chains = chains_of(lookup.hashes, everyone, everyone, lookup.probes)
    assert [meet(row, chains, everyone) for row in range(count)] == list(range(count))
    assert sum(column.nbytes for column in chains[:8]) < 2**20
