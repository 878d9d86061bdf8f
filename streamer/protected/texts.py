"""Texts for entries in protected sets, read from the files that they came from, or from the set's folder."""

from pathlib import Path

from index import Position
from streamer.errors import InputUnreadable, RecoveryRefused, SettingsError
from streamer.protected.folders import read_note
from streamer.records.decode import Decoder, Document
from streamer.settings.settings import Settings
from streamer.transports.files.output_log import FileOutputLog
from streamer.transports.output_log import Absent


def entry_text(folder: Path, position: Position, id_: str, settings: Settings) -> tuple[Document | None, str]:
    """An entry's document in the set that a person names by this folder, and its place there, NAME:LINE.

    Without a document, why there is none.
    """
    try:
        record = FileOutputLog(folder, settings.batch).records_at([position])[position]
        decode = read_note(folder, settings.decode)
    except (SettingsError, RecoveryRefused, InputUnreadable) as problem:
        return None, str(problem)
    if isinstance(record, Absent):
        return None, record.why
    (document,) = Decoder(decode).decode([record])
    if not isinstance(document, Document) or (document.id or record.position) != id_:
        return None, f"{record.topic} has another document in its line {record.offset + 1} by now"
    return document, f"{record.topic}:{record.offset + 1}"
