"""The files' changelog: the outputs read back, for an index that was lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson

from index import Source
from streamer.errors import RecoveryRefused
from streamer.records.record import Destination, Record
from streamer.settings.settings import Batching
from streamer.transports.files.output_folder import VERDICTS, Delivered

NO_TIMESTAMP_MS = -1
"""Timestamp of a line, which has none; Kafka writes the same number for none."""

_DESTINATIONS = {
    "unique": Destination.UNIQUE,
    "undecidable": Destination.UNIQUE,
    "duplicate": Destination.DUPLICATE,
    "dead-letter": Destination.DEAD_LETTER,
}


def read_changelog(
    folder: Path,
    inputs: Iterable[Delivered],
    ranges: Mapping[Source, range],
    destinations: Sequence[Destination],
    batch: Batching,
) -> Iterator[list[Record]]:
    """Records as they were read, of `destinations` and with offsets in `ranges`, in the order of their delivery.

    The n-th verdict of a destination belongs to the n-th line of its file. The folder's files must end where the
    checkpoint says. Raises RecoveryRefused where they do not fit together, perhaps after some batches.
    """
    sources = {each.name: Source(each.stream, 0) for each in inputs}
    records: list[Record] = []
    records_bytes = 0
    with ExitStack() as stack:
        files = {each: stack.enter_context((folder / f"{each}.jsonl").open("rb")) for each in set(destinations)}
        verdicts = stack.enter_context((folder / VERDICTS).open("rb"))
        for line in verdicts:
            destination, name, offset = _verdict(folder, line)
            if destination not in files:
                continue
            value = next(files[destination], None)
            source = sources.get(name)
            if value is None or source is None:
                raise _unfit(folder)
            if offset not in ranges.get(source, ()):
                continue
            records.append(Record(source, name, offset, None, value[:-1], NO_TIMESTAMP_MS))
            records_bytes += len(value)
            if len(records) == batch.records_max or records_bytes >= batch.bytes_max:
                yield records
                records, records_bytes = [], 0
        if any(next(file, None) is not None for file in files.values()):
            raise _unfit(folder)
    if records:
        yield records


def _verdict(folder: Path, line: bytes) -> tuple[Destination, str, int]:
    try:
        verdict = orjson.loads(line)
        return _DESTINATIONS[verdict["verdict"]], verdict["source"], verdict["line"] - 1
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise _unfit(folder) from error


def _unfit(folder: Path) -> RecoveryRefused:
    return RecoveryRefused(
        f"--out {folder}: {VERDICTS} does not fit the other files, so the index cannot be restored from them: put the "
        "folder back from a copy, or filter into a new --out with a new --index."
    )
