import gzip
import importlib.util
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import brotli
import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import InputUnreadable
from streamer.transports.files import warc
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader
from streamer.transports.files.warc import Unreadable, WarcLines
from tests.support.examples import examples
from tests.support.file_filter import pipe_of
from tests.support.web_archives import DATE, Archive

HTML = ("Content-Type", "text/html")
PAGE = "<html><p>The ferry leaves at nine, 渡轮九点出发</p></html>"
PACKED: dict[str, Callable[[Archive], bytes]] = {
    ".warc": lambda archive: archive.plain,
    ".warc.gz": lambda archive: archive.members,
    ".whole.warc.gz": lambda archive: gzip.compress(archive.plain),
    ".warc.zst": lambda archive: archive.frames,
}


def cut(content: bytes, step: int = 2**20) -> tuple[list[dict[str, str]], WarcLines]:
    reader = WarcLines()
    lines = [orjson.loads(line) for at in range(0, len(content), step) for line in reader.cut(content[at : at + step])]
    lines += map(orjson.loads, reader.finish())
    return lines, reader


def read(path: Path) -> tuple[list[dict[str, str]], dict[str, int]]:
    with closing(LineReader(path)) as reader:
        lines: list[bytes] = []
        while taken := reader.lines(3, 2**20):
            lines += taken
        return list(map(orjson.loads, lines)), dict(reader.left_out)


def crawl() -> Archive:
    """What a crawler writes: records that hold pages among all others."""
    archive = Archive()
    archive.add("warcinfo", None, b"software: crawler\r\n", "application/warc-fields")
    archive.add("request", "http://a.example/", b"", http=[("Host", "a.example")])
    archive.page("http://a.example/1", PAGE)
    archive.add("metadata", "http://a.example/1", b"fetchTimeMs: 12\r\n", "application/warc-fields")
    archive.add("response", "http://a.example/2", b"", http=[("Location", "/1")], status="301 Moved Permanently")
    archive.add("response", "http://a.example/3", b"\x89PNG\r\n\r\nWARC/1.0\r\n", http=[("Content-Type", "image/png")])
    archive.add("response", "dns:a.example", b"a.example. 1 IN A 127.0.0.1\n", "text/dns")
    archive.add("resource", "http://a.example/4", b"Plain words\r\n\r\nWARC/1.0", "text/plain")
    archive.add("resource", "metadata://crawler/log", b"Options of the crawler", "text/plain")
    return archive


