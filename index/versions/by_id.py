"""Records by id, in the log."""

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

from index.session import ReadSession
from index.storage import log

ROWS_OF_ID_MAX = 64
"""Last rows with one id that are read as versions."""


def numbers_of_ids(session: ReadSession, ids: Collection[str]) -> npt.NDArray[np.uint64]:
    """Numbers of the documents with one of these ids, uint64 [n], ascending."""
    batches = rows_in_batches(session, np.sort(session.ids.find(session.transaction, list({*ids})).rows))
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
