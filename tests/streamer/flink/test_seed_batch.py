import numpy as np
import pytest

from index import Entries, Source
from index.dataflow import HISTORY, NOTE, UNNAMED, Seeds, SourceAge
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


def history() -> np.ndarray:
    rows = np.zeros(3, HISTORY)
    rows["named_high"], rows["host"], rows["returns"], rows["gone"] = [2**63, 5, UNNAMED], 7, 5, [True, False, True]
    return rows


def age(stream: str) -> SourceAge:
    notes = np.array([(1_500, 2**63, 7), (1_600, 2**63 + 1, 0)], NOTE)
    return SourceAge(stream, 1_600, np.arange(63), (65_536, 0), (2**63, 256), notes)


def seeds(history: np.ndarray | None = None) -> Seeds:
    roots = np.array([[2**63 + 1, 7 << 16], [1, 2]], np.uint64)
    columns = np.full((2, 2), 9, np.uint64), np.full((2, 4), 8, np.uint8), LETTERS
    return Seeds(np.array([0, 2]), roots, *columns, history)


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
    assert (read.history, read.ends) == (None, None)


def test_records_come_back_with_their_history_and_it_has_as_many_rows() -> None:
    _, _, read = unpack_seeds(pack_seeds(batch(), seeds(history())), "here")
    assert read.history is not None
    assert read.history.tolist() == history().tolist()
    with pytest.raises(BatchUnreadable, match="its history has other rows than its documents"):
        unpack_seeds(pack_seeds(batch(), seeds(history()[:2])), "here")


def test_the_last_batch_tells_the_ages_of_sources_and_until_when_the_index_knows_the_log() -> None:
    ages = [age("stream"), age("旧")]
    _, _, read = unpack_seeds(pack_ends(HEADING, {}, ages, until_ms=1_700), "here")
    assert read.until_ms == 1_700
    assert [found[:2] for found in read.ages] == [("stream", 1_600), ("旧", 1_600)]
    for found in read.ages:
        assert (found.begin, found.end) == ((65_536, 0), (2**63, 256))
        assert found.latest_ms.tolist() == list(range(63))
        assert found.notes.tolist() == ages[0].notes.tolist()


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
