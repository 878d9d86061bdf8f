"""Records are encoded byte for byte as the client encodes them."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from streamer.transports.kafka.kafka_python.encoding import make_builder
from streamer.transports.kafka.unreadable import HeaderName
from tests.support.examples import examples

CONTENTS = st.one_of(st.none(), st.binary(max_size=300), st.integers(60, 70_000).map(bytes))
ODD_NAME = HeaderName(b"caf\xe9", "utf-8", "surrogateescape")
NAMES = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.just(ODD_NAME))
HEADERS = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=300))), max_size=4)
RECORDS = st.lists(st.tuples(st.integers(-1, 2**61), CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=30)


@examples(200)
@given(RECORDS, st.integers(0, 4), st.sampled_from([1, 200, 20_000, 1_000_000]))
def test_a_batch_has_the_bytes_of_the_clients_own_and_is_full_at_the_same_record(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    compression: int,
    batch_bytes: int,
) -> None:
    ours, theirs = make_builder(compression, batch_bytes), MemoryRecordsBuilder(2, compression, batch_bytes)
    for time_ms, key, value, headers in records:
        taken = ours.append(time_ms, key, value, headers)
        # The client cannot write a header without a value: it is empty.
        expected = theirs.append(time_ms, key, value, [(name, content or b"") for name, content in headers])
        assert (taken is None) == (expected is None)
        if taken is not None:
            assert (taken.offset, taken.size, taken.timestamp) == (expected.offset, expected.size, expected.timestamp)
    for builder in (ours, theirs):
        builder.close()
    assert ours.buffer() == theirs.buffer()
