"""Lines of a file or a pipe, plain or compressed, with a running digest.

A line ends at b"\\n" only; a b"\\r" before it belongs to the line. A last line without b"\\n" counts if it is a record: half a
record waits for its end. The first bytes identify compression, WARC, WET and Parquet; a WARC page or Parquet row becomes
a JSON line. A file named .gz or .zst must be compressed. Bytes after its last frame are not read.

A line stays whole in memory, since even an undecodable one is delivered byte for byte.
"""

import io
import os
import select
import stat
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from operator import itemgetter
from pathlib import Path

import xxhash

from index import Applied, Source
from streamer.errors import InputLost, InputUnreadable
from streamer.records.record import Record
from streamer.transports.files import formats, parquet, warc
from streamer.transports.files.decompression import DECOMPRESSORS, READ_BYTES, Damaged, Decompressor
from streamer.transports.files.remote import Input, Remote, size_of
from streamer.transports.files.store import Changed, StoreReader
from streamer.transports.transport import NO_TIMESTAMP_MS

LINE_BYTES_MAX = 256 * 2**20
"""Longest readable line; a damaged file takes no more memory than this."""

STANDARD_INPUT = Path("-")
"""Name of standard input."""

_PLAIN_READ_BYTES = 256 * 2**10
_SPLIT_BYTES_MAX = 2**20  # most plain text that is cut into lines ahead of use

BLANK = "blank line"
"""Kind of lines that are no records, in `left_out`: spaces, or the zeros that a crash leaves in a file."""

_BLANKS = b" \t\r\n\v\f\0"
_BLANK_BEGINS = frozenset({b"", *(bytes([blank]) for blank in _BLANKS)})
_BEGIN = itemgetter(slice(1))

_PLACE = struct.Struct("<QQ")
_NO_PLACE = 2**64 - 1


