"""Archives that other processes read ahead give what one reader of the whole file gives."""

import gzip
import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.errors import InputUnreadable
from streamer.transports.files import read_ahead
from streamer.transports.files.line_reader import LineReader
from streamer.transports.files.read_ahead import ArchiveReader, Piece, ReadAhead, pieces_of, send
from tests.support.web_archives import Archive

Seen = tuple[list[bytes], bytes, dict[str, int], str]


def here(*_: object) -> None:
    """There is no other process."""


def seen(reader: LineReader, lines_max: int = 7) -> Seen:
    """Lines, digest, what was left out, and the error at the end."""
    lines: list[bytes] = []
    error = ""
    with closing(reader):
        try:
            while taken := reader.lines(lines_max, 2**24):
                lines += taken
        except InputUnreadable as raised:
            error = str(raised)
        return lines, reader.digest(), dict(reader.left_out), error


def records(count: int) -> list[bytes]:
    """Pages, requests, and pages that are archives themselves or write of them."""
    archive, noise = Archive(), random.Random(count)
    for number in range(count):
        url = f"https://a.example/{number}"
        archive.add("request", url, b"", "application/http; msgtype=request")
        inner = Archive()
        inner.page(url, "within")
        for block in {2: [b"It ends so: " + inner.plain], 4: [gzip.compress(inner.plain, mtime=0)]}.get(number % 5, []):
            archive.add("response", url, block, http=[("Content-Type", "text/plain; charset=latin-1")])
        archive.page(url, f"<p>WARC/1.0\r\n\r\n{noise.randbytes(noise.randrange(2_000)).hex()}</p>")
    return archive.records


def grouped(parts: list[bytes], sizes: list[int], level: int = 9) -> list[bytes]:
    """Gzip members of so many records each, in turn."""
    members, at, turn = [], 0, 0
    while at < len(parts):
        size = sizes[turn % len(sizes)]
        members.append(gzip.compress(b"".join(parts[at : at + size]), level, mtime=0))
        at, turn = at + size, turn + 1
    return members


def cut_anywhere(parts: list[bytes], sizes: list[int], level: int) -> list[bytes]:
    """Gzip members that end within records."""
    plain, step = b"".join(parts), 700 * sizes[0]
    return grouped([plain[at : at + step] for at in range(0, len(plain), step)], [1], level)


def cut_as_if_records_began(parts: list[bytes], sizes: list[int], level: int) -> list[bytes]:
    """Gzip members that begin as records do, some of them within a page."""
    first, *others = b"".join(parts).split(b"WARC/")
    return grouped([first + b"WARC/" + others[0], *[b"WARC/" + other for other in others[1:]]], sizes, level)


@pytest.fixture
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")) as processes:
        yield processes


@given(
    members_of=st.sampled_from([grouped, cut_anywhere, cut_as_if_records_began]),
    level=st.sampled_from([0, 6]),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    piece_bytes=st.integers(300, 9_000),
    damage=st.sampled_from(["none", "cut", "changed", "unproven", "padded", "appended"]),
    where=st.floats(0, 1, exclude_max=True),
    flipped=st.integers(1, 255),
)
@example(members_of=grouped, level=6, sizes=[3], piece_bytes=5823, damage="unproven", where=0.41, flipped=1)
def test_pieces_of_any_archive_give_the_lines_digest_and_error_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    members_of: Callable[[list[bytes], list[int], int], list[bytes]],
    level: int,
    sizes: list[int],
    piece_bytes: int,
    damage: str,
    where: float,
    flipped: int,
) -> None:
    members = members_of(records(20), sizes, level)
    packed = bytearray(b"".join(members))
    at = int(where * len(packed))
    if damage == "cut":
        del packed[at + 1 :]
    if damage == "changed":
        packed[at] ^= flipped
    if damage == "unproven":
        # Only the check at a member's end differs.
        packed[sum(map(len, members[: 1 + int(where * len(members))])) - 8] ^= flipped
    if damage == "padded":
        packed = bytearray((b"\0" * 9).join(members))
    if damage == "appended":
        packed += b"no archive"
    path = tmp_path_factory.mktemp("archive") / "crawl.warc.gz"
    path.write_bytes(packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "PIECE_BYTES", piece_bytes)
        pieces = seen(ReadAhead([path], 2, here).open(path))
    assert pieces == seen(LineReader(path))


