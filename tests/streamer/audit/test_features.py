"""Features of sampled documents: what the store keeps gives them back, and overlaps equal sets'."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from streamer.audit.features import overlaps, packed, unpacked

# Few low bits, so that different hashes share them.
FEATURES = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 5)).map(lambda pair: pair[0] << 16 | pair[1]))


def column(features: frozenset[int]) -> npt.NDArray[np.uint32]:
    return np.array(sorted(features), np.uint32)


@given(FEATURES, st.none() | FEATURES)
def test_what_is_stored_gives_back_the_features(features: frozenset[int], base: frozenset[int] | None) -> None:
    base_features = None if base is None else column(base)
    stored = packed(column(features), base_features)
    assert frozenset(unpacked(stored, None if base_features is None else base_features.tobytes())) == features
    assert base_features is None or len(stored) == 4 * len(features ^ frozenset(base_features.tolist()))


@given(FEATURES, st.lists(FEATURES, max_size=3), st.data())
def test_overlaps_are_those_of_sets_whatever_base_each_document_has(
    own: frozenset[int], bases: list[frozenset[int]], data: st.DataObject
) -> None:
    others = data.draw(st.lists(st.tuples(FEATURES, st.none() | st.sampled_from(bases or [None]))))
    columns = [(column(features), None if base is None else column(base)) for features, base in others]
    shared, sizes = overlaps(
        column(own),
        [packed(features, base) for features, base in columns],
        [None if base is None else base.tobytes() for _, base in columns],
    )
    assert shared.tolist() == [len(own & features) for features, _ in others]
    assert sizes.tolist() == [len(features) for features, _ in others]
