"""Output folder, with a checkpoint for atomic deliveries.

    DIR/unique.jsonl        input lines, byte for byte: unique and undecidable documents
    DIR/duplicate.jsonl     input lines: near-duplicates
    DIR/dead-letter.jsonl   input lines: undecodable
    DIR/verdicts.jsonl      one JSON line per input line
    DIR/protected.jsonl     input lines again: documents that resemble an entry of a protected set, if a run had sets
    DIR/clusters.jsonl, DIR/kept.jsonl  see `streamer.clusters.clusters`
    DIR/unique.parquet ...  copies of these files, written at the end of a run that asks for them
    DIR/checkpoint.json     lengths of these files, their compression, counts of verdicts, and lines delivered per input
    DIR/lock                process id of the running filter, which holds it

A delivery:
    1. append to the files
    2. sync them
    3. write and sync a new checkpoint, and rename it over the old one
    4. sync the rename

The rename delivers. `open` cuts off bytes beyond the checkpoint's lengths: nothing delivered them.

Compressed files end in .gz or .zst. Each delivery appends a gzip member or a Zstandard frame of its own, so the lengths
lie between members.
"""

import contextlib
import errno
import fcntl
import gzip
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Annotated, Any

import orjson
import zstandard
from pydantic import Field, TypeAdapter, ValidationError

from streamer.errors import DeliveryDoubtful, OutputFull, RecoveryRefused, SettingsError
from streamer.records.record import Destination, Feed
from streamer.transports.files import parquet
from streamer.transports.files.decompression import DECOMPRESSORS, Damaged
from streamer.transports.files.replacing import replacing

FORMAT = 2
"""Version of checkpoint.json; others are refused."""

VERDICTS = "verdicts.jsonl"
CHECKPOINT = "checkpoint.json"
LOCK = "lock"
OUTPUTS = (*(f"{destination}.jsonl" for destination in Destination), VERDICTS)
PROTECTED = f"{Feed.PROTECTED}.jsonl"
"""An output that only runs with protected sets have."""
FURTHER = CLUSTERS, KEPT = ("clusters.jsonl", "kept.jsonl")
"""Files that a command makes from the outputs."""
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": lambda content: gzip.compress(content, compresslevel=6, mtime=0),
    "zst": lambda content: zstandard.ZstdCompressor().compress(content),
}
"""Functions by suffix that compress one delivery."""

_STREAMS: dict[str, Callable[[IO[bytes]], Any]] = {
    "": contextlib.nullcontext,
    "gz": lambda file: gzip.GzipFile("", "wb", 6, file, mtime=0),
    "zst": lambda file: zstandard.ZstdCompressor().stream_writer(file, closefd=False),
}

PARQUET = ".parquet"
OUTPUT_FILES = (
    *(name + suffix for name in (*OUTPUTS, PROTECTED, *FURTHER) for suffix in ("", ".gz", ".zst")),
    *(f"{Path(name).stem}{PARQUET}" for name in (*OUTPUTS, PROTECTED, *FURTHER)),
)
"""Names that outputs may have on disk."""

_READ_BYTES = 2**16
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FILES = (*OUTPUT_FILES, CHECKPOINT, LOCK)


@dataclass(frozen=True, slots=True)
class Delivered:
    """Progress of one input.

    path    absolute path, or '-'; the input's identity
    name    name at its first run, for verdict lines and the index
    stream  id of its content
    lines   delivered lines; None: never committed
    mark    hexadecimal digest of these lines; empty: none
    settings  digests of the settings that gave lines their texts and fingerprints, each with its first line; ascending

    >>> Delivered("/data/pages.jsonl", "pages.jsonl", "stream").lines is None
    True
    """

    path: str
    name: str
    stream: str
    lines: Annotated[int, Field(ge=0)] | None = None
    mark: Annotated[str, Field(pattern="^([0-9a-f]{2})*$")] = ""
    settings: tuple[tuple[str, int], ...] = ()

    def settings_at(self, line: int) -> str:
        """Digest of the settings in force at a line; empty: unknown.

        >>> delivered = Delivered("", "", "", settings=(("1a", 5), ("2b", 8)))
        >>> [delivered.settings_at(line) for line in (4, 5, 8)]
        ['', '1a', '2b']
        """
        return next((digest for digest, begin in reversed(self.settings) if begin <= line), "")

    def going_on(self, begin: int, lines: int, mark: str, settings: str) -> "Delivered":
        """After a delivery of the lines from `begin` on by these settings."""
        is_same = self.settings_at(begin) == settings
        noted = self.settings if is_same else (*self.settings, (settings, begin))
        return replace(self, lines=lines, mark=mark, settings=noted)


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    format: int
    compression: str
    lengths: dict[str, Annotated[int, Field(ge=0)]]
    sources: list[Delivered]
    outcomes: dict[str, Annotated[int, Field(ge=0)]] | None = None


