import json
import uuid
from pathlib import Path

import lmdb
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind, Source
from index.errors import FormatUnknownError, IndexDamagedError
from index.index import Index
from index.lsm.compaction import TreeSizes
from index.matching.host_sketch import UNKNOWN, HostLimits
from index.matching.second_look import CosineLook
from index.session import Retention
from index.storage import layout
from index.storage.file.checksums import checksum_of
from index.storage.layout import Table
from index.storage.parameters import Parameters
from tests.support.entries import Row, entries_of
from tests.support.indexes import make_older
from tests.support.roots import NEAR_ROOT

SOURCE = Source("t", 258)


IDENTITY = uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF)

STAMP = (
    b'{"bits": 64, "distance_max": 3, "fingerprint": {"f": "w"}, "format": 14, "insert": "root", '
    b'"root": {"distance_max": 64, "member_distance_min": 0}}'
)

EXPECTED_64 = {
    "meta": [
        ("636f756e74657273", "0600000000000000" "0800000000000000" "0000000000000000" "0500000000000000"),
        (b"identity".hex(), IDENTITY.hex),
        (
            b"ids".hex(),
            "0400000000000000" "0400000000000000" "0000000000000000" "0200000000000000"
            "0600000000000000" "0600000000000000" "0600000000000000" + "00" * 10,
        ),
        (
            "6d65726765",
            "0400000000000000" "0400000000000000" "0000000000000000" "0400000000000000"
            "0600000000000000" "0600000000000000" "0c00000000000000" + "00" * 10,
        ),
        (b"stamp".hex(), STAMP.hex()),
    ],
    "streams": [("00000000", "01000000" "74" + "名".encode().hex())],
    "stream_numbers": [("74", "00000000")],
    "applied": [("00000000" "00000102", "0a01000000000000" + b"mark".hex())],
    "log": [
        (
            "0000000000000000" "0000000000000000",
            "06000000" "01000000" "04000000" "02000000" "00000000" "01000000" "00000000" "02010000"
            "0201000000000000" "0000000000000000" "0700000000000000" "00000000" "01000000" "ffff" "00000002"
            "0100000000000000" "1100000000000000" "00000000" "00" "00" "e80300"
            "0301000000000000" "0000000000000000" "0000000000000000" "00000000" "0a000000" "0100" "01000002"
            "0200000000000000" "1200000000000000" "00000000" "00" "00" "420400"
            "0401000000000000" "0200000000000000" "feffffffffffffff" "00000000" "0c000000" "ffff" "00020101"
            "0300000000000000" "1300000000000000" "00000000" "00" "00" "000000"
            "0501000000000000" "ffffffffffffffff" "0000000000000000" "00000000" "17000000" "ffff" "02010200"
            "0400000000000000" "1400000000000000" "00000000" "00" "00" "000000"
            "0801000000000000" "0300000000000000" "0000000000000000" "00000000" "18000000" "ffff" "00000002"
            "0500000000000000" "1500000000000000" "00000000" "00" "00" "000000"
            "0901000000000000" "0000000000000000" "0000000000000000" "00000000" "1d000000" "0000" "01000000"
            "0600000000000000" "1600000000000000" "00000000" "00" "00" "000000"
            "8877665544332211" "8977665544332211" "0500000000000000" "0000000000002211"
            "0201000000000000" "00000000" "02010000" "01000000" "4204"
            "0201000000000000" "00000000" "02010000" "02000000" "0000"
            + "aduplicateéundecidablebagainaa".encode().hex(),
        ),
        (
            "0000000000000004" "0000000000000006",
            "02000000" "01000000" "02000000" "00000000" "00000000" "01000000" "00000000" "02010000"
            "0601000000000000" "0400000000000000" "0000000000000000" "00000000" "01000000" "ffff" "00000002"
            "0700000000000000" "1700000000000000" "00000000" "00" "00" "000000"
            "0701000000000000" "0500000000000000" "0000000000000000" "00000000" "02000000" "ffff" "00000002"
            "0800000000000000" "1800000000000000" "00000000" "00" "00" "000000"
            "ff00000000000000" "00000000ff000000" + b"cd".hex(),
        ),
    ],
    "journal": [
        ("00000000" "00000102" "0000000000000102", "0501000000000000" "0000000000000000" "0000000000000000" "00000000"),
        ("00000000" "00000102" "0000000000000106", "0701000000000000" "0000000000000004" "0000000000000006" "00000000"),
        ("00000000" "00000102" "0000000000000108", "0901000000000000" "0000000000000000" "0000000000000000" "00000000"),
    ],
    "exact": [("0500000000000000", "0000000000000002")],
    "chunks": [
        # As in `ids`: the first 40 bits of the blocks from the table's on.
        ("00" "00" + "00" * 16, "010d1ba382664659" "03000000" "16" "02" "0600" "0000000000002211" "01000000" "07000000"
                                "2c97d90c4a6333dc" "0167b3a835bc1e98" "00000000" "03000000"
                                "00004015d15c4534" "0300000000000000" "0000000000000000" "13"),
        ("01" "00" + "00" * 16, "1a542f41348d434b" "03000000" "26" "02" "0600" "0000000000000000" "01000000" "07000000"
                                "aca20f5356b562a3" "0167b3a835bc1e98" "00000000" "03000000"
                                "00000000c09d5915" "d17c675645340300" "0000000000000000" "13"),
        ("02" "00" + "00" * 16, "c58614c0949217cb" "03000000" "27" "02" "0600" "0000001100000000" "01000000" "07000000"
                                "c71b8a27f339b49b" "0167b3a835bc1e98" "00000000" "03000000"
                                "000000000000c43b" "b32a40e29d591500" "0000000000000000" "13"),
        ("03" "00" + "00" * 16, "6a42dbf050c06285" "03000000" "27" "02" "0600" "0000000022110000" "01000000" "07000000"
                                "0a0541435e30c407" "0167b3a835bc1e98" "00000000" "03000000"
                                "0000000080190000" "c4fb0c0040e21d00" "0000000000000000" "13"),
    ],
    "ids": [
        # The head with its checksums, the starts of one part, the rests of the hashes, the rows in three bits each.
        ("00" "00" + "00" * 16, "72c8488fd6382eb7" "03000000" "25" "03" "0600" "000000b8df57d717" "01000000" "07000000"
                                "32e20c5c4b5df5d3" "e0ff8e659b660fca" "00000000" "03000000"
                                "00000000c0b7d3f82bedfa2b0f730000" "0000000000000000" "ea"),
        ("00" "00" "78452aa11a000000" "0000000000000004",
                                "1882b3643e25e9c6" "03000000" "27" "03" "0600" "0000001aa12a4578" "01000000" "07000000"
                                "1a701f83ed20e2b6" "3e18b30deb4c1b00" "00000000" "03000000"
                                "0000000080db2709e8d0239466821600" "0000000000000000" "0c"),
    ],
    "amendments": [],
    "retired": [],
    "times": [],
    "frames": [],
    "stories": [],
    "due": [],
    "host_names": [],
    "ages": [],
}  # fmt: skip


