"""What kafka-python cannot parse: header names of any bytes come through, and damage ends a fetch with its offsets."""

import struct
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord, Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from streamer.errors import RecordsUnreadable
from streamer.settings.settings import Recovery, Settings
from streamer.transports.kafka import unreadable
from streamer.transports.kafka.unreadable import (
    FETCHES_MIN,
    Damage,
    Damages,
    HeaderName,
    _defect_of,
    _NotingRecords,
    end_of_damage,
)

PARTITION = TopicPartition("documents", 3)
BATCH_RECORDS = 4
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
Headers = Sequence[tuple[str, bytes]]


def batch_of(first: int, codec: str = "none", headers: Headers = (), count: int = BATCH_RECORDS) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for delta in range(count):
        assert builder.append(delta, 1_000, b"key", b"value %d" % (first + delta), list(headers)) is not None
    made = bytes(builder.build())
    return struct.pack(">q", first) + made[8:]


def read(fetched: bytes, offset: int = 0, damages: Damages | None = None) -> tuple[list[ConsumerRecord], Damages, int]:
    """Records of a fetch from this offset, the damage noted, and where the client goes on."""
    notes = damages or Damages()
    records = _NotingRecords(notes, offset, PARTITION, MemoryRecords(fetched))
    taken: list[ConsumerRecord] = []
    while records:
        taken += records.take(3)
    return taken, notes, records.next_fetch_offset


def noted(damages: Damages) -> Damage | None:
    return damages._by_partition.get(PARTITION)


@pytest.mark.parametrize("codec", CODECS)
@given(names=st.lists(st.binary(max_size=6), max_size=3))
def test_header_names_of_any_bytes_are_read_and_written_as_they_are(codec: str, names: list[bytes]) -> None:
    headers = [(HeaderName(name.decode(errors="surrogateescape")), b"x") for name in names]
    records, damages, _ = read(batch_of(0, codec, headers) + batch_of(4, codec))
    assert [record.value for record in records] == [b"value %d" % offset for offset in range(8)]
    assert [name.encode() for name, _ in records[0].headers] == names
    assert noted(damages) is None
    again, _, _ = read(batch_of(0, codec, records[0].headers))
    assert again[0].headers == records[0].headers


def test_a_name_of_utf_8_stays_plain_text() -> None:
    records, _, _ = read(batch_of(0, headers=[("näme", b"x")]))
    assert type(records[0].headers[0][0]) is str


def test_the_client_by_itself_still_fails_at_such_a_name_without_saying_where() -> None:
    fetched = batch_of(0, headers=[(HeaderName(b"\xff".decode(errors="surrogateescape")), b"x")])
    with pytest.raises(CorruptRecordError, match="UnicodeDecodeError") as error:
        Fetcher.PartitionRecords(0, PARTITION, MemoryRecords(fetched)).take()
    assert "documents" not in str(error.value)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@given(data=st.data())
def test_a_changed_byte_costs_its_batch_alone_and_its_offsets_are_told(codec: str, data: st.DataObject) -> None:
    sound = [batch_of(first, codec) for first in (0, 4, 8)]
    at = data.draw(st.integers(17, len(sound[1]) - 1), label="place behind the length, where the checksum holds")
    changed = bytearray(sound[1])
    changed[at] ^= data.draw(st.integers(1, 255), label="difference")
    last = data.draw(st.booleans(), label="the damaged batch is the last")
    records, damages, position = read(sound[0] + bytes(changed) + (b"" if last else sound[2]))
    found = noted(damages)
    assert [record.offset for record in records] == [0, 1, 2, 3]
    assert position == 4, "the client would not fetch the damage again"
    assert found is not None
    assert found.first == 4
    assert found.end == 8 or (last and found.end is None)


@given(fetched=st.binary(max_size=300), junk=st.booleans())
def test_whatever_comes_is_noted_and_raises_nothing(fetched: bytes, junk: bool) -> None:
    records, damages, position = read(fetched if junk else batch_of(0) + batch_of(4)[:12] + fetched)
    assert position >= len(records)
    found = noted(damages)
    assert found is None or found.end is None or found.end > found.first


def test_a_fetch_in_the_middle_of_a_damaged_batch_names_no_offset_before_it() -> None:
    broken = bytearray(batch_of(0))
    broken[-1] ^= 1
    _, damages, position = read(bytes(broken) + batch_of(4), offset=2)
    assert noted(damages) == Damage(2, 4, noted(damages).why, 1, noted(damages).since_seconds)  # type: ignore[union-attr]
    assert position == 2


def test_damage_lasts_once_several_fetches_have_found_it_over_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [100.0]
    monkeypatch.setattr(unreadable, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    damages = Damages()
    for _ in range(FETCHES_MIN):
        damages.note(PARTITION, 4, 8, "broken")
    assert not list(damages.lasting({})), "one hiccup of the broker would count as damage"
    seconds[0] += unreadable.LASTING_SECONDS
    assert [damage.first for _, damage in damages.lasting({})] == [4]
    damages.note(PARTITION, 12, 16, "broken too")
    assert not list(damages.lasting({})), "the fetches of one place would count for another"


def test_a_sound_fetch_refutes_damage() -> None:
    damages = Damages()
    damages.note(PARTITION, 4, 8, "broken")
    assert not list(damages.lasting({PARTITION: [SimpleNamespace(offset=3)]}))
    assert noted(damages) is not None
    assert not list(damages.lasting({PARTITION: [SimpleNamespace(offset=4)]}))
    assert noted(damages) is None


@pytest.mark.parametrize(
    ("policy", "end", "highwater", "remedy"),
    [
        ("stop", 8, 20, r"recovery\.unreadable = 'skip' to go on at offset 8"),
        ("stop", None, 20, "by hand"),
        ("skip", None, 20, "by hand"),
        ("skip", 21, 20, "by hand"),
    ],
)
def test_what_may_not_or_cannot_be_skipped_stops_with_its_place_and_what_to_do(
    policy: str, end: int | None, highwater: int, remedy: str
) -> None:
    settings = Settings(recovery=Recovery(unreadable=policy))
    consumer = SimpleNamespace(highwater=lambda partition: highwater)
    with pytest.raises(RecordsUnreadable, match=rf"documents/3: the records .*offset.* 4 .*cannot be read.*{remedy}"):
        end_of_damage(settings, consumer, PARTITION, Damage(4, end, "broken"))


def test_what_may_be_skipped_has_an_end_and_says_so() -> None:
    settings = Settings(recovery=Recovery(unreadable="skip"))
    damage = Damage(4, 8, "broken")
    assert end_of_damage(settings, SimpleNamespace(highwater=lambda partition: 8), PARTITION, damage) == 8
    assert damage.words == "the records of offsets 4 to 7 cannot be read: broken"


def test_an_answer_without_a_whole_batch_and_a_broker_that_finds_damage_are_damage() -> None:
    whole = batch_of(0)
    cut = SimpleNamespace(error_code=0, records=whole[:-1])
    assert "longer" in _defect_of(cut)
    assert "damaged" in _defect_of(SimpleNamespace(error_code=CorruptRecordError.errno, records=b""))
    assert not _defect_of(SimpleNamespace(error_code=0, records=whole))
    assert not _defect_of(SimpleNamespace(error_code=0, records=b""))


def test_the_parser_is_the_one_that_was_read_before_it_was_extended() -> None:
    """An upgrade of the client that changes what is built upon shows here."""
    assert DefaultRecordBatch.__slots__ == (
        "_buffer",
        "_header_data",
        "_pos",
        "_num_records",
        "_next_record_index",
        "_decompressed",
    )
