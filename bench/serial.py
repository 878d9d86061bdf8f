"""What the process that decides spends on a document of a file: its parts, in microseconds of processor time.

    python -m bench.serial [DOCUMENTS ...] [--count 100000] [--set ...] [--json]

Fingerprints are made before, and come as other processes would send them. So this is what remains of `streamer filter` on a
machine with any number of cores, and limits its documents a second.
"""

import os
import pickle
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from rich.console import Console

from bench.conditions import machine
from bench.throughput import settings_for, show, values_of
from index import Source
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.scheme import scheme_for
from streamer.observe.logs import configure_logging
from streamer.records.decode import Decoder
from streamer.records.record import Record
from streamer.service import file_job, index_steps
from streamer.service.pipeline import PreparedElsewhere
from streamer.service.processes import Packed, Prepared, Processes, whole
from streamer.settings.settings import Settings
from streamer.transports.files import output_folder, transport
from streamer.transports.files.line_reader import LineReader

PARTS = {
    "read and cut lines": [(LineReader, "lines"), (LineReader, "lines_at_hand")],
    "make records": [(transport, "records_of"), (transport, "_batch")],
    "send": [(Packed, "of"), (pickle, "dumps")],
    "receive": [(Processes, "take")],
    "decide": [(index_steps.ByIndex, "decide")],
    "route": [(index_steps.ByIndex, "route")],
    "make lines": [(transport.FileTransport, "deliver")],
    "write": [(output_folder, "_write_at")],
    "sync": [(output_folder.OutputFolder, "_save"), (output_folder.os, "fdatasync")],
}
"""Functions by part; each part pays for itself alone, not for the parts that it calls."""


class Ready(Processes):
    """Processes that have prepared all batches before."""

    def __init__(self, settings: Settings, prepared: Iterator[bytes]) -> None:
        super().__init__(settings, 2)
        self._prepared, self._sent = prepared, 0

    def start(self) -> None:
        pass

    def begin(self, batches: Sequence[Sequence[Record]]) -> None:
        for records in batches:
            if records[0].offset >= self._sent:
                self._sent = records[-1].offset + 1
                memory = os.memfd_create("batch")
                pickle.dumps(Packed.of(records, memory))
                os.close(memory)

    def take(self, _records: Sequence[Record]) -> PreparedElsewhere:
        return whole([pickle.loads(next(self._prepared))])


class Clock(threading.local):
    """Processor seconds by part. `inner`: a thread's seconds that parts have paid for."""

    def __init__(self, seconds: Counter[str]) -> None:
        self.seconds, self.inner = seconds, 0.0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            begin, before = time.thread_time(), self.inner
            try:
                return function(*arguments, **named)
            finally:
                seconds = time.thread_time() - begin
                self.seconds[part] += seconds - (self.inner - before)
                self.inner = before + seconds

        return run


def prepared(settings: Settings, path: Path) -> Iterator[bytes]:
    """Every batch, decoded and fingerprinted, as a process sends it."""
    decoder, scheme, source = Decoder(settings.decode), scheme_for(settings, PUBLIC), Source("stream", 0)
    scheme.sampled_one_in = settings.audit.one_in
    with closing(LineReader(path)) as reader:
        while lines := reader.lines(settings.batch.records_max, settings.batch.bytes_max):
            first = reader.count - len(lines)
            records = [Record(source, str(path), first + row, None, line, -1) for row, line in enumerate(lines)]
            documents = decoder.decode(records)
            yield pickle.dumps(Prepared.of(documents, fingerprint_documents(scheme, documents)))


def measured(settings: Settings, path: Path, batches: Sequence[bytes], out: Path) -> dict[str, float]:
    """Microseconds a document, by part, and those that no part has."""
    clock, ready = Clock(Counter()), Ready(settings, iter(batches))
    with ExitStack() as patches:
        patches.enter_context(patch.object(file_job, "Processes", lambda *_: ready))
        for part, functions in PARTS.items():
            for owner, name in functions:
                owner = Ready if owner is Processes else owner
                patches.enter_context(patch.object(owner, name, clock.timed(part, getattr(owner, name))))
        begin = time.process_time()
        totals, _ = file_job.filter_files(settings, [path], out, Console(quiet=True))
        whole_seconds = time.process_time() - begin
    parts = {part: 1e6 * clock.seconds[part] / totals.records for part in PARTS}
    whole_us = 1e6 * whole_seconds / totals.records
    return {**parts, "all others": whole_us - sum(parts.values()), "whole": whole_us}


@click.command()
@click.argument("documents", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--count", default=100_000, show_default=True, help="Made-up documents where no files are given.")
@click.option("--rounds", default=3, show_default=True, help="The medians of so many; one before them warms up.")
@click.option("--set", "overrides", multiple=True, help="A setting.")
@click.option("--json", "as_json", is_flag=True)
def main(documents: tuple[Path, ...], count: int, rounds: int, overrides: tuple[str, ...], as_json: bool) -> None:
    """Microseconds of processor time that a document takes in the process that decides."""
    configure_logging("error", "console")
    values = values_of(documents, count)
    with tempfile.TemporaryDirectory(prefix="serial-") as name:
        directory = Path(name)
        path = directory / "documents.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in values))
        chosen = ["fingerprint.key=public", *overrides]
        batches = list(prepared(settings_for(directory, "prepared", chosen), path))
        found = [
            measured(settings_for(directory, f"index-{number}", chosen), path, batches, directory / f"out-{number}")
            for number in range(rounds + 1)
        ][1:]
    result = {part: statistics.median(each[part] for each in found) for part in found[0]}
    bytes_each = sum(map(len, values)) / len(values)
    show({"documents": len(values), "bytes_per_document": bytes_each, "us": result, **machine()}, as_json)


if __name__ == "__main__":
    main()
