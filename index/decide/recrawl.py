"""Pages crawled again: documents with a known id and host but another text.

`index.versions.history` defines versions. The current version is the delivered one that the document's last record was
or repeated, if it still counts. A version dropped as a copy of another document is known by that document. A record is,
in this order:

1. A DUPLICATE of the current version if the texts are equal.
2. Minor if its substance equals that of the current or the last version: only counters and dates differ. A minor
   version is a DUPLICATE of its counterpart.
3. An UPDATE, which replaces the current version, if no other document is nearer than the last or the current version.
   Beyond `RETURNS_MAX` returns to an earlier substance it has returned too often, and is a DUPLICATE.
4. Otherwise decided by the rule on its text. The current version stays.

An update is a stranger if it has nothing in common with the last record, nor with the current version: less than chance
explains, by the bins in neither frame, or by the bits. Short texts say nothing: they neither count nor end a count, and
so do records that are no updates. After STRANGERS_MAX strangers in a row the next one shows that many documents share
the id, as the items of a feed do that all have the feed's address. From then on only a text that has something in common
is a version; 4. decides others. Nothing ends this while a record counts that was decided so.

The walk plans this for each row (`index.kernels.versions`), with the records of the batch before it.
"""

import numpy as np
import numpy.typing as npt

from index.decide.load import Loaded
from index.kernels.judge import NONE
from index.kernels.versions import UNKNOWN, Pages
from index.versions.history import Versions

Places = npt.NDArray[np.int64]


def no_pages(rows: int) -> Pages:
    """No page of n rows is known, and no id matters."""
    nothing = np.empty(0, np.int64)
    return unknown_pages(np.full(rows, NONE), nothing, nothing)


def unknown_pages(keys: Places, counts: Places, rooms: Places) -> Pages:
    """k pages without their versions, with space for substances: int64 [k] that are there, int64 [k] that may follow.

    keys  int64 [n], each row's page, or NONE
    """
    size = len(counts)
    return Pages(
        keys=keys,
        exist=counts > 0,
        last=np.full(size, NONE),
        digests=np.zeros((size, 2), np.uint64),
        foreign=np.zeros(size, np.bool_),
        current=np.full(size, NONE),
        returns=np.zeros(size, np.int64),
        strangers=np.zeros(size, np.int64),
        origins=np.full(size, UNKNOWN),
        substances=np.zeros(int((counts + rooms).sum()), np.uint64),
        begins=np.cumsum(counts + rooms) - counts - rooms,
        counts=counts,
    )


def pages_of(versions: Versions | None, loaded: Loaded, rows: int) -> Pages:
    """What is known of the pages of n rows before the walk."""
    if versions is None:
        return no_pages(rows)
    count, known = len(versions.keys), versions.known
    # A page gets room for the substances of its rows.
    rooms = np.bincount(versions.keys_of_rows[versions.keys_of_rows != NONE], minlength=count)
    counts = np.array([0 if each is None else len(each.substances) for each in known], np.int64)
    pages = unknown_pages(versions.keys_of_rows, counts, rooms)
    there = [(key, history) for key, history in enumerate(known) if history is not None]
    if not there:
        return pages
    keys = np.array([key for key, _ in there])
    lasts = [history.last for _, history in there]
    pages.last[keys] = loaded.places(np.array([last.number for last in lasts], np.uint64))
    pages.digests[keys] = np.array([(last.text, last.substance) for last in lasts], np.uint64)
    pages.foreign[keys] = [not last.own for last in lasts]
    pages.returns[keys] = [last.returns for last in lasts]
    pages.strangers[keys] = [history.strangers for _, history in there]
    current = [(key, history.current.number) for key, history in there if history.current is not None]
    if current:
        places, numbers = zip(*current, strict=True)
        pages.current[list(places)] = loaded.places(np.array(numbers, np.uint64))
    for key, history in there:
        pages.substances[pages.begins[key] : pages.begins[key] + counts[key]] = list(history.substances)
    return pages