@pytest.mark.parametrize("kind", sorted(PACKED))
def test_every_page_is_a_line_and_every_other_record_is_counted(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"crawl{kind}"
    path.write_bytes(PACKED[kind](crawl()))
    lines, left_out = read(path)
    assert lines == [
        {
            "id": "<urn:uuid:00000000-0000-4000-8000-000000000002>",
            "url": "http://a.example/1",
            "time": DATE,
            "type": "response",
            "content_type": "text/html; charset=utf-8",
            "text": PAGE,
        },
        {
            "id": "<urn:uuid:00000000-0000-4000-8000-000000000007>",
            "url": "http://a.example/4",
            "time": DATE,
            "type": "resource",
            "content_type": "text/plain",
            "text": "Plain words\r\n\r\nWARC/1.0",
        },
    ]
    assert left_out == {
        "warcinfo": 1,
        "request": 1,
        "metadata": 1,
        "response, status 301": 1,
        "response, image/png": 1,
        "response, text/dns": 1,
        "resource, metadata:": 1,
    }


def test_a_name_that_tells_nothing_and_a_pipe_are_read_just_so(tmp_path: Path) -> None:
    (tmp_path / "crawl").write_bytes(crawl().members)
    named, _ = read(tmp_path / "crawl")
    with closing(LineReader(STANDARD_INPUT, standard_input=pipe_of(crawl().plain))) as reader:
        piped = reader.lines(100, 2**20)
    assert list(map(orjson.loads, piped)) == named


@examples(60)
@given(step=st.integers(1, 400))
def test_blocks_of_any_size_give_the_same_lines(step: int) -> None:
    lines, reader = cut(crawl().plain, step)
    whole, whole_reader = cut(crawl().plain)
    assert lines == whole
    assert reader.left_out == whole_reader.left_out


def test_wet_gives_the_texts_that_were_made_of_pages() -> None:
    archive = Archive()
    archive.add("warcinfo", None, b"", "application/warc-fields")
    archive.add("conversion", "http://a.example/1", "渡轮".encode(), "text/plain", WARC_Refers_To="<urn:uuid:1>")
    ((line,), _) = cut(archive.plain)
    assert (line["text"], line["type"], line["refers_to"]) == ("渡轮", "conversion", "<urn:uuid:1>")


def test_wat_is_refused_by_what_it_lacks() -> None:
    archive = Archive()
    archive.add("warcinfo", None, b"", "application/warc-fields")
    archive.add("metadata", "http://a.example/1", b'{"Container":{},"Envelope":{}}', "application/json")
    with pytest.raises(Unreadable, match="this is WAT, which holds what is known of pages and none of their texts"):
        cut(archive.plain)


CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": lambda content: zlib.compress(content, wbits=-15),
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_codings_of_http_are_undone_and_damaged_ones_are_told(coding: str) -> None:
    long = (PAGE + "".join(map(str, range(9_000)))).encode()
    packed = CODINGS[coding](long)
    archive = Archive()
    archive.add("response", "http://a.example/1", packed, http=[HTML, ("Content-Encoding", coding)])
    # Stored as it was read, under the headers of what was sent.
    archive.add("response", "http://a.example/2", long, http=[HTML, ("Content-Encoding", coding)])
    archive.add("response", "http://a.example/3", packed[: len(packed) // 2], http=[HTML, ("Content-Encoding", coding)])
    (whole, as_read, half), _ = cut(archive.plain)
    assert whole["text"] == as_read["text"] == long.decode()
    assert ("text" in half) == (coding == "identity")
    assert coding == "identity" or f"the content, coded by {coding.lower()}, is" in half["no_text"]


def test_what_would_grow_beyond_the_bound_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "RECORD_BYTES_MAX", 100_000)
    archive = Archive()
    for coding in sorted(CODINGS):
        packed = CODINGS[coding](b" " * 1_000_000)
        archive.add("response", "http://a.example/", packed, http=[HTML, ("Content-Encoding", coding)])
    archive.add("response", "http://a.example/film", b"-" * 1_000_000, http=[("Content-Type", "video/mp4")])
    archive.page("http://a.example/last", PAGE)
    reader = WarcLines()
    lines = [
        orjson.loads(line)
        for at in range(0, len(archive.plain), 4096)
        for line in reader.cut(archive.plain[at : at + 4096])
    ]
    assert [line["no_text"][-27:] for line in lines[:-1]] == ["is longer than 100000 bytes"] * len(CODINGS)
    assert lines[-1]["text"] == PAGE
    assert reader.left_out == {"response, video/mp4": 1}


def test_chunks_are_put_together() -> None:
    archive = Archive()
    chunked = b"5\r\n<p>he\r\n3\r\nllo\r\n0\r\n\r\n"
    archive.add("response", "http://a.example/", chunked, http=[HTML, ("Transfer-Encoding", "chunked")])
    ((line,), _) = cut(archive.plain)
    assert line["text"] == "<p>hello"


def test_an_unknown_coding_is_named() -> None:
    archive = Archive()
    archive.add("response", "http://a.example/", b"\1\2", http=[HTML, ("Content-Encoding", "pack200-gzip")])
    ((line,), _) = cut(archive.plain)
    assert line["no_text"] == "the content coding pack200-gzip is not read"


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/html; charset=gb2312", "镕基".encode("gb18030"), "镕基"),
        ("text/html", b"<meta charset=big5>" + "渡輪".encode("big5"), "<meta charset=big5>渡輪"),
        ("text/html", b"<meta charset=zlib>caf\xe9", "<meta charset=zlib>café"),
        ("text/html,text/html", "渡".encode(), "渡"),
        ("text/html charset=utf-8", "渡".encode(), "渡"),
        ("text/html; charset=nonsense", "渡".encode(), "渡"),
        ("text/html; charset=utf-8", b"a\xffb", "a\ufffdb"),
    ],
)
def test_a_page_is_read_by_its_charset(content_type: str, body: bytes, text: str) -> None:
    archive = Archive()
    archive.add("response", "http://a.example/", body, http=[("Content-Type", content_type)])
    ((line,), _) = cut(archive.plain)
    assert line["text"] == text


def test_a_charset_that_browsers_refuse_is_named() -> None:
    archive = Archive()
    archive.add("response", "http://a.example/", b"a", http=[("Content-Type", "text/html; charset=iso-2022-kr")])
    ((line,), _) = cut(archive.plain)
    assert line["no_text"] == "the charset is one that browsers refuse (iso-2022-kr)"


