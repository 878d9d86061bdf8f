import csv
import gzip
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import InputUnreadable
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, digests_at, lines
from tests.support.examples import examples
from tests.support.file_filter import pipe_of

LINES = st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"\r", b"a\r", b"\xff\xfe", "中文".encode()])))


def zstd(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


def halves(content: bytes) -> tuple[bytes, bytes]:
    return content[: len(content) // 2], content[len(content) // 2 :]


PACKED = {
    ".jsonl": lambda content: content,
    ".gz": gzip.compress,
    ".members.gz": lambda content: b"".join(map(gzip.compress, halves(content))) + b"\0" * 100,
    ".zst": zstd,
    ".frames.zst": lambda content: b"".join(map(zstd, halves(content))),
    ".skippable.zst": lambda content: b"\x50\x2a\x4d\x18\x04\0\0\0size" + zstd(content),
}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def all_lines(reader: LineReader) -> tuple[list[bytes], str]:
    """All lines that come, and the message of the error that ends them."""
    found: list[bytes] = []
    try:
        while taken := reader.lines(1000, 2**20):
            found += taken
    except InputUnreadable as error:
        return found, str(error)
    finally:
        reader.close()
    return found, ""


@examples(80)
@given(wanted=LINES, ended=st.booleans(), kind=st.sampled_from(sorted(PACKED)), count=st.integers(1, 5))
def test_every_line_comes_byte_for_byte_in_order_whatever_the_compression(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[bytes], ended: bool, kind: str, count: int
) -> None:
    wanted = [b"{}", *[line.replace(b"\n", b"") for line in wanted]]
    content = b"\n".join(wanted) + (b"\n" if ended else b"")
    if not ended and not wanted[-1]:
        wanted = wanted[:-1]
    reader = LineReader(write(tmp_path_factory.mktemp("lines") / f"in{kind}", PACKED[kind](content)))
    found: list[bytes] = []
    while taken := reader.lines(count, 10):
        assert len(taken) == 1 or sum(map(len, taken)) <= 10
        assert len(taken) <= count
        found += taken
        assert reader.count == len(found)
        assert reader.digest() == xxhash.xxh3_128(b"".join(line + b"\n" for line in found)).digest()
    reader.close()
    assert found == wanted
    assert reader.ended


def test_a_line_longer_than_many_reads_comes_whole(tmp_path: Path) -> None:
    long = os.urandom(3_000_000).replace(b"\n", b"")
    for kind, pack in PACKED.items():
        assert list(lines(write(tmp_path / f"in{kind}", pack(b"a\n" + long + b"\nz")))) == [b"a", long, b"z"]


def test_a_line_beyond_the_bound_stops_the_reader_behind_the_lines_before_it(tmp_path: Path) -> None:
    bound = 2 * 2**20
    for kind, pack in PACKED.items():
        content = b"a\n" + b"x" * bound + b"\n" + b"y" * (bound + 1) + b"\nb\n"
        reader = LineReader(write(tmp_path / f"in{kind}", pack(content)), line_bytes_max=bound)
        assert len(reader.lines(10, 10 * bound)) == 2
        with pytest.raises(InputUnreadable, match="longer than 2097152 bytes; 2 lines before that were read"):
            reader.lines(10, 10 * bound)
        reader.close()


@pytest.mark.parametrize(
    ("suffix", "packed"),
    [(".gz", 64 * gzip.compress(b"\0" * 2**20)), (".zst", 64 * zstandard.compress(b"\0" * 2**24))],
    ids=[".gz", ".zst"],
)
def test_a_compressed_run_of_zeros_stops_at_the_bound_and_not_at_the_end_of_memory(
    tmp_path: Path, suffix: str, packed: bytes
) -> None:
    reader = LineReader(write(tmp_path / f"in{suffix}", packed), line_bytes_max=2**21)
    with pytest.raises(InputUnreadable, match="longer"):
        reader.lines(10, 2**20)
    assert reader.bytes_read < len(packed) / 2
    reader.close()


@pytest.mark.parametrize("kind", [".gz", ".zst", ".members.gz", ".frames.zst"])
def test_a_truncated_file_gives_what_is_whole_and_then_names_the_line_reached(tmp_path: Path, kind: str) -> None:
    wanted = [os.urandom(40).hex().encode() for _ in range(20_000)]
    packed = PACKED[kind](b"\n".join(wanted))
    reader = LineReader(write(tmp_path / f"in{kind}", packed[: len(packed) * 3 // 4]))
    found, error = all_lines(reader)
    assert 1000 < len(found) < len(wanted)
    assert found == wanted[: len(found)]
    assert f"in{kind}: the compressed data ends too early: the file is truncated; {len(found)} lines" in error


@pytest.mark.parametrize("kind", [".gz", ".zst"])
def test_a_damaged_file_gives_lines_before_the_damage_and_then_an_error(tmp_path: Path, kind: str) -> None:
    wanted = [os.urandom(40).hex().encode() for _ in range(20_000)]
    packed = bytearray(PACKED[kind](b"\n".join(wanted)))
    packed[len(packed) * 3 // 4 :] = os.urandom(len(packed) // 4)
    reader = LineReader(write(tmp_path / f"in{kind}", bytes(packed)))
    found, error = all_lines(reader)
    assert "the compressed data is damaged" in error
    assert len(found) > 10_000
    assert found[:10_000] == wanted[:10_000]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.gz", b"", "named .gz but does not begin like one"),
        ("in.zst", b"{}\n", "named .zst but does not begin like one"),
        ("in.gz", gzip.compress(b"a\n", mtime=0) + b"rubbish", "damaged"),
        ("in.jsonl", b"BZh91AY&SY....", "bzip2 is not read"),
        ("in.jsonl", b"\xfd7zXZ\0....", "xz is not read"),
        ("in.warc.gz", gzip.compress(b"WARC/1.1\r\nWARC-Type: warcinfo\r\n", mtime=0), "ends within WARC record 1"),
        ("in.wet.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), "named .wet but does not begin like WET"),
        ("in.warc", b"filedesc://a.arc 127.0.0.1 20260101000000 text/plain 77\n", "this looks like ARC"),
        ("in.jsonl", b"PAR1\x15\x04\x15\n", "the Parquet file is damaged"),
        ("in.parquet", b'{"text": "a"}\n', "named .parquet but does not begin like Parquet"),
        ("in", b"Obj\x01\x04\x14avro.codec\n", "this looks like Avro"),
        ("in.CSV", b"id,text\n1,a\n", "this looks like CSV"),
        ("in.tsv.gz", gzip.compress(b"id\ttext\n", mtime=0), "this looks like TSV"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputUnreadable, match=message):
        list(lines(write(tmp_path / name, content)))


@pytest.mark.parametrize(
    ("name", "pack", "parts"),
    [("pages.csv", bytes, ","), ("my pages.tsv.gz", gzip.compress, "\t")],
)
def test_a_table_is_refused_with_a_command_that_makes_lines_of_it(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], parts: str
) -> None:
    long = "Words, 渡轮 and\nmore " * 10_000
    table = io.StringIO()
    csv.writer(table, delimiter=parts).writerows([["id", "text"], ["a", long], ["b", "short"]])
    with pytest.raises(InputUnreadable, match=r"which is not read\. Make JSON Lines of it: ") as refused:
        list(lines(write(tmp_path / name, pack(table.getvalue().encode()))))
    command = str(refused.value).partition("Make JSON Lines of it: ")[2].partition(" | streamer filter")[0]
    made = subprocess.run(
        command.replace("python -c", f"{sys.executable} -c"), shell=True, check=True, capture_output=True
    ).stdout
    assert [json.loads(line) for line in made.splitlines()] == [{"id": "a", "text": long}, {"id": "b", "text": "short"}]


def test_compression_is_told_by_the_first_bytes_where_the_name_is_silent(tmp_path: Path) -> None:
    for pack in (gzip.compress, zstd):
        assert list(lines(write(tmp_path / "in.jsonl", pack(b"a\nb\n")))) == [b"a", b"b"]
        reader = LineReader(STANDARD_INPUT, standard_input=pipe_of(pack(b"a\nb\n")))
        assert reader.lines(10, 100) == [b"a", b"b"]
        reader.close()


def test_a_pipe_gives_what_has_come_and_nothing_after_a_bounded_wait(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    reader = LineReader(STANDARD_INPUT, standard_input=reading)
    begin = time.monotonic()
    assert reader.lines(10, 100, 50) == []
    assert not reader.ended
    assert time.monotonic() - begin < 5
    os.write(writing, b"first line\nsecond li")
    assert reader.lines(10, 100, 50) == [b"first line"]
    os.write(writing, b"ne\nthird")
    assert reader.lines(3, 100, 50, whole=True) == []
    os.close(writing)
    assert reader.lines(3, 100, 50, whole=True) == [b"second line", b"third"]
    assert reader.lines(3, 100, 50) == []
    assert reader.ended
    os.close(reading)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_pipe_that_gives_byte_after_byte_is_read_like_a_file(pack: Callable[[bytes], bytes]) -> None:
    reading, writing = os.pipe()
    reader = LineReader(STANDARD_INPUT, standard_input=reading)
    found: list[bytes] = []
    for byte in pack(b"B\nBZ\nBZh91\r\n\n\x1f"):
        os.write(writing, bytes([byte]))
        found += reader.lines(10, 100, 0)
    os.close(writing)
    found += reader.lines(10, 100)
    assert found == [b"B", b"BZ", b"BZh91\r", b"", b"\x1f"]
    os.close(reading)


def test_skipping_lines_proves_them_as_reading_does(tmp_path: Path) -> None:
    path = write(tmp_path / "in.gz", gzip.compress(b"".join(b"%d\n" % number for number in range(10_000))))
    reading, skipping = LineReader(path), LineReader(path)
    for _ in range(9_000):
        reading.lines(1, 100)
    assert skipping.skip(9_000) == 9_000
    assert reading.digest() == skipping.digest()
    assert skipping.skip(5_000) == 1_000
    assert digests_at(path, [9_000, 0, 10_001]) == {9_000: reading.digest(), 0: xxhash.xxh3_128().digest()}
    assert skipping.bytes_read == path.stat().st_size
    reading.close()
    skipping.close()


def test_lines_wanted_as_a_whole_are_not_cut_short_by_damage(tmp_path: Path) -> None:
    packed = gzip.compress(b"\n".join(os.urandom(40).hex().encode() for _ in range(1000)))
    reader = LineReader(write(tmp_path / "in.gz", packed[:-1000]))
    with pytest.raises(InputUnreadable, match="truncated"):
        reader.lines(1000, 2**30, whole=True)
    reader.close()


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputUnreadable, match=str(path)):
            LineReader(path)


def test_of_a_pipe_only_what_was_read_of_it_is_at_hand() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"1\n2\n3\n")
    with closing(LineReader(Path("-"), standard_input=read_end)) as reader:
        assert reader.lines_at_hand(2, 2**20) == []
        assert reader.lines(1, 2**20) == [b"1"]
        assert reader.lines_at_hand(2, 2**20) == [b"2", b"3"]
        assert reader.lines_at_hand(2, 2**20) == []
    os.close(read_end)
    os.close(write_end)
