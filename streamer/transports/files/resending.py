"""Sending once more over files: what was given back is a line of unique.jsonl, and one of verdicts.jsonl that says so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from index import Position, Source, Verdict
from streamer.records.record import Decision, Destination, Headers, Outgoing, Record
from streamer.records.route import ID, ORIGINAL_ID, verdict_line
from streamer.settings.settings import Batching
from streamer.transports.evidence import Output
from streamer.transports.files.evidence import FileEvidence
from streamer.transports.files.output_folder import VERDICTS, DeliveryHooks, OutputFolder
from streamer.transports.transport import Claim


class FileGiveBack:
    """See `Resending`: from duplicate.jsonl to unique.jsonl. Lines have no timestamps, so all are read every time."""

    def __init__(self, folder: Path, batch: Batching, hooks: DeliveryHooks | None = None) -> None:
        self._batch = batch
        self._folder = OutputFolder(folder, hooks or DeliveryHooks())

    def open(self, *, to_send: bool) -> None:
        """See `Resending`. Raises SettingsError where a filter writes here, and RecoveryRefused."""
        if to_send:
            # A folder that holds nothing is not made into one.
            OutputFolder(self._folder.folder, DeliveryHooks()).look()
            self._folder.open()

    def claims(self) -> Mapping[Source, Claim]:
        """See `Resending`."""
        _, inputs = OutputFolder(self._folder.folder, DeliveryHooks()).look()
        return {Source(each.stream, 0): Claim(each.lines, "", True) for each in inputs if each.lines is not None}

    def outputs(self, _since_ms: int | None) -> Iterator[list[Output]]:
        """See `Resending`."""
        for found in self._all():
            yield [_with_headers(each) for each in found if each.destination is Destination.DUPLICATE]

    def sent(self, _since_ms: int | None) -> Iterator[list[Position]]:
        """See `Resending`."""
        for found in self._all():
            told = (each.told for each in found if each.told.verdict is Verdict.GIVEN_BACK)
            yield [each.position for each in told if each.position is not None]

    def send(self, records: Sequence[Record]) -> None:
        """See `Resending`."""
        lines = b"".join((record.value or b"") + b"\n" for record in records)
        verdicts = b"".join(_verdict(record) + b"\n" for record in records)
        self._folder.append({f"{Destination.UNIQUE}.jsonl": lines, VERDICTS: verdicts}, None)

    def close(self) -> None:
        """See `Resending`."""
        self._folder.close()

    def _all(self) -> Iterator[list[Output]]:
        evidence = FileEvidence(self._folder.folder, self._batch)
        evidence.extent()
        yield from evidence.outputs()


def _with_headers(output: Output) -> Output:
    """The output, its record with the headers that name it, as the outputs of Kafka have them."""
    told, record = output.told, output.record
    if record is None:
        return output
    named = {ID: told.id, ORIGINAL_ID: told.original_id}
    headers: Headers = tuple((name, value.encode(errors="surrogateescape")) for name, value in named.items() if value)
    return replace(output, record=replace(record, headers=headers))


def _verdict(record: Record) -> bytes:
    named = {name: (value or b"").decode(errors="surrogateescape") for name, value in record.headers}
    decision = Decision(Verdict.GIVEN_BACK, "", named.get(ID), original_id=named.get(ORIGINAL_ID))
    return verdict_line(Outgoing(Destination.UNIQUE, record, (), decision))