def test_a_truncated_file_gives_what_is_whole_and_then_says_where_it_ends(tmp_path: Path) -> None:
    archive = crawl()
    (tmp_path / "crawl.warc").write_bytes(b"".join(archive.records[:8])[:-10])
    with closing(LineReader(tmp_path / "crawl.warc")) as reader:
        assert len(reader.lines(10, 2**20)) == 1
        with pytest.raises(InputUnreadable, match="ends within WARC record 8: it is truncated; 1 lines before"):
            reader.lines(10, 2**20)


def resized(record: bytes, change: int | str) -> bytes:
    """The record with another Content-Length."""
    head, _, block = record.partition(b"\r\n\r\n")
    name, length = head.rsplit(b"Content-Length: ", 1)
    digits, rest = length.split(b"\r\n", 1) if b"\r\n" in length else (length, b"")
    digits = change.encode() if isinstance(change, str) else b"%d" % (int(digits) + change)
    return name + b"Content-Length: " + digits + (b"\r\n" + rest if rest else b"") + b"\r\n\r\n" + block


def changed_in(packed: bytes, where: float) -> bytes:
    at = int(len(packed) * where)
    return packed[:at] + bytes([packed[at] ^ 0x55, packed[at + 1] ^ 0xFF]) + packed[at + 2 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "longer by 12": lambda record: resized(record, 12),
    "shorter by 12": lambda record: resized(record, -12),
    "longer by 12 million": lambda record: resized(record, 12_000_000),
    "a length of letters": lambda record: resized(record, "many"),
    "a length of 60 digits": lambda record: resized(record, "9" * 60),
    "no length": lambda record: record.replace(b"Content-Length", b"Content-Lenght"),
    "another version": lambda record: b"WARC/xyz" + record[8:],
    "no version": lambda record: record[10:],
    "cut": lambda record: record[: len(record) // 2],
    "cut in its headers": lambda record: record[:90],
    "zeros": lambda record: bytes(len(record)),
    "headers without end": lambda record: b"WARC/1.0\r\n" + b"a: b\r\n" * 20_000,
    "something else": lambda record: b"HTTP/1.1 200 OK\r\n\r\n",
}
PACKED_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda packed: packed[: len(packed) // 2],
    "cut at its end": lambda packed: packed[:-3],
    "changed": lambda packed: changed_in(packed, 0.5),
    "changed at its end": lambda packed: changed_in(packed, 0.97),
    "without its beginning": lambda packed: packed[12:],
    "zeros": lambda packed: b"\1" * len(packed),
}
MEMBERS = {".warc.gz": gzip.compress, ".warc.zst": zstandard.ZstdCompressor(write_checksum=True).compress}


def pages(count: int, size: int = 700) -> list[bytes]:
    archive = Archive()
    for number in range(count):
        archive.page(
            f"http://a.example/{number}", f"<html><p>Page {number}: {random.Random(number).randbytes(size).hex()}"
        )
    return archive.records


def numbers(lines: list[dict[str, str]]) -> list[int]:
    return [int(line["url"].rpartition("/")[2]) for line in lines if "url" in line]


@pytest.mark.parametrize("damage", sorted(DAMAGES))
@pytest.mark.parametrize("kind", sorted(PACKED))
def test_a_damaged_record_has_a_line_with_its_place_and_all_others_are_read(
    tmp_path: Path, kind: str, damage: str
) -> None:
    archive = Archive()
    archive.records = pages(9)
    archive.records[4] = DAMAGES[damage](archive.records[4])
    path = tmp_path / f"crawl{kind}"
    path.write_bytes(PACKED[kind](archive))
    lines, _ = read(path)
    (told,) = [line["unreadable"] for line in lines if "unreadable" in line]
    at = len(b"".join(archive.records[:4]))
    assert told.startswith(f"WARC record 5, at byte {at:,} of what {path.name} holds: ")
    assert numbers(lines) == [0, 1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("damage", sorted(PACKED_DAMAGES))
@pytest.mark.parametrize("kind", sorted(MEMBERS))
def test_a_damaged_member_has_a_line_and_reading_goes_on_at_the_next_one(
    tmp_path: Path, kind: str, damage: str
) -> None:
    members = [MEMBERS[kind](record) for record in pages(60)]
    members[30] = PACKED_DAMAGES[damage](members[30])
    path = tmp_path / f"crawl{kind}"
    path.write_bytes(b"".join(members))
    lines, _ = read(path)
    assert sum("unreadable" in line for line in lines) == 1
    assert {*range(60)} - {*numbers(lines)} <= {30}
    assert numbers(lines) == sorted(numbers(lines))


def test_a_length_beyond_all_bounds_hides_no_record_of_the_next_members(tmp_path: Path) -> None:
    records = pages(9, 100_000)
    records[4] = resized(records[4], "99999999999999")
    (tmp_path / "crawl.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    lines, _ = read(tmp_path / "crawl.warc.gz")
    assert ["no_text" in line for line in lines].count(True) == 1
    assert numbers(lines) == [*range(9)]


def test_damage_costs_time_as_its_length_does(tmp_path: Path) -> None:
    forms = {
        "lines that begin records": b"WARC/1.0\r\n",
        "records without a length": b"WARC/1.0\r\na: b\r\n\r\n",
        "records with wrong lengths": b"WARC/1.0\r\nContent-Length: 50000000\r\n\r\n",
        "headers": b"a: b\r\n",
    }
    for name, form in forms.items():
        took = []
        for count in (20_000, 80_000):
            content = pages(1)[0] + b"no record\r\n" + form * count
            (tmp_path / "crawl.warc").write_bytes(content)
            begin = time.process_time()
            with suppress(InputUnreadable):
                read(tmp_path / "crawl.warc")
            took.append(time.process_time() - begin)
        assert took[1] < 12 * took[0] + 0.5, name


@examples(150)
@given(
    block=st.binary(max_size=80),
    kind=st.sampled_from(["response", "resource", "conversion", "metadata", "no\xe9"]),
    wild=st.binary(max_size=30),
)
def test_a_record_of_any_bytes_is_a_line_or_is_counted(block: bytes, kind: str, wild: bytes) -> None:
    wild = wild.replace(b"\r", b"").replace(b"\n", b"")
    head = (
        b"WARC/1.0\r\nWARC-Type: " + kind.encode() + b"\r\nContent-Type: application/http\r\nWARC-Target-URI: " + wild
    )
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n" + wild + b"\r\n\r\n"
    for content in (block, http + block):
        whole = head + b"\r\nContent-Length: %d\r\n\r\n" % len(content) + content + b"\r\n\r\n"
        lines, reader = cut(whole * 2)
        assert len(lines) + reader.left_out.total() == 2


def test_a_crawler_may_write_any_number_of_kinds_without_filling_memory() -> None:
    archive = Archive()
    for number in range(150):
        archive.add("response", "http://a.example/", b"x", http=[("Content-Type", f"image/{number}")])
    _, reader = cut(archive.plain)
    assert len(reader.left_out) == 101
    assert reader.left_out["of other kinds"] == 50


def test_without_its_packages_the_refusal_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crawl").write_bytes(crawl().plain)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputUnreadable, match=r"this is WARC.* -m pip install warcio==1\.8\.1 'brotli>="):
        read(tmp_path / "crawl")


# --- zip bombs -------------------------------------------------------------------------------------------------------


def test_pages_that_grow_a_thousandfold_are_read_one_at_a_time(tmp_path: Path) -> None:
    """Negative control: read together, the pages of one block take the memory of all."""
    archive = Archive()
    page = gzip.compress(b"<p>" + b"x" * 4_000_000)
    for number in range(50):
        archive.add("response", f"http://a.example/{number}", page, http=[HTML, ("Content-Encoding", "gzip")])
    path = tmp_path / "bomb.warc.gz"
    path.write_bytes(gzip.compress(archive.plain))
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    try:
        with closing(LineReader(path)) as reader:
            count = 0
            while taken := reader.lines(1, 2**20):
                count += len(taken)
        _, peak = tracemalloc.get_traced_memory()
        cutter = WarcLines()
        tracemalloc.reset_peak()
        together = list(cutter.cut(archive.plain))
        _, peak_together = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == len(together) == 50
    assert peak < 120_000_000 < 200_000_000 <= peak_together


def test_line_breaks_without_end_take_no_memory() -> None:
    cutter = WarcLines()
    for _ in range(50):
        assert list(cutter.cut(b"\r\n" * 500_000)) == []
        assert not cutter._held
    assert list(cutter.finish()) == []


def test_headers_of_http_without_end_are_counted_and_not_parsed() -> None:
    archive = Archive()
    archive.add("response", "http://a.example/1", b"<p>x", http=[(f"a{number}", "b") for number in range(50_000)])
    archive.page("http://a.example/2", PAGE)
    lines, reader = cut(archive.plain)
    assert [line["url"] for line in lines] == ["http://a.example/2"]
    assert reader.left_out == {"response, HTTP headers of more than 65536 bytes": 1}