class LineReader:
    """Reader of one input from its beginning. `count`: lines returned so far.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = Path(file.name).write_bytes(b"one\\ntwo\\n")
    ...     with closing(LineReader(Path(file.name))) as reader:
    ...         reader.lines(10, 1_000)
    [b'one', b'two']
    """

    def __init__(
        self,
        path: Input,
        *,
        standard_input: int = 0,
        line_bytes_max: int = LINE_BYTES_MAX,
        part: tuple[int, int] | None = None,
        is_record: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        """Open `path`, or the descriptor `standard_input` for '-'. Raises InputUnreadable.

        part       begin with this byte, and end with the first WARC record and frame that end together, no earlier than
                   here. Within a part damage is not passed over
        is_record  whether a line is a record; else a last line without its end waits for it
        """
        self.name = str(path)
        self._path = path
        self.count = 0
        self.ended = False
        """Whether all readable lines were returned."""
        self._line_bytes_max = line_bytes_max
        self._proof = path.proof if isinstance(path, Remote) else b""
        self.waits = False
        """Whether this is a pipe, whose lines may keep it waiting."""
        self._raw: io.FileIO | StoreReader
        try:
            if isinstance(path, Remote):
                self._raw = StoreReader(path)
            else:
                self._raw = io.FileIO(standard_input, closefd=False) if path == STANDARD_INPUT else io.FileIO(path)
                self.waits = not stat.S_ISREG(os.fstat(self._raw.fileno()).st_mode)
        except OSError as error:
            raise InputUnreadable(f"{self.name}: cannot be opened: {error.strerror}.") from error
        self._is_part = part is not None
        begin, self._part_end = part or (0, sys.maxsize)
        if begin:
            self._raw.seek(begin)
        self._suffix = path.suffix.lower()
        self._has_begun = False
        self._is_known = False  # the format, by the first line that is not blank
        self._is_record = is_record
        self._blank_lines = 0
        self._poll = select.poll()
        if self.waits:
            self._poll.register(self._raw, select.POLLIN)
        self._head: bytes | None = b""
        self._decompressor: Decompressor | None = None
        self._plain: Iterator[bytes] = iter(())
        self._pages: Iterator[bytes] = iter(())
        self._exhausted = self._is_last = self._is_table = False
        self._damage: str | None = None
        self._lost: InputLost | None = None
        self._lines: list[bytes] = []
        self._lines_bytes = 0
        self._warc: warc.WarcLines | None = None
        self._frame_ends = False
        self._fragment = bytearray()
        self.remarks: list[str] = []
        """Sentences about what the file holds and the lines do not."""
        self._digest = xxhash.xxh3_128()
        self._taken_bytes = 0
        self.bytes_read = begin
        """Bytes read, before decompression; for a part, the offset of its next byte."""

    def lines(
        self, count_max: int, bytes_max: int, wait_ms: int | None = None, *, whole: bool = False, least: int = 1
    ) -> list[bytes]:
        """The next lines without b"\\n", within both limits, but at least `least`.

        wait_ms  longest wait for a pipe; None: no limit
        whole    return nothing until the request is full or the input ends

        Empty after `wait_ms` without a line, and at the end (`ended`). Raises after all lines before it: InputUnreadable for
        damage, InputLost.
        """
        deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1000
        while not self._exhausted and not self._has(count_max, bytes_max):
            if not self._fill(deadline):
                if whole:
                    return []
                break
        is_cut = self._damage is not None or self._lost is not None
        if not self._lines or (whole and is_cut and len(self._lines) < count_max):
            self._end()
            return []
        return self._take(count_max, bytes_max, least)

    def lines_at_hand(self, count_max: int, bytes_max: int) -> list[bytes]:
        """A full `lines` request from what was read before, else none."""
        return self._take(count_max, bytes_max) if self._has(count_max, bytes_max) else []

    def _has(self, count_max: int, bytes_max: int) -> bool:
        return len(self._lines) >= count_max or self._lines_bytes >= bytes_max

    def _take(self, count_max: int, bytes_max: int, least: int = 1) -> list[bytes]:
        taken = self._lines[:count_max]
        sizes = sum(map(len, taken))
        if sizes > bytes_max:
            taken = taken[: max(least, sum(size <= bytes_max for size in accumulate(map(len, taken))))]
            sizes = sum(map(len, taken))
        del self._lines[: len(taken)]
        self._lines_bytes -= sizes
        self.count += len(taken)
        if taken:
            self._taken_bytes += sizes + len(taken)
            self._blank_lines += sum(map(is_blank, taken)) if _may_have_blanks(taken) else 0
            if not self._proof:
                self._digest.update(b"\n".join(taken))
                self._digest.update(b"\n")
        return taken

    def go_to(self, count: int, marks: Collection[bytes]) -> int:
        """Skip `count` lines of an input at its begin. Returns the number skipped; 0 if a mark is another object's.

        marks  digests of these lines. A plain object is not read up to a mark's place
        """
        if self._proof:
            if not all(mark.startswith(self._proof) for mark in marks if mark):
                return 0
            for mark in marks:
                place, blank_lines = _PLACE.unpack(mark[len(self._proof) :]) if mark else (_NO_PLACE, 0)
                if count and place != _NO_PLACE:
                    self._raw.seek(place)
                    self.count, self._blank_lines = count, blank_lines
                    self._taken_bytes = self.bytes_read = place
                    self._head, self._has_begun, self._is_known = None, True, True
                    return count
        return self.skip(count)

    def skip(self, count: int) -> int:
        """Skip up to `count` lines, without a time limit. Returns the number skipped."""
        begin = self.count
        while self.count - begin < count and self.lines(min(4096, count - self.count + begin), 2**24):
            pass
        return self.count - begin

    def digest(self) -> bytes:
        """XXH3-128 (16 bytes) over the lines returned or skipped, each followed by b"\\n".

        Of an object with a proof: the proof, the next line's offset, and the blank lines so far.
        """
        if not self._proof:
            return self._digest.digest()
        is_plain = not (self._decompressor or self._warc or self._is_table)
        return self._proof + _PLACE.pack(self._taken_bytes if is_plain else _NO_PLACE, self._blank_lines)

    @property
    def left_out(self) -> Counter[str]:
        """Number of input records without a document, by kind."""
        if self._warc is not None:
            return self._warc.left_out
        return Counter({BLANK: self._blank_lines} if self._blank_lines else {})

    def _remark(self, remark: str) -> None:
        self.remarks.append(f"{self.name}: {remark}.")

    @property
    def damages(self) -> int:
        """Damaged places so far that have a line."""
        return 0 if self._warc is None else self._warc.damages

    def is_of_damage(self, line: bytes) -> bool:
        """Whether a line stands for a damaged place."""
        return self._warc is not None and line.startswith(warc.BEGIN_OF_DAMAGE)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._raw.close()

    def _end(self) -> None:
        if self._exhausted:
            if self._lost is not None:
                raise self._lost
            if self._damage is not None:
                raise InputUnreadable(
                    f"{self.name}: {self._damage}; {self.count} lines before that were read. "
                    "Repair the file and run the same command again. It continues after the last delivered line."
                )
            self.ended = True

    def _fill(self, deadline: float | None) -> bool:
        """Decompress and cut one block, or read the next. False if none came before the deadline."""
        try:
            if (page := next(self._pages, None)) is not None:
                self._append([page])
                return True
            if (plain := next(self._plain, None)) is not None:
                self._split(plain)
                return True
            if self._is_last:
                self._exhausted = (page := next(self._pages, None)) is None
                self._append([] if page is None else [page])
                return True
            if self._exhausted:
                return True
            if self.waits:
                wait_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
                if not self._poll.poll(wait_ms):
                    return False
            is_plain = self._head is None and self._decompressor is None
            # Damage loses a whole block, so a part has the blocks of its file.
            packed_bytes = READ_BYTES - self.bytes_read % READ_BYTES
            data = self._raw.read(_PLAIN_READ_BYTES if is_plain else packed_bytes) or b""
            self.bytes_read += len(data)
            self._plain = self._decode(data)
        except InputLost as error:
            self._lost, self._exhausted = error, True
        except (OSError, Damaged, Changed, formats.NotRead, warc.Unreadable, parquet.Unreadable) as error:
            self._damage = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            self._exhausted = True
        return True

    def _decode(self, data: bytes) -> Iterator[bytes]:
        """Yield plain blocks of at most _SPLIT_BYTES_MAX; b"" ends the input.

        Raises Damaged at the first block.
        """
        ended = not data
        if self._head is not None:
            data = self._head + data
            self._head = data
            if not ended and formats.needs_more_bytes(data, self._suffix):
                return
            self._head = None
            if data.startswith(parquet.BEGIN):
                yield from self._rows()
                return
            compression = formats.is_compressed(data, self._suffix)
            if compression is None:
                formats.require_no_packer(data, self._path)
            else:
                self._decompressor = DECOMPRESSORS[compression]()
        for plain in self._unpacked(data) if self._decompressor else (data,):
            self._frame_ends = False
            for at in range(0, len(plain) - _SPLIT_BYTES_MAX, _SPLIT_BYTES_MAX):
                yield plain[at : at + _SPLIT_BYTES_MAX]
            self._frame_ends = self._decompressor is not None and self._decompressor.rest_bytes is not None
            yield plain[(max(0, len(plain) - 1) // _SPLIT_BYTES_MAX) * _SPLIT_BYTES_MAX :]
            if self._part_ends():
                return
        if ended:
            if self._decompressor:
                self._decompressor.finish(may_have_tail=True)
                if tail_bytes := self._decompressor.tail_bytes:
                    self._remark(f"{tail_bytes:,} bytes after the compressed data are something else and are not read")
            if self._warc is not None:
                self._pages = self._warc.finish()
            elif self._fragment:
                self._append_last(self._end_of_fragment(b""))
            self._is_last = True

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        """Decompress; in an archive pass over damage, which gets a line. Raises Damaged."""
        assert self._decompressor is not None
        blocks = self._decompressor.decode(data)
        while True:
            try:
                yield from blocks
                return
            except Damaged as error:
                if self._warc is None or self._is_part:
                    raise
                if (line := self._warc.broken(str(error))) is not None:
                    self._append([line])
                blocks = self._decompressor.resume()

    def _part_ends(self) -> bool:
        """End a part where it may end: frame and record are complete."""
        rest_bytes = None if self._decompressor is None else self._decompressor.rest_bytes
        if rest_bytes is None or self._warc is None or self.bytes_read - rest_bytes < self._part_end:
            return False
        if self._warc.is_between_records:
            self.bytes_read -= rest_bytes
            self._exhausted = True
        return self._exhausted

    def _rows(self) -> Iterator[bytes]:
        """Rows of a Parquet file. Raises Damaged, Unreadable."""
        if self.waits:
            raise Damaged("this is Parquet, which cannot be read from a pipe: name the file")
        self._has_begun = self._is_known = True
        self._is_table = True
        size = size_of(self._path)
        source: Path | StoreReader
        if isinstance(self._path, Remote):
            assert isinstance(self._raw, StoreReader)
            source = self._raw
            source.is_scattered = True
        else:
            source = self._path
        for plain, part in parquet.json_lines(source, self._remark):
            self.bytes_read = round(size * part)
            yield plain
        self._exhausted = True

    def _split(self, plain: bytes) -> None:
        if not self._has_begun and b"\n" in plain:
            plain, self._fragment = bytes(self._fragment + plain), bytearray()
            if plain.startswith(warc.BEGIN):
                self._warc = warc.WarcLines(name=self._path.name, strict=self._is_part)
                self._has_begun = self._is_known = True
        if self._warc is not None:
            # One at a time: a thousand tiny compressed pages may expand to gigabytes.
            self._pages = self._warc.cut(plain, frame_ends=self._frame_ends)
            return
        first, *others = plain.split(b"\n")
        if others:
            last = others.pop()
            self._append([self._end_of_fragment(first), *others])
            first = last
        self._continue_fragment(first)

    def _continue_fragment(self, plain: bytes) -> None:
        self._fragment += plain
        if len(self._fragment) > self._line_bytes_max:
            raise Damaged(f"a line is longer than {self._line_bytes_max} bytes")

    def _append_last(self, line: bytes) -> None:
        """Append a line without its end, unless it waits for it."""
        if not self._is_known:
            formats.require_lines(line, self._path, lambda _: True)
        if self._is_record(line):
            self._is_known = True
            self._append([line])
        elif not is_blank(line):
            self._remark(
                f"the last line has no line end and is no whole record, so its {len(line):,} bytes wait. Run the same "
                "command again once the file is complete"
            )

    def _append(self, lines: list[bytes]) -> None:
        self._has_begun = True
        if not self._is_known and (first := next((line for line in lines if not is_blank(line)), None)) is not None:
            formats.require_lines(first, self._path, self._is_record)
            self._is_known = True
        self._lines += lines
        self._lines_bytes += sum(map(len, lines))

    def _end_of_fragment(self, end: bytes) -> bytes:
        self._continue_fragment(end)
        line, self._fragment = bytes(self._fragment), bytearray()
        return line


def is_blank(line: bytes) -> bool:
    """Whether a line is no record, whatever the format.

    >>> is_blank(b" \\r"), is_blank(bytes(4_096)), is_blank(b"{}")
    (True, True, False)
    """
    return line[:1] in _BLANKS and not line.strip(_BLANKS)


def _may_have_blanks(lines: Sequence[bytes]) -> bool:
    """Whether any line begins as a blank one does. To ask `is_blank` of each costs as much as to make its record."""
    return not _BLANK_BEGINS.isdisjoint(map(_BEGIN, lines))


def records_of(source: Source, name: str, begin: int, lines: Sequence[bytes]) -> list[Record]:
    """Records of an input's lines from offset `begin` on. Blank lines are none, and leave gaps."""
    records = [
        Record(source, name, offset, None, line, NO_TIMESTAMP_MS) for offset, line in enumerate(lines, start=begin)
    ]
    return [record for record in records if not is_blank(record.value or b"")] if _may_have_blanks(lines) else records


def lines(
    path: Input, left_out: Counter[str] | None = None, remark: Callable[[str], None] = lambda _: None
) -> Iterator[bytes]:
    """All lines of a file or standard input ('-') that are not blank, without b"\\n". Raises InputUnreadable.

    left_out  counts what is left out, by kind
    remark    takes the reader's remarks at the end
    """
    with closing(LineReader(path)) as reader:
        while taken := reader.lines(4096, 2**24):
            yield from (line for line in taken if not is_blank(line) and not reader.is_of_damage(line))
        for each in reader.remarks:
            remark(each)
        if left_out is not None:
            left_out += reader.left_out + Counter({warc.UNREADABLE: reader.damages})


def proven(path: Input, progress: Iterable[Applied]) -> set[Applied]:
    """Those whose mark is the digest of the input's first lines. Raises InputUnreadable, InputLost."""
    if isinstance(path, Remote) and path.proof:
        return {each for each in progress if each.mark.startswith(path.proof)}
    same: set[Applied] = set()
    with closing(LineReader(path)) as reader:
        for each in sorted(progress):
            reader.skip(each.offset - reader.count)
            if reader.count == each.offset and reader.digest() == each.mark:
                same.add(each)
    return same
