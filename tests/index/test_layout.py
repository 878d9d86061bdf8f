from pathlib import Path

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import layout
from index.admission import Index
from index.entry import Kind, Source
from index.errors import FormatUnknown
from index.layout import Table
from index.parameters import Parameters
from tests.support.entries import Row, entries_of

SOURCE = Source("t", 258)

EXPECTED_64 = {
    "meta": [
        ("636f756e74657273", "0300000000000000" "0500000000000000" "01000000"),
        (b"stamp".hex(), b'{"bits": 64, "distance_max": 3, "fingerprint": {"f": "w"}, "format": 1, "insert": "unique"}'.hex()),
    ],
    "streams": [("00000000", "01000000" "74" + "名".encode().hex())],
    "stream_numbers": [("74", "00000000")],
    "applied": [("00000000" "00000102", "0901000000000000" + b"mark".hex())],
    "journal": [
        (
            "00000000" "00000102" "0000000000000102",
            "0201000000000000" "0000000000000000" "ffff" "00" "00"
            "0301000000000000" "0000000000000000" "0100" "01" "00"
            "0401000000000000" "0100000000000000" "ffff" "00" "02"
            "0501000000000000" "ffffffffffffffff" "ffff" "02" "01"
            "0801000000000000" "0200000000000000" "ffff" "00" "00",
        )
    ],
    "documents": [
        ("0000000000000000", "0000000000000000" "0201000000000000" "0700000000000000"
         "00000000" "02010000" "00" "8877665544332211" + b"a".hex()),
        ("0000000000000001", "0100000000000000" "0401000000000000" "feffffffffffffff"
         "00000000" "02010000" "01" "0500000000000000" + "é".encode().hex()),
        ("0000000000000002", "0200000000000000" "0801000000000000" "0000000000000000"
         "00000000" "02010000" "00" "0000000000002211" + b"b".hex()),
    ],
    "buckets": [
        ("00" "1122", "0000000000000000" "8877665544332211"),
        ("00" "1122", "0000000000000002" "0000000000002211"),
        ("01" "0000", "0000000000000002" "0000000000002211"),
        ("01" "3344", "0000000000000000" "8877665544332211"),
        ("02" "0000", "0000000000000002" "0000000000002211"),
        ("02" "5566", "0000000000000000" "8877665544332211"),
        ("03" "0000", "0000000000000002" "0000000000002211"),
        ("03" "7788", "0000000000000000" "8877665544332211"),
    ],
    "exact": [("0500000000000000", "0000000000000001")],
    "forgotten": [],
}  # fmt: skip


def raw(directory: Path) -> dict[str, list[tuple[str, str]]]:
    """Everything that stands in the tables, as hexadecimal pairs."""
    with lmdb.open(str(directory), max_dbs=20, readonly=True) as environment:
        held = {}
        for table in Table:
            handle = environment.open_db(table.value, create=False)
            with environment.begin() as transaction:
                held[table.value.decode()] = [(key.hex(), value.hex()) for key, value in transaction.cursor(db=handle)]
        return held


def test_a_small_index_stands_on_disk_in_exactly_these_bytes(tmp_path: Path) -> None:
    rows = [
        Row(258, 0x1122334455667788, SOURCE, time_ms=7, id="a"),
        Row(259, 0x1122334455667789, SOURCE, id="duplicate"),
        Row(260, 5, SOURCE, Kind.EXACT, reason=2, time_ms=-2, id="é"),
        Row(261, 0, SOURCE, Kind.UNDECIDABLE, reason=1, id="undecidable"),
        Row(264, 0x1122000000000000, SOURCE, id="b"),
    ]
    with Index.open(tmp_path, Parameters(fingerprint={"f": "w"}), map_bytes_max=2**24) as index:
        index.begin(SOURCE, "名", 258)
        index.admit(entries_of(rows), {SOURCE: 265}, {SOURCE: b"mark"})
    assert raw(tmp_path) == EXPECTED_64


def test_a_forgotten_document_is_noted_and_stands_in_no_searched_table(tmp_path: Path) -> None:
    rows = [Row(0, 0x1122334455667788, id="a"), Row(1, 5, kind=Kind.EXACT, id="b"), Row(2, 2**64 - 1, id="c")]
    with Index.open(tmp_path, Parameters(), map_bytes_max=2**24) as index:
        index.admit(entries_of(rows), {})
        index.forget(["a", "b"])
    held = raw(tmp_path)
    assert held["forgotten"] == [("00" * 8, ""), ("00" * 7 + "01", "")]
    assert {value[:16] for _, value in held["buckets"]} == {"00" * 7 + "02"}
    assert held["exact"] == []
    assert len(held["documents"]) == 3


def test_a_fingerprint_of_128_bits_stands_there_with_its_high_word_first(tmp_path: Path) -> None:
    with Index.open(tmp_path, Parameters(128), map_bytes_max=2**24) as index:
        index.admit(entries_of([Row(0, 0x1122334455667788_99AABBCCDDEEFF01)], 128), {})
    fingerprint = "887766554433221101ffeeddccbbaa99"
    assert [key for key, _ in raw(tmp_path)["buckets"]] == [
        "001122", "013344", "025566", "037788", "0499aa", "05bbcc", "06ddee", "07ff01",
    ]  # fmt: skip
    assert {value for _, value in raw(tmp_path)["buckets"]} == {"00" * 8 + fingerprint}
    assert raw(tmp_path)["documents"][0][1][66:98] == fingerprint


def test_an_index_of_another_format_version_is_refused_untouched(tmp_path: Path) -> None:
    Index.open(tmp_path, Parameters(), map_bytes_max=2**24).close()
    with lmdb.open(str(tmp_path), max_dbs=20) as environment:
        handle = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"stamp", b'{"format": 2, "log": true}', db=handle)
    before = raw(tmp_path)
    for read_only in (False, True):
        with pytest.raises(FormatUnknown, match="format version 2; this program knows version 1"):
            Index.open(tmp_path, Parameters(), map_bytes_max=2**24, read_only=read_only)
    assert raw(tmp_path) == before


def test_another_programs_file_is_refused_untouched(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=20) as environment:
        environment.open_db(b"something")
    size = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(FormatUnknown, match="another program"):
        Index.open(tmp_path, Parameters(), map_bytes_max=2**24)
    assert (tmp_path / "data.mdb").read_bytes() == size
    (tmp_path / "data.mdb").write_bytes(b"not LMDB at all" * 1000)
    with pytest.raises(FormatUnknown, match="not a file this program can read"):
        Index.open(tmp_path, Parameters(), map_bytes_max=2**24)


@given(st.text(), st.text())
def test_streams_come_back_as_they_were_packed(stream: str, name: str) -> None:
    assert layout.unpack_stream(layout.pack_stream(stream, name)) == (stream, name)


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_packed_numbers_sort_as_the_numbers_do(numbers: list[int]) -> None:
    packed = layout.pack_numbers(np.array(numbers, np.uint64))
    assert layout.unpack_numbers(sorted(packed)).tolist() == sorted(numbers)


def test_counters_of_a_new_index_are_zero() -> None:
    assert layout.unpack_counters(None) == (0, 0, 0)
    assert layout.unpack_counters(layout.pack_counters(layout.Counters(1, 2, 3))) == (1, 2, 3)
