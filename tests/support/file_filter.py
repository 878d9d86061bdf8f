"""Driver of the files transport in the service's place: a decider that remembers like the index, a disk that forgets."""

import gzip
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import zstandard

from index.entry import Applied, Source, Verdict
from streamer.records.record import Batch, Decision, Destination, Outgoing, Record
from streamer.settings.settings import Batching
from streamer.transports.files.output_folder import CHECKPOINT, OUTPUT_FILES, OUTPUTS, DeliveryHooks
from streamer.transports.files.transport import FileTransport
from streamer.transports.transport import FINISHED, Assigned

SMALL = Batching(records_max=3, bytes_max=200, wait_ms=20)


class Crashed(Exception):
    """The process dies here."""


@dataclass
class Decider:
    """Decides lines: one seen before is a duplicate of the first, no UTF-8 is a dead letter, "-" is undecidable.

    The verdict on a position never changes (the journal), unless `with_journal` is off, for negative controls.
    """

    with_journal: bool = True
    journal: dict[tuple[str, int], Decision] = field(default_factory=dict)
    first: dict[bytes, str] = field(default_factory=dict)
    applied: dict[Source, Applied] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def known_streams(self, names: Collection[str]) -> dict[str, list[tuple[str, Applied]]]:
        known: dict[str, list[tuple[str, Applied]]] = {name: [] for name in names}
        for source, applied in self.applied.items():
            if (name := self.names.get(source.stream)) in known:
                known[name].append((source.stream, applied))
        return known

    def admit(self, batch: Batch) -> list[Outgoing]:
        decided = [self._decide(record) for record in batch.records]
        for source, end in batch.ends.items():
            if source not in self.applied or end > self.applied[source].offset:
                self.applied[source] = Applied(end, batch.marks[source])
        return [outgoing(record, decision) for record, decision in zip(batch.records, decided, strict=True)]

    def _decide(self, record: Record) -> Decision:
        position = (record.source.stream, record.offset)
        if self.with_journal and position in self.journal:
            return self.journal[position]
        decision = self._judge(record)
        self.journal[position] = decision
        return decision

    def _judge(self, record: Record) -> Decision:
        assert record.value is not None
        try:
            text = record.value.decode()
        except UnicodeDecodeError:
            return Decision(Verdict.DEAD_LETTER, "not-utf-8", None)
        if text == "-":
            return Decision(Verdict.UNDECIDABLE, "no-features", record.position)
        if record.value in self.first:
            return Decision(
                Verdict.DUPLICATE, "similar", record.position, distance=0, original_id=self.first[record.value]
            )
        self.first[record.value] = record.position
        return Decision(Verdict.UNIQUE, "no-match", record.position)


def outgoing(record: Record, decision: Decision) -> Outgoing:
    destination = {
        Verdict.UNIQUE: Destination.UNIQUE,
        Verdict.UNDECIDABLE: Destination.UNIQUE,
        Verdict.DUPLICATE: Destination.DUPLICATE,
        Verdict.DEAD_LETTER: Destination.DEAD_LETTER,
    }[decision.verdict]
    return Outgoing(destination, record, (), decision)


def filter_files(
    paths: Sequence[Path | str],
    out: Path,
    decider: Decider,
    *,
    batch: Batching = SMALL,
    hooks: DeliveryHooks | None = None,
    standard_input: int = 0,
    after_admit: Callable[[], None] = lambda: None,
    compression: str | None = None,
    ahead: int = 0,
    is_record: Callable[[bytes], bool] = lambda _: True,
) -> list[Batch]:
    """Run one process's life, from open to the end of the input or an exception. Returns the batches delivered.

    Peeks at so many batches `ahead` before each delivery; `read` must return what was peeked at.
    """
    transport = FileTransport(
        [Path(path) for path in paths],
        out,
        batch,
        decider.known_streams,
        hooks=hooks,
        standard_input=standard_input,
        compression=compression,
        is_record=is_record,
    )
    batches: list[Batch] = []
    peeked: list[Batch | None] = []
    try:
        transport.open()
        while (event := transport.read()) is not FINISHED:
            if isinstance(event, Assigned):
                begin(transport, event, decider)
            elif isinstance(event, Batch) and event.records:
                assert not any(peeked[:1]) or peeked[0].records is event.records
                peeked = [transport.peek(place) for place in range(ahead)]
                decided = decider.admit(event)
                after_admit()
                transport.deliver(event, decided)
                batches.append(event)
    finally:
        transport.close()
    return batches


