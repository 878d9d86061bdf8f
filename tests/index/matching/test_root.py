import pytest

from index.matching.minhash import Banding
from index.matching.root import RootRule
from index.storage.parameters import Parameters


@pytest.mark.parametrize("limits", [(-1, 0), (3, -1)])
def test_a_negative_limit_is_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not negative"):
        RootRule(*limits)


def test_a_root_is_never_nearer_than_a_match_must_be() -> None:
    for distance_max, limit in ((4, 3), (4, 65)):
        with pytest.raises(ValueError, match="a root is at least as far as distance_max"):
            Parameters(64, distance_max, "root", root=RootRule(limit))
    banding = Banding(128, 8, 17, 5)
    with pytest.raises(ValueError, match="a root is at least as far as distance_max = 3000"):
        Parameters(banding.bits, 3_000, "root", {}, banding, root=RootRule(2_000))


@pytest.mark.parametrize(("insert", "root"), [("root", None), ("unique", RootRule(4))])
def test_only_insert_root_has_limits(insert: str, root: RootRule | None) -> None:
    with pytest.raises(ValueError, match="needs the limits of a root"):
        Parameters(64, 3, insert, root=root)  # type: ignore[arg-type]


def test_the_limits_of_a_root_are_stamped_and_compared() -> None:
    parameters = Parameters(64, 3, "root", root=RootRule(6, 1))
    assert Parameters.from_stamp(parameters.stamp(), "here") == parameters
    with pytest.raises(Exception, match=r"root\.distance_max: stored 6, asked 5"):
        parameters.require_equal(Parameters(64, 3, "root", root=RootRule(5, 1)), "here")


def test_new_thresholds_keep_a_root_at_least_as_far_as_a_match() -> None:
    stored, asked = Parameters(64, 3, "root", root=RootRule(4)), Parameters(64, 6)
    assert stored.with_thresholds(asked).root == RootRule(6)
    other = Parameters(64, 3, "root", root=RootRule(9, 1))
    assert stored.with_thresholds(other).root == RootRule(9, 1)
