"""Hosts with the most near but unequal duplicates among recent documents, in bounded memory. Pure; knows no clock.

The sketch is Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005) over the stream of unequal duplicates: a new host
replaces the watched one with the lowest count, and inherits that count. A batch enters at once, as such sketches
merge (Agarwal et al., PODS 2012). With N unequal duplicates and m places,

- no host outside a full sketch has more than the lowest count, which is at most N / m;
- a host's count is at least its number of unequal duplicates.

"Recent" is counted in documents. After every AGEING_DOCUMENTS documents from all hosts together all numbers are
halved, as in TinyLFU (Einziger, Friedman, Manes, ACM Transactions on Storage 2017). A host's own numbers are halved
at 2 * RECENT_DOCUMENTS, so its latest 1,000 to 2,000 documents describe it. An idle host fades.

But for the halving, `documents` and `unequal` are exact from a host's first unequal duplicate on: an inherited number
is part only of `count`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from index.entry import HostShare

HOSTS_MAX = 1_000
AGEING_DOCUMENTS = 500_000
RECENT_DOCUMENTS = 1_000
NAME_CHARACTERS_MAX = 80

NO_HOST = np.uint64(0)
"""No host, in a column of host keys."""

HOST = np.dtype(
    [("key", "<u8"), ("count", "<u4"), ("documents", "<u4"), ("unequal", "<u4"), ("beyond", "<u4")], align=True
)
"""A watched host: hash of its name, count that keeps its place, recent documents, near but unequal duplicates among
them, and whether it is beyond the limits (0 or 1).
"""


def host_keys(hosts: Sequence[str | None]) -> npt.NDArray[np.uint64]:
    """XXH3 of each host's name, uint64 [n]; NO_HOST without a name."""
    if not any(hosts):
        return np.full(len(hosts), NO_HOST)
    names = [(host or "").encode("utf-8", "surrogatepass") for host in hosts]
    return np.array([xxhash.xxh3_64_intdigest(name) if name else int(NO_HOST) for name in names], np.uint64)


