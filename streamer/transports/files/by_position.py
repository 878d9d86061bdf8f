"""Records of filtered files by position: from the inputs, and where one is gone from the outputs."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from index import Position
from streamer.errors import InputUnreadable
from streamer.records.record import Record
from streamer.settings.settings import Batching
from streamer.transports.by_position import Absent, Found
from streamer.transports.files.changelog import NO_TIMESTAMP_MS
from streamer.transports.files.evidence import FileEvidence
from streamer.transports.files.line_reader import LineReader
from streamer.transports.files.output_folder import Delivered, DeliveryHooks, OutputFolder


class FileRecords:
    """Records of the files that were filtered into a folder. Reads a file up to the last line that is asked for."""

    def __init__(self, folder: Path, batch: Batching) -> None:
        """Raises SettingsError where nothing was filtered into the folder, RecoveryRefused where it is damaged."""
        self._folder = folder
        self._batch = batch
        _, inputs = OutputFolder(folder, DeliveryHooks()).look()
        self._inputs: Mapping[str, Delivered] = {each.stream: each for each in inputs}

    def at(self, positions: Sequence[Position]) -> Found:
        """See `RecordsAt`."""
        found: dict[Position, Record | Absent] = {}
        for stream in dict.fromkeys(position.source.stream for position in positions):
            of_stream = sorted(position for position in positions if position.source.stream == stream)
            if stream in self._inputs:
                found |= self._of_input(self._inputs[stream], of_stream)
            else:
                why = Absent(f"it was filtered into another folder than {self._folder}")
                found |= dict.fromkeys(of_stream, why)
        lost = [position for position, record in found.items() if record == _GONE]
        return found | self._of_outputs(lost) if lost else found

    def _of_input(self, of_stream: Delivered, positions: Sequence[Position]) -> dict[Position, Record | Absent]:
        found: dict[Position, Record | Absent] = dict.fromkeys(positions, _GONE)
        path = Path(of_stream.path)
        if not path.is_file():
            return found
        try:
            with closing(LineReader(path)) as reader:
                for position in positions:
                    reader.skip(position.offset - reader.count)
                    # As much as one line: the bound is of bytes, and a first line always comes.
                    if reader.count == position.offset and (lines := reader.lines(1, 1)):
                        found[position] = _record(position, of_stream.name, lines[0])
        except InputUnreadable:
            # What was read before the damage stays; the outputs have the rest.
            return found
        return found

    def _of_outputs(self, positions: Sequence[Position]) -> dict[Position, Record | Absent]:
        evidence = FileEvidence(self._folder, self._batch)
        evidence.extent()
        wanted = set(positions)
        found: dict[Position, Record | Absent] = {}
        for outputs in evidence.outputs():
            for each in outputs:
                if each.told.position in wanted and each.record is not None and each.record.value is not None:
                    found[each.told.position] = each.record
            if len(found) == len(wanted):
                break
        return {position: found.get(position, _GONE) for position in positions}


_GONE = Absent("neither the input nor the outputs have its line any more")


def _record(position: Position, name: str, line: bytes) -> Record:
    return Record(position.source, name, position.offset, None, line, NO_TIMESTAMP_MS)
