import bz2
import csv
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from index import Applied, Source
from streamer.errors import InputUnreadable
from streamer.settings.settings import Decode
from streamer.transports.files.formats import record_test
from streamer.transports.files.line_reader import (
    BLANK,
    STANDARD_INPUT,
    LineReader,
    lines,
    proven,
    records_of,
)
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
    [(".gz", 64 * gzip.compress(b"\0" * 2**20, mtime=0)), (".zst", 64 * zstandard.compress(b"\0" * 2**24))],
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
        ("in.gz", b"a", "named .gz but does not begin like one"),
        ("in.zst", b"{}\n", "named .zst but does not begin like one"),
        ("in.gz", gzip.compress(b"a\n", mtime=0) + b"rubbish" + gzip.compress(b"b\n", mtime=0), "between two"),
        ("in.zst", zstd(b"a\n") + b"rubbish" + zstd(b"b\n"), "between two"),
        ("in.gz", gzip.compress(b"a\n", mtime=0) + b"\x1f", "the file is truncated"),
        ("in.gz", gzip.compress(b"a\n", mtime=0) + gzip.compress(b"b\n", mtime=0)[:12], "the file is truncated"),
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
    read, none = Applied(9_000, reading.digest()), Applied(0, xxhash.xxh3_128().digest())
    others = [Applied(10_001, b""), Applied(8_999, reading.digest()), Applied(0, reading.digest())]
    assert proven(path, [read, none, *others]) == {read, none}
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


@pytest.mark.parametrize("name", ["in.jsonl", "in.gz", "in.zst", "in.jsonl.gz", "in.warc.gz", "in.parquet", "in.tar"])
def test_a_file_without_a_byte_has_no_line(tmp_path: Path, name: str) -> None:
    assert list(lines(write(tmp_path / name, b""))) == []


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
@pytest.mark.parametrize("tail", [b"rubbish", b"\0\0rubbish", b"x", bytes(3) + b"x" * 100_000], ids=len)
@pytest.mark.parametrize("frames", [1, 2])
def test_bytes_after_the_compressed_data_are_named_and_all_before_them_is_read(
    tmp_path: Path, pack: Callable[[bytes], bytes], tail: bytes, frames: int
) -> None:
    path = write(tmp_path / "in", pack(b"a\n") * frames + tail)
    reader = LineReader(path)
    assert all_lines(reader) == ([b"a"] * frames, "")
    count = len(tail.lstrip(b"\0") if pack is gzip.compress else tail)
    assert reader.remarks == [f"{path}: {count:,} bytes after the compressed data are something else and are not read."]


def test_zeros_after_gzip_members_are_padding(tmp_path: Path) -> None:
    reader = LineReader(write(tmp_path / "in", gzip.compress(b"a\n") + bytes(100_000)))
    assert (all_lines(reader), reader.remarks) == (([b"a"], ""), [])


def tar_of(content: bytes, kind: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=kind) as archive:
        member = tarfile.TarInfo("pages.jsonl")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_of(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("pages.jsonl", content)
    return packed.getvalue()


DOCUMENTS = b'{"text": "one"}\n{"text": "two"}\n'
PACKED_TWICE = gzip.compress(gzip.compress(DOCUMENTS, mtime=0), mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *((name, tar_of(DOCUMENTS), r"tar is not read.*tar -xOf \S*/") for name in ("in.tar", "in.jsonl", "in")),
        *(
            (name, gzip.compress(tar_of(DOCUMENTS), mtime=0), "tar is not read")
            for name in ("in.tar.gz", "in.tgz", "in.jsonl.gz")
        ),
        ("in.tar", tar_of(DOCUMENTS, tarfile.USTAR_FORMAT), "tar is not read"),
        ("in.tar", tar_of(DOCUMENTS).replace(b"ustar", b"\0\0\0\0\0"), "tar is not read"),
        ("in.tar.zst", zstd(tar_of(DOCUMENTS)), "tar is not read"),
        ("in.jsonl", zip_of(DOCUMENTS), "zip .* is not read.*unzip -p"),
        ("in.zip", zip_of(b""), "zip .* is not read"),
        ("in.jsonl", b"PK\x05\x06" + bytes(18), "an empty zip is not read"),
        ("in.jsonl", bz2.compress(DOCUMENTS), r"bzip2 is not read.*bzip2 -dc"),
        ("in.jsonl", bz2.compress(DOCUMENTS, 1), "bzip2 is not read"),
        ("in.jsonl", bz2.compress(b""), "bzip2 is not read"),
        ("in.jsonl", lzma.compress(DOCUMENTS), "xz is not read"),
        ("in.xz", lzma.compress(DOCUMENTS, lzma.FORMAT_ALONE), "xz is not read"),
        ("in.jsonl", b"7z\xbc\xaf\x27\x1c\0\4", "7z is not read"),
        ("in.7z", DOCUMENTS, "7z is not read"),
        ("in.jsonl", b"Rar!\x1a\x07\1\0", "rar is not read"),
        ("in.jsonl.gz", gzip.compress(lzma.compress(DOCUMENTS), mtime=0), "xz is not read"),
        (
            "in.jsonl.gz",
            gzip.compress(gzip.compress(DOCUMENTS, mtime=0), mtime=0),
            r"compressed twice.*gzip -dc \S*/in.jsonl.gz \|",
        ),
        ("in.jsonl", b"ORC\n", "this looks like ORC"),
        ("in.feather", b"ARROW1\0\0", "this looks like Feather"),
    ],
)
def test_an_archive_is_named_by_its_bytes_or_by_its_name_with_the_command_that_unpacks_it(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputUnreadable, match=message):
        list(lines(path))


