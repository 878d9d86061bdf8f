import numpy as np

from index.entry import Position, Source
from index.storage import bases
from index.storage.bases import BASES_MAX, BaseName


def test_numbers_of_sets_lie_apart_below_those_of_rows() -> None:
    """And in the order of decisions they come before all own ones."""
    firsts = [bases.first_number(place) for place in (0, 1, BASES_MAX - 1)]
    numbers = np.array([0, 2**44 - 1, *(first + each for first in firsts for each in (0, 2**44 - 1))], np.uint64)
    assert numbers.max() < 2**63 - 1
    assert len(set(numbers.tolist())) == 8
    assert bases.are_own(numbers).tolist() == [True] * 2 + [False] * 6
    for place, first in enumerate(firsts):
        assert np.flatnonzero(bases.are_in(first, numbers)).tolist() == [2 + 2 * place, 3 + 2 * place]
    orders = bases.orders_of(numbers)
    assert orders[2:].max() < orders[:2].min()
    assert (bases.orders_of(orders) == numbers).all()


def test_a_position_in_a_set_leads_back_to_that_set_alone() -> None:
    """Whatever its stream and its folder are called."""
    position = Position(Source("base:of/a:base", 3), 17)
    above = bases.position_above(BaseName("6a7a", "a:b/c"), position)
    assert bases.base_of(above.source.stream) == ("6a7a", "a_b/c")
    assert bases.position_below("6a7a", above) == position
    assert bases.position_below("other", above) is None
    assert bases.position_below("6a7a", position) is None
    assert bases.position_below("6a7a", None) is None
