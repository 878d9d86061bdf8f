"""Pages that were crawled again, in RESOLVE's state: one value for each.

A value is b"".join([STATE, the documents that the page was last and is now as `Layout.signature`, the substances as uint64]).
A page without a value came once, and was unique.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.rows import Layout, Rows
from index.versions.by_id import ROWS_OF_ID_MAX

STATE = np.dtype(
    [
        *((f"{document}_{part}", "<u8") for document in ("record", "last", "current") for part in ("high", "low")),
        *(("text", "<u8"), ("substance", "<u8"), ("returns", "u1"), ("strangers", "u1")),
        *(("foreign", "?"), ("has_current", "?"), ("documents", "u1")),
    ]
)
"""Keys: the page's last record, the document that it was or repeated, the current version. The record's digests. The rest as
in `index.kernels.versions.Pages`. How many documents follow."""

_PREFIX = b"page"


class PageState(NamedTuple):
    """A known page.

    state       STATE, a row
    documents   `Layout.signature`, its last and its current version
    substances  its last records', the newest last
    """

    state: np.void
    documents: Rows
    substances: npt.NDArray[np.uint64]


class PageStates:
    """Pages by digest: an id on a host."""

    def __init__(self, layout: Layout):
        self._document = layout.signature

    def read(self, task: Task, pages: Sequence[int]) -> list[PageState | None]:
        """These pages, if they came more than once or were duplicates."""
        contents = [task.get(_name(page)) for page in pages]
        return [None if content is None else self._unpacked(content) for content in contents]

    def write(self, task: Task, states: Mapping[int, PageState]) -> None:
        """Put known pages."""
        task.put_all({_name(page): _packed(each) for page, each in states.items()})

    def _unpacked(self, content: bytes) -> PageState:
        state = np.frombuffer(content, STATE, 1)[0]
        end = STATE.itemsize + int(state["documents"]) * self._document.itemsize
        documents = np.frombuffer(content[STATE.itemsize : end], self._document)
        return PageState(state, documents, np.frombuffer(content[end:], "<u8"))


def first_record(document: np.void) -> PageState:
    """A page that came once, and was unique; document: as `Layout.signature`."""
    state, documents = np.zeros(1, STATE), np.array([document])
    for name in ("record", "last", "current"):
        state[f"{name}_high"], state[f"{name}_low"] = document["high"], document["low"]
    text, substance = document["tag"]["digests"][0]
    state["text"], state["substance"], state["has_current"] = text, substance, True
    return PageState(state[0], documents, np.array([substance], np.uint64))


def _name(page: int) -> bytes:
    return _PREFIX + page.to_bytes(8, "little")


def _packed(each: PageState) -> bytes:
    # Substances [5, 3, 5] are 3 and 5, the newest last.
    latest = list(dict.fromkeys(reversed(each.substances.tolist())))[:ROWS_OF_ID_MAX]
    state = each.state.copy()
    state["documents"] = len(each.documents)
    substances = np.array(latest[::-1], "<u8").tobytes()
    return bytes(state.tobytes()) + each.documents.tobytes() + substances
