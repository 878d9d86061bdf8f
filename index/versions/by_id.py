"""Earlier versions by id, whatever they resemble: for documents that were given back."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from index.session import ReadSession
from index.storage import documents, log

ROWS_OF_ID_MAX = 64
"""Last rows with one id that are read."""


def versions_by_id(
    session: ReadSession, asked: Sequence[tuple[int, str]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Visible entries with the ids of rows: rows int64 [m] and numbers uint64 [m].

    They are those given back, and those among the last ROWS_OF_ID_MAX records with the id.
    """
    ids = {id_ for _, id_ in asked}
    if not ids:
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    given_back = documents.given_back_of(session.transaction, ids)["number"].astype(np.uint64)
    numbers = np.union1d(numbers_of_ids(session, ids, ROWS_OF_ID_MAX), given_back)
    numbers = numbers[session.visibility.visible(numbers)]
    stored = log.documents(session.transaction, numbers, session.words)
    numbers_of: dict[str, list[int]] = {id_: [] for id_ in ids}
    for number, id_ in zip(numbers.tolist(), stored.ids, strict=True):
        if id_ in numbers_of:
            numbers_of[id_].append(number)
    pairs = [(row, number) for row, id_ in asked for number in numbers_of[id_]]
    columns = np.array(pairs, np.uint64).reshape(-1, 2).T
    return columns[0].astype(np.int64), columns[1]


def numbers_of_ids(session: ReadSession, ids: Collection[str], rows_max: int | None = None) -> npt.NDArray[np.uint64]:
    """Numbers of the documents with one of these ids, uint64 [n], ascending; rows_max: only among an id's last rows."""
    find = session.ids.find if rows_max is None else partial(session.ids.latest, limit=rows_max)
    batches = rows_in_batches(session, np.sort(find(session.transaction, list({*ids})).rows))
    numbers = (batch.numbers()[np.isin(batch.entered(), rows)] for batch, rows in batches)
    return np.concatenate([np.empty(0, np.uint64), *numbers])


def rows_in_batches(
    session: ReadSession, rows: npt.NDArray[np.uint64]
) -> Iterator[tuple[log.Batch, npt.NDArray[np.int64]]]:
    """Log batches with their rows among these, uint64 [n] ascending: int64 [m]."""
    places = session.ids.places(session.transaction, rows)
    edges = np.searchsorted(places.batches, np.arange(1, len(places.keys)))
    for key, batch_rows in zip(places.keys, np.split(places.rows, edges), strict=False):
        yield log.read(session.transaction, key, session.words), batch_rows
