"""The files' changelog: the outputs read back, for an index that was lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson

from index import Source, Verdict
from streamer.errors import RecoveryRefused
from streamer.records.reason import Reason, label, verdict_of
from streamer.records.record import Destination, Headers, Record
from streamer.records.route import ORIGINAL_POSITION, ORIGINAL_STREAM, REASON, VERDICT, destination_of
from streamer.settings.settings import Batching
from streamer.transports.files.output_folder import VERDICTS, Delivered

NO_TIMESTAMP_MS = -1
"""Timestamp of a line, which has none; Kafka writes the same number for none."""

_TEMPLATE = label(Verdict.TEMPLATE, Reason.ORDINARY)


def read_changelog(
    folder: Path,
    inputs: Iterable[Delivered],
    ranges: Mapping[Source, range],
    destinations: Sequence[Destination],
    batch: Batching,
) -> Iterator[list[Record]]:
    """Records as they were read, of `destinations` and with offsets in `ranges`, in the order of their delivery.

    The n-th verdict of a destination belongs to the n-th line of its file. The folder's files must end where the
    checkpoint says. What was given back comes by itself, whatever its offset. A duplicate has the headers that name its
    original. Raises RecoveryRefused where the files do not fit together, or where no original is named, perhaps after some
    batches.
    """
    sources = {each.name: Source(each.stream, 0) for each in inputs}
    records: list[Record] = []
    records_bytes = 0
    with ExitStack() as stack:
        files = {each: stack.enter_context((folder / f"{each}.jsonl").open("rb")) for each in set(destinations)}
        verdicts = stack.enter_context((folder / VERDICTS).open("rb"))
        for line in verdicts:
            verdict = _verdict(folder, line)
            destination, name, offset = verdict.destination, verdict.name, verdict.offset
            if destination not in files:
                continue
            value = next(files[destination], None)
            source = sources.get(name)
            if value is None or source is None:
                raise _unfit(folder)
            if verdict.verdict is Verdict.GIVEN_BACK:
                told: Headers = ((VERDICT, verdict.verdict.label.encode()),)
                yield [Record(source, name, offset, None, value[:-1], NO_TIMESTAMP_MS, told)]
                continue
            if offset not in ranges.get(source, ()):
                continue
            headers = _original_headers(folder, verdict, sources)
            records.append(Record(source, name, offset, None, value[:-1], NO_TIMESTAMP_MS, headers))
            records_bytes += len(value)
            if len(records) == batch.records_max or records_bytes >= batch.bytes_max:
                yield records
                records, records_bytes = [], 0
        if any(next(file, None) is not None for file in files.values()):
            raise _unfit(folder)
    if records:
        yield records


class _Verdict(NamedTuple):
    """A line of the verdicts; `original` is the name and offset of the document that it names."""

    verdict: Verdict
    destination: Destination
    name: str
    offset: int
    original: tuple[str, int] | None


def _verdict(folder: Path, line: bytes) -> _Verdict:
    try:
        fields = orjson.loads(line)
        verdict = verdict_of(fields["verdict"], fields.get("reason", ""))
        name, number = fields["source"], fields["line"]
        source, at = fields.get("original_source"), fields.get("original_line")
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise _unfit(folder) from error
    if verdict is None or not isinstance(name, str) or type(number) is not int:
        raise _unfit(folder)
    original = (source, at - 1) if isinstance(source, str) and type(at) is int else None
    return _Verdict(verdict, destination_of(verdict, shadow="shadow" in fields), name, number - 1, original)


def _original_headers(folder: Path, verdict: _Verdict, sources: Mapping[str, Source]) -> Headers:
    """Headers that name the original and its row's verdict, as Kafka's outputs have them; none where a verdict names none.

    Raises RecoveryRefused where the original has no name.
    """
    if not verdict.verdict.names_original:
        return ()
    if verdict.original is None:
        raise RecoveryRefused(
            f"--out {folder}: {VERDICTS} does not hold where the original of a duplicate stands, as an older version wrote it, "
            "so an index with insert = 'root' or 'all' cannot be restored from it: filter into a new --out with a new --index."
        )
    name, offset = verdict.original
    # The original may be of another folder, which this one knows by name alone: then it cannot be told.
    stream = sources[name].stream if name in sources else ""
    return (
        (VERDICT, verdict.verdict.label.encode()),
        *(((REASON, _TEMPLATE.encode()),) if verdict.verdict is Verdict.TEMPLATE else ()),
        (ORIGINAL_POSITION, f"{name}/0/{offset}".encode()),
        (ORIGINAL_STREAM, stream.encode()),
    )


def _unfit(folder: Path) -> RecoveryRefused:
    return RecoveryRefused(
        f"--out {folder}: {VERDICTS} does not fit the other files, so the index cannot be restored from them: put the "
        "folder back from a copy, or filter into a new --out with a new --index."
    )
