"""Clusters in an output folder, written next to the outputs.

    DIR/clusters.jsonl  a line for each root with duplicates, and for each that names another document
    DIR/kept.jsonl      the best documents' lines, byte for byte, in verdict order

Both are compressed as the outputs, and appear as a whole or not at all. Memory holds one batch, and one cluster's hosts.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from index import Source
from streamer.clusters.keep import POLICIES, Rank
from streamer.clusters.table import opened
from streamer.errors import RecoveryRefused, SettingsError
from streamer.records.decode import DeadLetter, Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import DESTINATIONS
from streamer.settings.settings import Settings
from streamer.transports.files.output_folder import CLUSTERS, KEPT, VERDICTS, DeliveryHooks, OutputFolder
from streamer.transports.transport import NO_TIMESTAMP_MS

Bar = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""Progress bar by title and total; its block's callable takes the number done so far."""

_TABLE = "clusters.sqlite.unfinished"
_OUTPUTS = {verdict.label: destination for verdict, destination in DESTINATIONS.items()}


def write_clusters(out: Path, settings: Settings, rank: Rank | None, bar: Bar) -> dict[str, int]:
    """Write clusters.jsonl and, with a policy, kept.jsonl into a folder that no filter has open.

    settings  as in the runs; they give hosts and times
    rank      None: the first document is the best, and kept.jsonl is not written

    Returns counts, as `ClusterTable.choose`. Raises SettingsError, RecoveryRefused, OutputUnwritable.
    """
    decoder, folder = Decoder(settings.decode), OutputFolder(out, DeliveryHooks())
    # Refuses an empty folder instead of initialising it.
    folder.look()
    with closing(folder):
        folder.open()
        total = sum(each.lines or 0 for each in folder.sources.values())
        with bar("clusters", total if rank is None else 2 * total) as done, opened(out / _TABLE) as table:
            for lines in _batches(folder, settings.batch.records_max):
                table.add(_decoded(lines, decoder))
                done(lines[-1].number)
            counts = table.choose(rank or POLICIES["first"])
            with folder.further(CLUSTERS) as file:
                for root, best, documents, hosts, members in table.clusters():
                    begin = f'{{"root":{root},"best":{best},"documents":{documents},"hosts":{hosts},"members":['
                    file.write((begin + next(members, "")).encode())
                    for member in members:
                        file.write(f",{member}".encode())
                    file.write(b"]}\n")
            if rank is not None:
                with folder.further(KEPT) as file:
                    for lines in _batches(folder, settings.batch.records_max):
                        kept = table.best(lines[0].number, lines[-1].number)
                        file.write(b"".join(each.value + b"\n" for each in lines if each.number in kept))
                        done(total + lines[-1].number)
    return counts


class _Line(NamedTuple):
    number: int
    fields: dict[str, Any]
    value: bytes


def _batches(folder: OutputFolder, size: int) -> Iterator[list[_Line]]:
    lines = _lines(folder)
    while batch := [*islice(lines, size)]:
        yield batch


def _lines(folder: OutputFolder) -> Iterator[_Line]:
    """Documents in verdict order. Raises RecoveryRefused."""
    lengths, _ = folder.look()
    files = {name: folder.lines(name, length) for name, length in lengths.items()}
    for number, line in enumerate(files[VERDICTS]):
        try:
            fields = orjson.loads(line)
            destination = Destination.UNIQUE if "shadow" in fields else _OUTPUTS[fields["verdict"]]
            value = next(files[f"{destination}.jsonl"])
        except (orjson.JSONDecodeError, KeyError, TypeError, StopIteration) as problem:
            raise RecoveryRefused(
                f"{folder.path(VERDICTS)}, line {number + 1}: does not fit the outputs: put the folder back from a copy, or "
                "filter again into another --out."
            ) from problem
        if destination is not Destination.DEAD_LETTER:
            yield _Line(number, fields, value)


def _decoded(lines: list[_Line], decoder: Decoder) -> Iterator[tuple[int, dict[str, Any]]]:
    """Members with host and time. Raises SettingsError if a document is none by these settings."""
    source = Source("", 0)
    records = [Record(source, "", number, None, value, NO_TIMESTAMP_MS) for number, _, value in lines]
    for (number, fields, _), document in zip(lines, decoder.decode(records), strict=True):
        if isinstance(document, DeadLetter):
            raise SettingsError(
                f"{fields['source']}, line {fields['line']}: {document.detail}: the run read a document there. Give the settings "
                "of that run (--config, --preset, --set)."
            )
        time_ms = None if document.time_ms == NO_TIMESTAMP_MS else document.time_ms
        yield number, fields | {"host": document.host, "time_ms": time_ms}
