"""Names that were forgotten, in RESOLVE's state: documents with such a name no longer count, if they came before.

So no operator has to find a document by its id, and RESOLVE alone hears of it. With retention a name leaves once its epoch is
over, as all documents before have then expired.
"""

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.resolving.kept_rows import KeptRows
from index.dataflow.rows import KEY_FIELDS, Retained, Rows

FORGOTTEN = np.dtype([("name", "<u8"), *KEY_FIELDS])
"""One of a document's `rows.name_digests`, and the key below which documents with that name do not count."""


class ForgottenNames:
    """Forgotten names. They stay in memory, 18 bytes each."""

    def __init__(self) -> None:
        self._kept = KeptRows(b"forgotten", FORGOTTEN)
        self._sorted: Rows | None = None
        """Each name with its last key, by name."""

    def add(self, task: Task, rows: Rows) -> None:
        """Forget, as FORGOTTEN with keys above all earlier ones."""
        if len(rows):
            self._kept.add(task, rows)
            self._sorted = None

    def are(self, task: Task, documents: Rows, names: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Whether documents were forgotten, bool [n]: rows with `high` and `low`, and their `name_digests`, uint64 [n, 2]."""
        forgotten = np.zeros(len(documents), np.bool_)
        known = self._by_name(task)
        if not len(known):
            return forgotten
        for column in names.T:
            places = np.minimum(np.searchsorted(known["name"], column), len(known) - 1)
            found = known[places]
            highs = documents["high"]
            before = (highs < found["high"]) | ((highs == found["high"]) & (documents["low"] < found["low"]))
            forgotten |= before & (found["name"] == column)
        return forgotten

    def remove(self, task: Task, floor: int, retained: Retained) -> None:
        """Remove names from epochs before this one."""
        self._kept.remove(task, floor, retained)
        self._sorted = None

    def _by_name(self, task: Task) -> Rows:
        if self._sorted is None:
            # The last of equal names has the highest key.
            latest = self._kept.read(task)[::-1]
            _, places = np.unique(latest["name"], return_index=True)
            self._sorted = latest[places]
        return self._sorted
