"""Pages that were crawled again, in RESOLVE's state: one value for each.

A value is b"".join([number of records, records as PAGE_RECORD, documents as `Layout.signature`]). The documents are those that
may yet be the page's last or current version. A page without a value came once, and was unique.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.rows import KEY_FIELDS, Layout, Rows
from index.versions.by_id import ROWS_OF_ID_MAX

PAGE_RECORD = np.dtype(
    [
        *((f"{prefix}{part}", kind) for prefix in ("", "document_") for part, kind in KEY_FIELDS),
        *(("text", "<u8"), ("substance", "<u8"), ("returns", "u1"), ("strangers", "u1"), ("own", "?")),
    ]
)
"""A record of a page: its key, and that of the document that it was or repeated. Its digests and counts are those in
`index.versions.history.Version`, and `own` says whether the document is the page's."""

_COUNT = struct.Struct("<B")
_PREFIX = b"page"


class PageState(NamedTuple):
    """A page that is known.

    records    PAGE_RECORD [r], its last ones in order
    documents  `Layout.signature`, in any order
    """

    records: Rows
    documents: Rows


class PageStates:
    """Pages by digest: an id on a host."""

    def __init__(self, layout: Layout):
        self._document = layout.signature

    def read(self, task: Task, pages: Sequence[int]) -> list[PageState | None]:
        """These pages, if they came more than once or were duplicates."""
        contents = [task.get(page_name(page)) for page in pages]
        return [None if content is None else self._unpacked(content) for content in contents]

    def write(self, task: Task, states: Mapping[int, PageState]) -> None:
        """Put known pages, with their last records."""
        task.put_all({page_name(page): _packed(each) for page, each in states.items()})

    def _unpacked(self, content: bytes) -> PageState:
        (count,) = _COUNT.unpack_from(content)
        end = _COUNT.size + count * PAGE_RECORD.itemsize
        records = np.frombuffer(content, PAGE_RECORD, count, _COUNT.size)
        return PageState(records, np.frombuffer(content[end:], self._document))


def first_records(documents: Rows) -> Rows:
    """Records whose pages came once, and were unique; documents: as `Layout.signature`."""
    records = np.zeros(len(documents), PAGE_RECORD)
    for part in ("high", "low"):
        records[part] = records[f"document_{part}"] = documents[part]
    records["text"], records["substance"] = documents["tag"]["digests"].reshape(-1, 2).T
    records["own"] = True
    return records


def page_name(page: int) -> bytes:
    """This page's name in the state."""
    return _PREFIX + page.to_bytes(8, "little")


def joined(parts: Iterable[Rows], kind: np.dtype[np.void]) -> Rows:
    """Rows after rows, perhaps none."""
    return np.concatenate([np.empty(0, kind), *parts])


def _packed(each: PageState) -> bytes:
    records = each.records[-ROWS_OF_ID_MAX:]
    return _COUNT.pack(len(records)) + records.tobytes() + each.documents.tobytes()


class KnownPages(NamedTuple):
    """Pages with their records.

    digests    uint64 [k], ascending
    records    PAGE_RECORD [r], page after page, in order
    pages      int64 [r], each record's page
    documents  `Layout.signature`, for all pages
    """

    digests: npt.NDArray[np.uint64]
    records: Rows
    pages: npt.NDArray[np.int64]
    documents: Rows