def test_a_pipe_with_an_archive_is_named_too() -> None:
    reader = LineReader(STANDARD_INPUT, standard_input=pipe_of(tar_of(DOCUMENTS)))
    with closing(reader), pytest.raises(InputUnreadable, match=r"tar is not read.*tar -xOf FILE \|"):
        reader.lines(1, 100)


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_of_wide_letters_is_named_with_the_command_that_makes_utf_8(
    tmp_path: Path, charset: str, pack: Callable[[bytes], bytes]
) -> None:
    content = '{"text": "渡轮"}\n{"text": "two"}\n'.encode(charset)
    path = write(tmp_path / "in.jsonl", pack(content))
    with pytest.raises(InputUnreadable, match=r"this is UTF-\d\d.*iconv -f UTF-\d\d(LE|BE)? -t UTF-8") as refused:
        list(lines(path))
    if pack is bytes:
        command = str(refused.value).partition("Make UTF-8 of it: ")[2].partition(" | streamer")[0]
        made = subprocess.run(command, shell=True, check=True, capture_output=True).stdout
        assert made.decode().lstrip("\ufeff").splitlines() == ['{"text": "渡轮"}', '{"text": "two"}']


def record_reader(path: Path, **decode: str) -> LineReader:
    return LineReader(path, is_record=record_test(Decode.model_validate(decode)))


SPREAD = [
    json.dumps([{"text": "one"}, {"text": "two"}], indent=1).encode(),
    json.dumps({"text": "one"}, indent=2).encode(),
    b'[\n{"text": "one"},\n{"text": "two"}\n]\n',
    b'[{"text": "one"},\n{"text": "two"}]\n',
    b'\n\n \xef\xbb\xbf[\r\n{"text": "one"}\r\n]\r\n'.replace(b" \xef\xbb\xbf", b" "),
]


@pytest.mark.parametrize("content", SPREAD, ids=range(len(SPREAD)))
def test_json_on_several_lines_is_named_and_not_read_as_lines(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "in.json", content)
    found, error = all_lines(record_reader(path))
    assert found == []
    assert "this is JSON on several lines. Put each document on a line: cat " in error
    assert "| jq -c 'if type == \"array\" then .[] else . end' | streamer filter - --out DIR" in error


@pytest.mark.parametrize(
    "content", [b"[2026-01-01] started\n{}\n", b'{"text": "torn\n{"text": "one"}\n', b"[1]\n[2]\n", b"{}\n{}\n"]
)
def test_a_first_line_that_only_resembles_json_on_several_lines_is_a_record(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "in.json", content)
    assert all_lines(record_reader(path)) == (content.splitlines(), "")
    assert all_lines(record_reader(write(path, b"[\n{\n"), format="text")) == ([b"[", b"{"], "")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize(
    "last",
    [
        *(b'{"id":"b","te', b'{"id":"b","text":"two"', b"{", b'{"text":"\xe6\xb8', b"nul", b"12", b"\0" * 5_000),
        b'{"id":"b","te\0\0\0\0',
    ],
)
def test_half_a_last_line_waits_for_its_end(tmp_path: Path, pack: Callable[[bytes], bytes], last: bytes) -> None:
    reader = record_reader(write(tmp_path / "in", pack(b'{"text":"one"}\n' + last)))
    assert all_lines(reader) == ([b'{"text":"one"}'], "")
    waiting = f"{tmp_path}/in: the last line has no line end and is no whole record, so its {len(last):,} bytes wait."
    assert [remark[: len(waiting)] for remark in reader.remarks] == ([waiting] if last.strip(b"\0") else [])
    alone = record_reader(write(tmp_path / "in", pack(last)))
    assert all_lines(alone) == ([], "")


@pytest.mark.parametrize("last", [b'{"text":"two"}', b'{"text":"two"}\r', b'{"title":"no text"}', b'"a text"', b"[1]"])
def test_a_last_line_that_is_a_record_counts_without_its_end(tmp_path: Path, last: bytes) -> None:
    reader = record_reader(write(tmp_path / "in", b'{"text":"one"}\n' + last))
    assert (all_lines(reader), reader.remarks) == (([b'{"text":"one"}', last], ""), [])


def test_blank_lines_keep_their_numbers_and_are_no_records(tmp_path: Path) -> None:
    blank = [b"", b" \t\r", b"\0" * 100]
    path = write(tmp_path / "in", b"\n".join([*blank, b"{}", *blank, b"{}", b"", b"  "]))
    with closing(record_reader(path)) as reader:
        taken = reader.lines(100, 2**20)
        assert [record.offset for record in records_of(Source("", 0), "in", 0, taken)] == [3, 7]
        assert dict(reader.left_out) == {BLANK: len(taken) - 2}
        assert reader.remarks == []
    assert list(lines(path)) == [b"{}", b"{}"]
