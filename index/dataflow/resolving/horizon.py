"""The horizon of retention: what has expired by number or by age, as `index.decide.retention` defines it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.rows import Rows, partitions

SOURCE_HORIZON = np.dtype(
    [("partition", "<i8"), *((f"{edge}_{part}", "<u8") for edge in ("begin", "end") for part in ("high", "low"))]
)
"""A source's documents from the first key to before the second one have expired."""


class Horizon(NamedTuple):
    """What has expired.

    high, low  documents below this key have expired by number
    sources    SOURCE_HORIZON [s]
    """

    high: int
    low: int
    sources: Rows

    def expired(self, documents: Rows, prefix: str = "") -> npt.NDArray[np.bool_]:
        """Whether documents with these keys have expired, bool [n]."""
        by_number = _below(documents, prefix, np.uint64(self.high), np.uint64(self.low))
        return by_number | self.expired_by_age(documents, prefix)

    def expired_by_age(self, documents: Rows, prefix: str = "") -> npt.NDArray[np.bool_]:
        """Whether documents with these keys have expired by age, bool [n]."""
        expired = np.zeros(len(documents), np.bool_)
        own = partitions(documents[f"{prefix}high"])
        for source in self.sources:
            begin, end = ((source[f"{edge}_high"], source[f"{edge}_low"]) for edge in ("begin", "end"))
            if begin != end:
                expired |= (
                    (own == source["partition"]) & ~_below(documents, prefix, *begin) & _below(documents, prefix, *end)
                )
        return expired


def _below(documents: Rows, prefix: str, high: np.uint64, low: np.uint64) -> npt.NDArray[np.bool_]:
    highs = documents[f"{prefix}high"]
    below: npt.NDArray[np.bool_] = (highs < high) | ((highs == high) & (documents[f"{prefix}low"] < low))
    return below
