"""Reads documents from files for measuring commands."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from index import Source
from streamer.errors import NoDocuments
from streamer.records.decode import Decoder, Document
from streamer.records.first_look import WrongInput
from streamer.records.record import Record
from streamer.settings.settings import Decode
from streamer.transports.files.line_reader import lines

BATCH_DOCUMENTS = 1_000


def read_documents(files: Iterable[Path], settings: Decode, count_max: int | None = None) -> Iterator[list[Document]]:
    """Documents of JSON Lines files (plain, .gz, .zst; - is standard input) in batches, in order.

    Skips other lines. Raises InputUnreadable, and NoDocuments with the first lines' reasons if there are no documents.
    """
    decoder, look = Decoder(settings), WrongInput()
    records = (
        Record(Source(str(file), 0), str(file), number, None, line, 0)
        for file in files
        for number, line in enumerate(lines(file))
    )
    left, has_documents = count_max, False
    while batch := list(islice(records, BATCH_DOCUMENTS)):
        decoded = decoder.decode(batch)
        look.count(decoded)
        documents = [document for document in decoded if isinstance(document, Document)][:left]
        if documents:
            has_documents = True
            yield documents
        if left is not None:
            left -= len(documents)
            if left == 0:
                return
    if not has_documents:
        raise NoDocuments(f"FILES have no documents. {look.reasons()}" if look.records else "FILES are empty.")