class HostLimits(NamedTuple):
    """A host is beyond the limits from `documents_min` recent documents on, with a `share_max` share of unequal duplicates.

    It stays so until its share is below nine tenths of `share_max`, or half of `documents_min` documents are left.

    >>> limits = HostLimits(share_max=0.8, documents_min=100)
    >>> limits.exceeded(np.array([100, 100]), np.array([75, 75]), before=np.array([False, True]))
    array([False,  True])
    """

    share_max: float
    documents_min: int

    def exceeded(
        self, documents: npt.NDArray[np.int64], unequal: npt.NDArray[np.int64], before: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Whether hosts with these numbers, int64 [n], are beyond the limits; before: bool [n], whether they were."""
        enough = documents >= np.where(before, self.documents_min / 2, self.documents_min)
        above = unequal >= np.where(before, 0.9 * self.share_max, self.share_max) * documents
        return enough & above


@dataclass(frozen=True, slots=True)
class HostSketch:
    """Watched hosts; immutable.

    counted  documents with a host, ever
    hosts    HOST [h], ascending by key
    names    h names, without line breaks, cut to NAME_CHARACTERS_MAX

    >>> keys, unequal = host_keys(["a.example"] * 4), np.array([True, True, True, False])
    >>> UNKNOWN.with_rows(keys, ["a.example"] * 4, unequal, HostLimits(share_max=0.5, documents_min=4)).worst(1)
    [HostShare(host='a.example', documents=4, unequal=3, beyond=True)]
    """

    counted: int
    hosts: npt.NDArray[np.void]
    names: Sequence[str]

    def beyond_before(
        self, keys: npt.NDArray[np.uint64], unequal: npt.NDArray[np.bool_], limits: HostLimits
    ) -> npt.NDArray[np.bool_]:
        """Whether each row's host is beyond the limits by the sketch and the earlier rows, bool [n]; arguments as `with_rows`."""
        rows = _Rows(keys, unequal)
        columns, watched = self._columns(rows.hosts)
        documents, duplicates, beyond = columns[:, rows.inverse]
        counting = rows.counting(watched)
        are_beyond = np.zeros(len(keys), np.bool_)
        are_beyond[rows.order] = limits.exceeded(
            documents + rows.running(counting) - counting,
            duplicates + rows.running(rows.unequal) - rows.unequal,
            beyond == 1,
        )
        are_beyond &= keys != NO_HOST
        return are_beyond

    def are_beyond(self, keys: npt.NDArray[np.uint64], limits: HostLimits) -> npt.NDArray[np.bool_]:
        """Whether each host, uint64 [n], is beyond the limits now: bool [n]."""
        (documents, unequal, beyond), watched = self._columns(keys)
        return limits.exceeded(documents, unequal, beyond == 1) & watched

    def with_rows(
        self,
        keys: npt.NDArray[np.uint64],
        names: Sequence[str | None],
        unequal: npt.NDArray[np.bool_],
        limits: HostLimits,
        *,
        hosts_max: int = HOSTS_MAX,
    ) -> "HostSketch":
        """The sketch after n more documents.

        keys     uint64 [n], `host_keys`
        unequal  bool [n], near but unequal duplicates
        """
        there = np.flatnonzero(keys != NO_HOST)
        rows = _Rows(keys[there], unequal[there])
        distinct, firsts = rows.hosts, rows.order[rows.firsts]
        places, watched = self._places(distinct)
        documents = np.bincount(rows.inverse, rows.counting(watched), minlength=len(distinct)).astype(np.int64)
        duplicates = np.bincount(rows.inverse, rows.unequal, minlength=len(distinct)).astype(np.int64)
        hosts = self.hosts.copy()
        hosts["documents"][places[watched]] += documents[watched].astype(np.uint32)
        for column in ("unequal", "count"):
            hosts[column][places[watched]] += duplicates[watched].astype(np.uint32)
        new = np.flatnonzero(~watched & (duplicates > 0))
        newcomers = np.zeros(len(new), HOST)
        newcomers["key"], newcomers["documents"] = distinct[new], documents[new]
        newcomers["unequal"] = duplicates[new]
        # The lowest count before this batch: no host outside has more.
        inherited = int(self.hosts["count"].min()) if len(self.hosts) >= hosts_max else 0
        newcomers["count"] = inherited + duplicates[new]
        hosts = np.concatenate([hosts, newcomers])
        all_names = [*self.names, *(_shown(names[there[firsts[place]]]) for place in new.tolist())]
        aged = _aged(hosts, self.counted, self.counted + len(there))
        aged["beyond"] = limits.exceeded(
            aged["documents"].astype(np.int64), aged["unequal"].astype(np.int64), aged["beyond"] == 1
        )
        kept = np.flatnonzero(aged["count"])
        if len(kept) > hosts_max:
            # On equal counts the first place wins: a host watched before stays.
            ranks = aged["count"][kept].astype(np.int64) * len(aged) - kept
            kept = kept[np.argpartition(-ranks, hosts_max)[:hosts_max]]
        kept = kept[np.argsort(aged["key"][kept])]
        return HostSketch(self.counted + len(there), aged[kept], [all_names[place] for place in kept.tolist()])

    def worst(self, limit: int) -> list[HostShare]:
        """Up to `limit` hosts, those beyond the limits first, then by share.

        Each share has 100 more documents without duplicates added: three out of three say little.
        """
        share = self.hosts["unequal"] / (self.hosts["documents"] + 100.0)
        order = np.lexsort((self.hosts["key"], -share, 1 - self.hosts["beyond"].astype(np.int64)))[:limit]
        return self._shares(order)

    def crossed(self, before: "HostSketch") -> list[HostShare]:
        """Hosts newly beyond the limits; and those no longer beyond, with their last known numbers."""
        now, then = (sketch.hosts["key"][sketch.hosts["beyond"] == 1] for sketch in (self, before))
        entered, left = np.setdiff1d(now, then), np.setdiff1d(then, now)
        places, watched = self._places(left)
        gone = before._shares(before._places(left[~watched])[0])
        return [
            *self._shares(self._places(entered)[0]),
            *self._shares(places[watched]),
            *(each._replace(beyond=False) for each in gone),
        ]

    def beyond_count(self) -> int:
        """Number of hosts beyond the limits."""
        return int(self.hosts["beyond"].sum())

    def _places(self, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Place of each host, int64 [n], arbitrary for unwatched ones; and whether it is watched, bool [n]."""
        if not len(self.hosts):
            return np.full(len(keys), -1), np.zeros(len(keys), np.bool_)
        places = np.searchsorted(self.hosts["key"], keys)
        places[places == len(self.hosts)] = 0
        return places, self.hosts["key"][places] == keys

    def _columns(self, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Documents, unequal duplicates and `beyond` of each host, int64 [3, n], and whether it is watched, bool [n]."""
        places, watched = self._places(keys)
        columns = np.zeros((3, len(keys)), np.int64)
        for column, name in zip(columns, ("documents", "unequal", "beyond"), strict=True):
            column[watched] = self.hosts[name][places[watched]]
        return columns, watched

    def _shares(self, places: npt.NDArray[np.int64]) -> list[HostShare]:
        return [
            HostShare(self.names[place], int(host["documents"]), int(host["unequal"]), bool(host["beyond"]))
            for place, host in zip(places.tolist(), self.hosts[places], strict=True)
        ]


UNKNOWN = HostSketch(0, np.empty(0, HOST), ())
"""A sketch that watches no host."""


class _Rows:
    """A batch's rows, host by host.

    order    int64 [n], the rows by host, in order; the columns below follow it
    hosts    uint64 [h], ascending
    firsts   int64 [h], place of each host's first row
    inverse  int64 [n], place in `hosts`
    """

    def __init__(self, keys: npt.NDArray[np.uint64], unequal: npt.NDArray[np.bool_]) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.hosts, self.firsts, self.inverse = np.unique(keys[self.order], return_index=True, return_inverse=True)
        self.unequal = unequal[self.order]

    def running(self, column: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Running count of a property within each host: bool [n] -> int64 [n]."""
        running: npt.NDArray[np.int64] = np.cumsum(column)
        before = running[self.firsts] - column[self.firsts]
        counts: npt.NDArray[np.int64] = running - before[self.inverse]
        return counts

    def counting(self, watched: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Rows that count, bool [n]: all of watched hosts, bool [h]; other hosts' from the first unequal one on."""
        return watched[self.inverse] | (self.running(self.unequal) > 0)


def _aged(hosts: npt.NDArray[np.void], counted_before: int, counted: int) -> npt.NDArray[np.void]:
    """Apply the due halvings to hosts, in place."""
    halvings = min(31, counted // AGEING_DOCUMENTS - counted_before // AGEING_DOCUMENTS)
    hosts["count"] >>= np.uint32(halvings)
    for column in ("documents", "unequal"):
        hosts[column] >>= np.uint32(halvings)
    while (many := hosts["documents"] >= 2 * RECENT_DOCUMENTS).any():
        for column in ("documents", "unequal"):
            hosts[column] >>= many.astype(np.uint32)
    return hosts


def _shown(name: str | None) -> str:
    return " ".join((name or "").split("\n"))[:NAME_CHARACTERS_MAX]
