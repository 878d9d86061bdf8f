"""Archives (WARC, WET), read ahead in pieces by other processes: decompressed, parsed and cut into lines.

    process 1  | piece 1 of a.warc.gz | piece 3 of a.warc.gz ...
    process 2  | piece 2 of a.warc.gz | b.warc               ...
    here       | lines of piece 1     | lines of piece 2 ...

A piece comes as messages over a pipe: where it begins, blocks of lines, where it ends. The same bytes give the same messages.
So a piece whose process ends is read here, from the next message on.

Pieces of WARC follow a guess: a gzip member with a record begins there. If a piece does not begin where the one before ends,
or is damaged, the file is read here from its beginning. So messages about damage, and lines, are those of `LineReader`.
"""

import os
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import NamedTuple, TypeGuard

import orjson

from streamer.errors import InputUnreadable
from streamer.transports.files import warc
from streamer.transports.files.line_reader import LineReader
from streamer.transports.files.remote import Input, Remote

PIECE_BYTES = 8 * 2**20
"""Bytes of a piece, as stored: some seconds to parse."""

BLOCK_BYTES = 2**18
"""Most bytes of lines in a message, unless one line is longer."""

_BLOCKS_AHEAD = 64
_OFFSET_BYTES = 16
_END = b"{"  # first byte of a piece's last message; others begin with a figure
_MEMBER = re.compile(rb"\x1f\x8b\x08")
_LOOK_BYTES = 4096  # of a member, to know its first bytes


class Piece(NamedTuple):
    """Part of a file as stored: what begins from `begin` on and before `end`.

    >>> Piece(Path("crawl.warc.gz"), begin=0, end=PIECE_BYTES)
    Piece(path=PosixPath('crawl.warc.gz'), begin=0, end=8388608)
    """

    path: Path
    begin: int
    end: int


def is_archive(path: Input) -> TypeGuard[Path]:
    """Whether this is a file here that is an archive by its name. Decompression alone, of lines, is not worth another process.

    >>> is_archive(Path("/dev/null")), is_archive(Path("not-there.warc.gz"))
    (False, False)
    """
    if isinstance(path, Remote):
        return False
    return bool({".warc", ".wet"} & {suffix.lower() for suffix in path.suffixes}) and path.is_file()


def pieces_of(path: Path) -> list[Piece]:
    """Pieces of a file, in order; a single one if nothing in it can be read on its own."""
    size = max(1, path.stat().st_size)
    step = PIECE_BYTES if path.name.lower().endswith((".warc.gz", ".wet.gz")) else size
    return [Piece(path, begin, min(begin + step, size)) for begin in range(0, size, step)]


def messages(piece: Piece) -> Iterator[bytes]:
    """A piece as messages: the offset of its first byte, blocks, each after the offset read to, and its end as JSON.

    Raises InputUnreadable.
    """
    begin = _member_in(piece) if piece.begin else 0
    yield b"%0*d" % (_OFFSET_BYTES, begin)
    with closing(LineReader(piece.path, part=(begin, piece.end))) as reader:
        while lines := reader.lines(4096, BLOCK_BYTES):
            yield b"%0*d%b" % (_OFFSET_BYTES, reader.bytes_read, b"\n".join(lines))
        yield orjson.dumps({"end": reader.bytes_read, "left_out": reader.left_out, "remarks": reader.remarks})


def _member_in(piece: Piece) -> int:
    """Offset of the first gzip member with a WARC record; the piece's end without one."""
    with piece.path.open("rb") as file:
        file.seek(piece.begin)
        held = file.read(piece.end - piece.begin + _LOOK_BYTES)
    for match in _MEMBER.finditer(held, 0, piece.end - piece.begin + 2):
        with suppress(zlib.error):
            member = held[match.start() : match.start() + _LOOK_BYTES]
            if zlib.decompressobj(wbits=31).decompress(member, len(warc.BEGIN)) == warc.BEGIN:
                return piece.begin + match.start()
    return piece.end