def raw(directory: Path) -> dict[str, list[tuple[str, str]]]:
    """Everything that stands in the tables, as hexadecimal pairs; without the checksums, all of which must fit."""
    with lmdb.open(str(directory), max_dbs=20, readonly=True) as environment:
        held = {}
        for table in Table:
            handle = environment.open_db(table.value, create=False)
            with environment.begin() as transaction:
                pairs = list(transaction.cursor(db=handle))
                for key, value in pairs:
                    of_key = xxhash.xxh64_intdigest(key, xxhash.xxh64_intdigest(table.value))
                    assert value[-8:] == xxhash.xxh64_digest(value[:-8], of_key)[::-1]
                held[table.value.decode()] = [(key.hex(), value[:-8].hex()) for key, value in pairs]
        return held


def test_a_small_index_stands_on_disk_in_exactly_these_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: IDENTITY)
    rows = [
        Row(258, 0x1122334455667788, SOURCE, time_ms=7, id="a", length=1_000),
        Row(259, 0x1122334455667789, SOURCE, id="duplicate", length=1_090),
        Row(260, 5, SOURCE, Kind.EXACT, reason=2, time_ms=-2, id="é"),
        Row(261, 0, SOURCE, Kind.UNDECIDABLE, reason=1, id="undecidable"),
        Row(264, 0x1122000000000000, SOURCE, id="b"),
        Row(265, 0x1122334455667788, SOURCE, id="again"),
    ]
    later = [Row(262, 0xFF, SOURCE, id="c"), Row(263, 0xFF << 32, SOURCE, id="d")]
    numbered = [row._replace(digests=(place, place + 16)) for place, row in enumerate([*rows, *later], start=1)]
    rows, later = numbered[:6], numbered[6:]
    parameters = Parameters(insert="root", fingerprint={"f": "w"}, root=NEAR_ROOT)
    with Index.open(tmp_path, parameters, map_bytes_max=2**24, sizes=TreeSizes(3, 64)) as index:
        index.begin(SOURCE, "名", 258)
        # The first batch freezes the memtable; the second is nearly as large, and moves all of it.
        index.admit(entries_of(rows), {SOURCE: 266}, {SOURCE: b"mark"})
        index.admit(entries_of(later), {})
    held = raw(tmp_path)
    # A segment fills its pages, but for their header and its checksum, with zeros.
    for table in ("chunks", "ids"):
        assert {len(value) for _, value in held[table]} == {2 * 4_072}
        held[table] = [
            (key, value[: len(expected)] + value[len(expected) :].rstrip("0"))
            for (key, value), (_, expected) in zip(held[table], EXPECTED_64[table], strict=True)
        ]
    assert held == EXPECTED_64


