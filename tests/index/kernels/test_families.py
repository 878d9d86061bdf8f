import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index.families.family import OpenFamilies
from index.kernels import families
from index.matching.minhash import Banding, pack_bins, unpack_bins
from index.matching.template import first_vote, with_vote
from tests.support.signatures import BANDINGS, signatures_of


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.sampled_from(BANDINGS),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.booleans(),
)
def test_votes_are_counted_as_the_definition_has_it(
    seed: int, count: int, banding: Banding, filled: float, there: bool
) -> None:
    signatures = signatures_of(seed, count + 1, banding, filled)
    voters = int(np.random.default_rng(seed).integers(1, 20))
    open_families = OpenFamilies(signatures.shape[1], banding.bin_bits)
    open_families.add(np.array([7, 8]), signatures[[count, 0]], np.array([there, True]))
    pages = unpack_bins(signatures, banding.bin_bits)
    expected = first_vote(pages[count])
    for page in range(count):
        known = families.vote(open_families.columns, 0, signatures, page, voters, banding.bin_bits)
        columns = open_families.columns
        if not there:
            assert not known
            assert not columns.begun[0]
            continue
        expected = with_vote(expected, pages[page])
        assert columns.values[0].tolist() == expected.values.tolist()
        assert columns.leads[0].tolist() == expected.leads.tolist()
        assert columns.counts[0].tolist() == [expected.voters, 0, 0, 0, 0]
        assert columns.changed[0]
        assert known == columns.known[0] == (expected.voters >= voters)
        if known:
            assert columns.references[0].tolist() == pack_bins(expected.values[None], banding.bin_bits)[0].tolist()
            break
    assert not open_families.columns.begun[1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=8))
def test_families_stay_as_they_are_while_there_is_made_room_for_more(parts: list[int]) -> None:
    generator = np.random.default_rng(len(parts))
    signatures = signatures_of(1, 400, BANDINGS[0], 0.9)
    open_families, heads = OpenFamilies(signatures.shape[1], BANDINGS[0].bin_bits), []
    for part in parts:
        new = generator.permutation(400)[:part]
        places = open_families.add(new, signatures[new], np.ones(part, np.bool_))
        assert places.tolist() == list(range(len(heads), len(heads) + part))
        heads += new.tolist()
        open_families.make_room(int(generator.integers(0, 50)))
    columns = open_families.columns
    assert columns.heads[: open_families.count].tolist() == heads
    assert columns.references[: open_families.count].tolist() == signatures[heads].tolist()
    assert not columns.begun.any()
    assert (columns.met == families.NONE).all()
