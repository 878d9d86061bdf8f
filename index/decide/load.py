"""Load: what a decision compares, as columns by place. Rows of the batch come first, then indexed documents.

```
place          0 ........ n - 1 | n ................ n + k - 1 | ................. m - 1
               rows of the batch | candidates and versions      | roots of these
fingerprints   looks kinds lengths ids hosts digests            one row a document
roots          itself            | place of its root, NONE once that is gone
lost           no                | only versions: entries that no longer count
```
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import sets
from index.entry import Entries, Verdict
from index.kernels.checksums import text_digests
from index.kernels.judge import NONE, Documents
from index.matching.outcome import ROW_ORDER
from index.session import ReadSession
from index.storage import codec, log
from index.storage.visibility import are_among


class Loaded(NamedTuple):
    """Columns, and where indexed documents are in them.

    numbers  uint64 [m - n], numbers of the indexed documents, by place
    by_rank  int64 [m - n], their places less n in the order of their numbers

    >>> none = np.empty(0, np.uint64)
    >>> rows = Entries((), none, none, none, none, none[:, None], none, [], digests=np.empty((0, 2), np.uint64))
    >>> opened.read(lambda session: load(session, rows, none, with_ids=False)).numbers
    array([], dtype=uint64)
    """

    documents: Documents
    numbers: npt.NDArray[np.uint64]
    by_rank: npt.NDArray[np.int64]

    def places(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places of indexed documents, uint64 [k] -> int64 [k]; NONE for those that are not loaded."""
        if not len(self.numbers):
            return np.full(len(numbers), NONE, np.int64)
        rows = len(self.documents.order) - len(self.numbers)
        ranks = np.searchsorted(self.numbers[self.by_rank], numbers)
        places = self.by_rank[np.minimum(ranks, len(self.by_rank) - 1)]
        return np.where(self.numbers[places] == numbers, places + rows, NONE)


def load(session: ReadSession, entries: Entries, numbers: npt.NDArray[np.uint64], *, with_ids: bool) -> Loaded:
    """Columns of these rows, and of indexed documents, uint64 [k], with their roots; with_ids: whether ids are compared."""
    named = ascending(numbers)
    stored = sets.stored(session, named)
    named, roots = named[stored.there], stored.rows["number"][stored.there].astype(np.uint64)
    parts = [stored if len(named) == len(stored.there) else sets.stored(session, named)]
    others = ascending(roots[~are_among(named, roots)])
    if len(others):
        parts.append(sets.stored(session, others))
        others, parts[1] = others[parts[1].there], parts[1]
        if len(others) < len(parts[1].there):
            parts[1] = sets.stored(session, others)
    numbers = np.concatenate([named, others])
    loaded = Loaded(_columns(session, entries, numbers, parts, with_ids=with_ids), numbers, np.argsort(numbers))
    _set_roots(loaded, len(entries), np.concatenate([roots, others]))
    return loaded


def ascending(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Sort numbers and drop repeats, ten times as fast as `np.unique`."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _columns(
    session: ReadSession,
    entries: Entries,
    numbers: npt.NDArray[np.uint64],
    parts: list[sets.Stored],
    *,
    with_ids: bool,
) -> Documents:
    count, look_bytes = len(entries), session.parameters.look_bytes
    assert entries.digests is not None
    rows = np.concatenate([part.rows for part in parts])
    ids = np.zeros(count + len(numbers), np.uint64)
    if with_ids:
        ids = digests_of_texts([*entries.ids, *(id_ for part in parts for id_ in part.ids)])
    digests = np.stack([rows["text"], rows["substance"]], axis=1).astype(np.uint64)
    return Documents(
        order=np.concatenate([np.arange(ROW_ORDER, ROW_ORDER + count, dtype=np.uint64), sets.orders(session, numbers)]),
        fingerprints=np.concatenate([entries.fingerprints, *(part.fingerprints for part in parts)]),
        looks=np.concatenate([entries.look_rows, *(part.looks(look_bytes) for part in parts)]),
        kinds=np.concatenate([entries.kinds, rows["kind"]]),
        roots=np.arange(count + len(numbers)),
        delivered=np.concatenate([np.ones(count, np.bool_), rows["verdict"] != Verdict.DUPLICATE]),
        lost=np.concatenate([np.zeros(count, np.bool_), ~sets.visible(session, numbers)]),
        lengths=np.concatenate([entries.letters, codec.unpack_lengths(rows["length"])]).astype(np.int64),
        ids=ids,
        hosts=np.concatenate([log.host_digests(entries), rows["host"]]).astype(np.uint32),
        digests=np.concatenate([entries.digests, digests]),
    )


def digests_of_texts(texts: list[str]) -> npt.NDArray[np.uint64]:
    """`text_digests` of texts."""
    packed, ends = codec.pack_texts(texts)
    return text_digests(np.frombuffer(packed or bytes(1), np.uint8), ends)


def _set_roots(loaded: Loaded, count: int, roots: npt.NDArray[np.uint64]) -> None:
    """Fill in the roots of indexed documents, whose numbers are uint64 [m - n]."""
    columns = loaded.documents
    places, own = loaded.places(roots), np.arange(count, len(columns.order))
    gone = (places == NONE) | columns.lost[np.maximum(places, 0)]
    # A dropped document counts only as long as its root; one that went out as unique is its own root then.
    columns.roots[count:] = np.where(~gone, places, np.where(columns.delivered[count:], own, NONE))
    is_root = roots == loaded.numbers
    columns.roots[count:][is_root] = own[is_root]
