import gc
import weakref

from streamer.service.garbage import OBJECTS_BETWEEN, seldom_searched


class Held:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_searched_for_seldom_inside_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with seldom_searched():
        assert gc.get_threshold()[0] == OBJECTS_BETWEEN > before[0]
    assert gc.get_threshold() == before


def test_objects_that_hold_each_other_still_go_by_themselves() -> None:
    with seldom_searched():
        gone = weakref.ref(Held())
        assert gone() is not None
        others = [[number] for number in range(2 * OBJECTS_BETWEEN)]
        assert gone() is None
        assert len(others) == 2 * OBJECTS_BETWEEN
