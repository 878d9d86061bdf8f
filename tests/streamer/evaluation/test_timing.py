"""Times over the size of the index: at which sizes, and that every document is timed and enters once."""

import numpy as np
import pytest

from index.entry import Kind
from index.storage.parameters import Parameters
from streamer.evaluation import timing
from streamer.evaluation.timing import Timing, drawn, timings
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.records.reason import Reason


def random_fingerprints(count: int) -> Fingerprints:
    values = np.random.default_rng(2026).integers(0, 2**64, (count, 1), np.uint64)
    kinds, reasons = np.full(count, Kind.NEAR, np.uint8), np.full(count, Reason.ORDINARY, np.uint8)
    return Fingerprints(kinds, reasons, values, np.zeros(count, np.int32))


@pytest.mark.parametrize(("count", "sizes"), [(5, [2]), (30, [15]), (70, [10, 20, 40])])
def test_sizes_double_as_far_as_the_stream_goes(count: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "FIRST", 10)
    monkeypatch.setattr(timing, "TIMED", 25)
    found = timings(random_fingerprints(count), Parameters(64, 3))
    assert [each.documents for each in found] == sizes
    assert all(each.with_index_us > 0 and each.without_us > 0 for each in found)


def lines(svg: str) -> list[list[float]]:
    """Heights of the points of each line, the axes left out; a larger number stands lower."""
    paths = [part.split("'")[0] for part in svg.split("<path d='M")[2:]]
    return [[float(point.split()[1]) for point in path.split(" L")] if " L" in path else [] for path in paths]


def test_a_time_that_grows_is_drawn_as_a_line_that_rises_at_equal_steps() -> None:
    svg = drawn([Timing(1_000, 20.0, 10.0), Timing(2_000, 20.0, 100.0), Timing(4_000, 20.0, 1_000.0)])
    with_index, without = lines(svg)
    assert with_index[0] == with_index[1] == with_index[2]
    assert without[0] > with_index[0] > without[1] > without[2]
    assert without[0] - without[1] == pytest.approx(without[1] - without[2], abs=0.11)
    assert all(f"{count:,}<" in svg for count in (1_000, 2_000, 4_000))
    assert "without, 2,000 documents: 100.0 us" in svg


@pytest.mark.parametrize("times", [(0.0, 0.0), (10.0, 10.0), (3.0, 40_000.0)])
def test_a_single_time_and_one_too_short_for_the_clock_are_drawn_within_the_picture(times: tuple[float, float]) -> None:
    svg = drawn([Timing(3, *times)])
    heights = [float(part.split("'")[0]) for part in svg.split("cy='")[1:]]
    assert len(heights) == 2
    assert all(24 <= height <= 256 for height in heights)