def test_an_archive_of_a_member_a_record_is_read_in_pieces_and_never_from_its_beginning_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "crawl.warc.gz"
    path.write_bytes(b"".join(grouped(records(20), [1])))
    wanted = seen(LineReader(path))
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 2_000)
    assert len(pieces_of(path)) > 5
    original = LineReader._fill

    def fill(reader: LineReader, deadline: float | None) -> bool:
        assert not isinstance(reader, ArchiveReader), "read from its beginning again"
        return original(reader, deadline)

    monkeypatch.setattr(LineReader, "_fill", fill)
    assert seen(ReadAhead([path], 2, here).open(path)) == wanted


def test_an_archive_that_cannot_be_read_in_pieces_does_not_keep_the_next_one_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = grouped(records(20), [1])
    paths = [tmp_path / "padded.warc.gz", tmp_path / "sound.warc.gz"]
    paths[0].write_bytes((b"\0" * 9).join(members))
    paths[1].write_bytes(b"".join(members))
    wanted = [seen(LineReader(path)) for path in paths]
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 2_000)
    ahead = ReadAhead(paths, 2, here)
    assert seen(ahead.open(paths[0])) == wanted[0]
    reader = ahead.open(paths[1])
    assert isinstance(reader, ArchiveReader)
    assert seen(reader) == wanted[1]


def files_of_every_kind(folder: Path) -> list[Path]:
    lines = b"".join(b'{"text":"line %d %s"}\n' % (number, b"x" * 300) for number in range(3_000))
    contents = {
        "a.jsonl.gz": gzip.compress(lines) + gzip.compress(b"\n\nthe last one"),
        "b.jsonl": lines,
        "c.jsonl.zst": zstandard.compress(lines),
        "d.warc.gz": b"".join(grouped(records(60), [1])),
        "e.warc": b"".join(records(9)),
        "empty.jsonl.gz": gzip.compress(b""),
        "f.jsonl.gz": gzip.compress(lines)[:-2_000],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def test_other_processes_read_files_of_every_kind_and_their_damage(
    tmp_path: Path, pool: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = files_of_every_kind(tmp_path)
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 9_000)
    begun: list[Future[Any]] = []

    def call(*arguments: Any) -> Future[Any]:
        begun.append(pool.submit(*arguments))
        return begun[-1]

    ahead = ReadAhead(paths, 2, call)
    for path in paths:
        assert seen(ahead.open(path)) == seen(LineReader(path)), path
    assert len(begun) > 4


def test_a_process_that_is_killed_within_a_piece_changes_nothing(tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    noise, archive = random.Random(1), Archive()
    path = tmp_path / "pages.warc"
    # More than waits for its turn: the process is at work when it is killed.
    for number in range(4_000):
        archive.page(f"https://a.example/{number}", noise.randbytes(5_000).hex())
    path.write_bytes(archive.plain)
    reader = ReadAhead([path], 1, pool.submit).open(path)
    first = reader.lines(100, 2**24)
    for process in multiprocessing.active_children():
        with suppress(ProcessLookupError):
            os.kill(process.pid or 0, signal.SIGKILL)
    lines, *others = seen(reader, 1_000)
    wanted, *others_wanted = seen(LineReader(path), 1_000)
    assert first + lines == wanted
    assert others == others_wanted


def test_a_piece_waits_once_enough_of_it_has_not_been_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def many(_: Piece) -> Iterator[bytes]:
        for size in [10, *[read_ahead.BLOCK_BYTES] * 200, 50 * 2**20, 1]:
            made.append(size)
            yield bytes(size)

    monkeypatch.setattr(read_ahead, "messages", many)
    receiving, sending = Pipe(duplex=False)
    number = sending.fileno()
    arguments = (Piece(tmp_path, 0, 1), f"/proc/self/fd/{number}", os.fstat(number).st_ino)
    sender = Thread(target=send, args=arguments)
    sender.start()
    sender.join(0.5)
    assert sender.is_alive()
    assert sum(made) < 24 * 2**20
    sizes = [len(receiving.recv_bytes()) for _ in range(203)]
    sender.join()
    assert sizes == made


def test_a_piece_goes_into_its_own_pipe_alone(tmp_path: Path) -> None:
    other = tmp_path / "pages.jsonl.gz"
    other.write_bytes(gzip.compress(b"a line\n"))
    before = other.read_bytes()
    send(Piece(other, 0, 1), str(other), other.stat().st_ino + 1)
    assert other.read_bytes() == before