def test_an_index_that_has_lost_its_identity_is_damaged(tmp_path: Path) -> None:
    Index.open(tmp_path, Parameters(), map_bytes_max=2**24).close()
    with lmdb.open(str(tmp_path), max_dbs=20) as environment:
        meta = environment.open_db(Table.META.value, create=False)
        with environment.begin(write=True) as transaction:
            assert transaction.delete(b"identity", db=meta)
    with pytest.raises(IndexDamagedError, match="identity"):
        Index.open(tmp_path, None, map_bytes_max=2**24, read_only=True)


def test_what_expired_and_what_was_forgotten_stands_there_until_it_has_left_the_segments(tmp_path: Path) -> None:
    keep = Retention(age_max_ms=1_000)
    with Index.open(tmp_path, Parameters(), map_bytes_max=2**24, sizes=TreeSizes(1_000, 64), retention=keep) as index:
        index.admit(entries_of([Row(at, 7 << at // 8 * 8, SOURCE, time_ms=2_000 + at) for at in range(16)]), {})
        index.admit(entries_of([Row(100 + at, 9 << 20, SOURCE, time_ms=5_000) for at in range(64)]), {})
        index.forget(["t/258/100"])
        index.admit(entries_of([Row(200, 7, SOURCE, time_ms=5_000, id="equals an expired one")]), {})
    held = raw(tmp_path)
    assert held["meta"][1] == (
        b"horizon".hex(),
        "0000000000000000" "0000000000000000" "0000000000000000" "00000000" "02010000" "0200000000000000" "1000000000000000",
    )  # fmt: skip
    assert held["times"] == [("0000000000000102", "8813000000000000" + "8813000000000000" * 63)]
    assert held["ages"] == [
        ("00000000" "00000102" "0000000000001388", "0000000000000004" "0000000000000051"),
    ]  # fmt: skip
    # The first batch has left the log.
    assert [key for key, _ in held["log"]] == [
        "0000000000000002" "0000000000000010",
        "0000000000000003" "0000000000000050",
    ]  # fmt: skip
    assert held["amendments"] == [
        ("0000000000000000", "02000000" "00000000" "0000000000000000" "0100000000000000"
                             "0700000000000000" "0007000000000000" "00" "00"),
        ("0000000000000001", "01000000" "00000000" "0200000000000000" "0000900000000000" "01"),
    ]  # fmt: skip
    assert held["retired"] == [("0000000000000002", "")]


def test_the_looks_of_what_entered_stand_behind_the_fingerprints(tmp_path: Path) -> None:
    rows = [Row(0, 7, look=b"\xe8\x18\x05"), Row(1, 7, look=b"\xe8\x18\x05"), Row(2, 7, look=b"\x11\x00\x00")]
    with Index.open(tmp_path, Parameters(look=CosineLook(3, 0.9)), map_bytes_max=2**24) as index:
        index.admit(entries_of(rows), {})
    ((_, value),) = raw(tmp_path)["log"]
    assert value.startswith("03000000010000000200000001000000030000000100000000000000")
    assert "0700000000000000" * 2 + "e81805110000" in value
    stamp = json.loads(bytes.fromhex(dict(raw(tmp_path)["meta"])[b"stamp".hex()]))
    assert stamp["look"] == {"kind": "cosine", "cells": 3, "cosine_min": 0.9}


def test_a_fingerprint_of_128_bits_stands_there_with_its_high_word_first(tmp_path: Path) -> None:
    with Index.open(tmp_path, Parameters(128), map_bytes_max=2**24, sizes=TreeSizes(1, 64)) as index:
        for offset in (0, 1):
            fingerprint = 0x1122334455667788_99AABBCCDDEEFF01 if offset == 0 else 0
            index.admit(entries_of([Row(offset, fingerprint)], 128), {})
    assert "887766554433221101ffeeddccbbaa99" in raw(tmp_path)["log"][0][1]
    segments = raw(tmp_path)["chunks"]
    octets = bytes.fromhex("112233445566778899AABBCCDDEEFF01")
    assert [key for key, _ in segments] == [f"{table:02}" + "00" * 17 for table in range(8)]
    for table, (_, value) in enumerate(segments):
        turned = octets[2 * table :] + octets[: 2 * table]
        # One entry: the first hash in the head is its own.
        assert value[16:48] == "0100000000000500000000" + turned[4::-1].hex()


@pytest.mark.parametrize("version", [1, 7])
def test_an_index_of_another_format_version_is_refused_untouched(version: int, tmp_path: Path) -> None:
    Index.open(tmp_path, Parameters(), map_bytes_max=2**24).close()
    make_older(tmp_path, version)
    before = (tmp_path / "data.mdb").read_bytes()
    for read_only in (False, True):
        with pytest.raises(FormatUnknownError, match=f"format version {version}; this program knows version 14"):
            Index.open(tmp_path, Parameters(), map_bytes_max=2**24, read_only=read_only)
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_the_checksum_of_a_value_is_this_number() -> None:
    assert checksum_of(Table.RETIRED, bytes(8), b"").hex() == "269bec3e675fc480"
    different = [(Table.AGES, bytes(8), b""), (Table.RETIRED, bytes(7), b""), (Table.RETIRED, bytes(8), b"\0")]
    assert len({checksum_of(*each) for each in different} | {checksum_of(Table.RETIRED, bytes(8), b"")}) == 4


def test_another_programs_file_is_refused_untouched(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=20) as environment:
        environment.open_db(b"something")
    size = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(FormatUnknownError, match="another program"):
        Index.open(tmp_path, Parameters(), map_bytes_max=2**24)
    assert (tmp_path / "data.mdb").read_bytes() == size
    (tmp_path / "data.mdb").write_bytes(b"not LMDB at all" * 1000)
    with pytest.raises(FormatUnknownError, match="not a file this program can read"):
        Index.open(tmp_path, Parameters(), map_bytes_max=2**24)


@given(st.text(), st.text())
def test_streams_come_back_as_they_were_packed(stream: str, name: str) -> None:
    assert layout.unpack_stream(layout.pack_stream(stream, name)) == (stream, name)


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_packed_numbers_sort_as_the_numbers_do(numbers: list[int]) -> None:
    packed = layout.pack_numbers(np.array(numbers, np.uint64))
    assert layout.unpack_numbers(sorted(packed)).tolist() == sorted(numbers)


def test_watched_hosts_stand_there_in_exactly_these_bytes() -> None:
    keys, names, unequal = np.array([7, 5], np.uint64), ["b.example", "é.example"], np.array([True, True])
    sketch = UNKNOWN.with_rows(keys, names, unequal, HostLimits(0.8, 1))
    packed = layout.pack_hosts(sketch)
    one = "01000000010000000100000001000000"
    assert packed.hex() == (
        "0200000000000000" "02000000" "00000000" "0500000000000000" + one + "0700000000000000" + one
        + "é.example\nb.example".encode().hex()
    )  # fmt: skip
    again = layout.unpack_hosts(packed)
    assert (again.counted, again.hosts.tolist(), again.names) == (2, sketch.hosts.tolist(), sketch.names)
    assert layout.unpack_hosts(layout.pack_hosts(UNKNOWN)).names == layout.unpack_hosts(None).names == ()


def test_counters_of_a_new_index_are_zero() -> None:
    assert layout.unpack_counters(None) == (0, 0, 0, 0)
    assert layout.unpack_counters(layout.pack_counters(layout.Counters(1, 2, 3, 4))) == (1, 2, 3, 4)


def test_a_sample_of_a_host_is_these_bytes() -> None:
    pages = np.array([[5, 6], [7, 8], [9, 4]], np.uint64)
    sample = layout.HostSample(70, 3, "é", pages[:2], pages[2:])
    packed = layout.pack_sample(sample)
    signatures = "".join(f"0{number}00000000000000" for number in (5, 6, 7, 8, 9, 4))
    assert packed.hex() == "46000000030000000200000002000100" + signatures + "c3a9"
    again = layout.unpack_sample(packed)
    assert again[:3] == sample[:3]
    assert again.signatures.tolist() == sample.signatures.tolist()
    assert again.waiting.tolist() == sample.waiting.tolist()
    with pytest.raises(ValueError, match="buffer size"):
        layout.unpack_sample(packed[:-3])


def test_groups_of_hosts_are_zero_at_first_and_come_back() -> None:
    groups = layout.unpack_host_groups([None, None])
    assert not any(column.any() for column in groups)
    groups.counted[0], groups.counts[0, 7] = 258, 3
    groups.hosts[0, :2], groups.seen[0, :2] = (5, 2**63), (257, 258)
    packed = layout.pack_host_groups(groups)
    met, hosts = "00" * 7 + "03" + "00" * 4088, "0500000000000000" + "0000000000000080"
    assert packed[0].hex() == "0201000000000000" + met + hosts + "0101000000000000" + "0201000000000000"
    for column, again in zip(groups, layout.unpack_host_groups(packed), strict=True):
        np.testing.assert_array_equal(column, again)