def begin(transport: FileTransport, assigned: Assigned, decider: Decider) -> None:
    committed = transport.committed(assigned.sources)
    transport.commit_start({source: 0 for source, offset in committed.items() if offset is None})
    for source, offset in committed.items():
        decider.names[source.stream] = assigned.names[source.stream]
        transport.seek(source, offset or 0, decider.applied.get(source))


def outputs(out: Path) -> dict[str, bytes]:
    """Plain contents by name, whatever their compression. Reads them by other means than the program."""
    contents = {}
    for name in OUTPUTS:
        (path,) = (path for path in out.glob(f"{name}*") if path.name in OUTPUT_FILES)
        contents[name] = UNPACKED[path.suffix](path.read_bytes())
    return contents


def _unpacked_frames(content: bytes) -> bytes:
    plain = b""
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        plain += frame.decompress(content)
        assert frame.eof
        content = frame.unused_data
    return plain


UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    ".jsonl": bytes,
    ".gz": lambda content: gzip.decompress(content) if content else b"",
    ".zst": _unpacked_frames,
}


def pipe_of(content: bytes) -> int:
    """Reading end of a pipe that holds `content` and is closed behind it; content must fit a pipe's buffer."""
    assert len(content) < 60_000
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


class Disk:
    """Disk below the folder: counts the steps done to it, crashes at one, and knows what a power cut would leave.

    A file's content is durable as it was synced last. The name `checkpoint.json` durably stands for the file that it named
    when the folder was synced last.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, crash_at: int, *, lying: bool = False) -> None:
        """`lying`: the disk never syncs outputs, even when asked to."""
        self.steps = 0
        self._folder = folder
        self._crash_at = crash_at
        self._lying = lying
        self._durable: dict[int, bytes] = {}
        self._durable_checkpoint: bytes | None = None
        self._pwrite, self._replace = os.pwrite, os.replace
        for path in [*(folder / name for name in OUTPUT_FILES), folder / CHECKPOINT]:
            if path.exists():
                self._durable[path.stat().st_ino] = path.read_bytes()
        if (folder / CHECKPOINT).exists():
            self._durable_checkpoint = (folder / CHECKPOINT).read_bytes()
        patch.setattr(os, "pwrite", self._write)
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "fdatasync", self._sync)
        patch.setattr(os, "replace", self._rename)

    def cut_power(self) -> None:
        for name in OUTPUT_FILES:
            path = self._folder / name
            if path.exists():
                path.write_bytes(self._durable.get(path.stat().st_ino, b""))
        if self._durable_checkpoint is not None:
            (self._folder / CHECKPOINT).write_bytes(self._durable_checkpoint)
        else:
            (self._folder / CHECKPOINT).unlink(missing_ok=True)

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self._crash_at:
            raise Crashed

    def _write(self, descriptor: int, content: Any, offset: int) -> int:
        try:
            self._step()
        except Crashed:
            self._pwrite(descriptor, content[: len(content) // 2], offset)
            raise
        return self._pwrite(descriptor, content, offset)

    def _sync(self, descriptor: int) -> None:
        self._step()
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path == self._folder:
            inode = (self._folder / CHECKPOINT).stat().st_ino
            self._durable_checkpoint = self._durable.get(inode, b"")
        elif path.is_file() and not (self._lying and path.name in OUTPUT_FILES):
            self._durable[path.stat().st_ino] = path.read_bytes()

    def _rename(self, source: Path, target: Path) -> None:
        self._step()
        self._replace(source, target)
