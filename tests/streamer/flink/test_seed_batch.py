import numpy as np
import pytest

from index import Entries, Source
from index.dataflow import Seeds
from streamer.flink.batches import heartbeat, partition_of
from streamer.flink.seed_batch import holds_seeds, pack_ends, pack_seeds, unpack_seeds
from streamer.parts.envelope import BatchUnreadable, Heading
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints

LETTERS = np.array([0, 2**32 - 1], np.uint32)
HEADING = Heading('{"weight":"tf"}', "stream", "documents", 5, 7, 10)


def batch() -> FingerprintBatch:
    count = 3
    entries = Entries(
        (Source("stream", 5),),
        np.zeros(count, np.uint32),
        np.arange(7, 10, dtype=np.uint64),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        np.arange(2 * count, dtype=np.uint64).reshape(count, 2),
        np.full(count, 1_700_000_000_000, np.int64),
        ["甲", "documents/5/8", "c"],
        np.arange(4 * count, dtype=np.uint8).reshape(count, 4),
    )
    return FingerprintBatch(HEADING, entries, [None] * count)


def seeds() -> Seeds:
    roots = np.array([[2**63 + 1, 7 << 16], [1, 2]], np.uint64)
    return Seeds(np.array([0, 2]), roots, np.full((2, 2), 9, np.uint64), np.full((2, 4), 8, np.uint8), LETTERS)


def test_entries_come_back_as_they_were_with_what_the_index_says_of_them() -> None:
    content = pack_seeds(batch(), seeds())
    heading, found, read = unpack_seeds(content, "here")
    assert holds_seeds(content)
    assert partition_of(content) == 5
    assert heading == HEADING
    assert found is not None
    assert pack_fingerprints(found) == pack_fingerprints(batch())
    for name in ("members", "roots", "fingerprints", "looks", "letters"):
        assert np.array_equal(getattr(read, name), getattr(seeds(), name)), name
    assert read.ends is None


@pytest.mark.parametrize("ends", [{}, {"stream": 10, "旧": 2**40}])
def test_the_last_batch_tells_how_far_every_input_was_decided(ends: dict[str, int]) -> None:
    heading, found, read = unpack_seeds(pack_ends(HEADING, ends), "here")
    assert (heading, found, read.ends, len(read.members)) == (HEADING, None, ends, 0)


def test_what_is_damaged_or_something_else_is_refused_by_its_place() -> None:
    content = bytearray(pack_seeds(batch(), seeds()))
    content[-20] ^= 1
    with pytest.raises(BatchUnreadable, match="there: no batch can be read there: it is damaged"):
        unpack_seeds(bytes(content), "there")
    assert not holds_seeds(heartbeat(1))
    with pytest.raises(BatchUnreadable, match="it does not begin with NDSD"):
        unpack_seeds(heartbeat(1), "there")
