"""Times over the size of the index: at which sizes, and that every document is timed and enters once."""

import numpy as np
import pytest

from index.entry import Kind
from index.storage.parameters import Parameters
from streamer.evaluation import timing
from streamer.evaluation.timing import timings
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
