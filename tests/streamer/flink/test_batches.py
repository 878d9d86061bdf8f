from collections.abc import Sequence

import numpy as np
import pytest

from index import Entries, Position, Source, Verdict
from index.dataflow import Decided, Floor
from streamer.flink.batches import arrival, floor_batch, forget_batch, heartbeat, partition_of, verdict_batch
from streamer.flink.seed_batch import pack_ends, pack_sample
from streamer.parts.envelope import BatchUnreadable, Heading, stamp_text
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints
from streamer.parts.verdict_batch import unpack_verdicts

SOURCE = Source("stream", 3)
OFFSETS = [10, 11, 14, 15]


def packed(ids: Sequence[str] = ("id-10", "id-11", "documents/3/14", "id-15")) -> bytes:
    count = len(OFFSETS)
    numbers = np.arange(count, dtype=np.uint8)
    entries = Entries(
        (SOURCE,),
        np.zeros(count, np.uint32),
        np.array(OFFSETS, np.uint64),
        numbers,
        numbers + np.uint8(20),
        np.arange(count, dtype=np.uint64)[:, None],
        np.zeros(count, np.int64),
        ids,
        lengths=np.array([90, 110, 0, 0], np.uint32),
    )
    return pack_fingerprints(
        FingerprintBatch(Heading("{}", "stream", "documents", 3, 8, 20), entries, [None, None, None, "broken"])
    )


def test_a_batch_arrives_with_its_time_and_its_bytes() -> None:
    content = packed()
    found = arrival(content, 1_234, "fingerprints")
    assert (found.time_ms, found.source, found.name, found.begin, found.end) == (1_234, SOURCE, "documents", 8, 20)
    assert found.entries.offsets.tolist() == OFFSETS
    assert found.content == content
    assert partition_of(content) == 3


@pytest.mark.parametrize("floor", [Floor(0, 3, 1), Floor(2**40, 0, 2**63)])
def test_a_floor_goes_through_the_log_as_a_heartbeat(floor: Floor) -> None:
    found = arrival(floor_batch(floor), 1_234, "fingerprints")
    assert (found.floor, found.begin, found.end, len(found.entries)) == (floor, 0, 0, 0)
    assert partition_of(floor_batch(floor)) == floor.partition
    assert arrival(heartbeat(3), 1_234, "fingerprints").floor is None
    assert arrival(packed(), 1_234, "fingerprints").floor is None


@pytest.mark.parametrize("names", [[], [7], [2**64 - 1, 0, 5]])
def test_names_to_forget_go_through_the_log_as_a_heartbeat(names: list[int]) -> None:
    content = forget_batch(3, np.array(names, np.uint64))
    found = arrival(content, 1_234, "fingerprints")
    assert found.forgets is not None
    assert (found.forgets.tolist(), found.floor, found.begin, found.end, len(found.entries)) == (names, None, 0, 0, 0)
    assert partition_of(content) == 3
    for other in (heartbeat(3), packed(), floor_batch(Floor(1, 3, 1))):
        assert arrival(other, 1_234, "fingerprints").forgets is None


def test_what_an_index_seeds_is_no_floor_though_it_names_no_stream() -> None:
    heading = Heading(stamp_text({"scheme": "minhash"}), "", "", 3, 0, 0)
    for content in (pack_ends(heading, {"stream": 7}), pack_sample(heading, 5, b"sample")):
        found = arrival(content, 1_234, "seeds")
        assert found.seeds is not None
        assert (found.floor, partition_of(content)) == (None, 3)


def test_what_is_no_batch_is_refused_with_its_place() -> None:
    assert partition_of(b"NDFP") == 0
    with pytest.raises(BatchUnreadable, match="a record of fingerprints: no batch can be read there"):
        arrival(b"something else", 0, "fingerprints")


def test_verdicts_take_all_else_from_the_batch_from_their_first_row_on() -> None:
    original = Position(Source("older", 1), 7)
    verdicts = np.array([Verdict.DUPLICATE, Verdict.UNDECIDABLE, Verdict.DEAD_LETTER], np.uint8)
    decided = Decided(
        3,
        11,
        1,
        verdicts,
        np.array([2, -1, -1], np.int16),
        ["first", None, None],
        [original, None, None],
        np.array([100, 0, 0], np.uint32),
        {"older": "documents-of-then"},
        packed(),
        np.zeros(3, np.uint8),
    )
    found = unpack_verdicts(verdict_batch(decided, "flink"), "verdicts")
    assert (found.heading.begin, found.heading.end, found.heading.partition) == (11, 20, 3)
    assert found.decider == "flink"
    assert found.offsets.tolist() == OFFSETS[1:]
    assert found.verdicts.tolist() == verdicts.tolist()
    assert found.reasons.tolist() == [21, 22, 23]
    assert found.kinds.tolist() == [1, 2, 3]
    assert found.fingerprints[:, 0].tolist() == [1, 2, 3]
    assert list(found.ids) == ["id-11", "documents/3/14", "id-15"]
    assert list(found.details) == [None, None, "broken"]
    assert list(found.original_positions) == [original, None, None]
    assert found.names == {"older": "documents-of-then"}
    assert found.ratios.tolist() == [1_100, 0, 0]
    assert not found.replayed.any()


def test_the_output_of_a_dead_letter_without_an_id_has_none() -> None:
    """The state knows it by its position, as an index does."""
    nothing = np.zeros(4, np.int16), [None] * 4, [None] * 4, np.zeros(4, np.uint32), {}
    content = packed(["id-10", "id-11", "id-14", "documents/3/15"])
    found = unpack_verdicts(
        verdict_batch(Decided(3, 8, 0, np.zeros(4, np.uint8), *nothing, content, np.zeros(4, np.uint8)), "flink"),
        "verdicts",
    )
    assert list(found.ids) == ["id-10", "id-11", "id-14", None]
