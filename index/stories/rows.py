"""Rows in `stories`: several stories as columns, and the arithmetic that adds members.

A row depends on its members alone, not on their order: a count, least and greatest times, the longest, and hosts by
least digest. So a replay, a restoration and a recount give the same row.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.storage.codec import STORY, STORY_HOST, STORY_MEMBER
from index.storage.layout import Table, pack_numbers
from index.storage.store import Transaction

HOSTS_MAX = 10_000
"""Most hosts that a story has. With more it keeps the least digests, and counts this many."""

UNKNOWN_MS = 2**63 - 1
"""First time without any record time."""

SIZES = np.array([2, 3, 5, *(factor * 10**power for power in range(1, 18) for factor in (1, 2, 5))], np.uint64)
"""Least documents in each size class, ascending."""

STORY_JOIN = np.dtype([("root", "<u8"), ("member", STORY_MEMBER), ("host", "<u4"), ("rows_end", "<u8")])
"""A document that joins a story: its root's number, itself, its host's digest, and journal rows after its batch."""


class StoryRows(NamedTuple):
    """n stories.

    numbers  uint64 [n], their roots, ascending and distinct
    heads    STORY [n]; 0 documents for a story without a row
    counts   int64 [n], their hosts
    hosts    STORY_HOST [all counts], story after story, ascending by digest

    >>> heads = np.zeros(2, STORY)
    >>> heads["documents"] = 1, 9
    >>> StoryRows(np.array([4, 7], np.uint64), heads, np.array([1, 2]), np.zeros(3, STORY_HOST)).places_of_hosts
    array([0, 1, 1])
    """

    numbers: npt.NDArray[np.uint64]
    heads: npt.NDArray[np.void]
    counts: npt.NDArray[np.int64]
    hosts: npt.NDArray[np.void]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Size classes, int64 [n]; 0 below two documents."""
        return np.searchsorted(SIZES, self.heads["documents"].astype(np.uint64), "right")

    @property
    def places_of_hosts(self) -> npt.NDArray[np.int64]:
        """Each host's story, by its place: int64 [all counts]."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def take(self, places: npt.NDArray[np.bool_]) -> "StoryRows":
        """Only these stories, bool [n]."""
        hosts = self.hosts[places[self.places_of_hosts]]
        return StoryRows(self.numbers[places], self.heads[places], self.counts[places], hosts)


def read(transaction: Transaction, numbers: npt.NDArray[np.uint64]) -> StoryRows:
    """Rows by root, uint64 [n] ascending and distinct."""
    keys = pack_numbers(numbers)
    stored = dict(transaction.get_many(Table.STORIES, keys))
    there, values = np.fromiter((key in stored for key in keys), np.bool_, len(keys)), list(stored.values())
    heads, counts = np.zeros(len(keys), STORY), np.zeros(len(keys), np.int64)
    heads["first_ms"] = UNKNOWN_MS
    heads[there] = np.frombuffer(b"".join([value[: STORY.itemsize] for value in values]), STORY)
    counts[there] = [(len(value) - STORY.itemsize) // STORY_HOST.itemsize for value in values]
    hosts = np.frombuffer(b"".join([value[STORY.itemsize :] for value in values]), STORY_HOST)
    return StoryRows(numbers, heads, counts, hosts)


def write(transaction: Transaction, rows: StoryRows) -> None:
    """Put rows."""
    heads, ends = rows.heads.tobytes(), np.cumsum(rows.counts).tolist()
    values = [
        heads[place * STORY.itemsize : (place + 1) * STORY.itemsize] + rows.hosts[begin:end].tobytes()
        for place, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]
    transaction.put_all(Table.STORIES, pack_numbers(rows.numbers), values)


def added(rows: StoryRows, joins: npt.NDArray[np.void]) -> StoryRows:
    """The stories after STORY_JOIN [m]. Each story has a row or a join, and each join a story."""
    heads, stories = rows.heads.copy(), np.searchsorted(rows.numbers, joins["root"])
    first_ms = np.where(joins["member"]["time_ms"] > 0, joins["member"]["time_ms"], UNKNOWN_MS)
    heads["documents"] += np.bincount(stories, minlength=len(heads)).astype(np.uint64)
    np.minimum.at(heads["first_ms"], stories, first_ms)
    np.maximum.at(heads["rows_end"], stories, joins["rows_end"])
    there = np.flatnonzero(rows.heads["documents"])
    earlier = rows.heads[there]
    members = np.concatenate([joins["member"], earlier["longest"], earlier["newest"]])
    heads["longest"], heads["newest"] = _best(np.concatenate([stories, there, there]), members)
    return _with_hosts(rows._replace(heads=heads), stories, joins["host"], first_ms)


def _best(
    stories: npt.NDArray[np.int64], members: npt.NDArray[np.void]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Each story's longest and newest member: the earliest and the last, if several are. stories: of each member."""
    keys = [members[name] for name in ("offset", "partition", "stream", "time_ms")]
    order = np.lexsort((*keys, stories))
    stories, members = stories[order], members[order]
    begins = np.flatnonzero(np.diff(stories, prepend=-1))
    counts, lengths = np.diff(begins, append=len(stories)), members["length"].astype(np.int64)
    longest = np.flatnonzero(lengths == np.repeat(np.maximum.reduceat(lengths, begins), counts))
    return members[longest[np.searchsorted(longest, begins)]], members[begins + counts - 1]


def _with_hosts(
    rows: StoryRows, stories: npt.NDArray[np.int64], digests: npt.NDArray[np.uint32], first_ms: npt.NDArray[np.int64]
) -> StoryRows:
    """The stories with further hosts; a digest 0 is none."""
    # Story 2 with the digest 7 has the key 2 << 32 | 7: stories and their digests ascend together.
    keys = np.concatenate([rows.places_of_hosts << 32 | rows.hosts["digest"], (stories << 32 | digests)[digests > 0]])
    hosts = np.empty(len(keys), STORY_HOST)
    hosts["digest"], hosts["first_ms"] = keys, np.concatenate([rows.hosts["first_ms"], first_ms[digests > 0]])
    order = np.lexsort((hosts["first_ms"], keys))
    keys, firsts = np.unique(keys[order], return_index=True)
    counts = np.bincount(keys >> 32, minlength=len(rows.counts))
    rank = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows._replace(counts=np.minimum(counts, HOSTS_MAX), hosts=hosts[order][firsts][rank < HOSTS_MAX])
