"""Documents that were given back, in RESOLVE's state, with the updates that replaced them. While one counts, later documents
with its id match their own versions alone.
"""

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.resolving.kept_rows import KeptRows
from index.dataflow.rows import KEY_FIELDS, Retained, Rows

GIVEN_BACK = np.dtype([*KEY_FIELDS, ("names", "<u8", (2,))])
"""A document's key, and its `rows.name_digests`."""


class GivenBack:
    """Given-back documents. They stay in memory, 26 bytes each."""

    def __init__(self) -> None:
        self._kept = KeptRows(b"given back", GIVEN_BACK)
        self._ids: npt.NDArray[np.uint64] | None = None
        """Their ids' digests, ascending."""

    def add(self, task: Task, rows: Rows) -> None:
        """Note documents, as GIVEN_BACK."""
        if len(rows):
            self._kept.add(task, rows)
            self._ids = None

    def with_ids(self, task: Task, ids: npt.NDArray[np.uint64]) -> Rows:
        """Those whose ids have one of these digests, uint64 [n], whether they count or not: GIVEN_BACK."""
        kept = self._kept.read(task)
        if self._ids is None:
            self._ids = np.unique(kept["names"][:, 0])
        asked = np.intersect1d(self._ids, ids) if len(self._ids) else self._ids
        return kept[np.isin(kept["names"][:, 0], asked)] if len(asked) else kept[:0]

    def remove(self, task: Task, floor: int, retained: Retained) -> None:
        """Remove documents from epochs before this one."""
        self._kept.remove(task, floor, retained)
        self._ids = None