def send(piece: Piece, pipe: str, inode: int) -> None:
    """Send a piece's messages into the pipe at this path. Some 16 MiB wait for their turn.

    inode  the pipe's own: by now, the path may mean another file
    """
    waiting: SimpleQueue[tuple[bytes, int] | None] = SimpleQueue()
    room = Semaphore(_BLOCKS_AHEAD)
    with Connection(os.open(pipe, os.O_WRONLY), readable=False) as sending:
        if os.fstat(sending.fileno()).st_ino != inode:
            return

        def send_waiting() -> None:
            while (next_one := waiting.get()) is not None:
                message, blocks = next_one
                # If the other end is closed, the rest is dropped.
                with suppress(OSError):
                    sending.send_bytes(message)
                room.release(blocks)

        sender = Thread(target=send_waiting, name="send")
        sender.start()
        try:
            for message in messages(piece):
                blocks = min(1 + len(message) // BLOCK_BYTES, _BLOCKS_AHEAD)
                for _ in range(blocks):
                    room.acquire()
                waiting.put((message, blocks))
        except InputUnreadable:
            pass  # without its end, the piece counts as damaged
        finally:
            waiting.put(None)
            sender.join()


class _Begun:
    """A piece that another process may read."""

    def __init__(self, piece: Piece, call: Callable[..., Future[None] | None]) -> None:
        self.piece = piece
        self._receiving, self._sending = Pipe(duplex=False)
        number = self._sending.fileno()
        self._future = call(send, piece, f"/proc/{os.getpid()}/fd/{number}", os.fstat(number).st_ino)

    def messages(self) -> Iterator[bytes]:
        """The piece's messages. Those that do not come are made here. Raises InputUnreadable."""
        count = 0
        if self._future is not None:
            while not self._receiving.poll(0.1) and not self._future.done():
                pass
            # From now on the pipe ends when its process has closed it, or is gone.
            self._sending.close()
            with suppress(EOFError, OSError):
                while True:
                    message = self._receiving.recv_bytes()
                    count += 1
                    yield message
                    if message.startswith(_END):
                        return
        yield from islice(messages(self.piece), count, None)

    def close(self) -> None:
        """Drop what has not come."""
        self._receiving.close()
        self._sending.close()


class ArchiveReader(LineReader):
    """Reader of a file's pieces; after damage, of the file itself, without the lines that have come.

    >>> with closing(ArchiveReader(Path("/dev/null"), iter([_Begun(Piece(Path("/dev/null"), 0, 1), lambda *_: None)]))) as reader:
    ...     reader.lines(1, 1), dict(reader.left_out)
    ([], {})
    """

    def __init__(self, path: Path, pieces: Iterator[_Begun]) -> None:
        super().__init__(path)
        self._messages: Iterator[bytes] | None = self._joined(pieces)
        self._came = 0
        self._left_out_of_pieces: Counter[str] = Counter()

    @property
    def left_out(self) -> Counter[str]:
        """See LineReader."""
        return super().left_out if self._messages is None else self._left_out_of_pieces

    def _fill(self, deadline: float | None) -> bool:
        if self._messages is None:
            return super()._fill(deadline)
        try:
            message = next(self._messages, None)
        except InputUnreadable:
            self._messages, self.bytes_read = None, 0
            self.remarks.clear()
            return True
        if message is None:
            self._exhausted = True
            return True
        first, *others = message.split(b"\n")
        self.bytes_read = int(first[:_OFFSET_BYTES])
        self._lines += [first[_OFFSET_BYTES:], *others]
        self._lines_bytes += len(message) - _OFFSET_BYTES - len(others)
        self._came += 1 + len(others)
        return True

    def _append(self, lines: list[bytes]) -> None:
        again = min(self._came, len(lines))
        self._came -= again
        self._is_known = self._is_known or again > 0
        if len(lines) > again:
            super()._append(lines[again:])

    def _joined(self, pieces: Iterator[_Begun]) -> Iterator[bytes]:
        """Blocks of all pieces. Raises InputUnreadable."""
        at = 0
        for begun in pieces:
            with closing(begun):
                if begun.piece.end <= at:
                    continue
                messages = begun.messages()
                if int(next(messages)) != at:
                    raise InputUnreadable(f"{begun.piece.path}: a piece does not begin where the one before ends.")
                for message in messages:
                    if not message.startswith(_END):
                        yield message
                        continue
                    ended = orjson.loads(message)
                    at = self.bytes_read = ended["end"]
                    self._left_out_of_pieces.update(ended["left_out"])
                    self.remarks += ended["remarks"]


class ReadAhead:
    """Archives among a job's inputs, whose pieces other processes read in the order of these inputs.

    >>> with closing(ReadAhead([], 2, lambda *_: None).open(Path("/dev/null"))) as reader:
    ...     reader.lines(1, 1)
    []
    """

    def __init__(self, paths: Sequence[Input], count: int, call: Callable[..., Future[None] | None]) -> None:
        """
        paths  the inputs; each is opened once, in this order
        count  most pieces at once
        call   calls a function in another process; None if there is none
        """
        self._pieces = (piece for path in paths if is_archive(path) for piece in pieces_of(path))
        self._count, self._call = count, call
        self._begun: deque[_Begun] = deque()
        self._current: Input | None = None

    def open(
        self, path: Input, standard_input: int = 0, is_record: Callable[[bytes], bool] = lambda _: True
    ) -> LineReader:
        """Reader of the next input, see `LineReader`. Raises InputUnreadable."""
        past, self._current = self._current, path
        while self._begun and self._begun[0].piece.path == past:
            self._begun.popleft().close()
        self._begin(past)
        if isinstance(path, Path) and self._begun and self._begun[0].piece.path == path:
            return ArchiveReader(path, self._taken(path))
        return LineReader(path, standard_input=standard_input, is_record=is_record)

    def _taken(self, path: Path) -> Iterator[_Begun]:
        while self._begun and self._begun[0].piece.path == path:
            yield self._begun.popleft()
            self._begin()

    def _begin(self, past: Input | None = None) -> None:
        while len(self._begun) < self._count and (piece := next(self._pieces, None)):
            if piece.path != past:
                self._begun.append(_Begun(piece, self._call))