@dataclass(frozen=True, slots=True)
class DeliveryHooks:
    """Callables between the steps of a delivery. Crash tests raise or kill here.

    >>> DeliveryHooks(before_outputs=lambda: print("begins")).before_outputs()
    begins
    """

    before_outputs: Callable[[], None] = field(default=lambda: None)
    after_outputs: Callable[[], None] = field(default=lambda: None)
    after_checkpoint: Callable[[], None] = field(default=lambda: None)


class OutputFolder:
    """Output folder, locked between `open` and `close`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     output = OutputFolder(Path(folder), DeliveryHooks())
    ...     output.open()
    ...     output.append({"unique.jsonl": b"{}\\n"}, [])
    ...     output.close()
    ...     (Path(folder) / "unique.jsonl").read_bytes()
    b'{}\\n'
    """

    def __init__(
        self, folder: Path, hooks: DeliveryHooks, compression: str | None = None, *, protected: bool = False
    ) -> None:
        """compression: a key in COMPRESSIONS; None: as the folder has it, else plain. protected: make PROTECTED, too."""
        self.folder = folder
        self.sources: dict[str, Delivered] = {}
        """Inputs by path; `register` and `append` update it."""
        self.outcomes: Counter[str] | None = Counter()
        """Delivered lines of all inputs by verdict and reason; None if a former build delivered some, uncounted."""
        self._hooks = hooks
        self._wanted = compression
        self._compression = compression or ""
        self._lengths: dict[str, int] = dict.fromkeys((*OUTPUTS, PROTECTED) if protected else OUTPUTS, 0)
        self._descriptors: dict[str, int] = {}
        self._lock: int | None = None

    def open(self) -> None:
        """Create the folder if missing, lock it, and truncate the outputs to the delivered lengths.

        Raises SettingsError for an unusable or locked folder, and RecoveryRefused if outputs contradict the checkpoint.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            if (self.folder / CHECKPOINT).exists():
                wanted = self._lengths
                self._load()
                self._add(wanted.keys() - self._lengths.keys())
            else:
                self._refuse_foreign_outputs()
                self._save(self._lengths, ())
                _sync(self.folder.parent)
            self._open_outputs()
        except OSError as error:
            raise SettingsError(f"--out {self.folder}: cannot be used: {error}.") from error

    def _add(self, names: Set[str]) -> None:
        """Make outputs that earlier runs into this folder did without. Raises RecoveryRefused for a file of another origin."""
        for name in names:
            if os.path.lexists(path := self.path(name)):
                raise RecoveryRefused(
                    f"{path}: no run of a filter wrote it, and this one has to: move it away, or name another --out."
                )
        if names:
            # The checkpoint knows the file before there is one, so that a crash leaves none that is unknown.
            self._save({**self._lengths, **dict.fromkeys(names, 0)}, ())

    def look(self) -> tuple[Mapping[str, int], list[Delivered]]:
        """Delivered lengths by file name, and the inputs. Takes no lock.

        Raises SettingsError without a checkpoint, and RecoveryRefused if it is damaged.
        """
        if not (self.folder / CHECKPOINT).is_file():
            raise SettingsError(
                f"--out {self.folder}: holds no {CHECKPOINT}: name a folder that lines were filtered into."
            )
        self._load()
        return self._lengths, list(self.sources.values())

    def path(self, name: str) -> Path:
        """An output's file on disk."""
        return self.folder / (f"{name}.{self._compression}" if self._compression else name)

    def lines(self, name: str, length: int) -> Generator[bytes]:
        """Lines within the first `length` bytes on disk, without b"\\n". Raises RecoveryRefused if damaged."""
        decompressor = DECOMPRESSORS[self._compression]() if self._compression else None
        pieces: list[bytes] = []
        try:
            for data in _beginning(self.path(name), length):
                for plain in decompressor.decode(data) if decompressor else (data,):
                    first, *others = plain.split(b"\n")
                    pieces.append(first)
                    if others:
                        *whole, last = others
                        yield b"".join(pieces)
                        yield from whole
                        pieces = [last]
            if decompressor and length:
                decompressor.finish()
        except Damaged as error:
            raise RecoveryRefused(
                f"{self.path(name)}: {error}: put it back from a copy of the whole folder, or filter again into another --out."
            ) from error

    @contextlib.contextmanager
    def further(self, name: str) -> Iterator[IO[bytes]]:
        """A file in FURTHER, compressed as the outputs, that appears whole at the end of the block. Raises OSError."""
        with replacing(self.path(name)) as file, _STREAMS[self._compression](file) as packed:
            yield packed
        _sync(self.folder)

    def write_parquet(self, further: Sequence[str] = ()) -> None:
        """Write the delivered lines also as DIR/unique.parquet and its like, where these are not up to date.

        further  files in FURTHER, written likewise

        Half a file never has the final name. Raises DeliveryDoubtful, RecoveryRefused.
        """
        with self._in_doubt():
            states = {name: self.path(name).stat() for name in further}
            marks = {name: (state.st_size, f"{state.st_size} {state.st_mtime_ns}") for name, state in states.items()}
            marks |= {name: (length, str(length)) for name, length in self._lengths.items()}
            for name, (length, mark) in marks.items():
                path = self.folder / f"{name.removesuffix('.jsonl')}{PARQUET}"
                if not parquet.has_mark(path, mark):
                    with replacing(path) as file:
                        parquet.write_rows(file, partial(self.lines, name, length), mark)
            _sync(self.folder)

    def register(self, inputs: Iterable[Delivered]) -> None:
        """Write inputs and their progress into the checkpoint. Raises DeliveryDoubtful."""
        with self._in_doubt():
            self._save(self._lengths, inputs)

    def append(
        self, contents: Mapping[str, bytes], inputs: Iterable[Delivered], outcomes: Mapping[str, int] | None = None
    ) -> None:
        """Append the contents to the outputs by name, and commit `inputs` in the checkpoint, with these further outcomes.

        After an error (DeliveryDoubtful, or a hook's), close and reopen the folder.
        """
        self._hooks.before_outputs()
        lengths = dict(self._lengths)
        with self._in_doubt():
            for name, content in contents.items():
                packed = COMPRESSIONS[self._compression](content)
                _write_at(self._descriptors[name], packed, lengths[name])
                lengths[name] += len(packed)
            for name in contents:
                os.fdatasync(self._descriptors[name])
            self._hooks.after_outputs()
            self._save(lengths, inputs, outcomes or {})
        self._hooks.after_checkpoint()

    def close(self) -> None:
        """Release the files and the lock; never raises."""
        descriptors = [*self._descriptors.values(), *([] if self._lock is None else [self._lock])]
        self._descriptors = {}
        self._lock = None
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _take_lock(self) -> None:
        # Never deleted: filters before and after a deletion would lock different files.
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise SettingsError(
                f"--out {self.folder}: another filter writes here (process {holder}): wait for its end, or name another "
                "--out."
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode("ascii"), 0)

    def _load(self) -> None:
        path = self.folder / CHECKPOINT
        try:
            content = orjson.loads(path.read_bytes())
            version = content["format"]
            if version != FORMAT:
                raise RecoveryRefused(
                    f"{path}: has format {version}, this program knows {FORMAT}: go on with the program that wrote it, or "
                    "name another --out."
                )
            checkpoint = TypeAdapter(_Checkpoint).validate_python(content)
        except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError) as error:
            raise self._damaged() from error
        if checkpoint.lengths.keys() - {PROTECTED} != set(OUTPUTS) or checkpoint.compression not in COMPRESSIONS:
            raise self._damaged()
        if self._wanted not in (None, checkpoint.compression):
            raise SettingsError(
                f"--out {self.folder}: its outputs are {checkpoint.compression or 'plain'}: leave out --compress, or name "
                "another --out."
            )
        if any(source.mark for source in checkpoint.sources) and not checkpoint.lengths[VERDICTS]:
            raise self._damaged()
        self._lengths, self._compression = checkpoint.lengths, checkpoint.compression
        self.outcomes = None if checkpoint.outcomes is None else Counter(checkpoint.outcomes)
        self.sources = {source.path: source for source in checkpoint.sources}

    def _refuse_foreign_outputs(self) -> None:
        # A link that leads nowhere would lead the lines there.
        outputs = [name for name in OUTPUT_FILES if os.path.lexists(self.folder / name)]
        if outputs:
            raise RecoveryRefused(
                f"--out {self.folder}: holds {', '.join(outputs)} but no {CHECKPOINT}, so it is not known which input lines "
                "they stand for: move them away, or name another --out."
            )

    def _open_outputs(self) -> None:
        undelivered: list[str] = []
        for name, length in self._lengths.items():
            path = self.path(name)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._descriptors[name] = descriptor
            size = os.fstat(descriptor).st_size
            if size < length:
                raise RecoveryRefused(
                    f"{path}: has {size} bytes, {length} were delivered: someone cut or replaced it. Put it back, or filter "
                    "again into another --out."
                )
            if length and not self._compression and os.pread(descriptor, 1, length - 1) != b"\n":
                raise self._damaged()
            undelivered += [name] if size > length else []
        if undelivered:
            self._require_a_verdict_for_every_line()
        for name in undelivered:
            os.ftruncate(self._descriptors[name], self._lengths[name])

    def _require_a_verdict_for_every_line(self) -> None:
        """Raise RecoveryRefused for lengths with unequal counts of lines and verdicts, before any truncation."""
        # Lines for protected sets are copies.
        lengths = {name: length for name, length in self._lengths.items() if name != PROTECTED}
        counts = {name: sum(1 for _ in self.lines(name, length)) for name, length in lengths.items()}
        if counts.pop(VERDICTS) != sum(counts.values()):
            raise self._damaged()

    def _damaged(self) -> RecoveryRefused:
        return RecoveryRefused(
            f"{self.folder / CHECKPOINT}: is damaged: put it back from a copy of the whole folder, or name another --out."
        )

    def _save(
        self, lengths: dict[str, int], inputs: Iterable[Delivered], outcomes: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        sources = self.sources | {each.path: each for each in inputs}
        counted = None if self.outcomes is None else self.outcomes + Counter(outcomes)
        content = orjson.dumps(
            _Checkpoint(FORMAT, self._compression, lengths, list(sources.values()), counted),
            option=orjson.OPT_APPEND_NEWLINE,
        )
        with replacing(self.folder / CHECKPOINT) as file:
            file.write(content)
        _sync(self.folder)
        self._lengths, self.sources, self.outcomes = lengths, sources, counted

    @contextlib.contextmanager
    def _in_doubt(self) -> Iterator[None]:
        """Raises DeliveryDoubtful for the block's OSError."""
        try:
            yield
        except OSError as error:
            full = error.errno in _FULL
            cause = "the disk is full" if full else str(error.strerror)
            raise (OutputFull if full else DeliveryDoubtful)(
                f"--out {self.folder}: a batch could not be written: {cause}. Remove the cause and start again with the "
                "same --out: nothing is lost, and nothing will be doubled."
            ) from error


def write_parquet(folder: Path, further: Sequence[str] = ()) -> None:
    """`OutputFolder.write_parquet` for a folder that no filter has open. Also raises SettingsError."""
    output = OutputFolder(folder, DeliveryHooks())
    with contextlib.closing(output):
        output.open()
        output.write_parquet(further)


def files_of(folder: Path) -> set[str]:
    """Names of a filter's files in a folder."""
    return {name for name in _FILES if os.path.lexists(folder / name)}


def remove_undelivered(folder: Path, kept: Set[str]) -> bool:
    """Remove a filter's files from an unused folder that has no output yet. True if only `kept` remain."""
    made = files_of(folder) - kept
    if any((folder / name).stat().st_size for name in made & set(OUTPUT_FILES)):
        return False
    try:
        with (folder / LOCK).open("rb") if LOCK in made else contextlib.nullcontext() as lock:
            if lock is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in made:
                (folder / name).unlink()
    except OSError:
        return False
    return True


def _beginning(path: Path, length: int) -> Iterator[bytes]:
    if length:
        with path.open("rb", buffering=0) as file:
            while length and (data := file.read(min(length, _READ_BYTES))):
                length -= len(data)
                yield data


def _write_at(descriptor: int, content: bytes, offset: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        offset += written
        rest = rest[written:]


def _sync(path: Path, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
